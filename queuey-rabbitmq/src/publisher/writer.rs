//! One channel and the task that alone writes to it.

use std::{
    collections::{HashMap, HashSet},
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use lapin::{Channel, options::ConfirmSelectOptions, types::ShortString};
use queuey_core::{Error, Result};
use tokio::{
    sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Interval, MissedTickBehavior},
};
use tracing::{debug, warn};

use super::{
    blame::blame,
    intake::{Intake, Parcels},
    lanes::Lanes,
    request::{Parcel, Request},
    window::Window,
};
use crate::{
    connection::{Link, Live},
    error::{once_more, with_sources},
};

/// A confirm that takes longer than this is waited for beside the channel's work.
const OVERDUE: Duration = Duration::from_secs(1);

/// How often it is looked at whether a confirm is overdue.
const TICK: Duration = Duration::from_millis(100);

/// What the writers of a publisher share.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) link: Link,
    pub(super) lanes: Lanes,
    /// Where a request goes back to whose channel died while it was waited for aside.
    pub(super) again: mpsc::WeakSender<Parcel>,
    /// Bounds how many channels wait for an overdue confirm.
    pub(super) aside: Arc<Semaphore>,
    /// Held while a message is written that may be what a channel died of, so that no two are blamed for one; not once its
    /// confirm is overdue.
    pub(super) suspects: Arc<Mutex<()>>,
    /// How long a confirm is waited for.
    pub(super) timeout: Duration,
}

/// A channel with confirms, and the connection it is on.
#[derive(Clone)]
struct Line {
    channel: Arc<Channel>,
    live: Arc<Live>,
}

impl Line {
    fn is_good(&self) -> bool {
        self.channel.status().connected() && !self.live.lost.is_cancelled()
    }
}

/// The suspects' turn, where it was asked for, and a channel.
type Opening = Pin<Box<dyn Future<Output = (Option<OwnedMutexGuard<()>>, Result<Line>)> + Send>>;

/// Publishes what is asked for, as far as there is room.
pub(super) struct Writer {
    desk: Desk,
    intake: Intake,
    window: Window,
    line: Option<Line>,
    opening: Option<Opening>,
    /// Held while what is under way may be what a channel died of.
    suspicion: Option<OwnedMutexGuard<()>>,
    tick: Interval,
    /// Where it is the lane of a queue, overdue confirms are its business.
    lane: Option<ShortString>,
    /// Whether a confirm was overdue since nothing was under way.
    late: bool,
    /// When a confirm was overdue for the last time.
    calm_since: Instant,
}

/// What a writer is woken for.
enum Event {
    /// There is a request that finds room.
    Asked,
    Opened((Option<OwnedMutexGuard<()>>, Result<Line>)),
    /// All that was under way has come to its end.
    Landed,
    Tick,
    /// Nobody can ask any more.
    Ended,
}

impl Writer {
    pub(super) fn new(desk: Desk, parcels: Parcels) -> Self {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Writer {
            desk,
            intake: Intake::new(parcels),
            window: Window::new(),
            line: None,
            opening: None,
            suspicion: None,
            tick,
            lane: None,
            late: false,
            calm_since: Instant::now(),
        }
    }

