//! The jobs that are under way: started in turn, joined when they end, taken back when time is up.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tracing::{Instrument, error, info_span, warn};
use uuid::Uuid;

use crate::{
    backend::Delivery,
    dead_letter::Malformed,
    worker::{
        dispatch::{Reserved, Work, dispatch},
        in_hand::InHand,
        plan::Plan,
        receive::Ticket,
        redelivery::runs_alone,
        settle::{hand_back, report_malformed},
        slots::{Slot, Slots},
        waiting::{Arrival, WaitingRoom},
    },
};

/// How long a job that is to run alone waits for the others to end.
const ISOLATION_WAIT: Duration = Duration::from_secs(60);

/// How long a slot is kept for the copy of a redelivery; another worker may get it.
const RESERVATION: Duration = Duration::from_secs(5);

/// A delivery that waits for its turn.
pub(crate) struct Waiting {
    queue: usize,
    delivery: Box<dyn Delivery>,
    ticket: Ticket,
    limit: Option<usize>,
}

/// Everything a worker has under way, waiting deliveries included.
pub(crate) struct Crew {
    plan: Arc<Plan>,
    room: WaitingRoom<Waiting>,
    slots: Arc<Slots>,
    tasks: JoinSet<Option<Reserved>>,
    in_hand: HashMap<Id, Arc<InHand>>,
    isolating_since: Option<Instant>,
    /// A slot that is kept, and until when.
    reserved: Option<(Reserved, Instant)>,
}

