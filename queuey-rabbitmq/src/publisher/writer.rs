//! One channel and the task that alone writes to it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use lapin::{Channel, options::ConfirmSelectOptions, types::ShortString};
use queuey_core::{Error, Result};
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::{debug, warn};

use super::{
    flight::{Flight, Left},
    intake::Intake,
    lanes::Lanes,
    request::{Parcel, Request},
};
use crate::{
    connection::{Link, Live},
    error::{ACCESS_REFUSED, Failure, Refusal, once_more, with_sources},
};

/// A confirm that takes longer than this is waited for beside the channel's work.
const OVERDUE: Duration = Duration::from_secs(1);

/// The reply code of a broker that ends connections for reasons of its own.
const CONNECTION_FORCED: u16 = 320;

/// How often a message may take its connection down before it is taken for the cause.
const MAX_BREAKS: u32 = 3;

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
struct Line {
    channel: Channel,
    live: Arc<Live>,
}

/// Publishes batches, one at a time.
pub(super) struct Writer {
    desk: Desk,
    intake: Intake,
    line: Option<Line>,
    /// Where it is the lane of a queue, overdue confirms are its business.
    lane: Option<ShortString>,
}

/// How a batch went that is waited for.
enum Waited {
    Landed {
        in_time: bool,
    },
    /// A confirm is overdue, and there is room to wait for it aside.
    Overdue(OwnedSemaphorePermit),
    /// A confirm will not come any more.
    TooLate,
}

impl Writer {
    pub(super) fn new(desk: Desk, parcels: Arc<Mutex<mpsc::Receiver<Parcel>>>) -> Self {
        Writer { desk, intake: Intake::new(parcels), line: None, lane: None }
    }

    /// Writes until nobody can ask any more.
    pub(super) async fn write_all(mut self) {
        while let Some(batch) = self.intake.next().await {
            let batch = self.without_lanes(batch);
            if !batch.is_empty() {
                self.carry(batch).await;
            }
            // Whoever was answered may have the next message ready: it is to be in the next batch.
            tokio::task::yield_now().await;
        }
    }

    /// Writes until a batch is confirmed in time, or none comes for a while.
    async fn write_lane(mut self, queue: ShortString) {
        while let Ok(Some(batch)) = tokio::time::timeout(self.desk.timeout, self.intake.next()).await {
            if self.carry(batch).await && self.intake.is_empty() {
                break;
            }
        }
        self.desk.lanes.close(&queue);
        self.intake.close().await;
        while let Some(batch) = self.intake.next().await {
            write_again(&self.desk, batch).await;
        }
    }

    /// Sends what has a lane there, and gives the rest.
    fn without_lanes(&self, batch: Vec<Request>) -> Vec<Request> {
        if self.desk.lanes.is_empty() {
            return batch;
        }
        let (mut rest, mut others) = (Vec::new(), HashMap::<_, (mpsc::Sender<_>, Vec<_>)>::new());
        for request in batch {
            let queue = &request.message.queue;
            match self.desk.lanes.of(queue) {
                Some(lane) => others.entry(queue.clone()).or_insert((lane, Vec::new())).1.push(request),
                None => rest.push(request),
            }
        }
        for (lane, requests) in others.into_values() {
            tokio::spawn(pass_on(self.desk.clone(), lane, requests));
        }
        rest
    }

    /// Publishes a batch. What a dead channel left in doubt comes first in the next one. False where a confirm was
    /// overdue.
    async fn carry(&mut self, batch: Vec<Request>) -> bool {
        let suspect = batch.iter().any(|request| request.alone);
        let suspects = self.desk.suspects.clone();
        let turn = if suspect { Some(suspects.lock().await) } else { None };
        let line = match open_line(&self.desk.link, self.line.take()).await {
            Ok(line) => line,
            Err(error) => {
                batch.into_iter().for_each(|mut request| request.fail(once_more(&error)));
                return false;
            }
        };
        let batch: Vec<_> = batch.into_iter().filter(Request::hand_over).collect();
        let mut flight = Flight::start(&line.channel, batch).await;
        match self.wait(&mut flight, turn).await {
            Waited::Landed { in_time } => {
                let left = flight.end();
                if left.error.is_none() {
                    self.line = Some(line);
                }
                self.intake.put_back(blame(left));
                in_time
            }
            Waited::Overdue(permit) => {
                self.open_lanes(&flight);
                tokio::spawn(wait_aside(self.desk.clone(), line, flight, permit));
                false
            }
            Waited::TooLate => {
                self.intake.put_back(flight.end().unknown);
                false
            }
        }
    }

    async fn wait(&self, flight: &mut Flight, mut turn: Option<MutexGuard<'_, ()>>) -> Waited {
        let overdue = OVERDUE.min(self.desk.timeout);
        let (mut left, mut in_time) = (self.desk.timeout, true);
        while !flight.land(overdue).await {
            in_time = false;
            // Where the broker takes nothing at all, another channel would be no better.
            if self.desk.link.state().blocked.is_some() {
                continue;
            }
            // What a channel dies of, it dies of at once: the next one need not wait for a queue that is late.
            drop(turn.take());
            left = left.saturating_sub(overdue);
            if left.is_zero() {
                return Waited::TooLate;
            }
            if self.lane.is_none()
                && let Ok(permit) = self.desk.aside.clone().try_acquire_owned()
            {
                return Waited::Overdue(permit);
            }
        }
        Waited::Landed { in_time }
    }

    fn open_lanes(&self, flight: &Flight) {
        for queue in flight.open_queues() {
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
async fn wait_aside(desk: Desk, line: Line, mut flight: Flight, _permit: OwnedSemaphorePermit) {
    let mut left = desk.timeout;
    while !left.is_zero() && !flight.land(OVERDUE.min(left)).await {
        if desk.link.state().blocked.is_none() {
            left = left.saturating_sub(OVERDUE);
        }
    }
    let again = blame(flight.end());
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
        if let Some(line) = line.as_ref()
            && Arc::ptr_eq(&line.live, &live)
            && line.channel.status().connected()
        {
            return Ok(Line { channel: line.channel.clone(), live });
        }
        match with_confirms(&live).await {
            Ok(channel) => return Ok(Line { channel, live }),
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

/// Finds out which message a channel died of: the one that was alone on it. Gives those to be written again, each alone
/// where one of several is the cause.
fn blame(left: Left) -> Vec<Request> {
    let Left { mut unknown, error, sole } = left;
    let Some(error) = error else { return unknown };
    let Some(refusal) = Refusal::of(&error).filter(|refusal| refusal.code != CONNECTION_FORCED) else {
        return unknown;
    };
    for request in &mut unknown {
        request.breaks += u32::from(sole && request.alone);
        if sole && let Some(reason) = refused(request, &refusal, &error) {
            request.answer(Err(reason));
        }
        request.alone = true;
    }
    unknown.retain(|request| !request.is_given_up());
    unknown
}

/// What a message is told that was alone on its channel, where that is certain to be the cause.
fn refused(request: &Request, refusal: &Refusal, error: &lapin::Error) -> Option<Error> {
    let of_channel = error.is_amqp_soft_error();
    if let Some((size, limit)) = refusal.too_large() {
        return Some(Error::TooLarge { size, limit });
    }
    if of_channel && refusal.code == ACCESS_REFUSED {
        return Some(Error::AccessRefused { what: refusal.text.clone() });
    }
    if of_channel || request.breaks >= MAX_BREAKS {
        let what = format!("the broker would not have a message for queue `{}`", request.message.queue);
        return Some(Failure::caused(what, error.clone()));
    }
    None
}