    /// Writes until nobody can ask any more.
    pub(super) async fn write_all(mut self) {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                Event::Ended => return,
                event => self.handle(event),
            }
        }
    }

    /// Writes until all is confirmed in time, or nothing comes for a while.
    async fn write_lane(mut self, queue: ShortString) {
        let mut is_open = true;
        loop {
            let event = tokio::time::timeout(self.desk.timeout, poll_fn(|cx| self.poll_event(cx))).await;
            match event {
                Ok(Event::Ended) => break,
                Ok(Event::Landed) => {
                    let late = self.late;
                    self.handle(Event::Landed);
                    if !late && self.intake.is_empty() {
                        break;
                    }
                }
                Ok(event) => self.handle(event),
                Err(_) if self.window.is_idle() => break,
                Err(_) => {}
            }
            // Under a steady load there is always something under way.
            if is_open && self.calm_since.elapsed() >= self.desk.timeout {
                self.desk.lanes.close(&queue);
                is_open = false;
            }
        }
        if is_open {
            self.desk.lanes.close(&queue);
        }
        write_again(&self.desk, self.intake.close().await).await;
    }

    /// Confirms come first: nothing that this waits for holds up those who can be answered.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let was_idle = self.window.is_idle();
        self.window.look(cx);
        if !self.window.is_idle() {
            if self.tick.poll_tick(cx).is_ready() {
                return Poll::Ready(Event::Tick);
            }
            // What is under way there has to come to its end, before there can be another.
            if self.line.as_ref().is_none_or(|line| !line.is_good()) || self.window.is_broken() {
                self.intake.pass_turn();
                return Poll::Pending;
            }
        } else if !was_idle || self.window.is_broken() {
            return Poll::Ready(Event::Landed);
        }
        if let Some(opening) = &mut self.opening {
            let opened = ready!(opening.as_mut().poll(cx));
            self.opening = None;
            return Poll::Ready(Event::Opened(opened));
        }
        match ready!(self.intake.poll(cx, self.window.load())) {
            true => Poll::Ready(Event::Asked),
            false if self.window.is_idle() => Poll::Ready(Event::Ended),
            false => Poll::Pending,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Asked => match &self.line {
                Some(line) if line.is_good() && self.desk.link.is_open() && !self.is_suspect_next() => {
                    self.publish(&line.clone());
                }
                _ => {
                    self.intake.pass_turn();
                    self.opening = Some(self.open());
                }
            },
            Event::Opened((turn, Ok(line))) => {
                // With some under way it is the channel that they are on: else this would have waited for them.
                self.suspicion = turn;
                self.line = Some(line.clone());
                self.publish(&line);
            }
            Event::Opened((_, Err(error))) => {
                self.intake.give_up().for_each(|mut request| request.fail(once_more(&error)));
            }
            Event::Landed => self.land(),
            Event::Tick => self.look_at_the_clock(),
            Event::Ended => {}
        }
    }

    fn is_suspect_next(&self) -> bool {
        self.intake.peek().is_some_and(|request| request.alone)
    }

    fn open(&self) -> Opening {
        let (link, line) = (self.desk.link.clone(), self.line.clone());
        let suspects = self.is_suspect_next().then(|| self.desk.suspects.clone());
        Box::pin(async move {
            let turn = match suspects {
                Some(suspects) => Some(suspects.lock_owned().await),
                None => None,
            };
            (turn, open_line(&link, line).await)
        })
    }

    /// Publishes what waits and fits.
    fn publish(&mut self, line: &Line) {
        let (now, mut others) = (Instant::now(), HashMap::<_, (mpsc::Sender<_>, Vec<_>)>::new());
        let lanes = self.lane.is_none() && !self.desk.lanes.is_empty();
        // What came to the front in the meantime may be a suspect, and have to wait for its turn.
        while (self.suspicion.is_some() || !self.is_suspect_next())
            && let Some(request) = self.intake.next(self.window.load())
        {
            let queue = &request.message.queue;
            if let Some((_, requests)) = others.get_mut(queue) {
                requests.push(request);
            } else if lanes && let Some(lane) = self.desk.lanes.of(queue) {
                others.insert(queue.clone(), (lane, vec![request]));
            } else if request.hand_over() {
                if !request.alone {
                    // The suspect that this was for is gone.
                    self.suspicion = None;
                }
                self.window.publish(&line.channel, request, now);
            }
        }
        for (lane, requests) in others.into_values() {
            tokio::spawn(pass_on(self.desk.clone(), lane, requests));
        }
        if self.window.is_idle() {
            self.suspicion = None;
        }
    }

    /// Begins anew where the channel died: what that left in doubt comes first.
    fn land(&mut self) {
        if self.window.is_broken() {
            let left = self.take_window().end();
            self.intake.put_back(blame(left, self.late));
        }
        (self.suspicion, self.late) = (None, false);
    }

    fn look_at_the_clock(&mut self) {
        // Where the broker takes nothing at all, another channel would be no better.
        if !self.desk.link.is_open() {
            return self.window.wait_anew();
        }
        let (waited, overdue) = (self.window.longest_wait(), OVERDUE.min(self.desk.timeout));
        if waited < overdue {
            return;
        }
        // What a channel dies of, it dies of at once: the next one need not wait for a queue that is late.
        (self.suspicion, self.late, self.calm_since) = (None, true, Instant::now());
        if self.lane.is_none()
            && let Ok(permit) = self.desk.aside.clone().try_acquire_owned()
        {
            let line = self.line.clone();
            let mut window = self.take_window();
            self.late = false;
            self.open_lanes(&window.late_queues(overdue));
            tokio::spawn(wait_aside(self.desk.clone(), line, window, permit));
        } else if waited >= self.desk.timeout {
            // A confirm will not come any more.
            let left = self.take_window().end();
            self.intake.put_back(left.unknown);
        }
    }

    /// Takes what is under way, and gives its channel up: no other window may be on it, nor a channel be opened that may
    /// turn out to be this one.
    fn take_window(&mut self) -> Window {
        (self.line, self.opening) = (None, None);
        std::mem::replace(&mut self.window, Window::new())
    }

    fn open_lanes(&self, queues: &HashSet<ShortString>) {
        for queue in queues {
            let Some(parcels) = self.desk.lanes.open(queue) else { continue };
            warn!(
                queue = queue.as_str(),
                "a publish was not confirmed for a second: still waiting for it, aside from other queues"
            );
            let mut writer = Writer::new(self.desk.clone(), Arc::new(Mutex::new(parcels)));
            writer.lane = Some(queue.clone());
            tokio::spawn(writer.write_lane(queue.clone()));
        }
    }
}