impl Crew {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Crew {
            room: WaitingRoom::new(plan.queues.len()),
            slots: Slots::new(plan.concurrency, plan.registry.limits()),
            tasks: JoinSet::new(),
            in_hand: HashMap::new(),
            isolating_since: None,
            reserved: None,
            plan,
        }
    }

    /// Takes a delivery in; it waits for its turn, unless a slot is kept for it.
    pub(crate) fn enter(&mut self, queue: usize, ticket: Ticket, delivery: Box<dyn Delivery>) {
        let queue_plan = &self.plan.queues[queue];
        let envelope = delivery.envelope();
        let registered = self.plan.registry.find(&envelope.job_type);
        let limit = registered.and_then(|registered| registered.limit);
        if let Some((reserved, _)) = self.reserved.take_if(|(kept, _)| kept.job_id == envelope.job_id) {
            let waiting = Waiting { queue, delivery, ticket, limit };
            return self.begin(waiting, reserved.slot);
        }
        let arrival = Arrival {
            queue,
            limit,
            alone: registered.is_some() && runs_alone(&*delivery, queue_plan.config.redelivery_limit),
            // The copy of a redelivery takes the place that the redelivery had.
            first: envelope.redeliveries > 0 && !delivery.redelivered(),
            overdue: Instant::now() + queue_plan.longest_wait(),
        };
        self.room.enter(arrival, Waiting { queue, delivery, ticket, limit });
    }

    /// Reports a message that is no job, in a task of its own: the hook may take its time.
    pub(crate) fn report(&mut self, queue: usize, ticket: Ticket, malformed: Malformed) {
        let plan = self.plan.clone();
        self.tasks.spawn(async move {
            let _ticket = ticket;
            report_malformed(&plan, &plan.queues[queue], malformed).await;
            None
        });
    }

    /// Starts all that may start.
    pub(crate) fn start(&mut self) {
        while let Some((waiting, slot)) = self.next_to_start() {
            // What the broker will hand out again anyway is not worth a run.
            if waiting.delivery.is_lost() {
                continue;
            }
            self.begin(waiting, slot);
        }
    }

    fn begin(&mut self, Waiting { queue, delivery, ticket, .. }: Waiting, slot: Slot) {
        let envelope = delivery.envelope();
        let span = info_span!(
            "job",
            job_id = %envelope.job_id,
            job_type = envelope.job_type,
            queue = self.plan.queues[queue].name,
            attempt = envelope.attempt
        );
        let in_hand = Arc::new(InHand::new(envelope.job_id, queue));
        let work = Work { delivery, in_hand: in_hand.clone(), slot, ticket };
        let task = self.tasks.spawn(dispatch(self.plan.clone(), work).instrument(span));
        self.in_hand.insert(task.id(), in_hand);
    }

    /// The next delivery, with its slot. While one waits to run alone, no other starts.
    fn next_to_start(&mut self) -> Option<(Waiting, Slot)> {
        if !self.slots.are_free() {
            return None;
        }
        if !self.room.has_alone() {
            self.isolating_since = None;
            let waiting = self.room.next(|limit| self.slots.allow(limit))?;
            let slot = self.slots.take(waiting.limit, false);
            return Some((waiting, slot));
        }
        let since = *self.isolating_since.get_or_insert_with(Instant::now);
        let isolated = self.slots.nothing_runs();
        if !isolated && since.elapsed() < ISOLATION_WAIT {
            return None;
        }
        self.isolating_since = None;
        let waiting = self.room.next_alone()?;
        if !isolated {
            let job_id = waiting.delivery.envelope().job_id;
            warn!(%job_id, "others still run after a minute: a job that was redelivered often is run beside them");
        }
        let slot = self.slots.take(waiting.limit, isolated);
        Some((waiting, slot))
    }

    /// Resolves when something ended, so that more may start.
    pub(crate) async fn progress(&mut self) {
        let isolation =
            self.isolating_since.filter(|_| self.room.has_alone()).map(|since| since + ISOLATION_WAIT);
        let overdue = self.room.first_overdue();
        let reservation = self.reserved.as_ref().map(|(_, until)| *until);
        tokio::select! {
            biased;
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
            () = self.slots.released() => {}
            () = at(isolation) => {}
            () = at(reservation) => self.reserved = None,
            () = at(overdue) => self.hand_back_overdue(),
        }
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.ended(ended);
        }
    }

    fn ended(&mut self, ended: Result<(Id, Option<Reserved>), JoinError>) {
        let id = match ended {
            Ok((id, reserved)) => {
                if let Some(reserved) = reserved {
                    self.reserved = Some((reserved, Instant::now() + RESERVATION));
                }
                id
            }
            Err(error) => {
                if error.is_panic() {
                    error!(%error, "the worker itself panicked: the job goes back to its queue");
                }
                error.id()
            }
        };
        self.in_hand.remove(&id);
    }

    fn hand_back_overdue(&mut self) {
        for waiting in self.room.take_overdue(Instant::now()) {
            let (queue, job_id) = (self.plan.queues[waiting.queue].name, waiting.delivery.envelope().job_id);
            warn!(%job_id, queue, "delivery waited too long for its turn: handed back; lower the prefetch or raise the concurrency");
            self.hand_back(waiting);
        }
    }

    /// Hands back all that waits, and says how many those are.
    pub(crate) fn hand_back_waiting(&mut self) -> u64 {
        let waiting = self.room.clear();
        let count = waiting.len() as u64;
        waiting.into_iter().for_each(|waiting| self.hand_back(waiting));
        count
    }

    fn hand_back(&mut self, waiting: Waiting) {
        let plan = self.plan.clone();
        self.tasks.spawn(async move {
            let Waiting { queue, delivery, ticket: _ticket, .. } = waiting;
            hand_back(&plan.queues[queue], delivery).await;
            None
        });
    }

    /// Resolves when nothing is under way any more.
    pub(crate) async fn all_ended(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended);
        }
    }

    /// How many jobs are under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.in_hand.len() as u64
    }

    /// Aborts everything and waits at most `patience` for it to be gone: a handler that blocks its thread stays.
    pub(crate) async fn abort(&mut self, patience: Duration) -> Vec<Uuid> {
        let aborted = self.in_hand.values().map(|in_hand| in_hand.job_id).collect();
        let hands: Vec<Arc<InHand>> = self.in_hand.values().cloned().collect();
        self.tasks.abort_all();
        let _ = tokio::time::timeout(patience, self.all_ended()).await;
        for in_hand in hands {
            if let Some(delivery) = in_hand.take() {
                let plan = self.plan.clone();
                self.tasks.spawn(async move {
                    hand_back(&plan.queues[in_hand.queue], delivery).await;
                    None
                });
            }
        }
        let _ = tokio::time::timeout(patience, self.all_ended()).await;
        aborted
    }
}

impl Drop for Crew {
    /// A run that is dropped gives its deliveries up, those of handlers that can't be aborted too, and tells what
    /// handlers have spawned.
    fn drop(&mut self) {
        self.plan.shutdown.cancel();
        for in_hand in self.in_hand.values() {
            drop(in_hand.take());
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