/// Waits for an overdue confirm while the writer goes on with a new channel.
async fn wait_aside(desk: Desk, line: Option<Line>, mut window: Window, _permit: OwnedSemaphorePermit) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        let landed = poll_fn(|cx| {
            window.look(cx);
            if window.is_idle() { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = landed => break,
            _ = tick.tick() => {}
        }
        if !desk.link.is_open() {
            window.wait_anew();
        } else if window.longest_wait() >= desk.timeout {
            break;
        }
    }
    let again = blame(window.end(), true);
    drop(line);
    write_again(&desk, again).await;
}

async fn write_again(desk: &Desk, requests: Vec<Request>) {
    if requests.is_empty() {
        return;
    }
    if let Some(again) = desk.again.upgrade()
        && let Err(mpsc::error::SendError(Parcel::Many(requests))) = again.send(Parcel::Many(requests)).await
    {
        requests.into_iter().for_each(|mut request| request.fail(Error::ShutDown));
    }
}

async fn pass_on(desk: Desk, lane: mpsc::Sender<Parcel>, requests: Vec<Request>) {
    // A lane that is closed in the meantime is not needed any more.
    if let Err(mpsc::error::SendError(Parcel::Many(requests))) = lane.send(Parcel::Many(requests)).await {
        write_again(&desk, requests).await;
    }
}

/// The channel at hand where it is good, else a new one; waits for a connection that takes messages.
async fn open_line(link: &Link, line: Option<Line>) -> Result<Line> {
    loop {
        let live = link.ready().await?;
        if let Some(line) = line.as_ref().filter(|line| Arc::ptr_eq(&line.live, &live) && line.is_good()) {
            return Ok(line.clone());
        }
        match with_confirms(&live).await {
            Ok(channel) => return Ok(Line { channel: Arc::new(channel), live }),
            // The connection broke under it; wait for the next one.
            Err(error) => {
                debug!(error = with_sources(&error), "no channel to publish on");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn with_confirms(live: &Live) -> lapin::Result<Channel> {
    let channel = live.channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}
