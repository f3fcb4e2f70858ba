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
    clock,
    dead_letter::Malformed,
    worker::{
        dispatch::{Ended, Work, dispatch},
        in_hand::InHand,
        isolation::{Arrived, Isolation},
        plan::Plan,
        receive::Ticket,
        redelivery::{Admission, admit, runs_alone},
        settle::{hand_back, report_malformed},
        slots::{Slot, Slots},
        stats::count,
        waiting::{Arrival, WaitingRoom},
    },
};

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
    tasks: JoinSet<Ended>,
    in_hand: HashMap<Id, Arc<InHand>>,
    isolation: Isolation<Waiting>,
    /// Jobs that ran and were settled.
    finished: u64,
}

impl Crew {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Crew {
            room: WaitingRoom::new(plan.queues.len()),
            slots: Slots::new(plan.concurrency, plan.registry.limits()),
            tasks: JoinSet::new(),
            in_hand: HashMap::new(),
            isolation: Isolation::new(),
            finished: 0,
            plan,
        }
    }

    /// Takes a delivery in; it waits for its turn, unless a slot is kept for it.
    pub(crate) fn enter(&mut self, queue: usize, ticket: Ticket, delivery: Box<dyn Delivery>) {
        let registered = self.plan.registry.find(&delivery.envelope().job_type);
        let limit = registered.and_then(|registered| registered.limit);
        let job_id = delivery.envelope().job_id;
        match self.isolation.arrived(job_id, Waiting { queue, delivery, ticket, limit }) {
            Arrived::Starts(waiting, slot) => self.begin(waiting, slot),
            Arrived::Kept => {}
            Arrived::Other(waiting) => self.seat(waiting),
        }
    }

    fn seat(&mut self, waiting: Waiting) {
        let queue = &self.plan.queues[waiting.queue];
        let delivery = &*waiting.delivery;
        let has_handler = self.plan.registry.find(&delivery.envelope().job_type).is_some();
        let arrival = Arrival {
            queue: waiting.queue,
            limit: waiting.limit,
            alone: has_handler && runs_alone(delivery, queue.config.redelivery_limit),
            // The copy of a redelivery takes the place that the redelivery had.
            first: delivery.envelope().redeliveries > 0 && !delivery.redelivered(),
            overdue: clock::after(queue.longest_wait()),
        };
        self.room.enter(arrival, waiting);
    }

    /// Reports a message that is no job, in a task of its own: the hook may take its time.
    pub(crate) fn report(&mut self, queue: usize, ticket: Ticket, malformed: Malformed) {
        let plan = self.plan.clone();
        self.tasks.spawn(async move {
            let _ticket = ticket;
            report_malformed(&plan, &plan.queues[queue], malformed).await;
            Ended::Unrun
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
        let (envelope, queue_plan) = (delivery.envelope(), &self.plan.queues[queue]);
        let job_id = envelope.job_id;
        let span = info_span!(
            "job",
            %job_id,
            job_type = envelope.job_type,
            queue = queue_plan.name,
            attempt = envelope.attempt
        );
        if slot.is_alone() && admit(&*delivery, queue_plan.config.redelivery_limit) == Admission::Copy {
            self.isolation.expect(job_id);
        }
        let in_hand = Arc::new(InHand::new(job_id, queue));
        let work = Work { delivery, in_hand: in_hand.clone(), slot, ticket };
        let task = self.tasks.spawn(dispatch(self.plan.clone(), work).instrument(span));
        self.in_hand.insert(task.id(), in_hand);
    }

    /// The next delivery, with its slot. While one waits to run alone, no other starts.
    fn next_to_start(&mut self) -> Option<(Waiting, Slot)> {
        if !self.slots.are_free() {
            return None;
        }
        self.room.drop_alone(|waiting| waiting.delivery.is_lost());
        if self.room.has_alone() {
            let isolated = self.isolation.admits(self.slots.nothing_runs(), Instant::now())?;
            let allowed = |waiting: &Waiting| waiting.limit.is_none_or(|limit| self.slots.allow(limit));
            if let Some(waiting) = self.room.next_alone(allowed) {
                let slot = self.slots.take(waiting.limit, isolated);
                return Some((waiting, slot));
            }
        } else {
            self.isolation.nobody_waits();
        }
        let waiting = self.room.next(|limit| self.slots.allow(limit))?;
        let slot = self.slots.take(waiting.limit, false);
        Some((waiting, slot))
    }

    /// Resolves when something ended, so that more may start.
    pub(crate) async fn progress(&mut self) {
        let (isolation, overdue) = (self.isolation.deadline(Instant::now()), self.room.first_overdue());
        tokio::select! {
            biased;
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
            () = self.slots.released() => {}
            () = at(isolation) => self.isolation.expire(Instant::now()),
            () = at(overdue) => self.hand_back_overdue(),
        }
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.ended(ended);
        }
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                if error.is_panic() {
                    error!(%error, "the worker itself panicked: the job goes back to its queue");
                }
                (error.id(), Ended::Unrun)
            }
        };
        let Some(in_hand) = self.in_hand.remove(&id) else { return };
        match ended {
            Ended::Copied(slot) if slot.is_alone() => {
                if let Some((waiting, slot)) = self.isolation.reserve(in_hand.job_id, slot, Instant::now()) {
                    self.begin(waiting, slot);
                }
                return;
            }
            Ended::Ran => self.finished += 1,
            Ended::Copied(_) | Ended::Unrun => {}
        }
        if let Some(early) = self.isolation.no_copy(in_hand.job_id) {
            self.seat(early);
        }
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
        let mut waiting = self.room.clear();
        waiting.extend(self.isolation.clear());
        let count = waiting.len() as u64;
        waiting.into_iter().for_each(|waiting| self.hand_back(waiting));
        count
    }

    fn hand_back(&mut self, waiting: Waiting) {
        let plan = self.plan.clone();
        self.tasks.spawn(async move {
            let Waiting { queue, delivery, ticket: _ticket, .. } = waiting;
            hand_back(&plan.queues[queue], delivery).await;
            Ended::Unrun
        });
    }

    /// Resolves when nothing is under way any more.
    pub(crate) async fn all_ended(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended);
        }
    }

    /// How many jobs ran and were settled so far.
    pub(crate) fn finished(&self) -> u64 {
        self.finished
    }

    /// Aborts everything and waits at most `patience` for it to be gone: a handler that blocks its thread stays. Gives
    /// those that did not come to their end by themselves.
    pub(crate) async fn abort(&mut self, patience: Duration) -> Vec<Uuid> {
        let mut cut_off = self.in_hand.clone();
        self.tasks.abort_all();
        let all_gone = async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                if let Ok((id, _)) = &ended {
                    cut_off.remove(id);
                }
                self.ended(ended);
            }
        };
        let _ = tokio::time::timeout(patience, all_gone).await;
        for in_hand in cut_off.values() {
            self.take_back(in_hand);
        }
        let _ = tokio::time::timeout(patience, self.all_ended()).await;
        cut_off.values().map(|in_hand| in_hand.job_id).collect()
    }

    /// Hands back the delivery of a job that was cut off. One that was being settled went back when its task was dropped.
    fn take_back(&mut self, in_hand: &Arc<InHand>) {
        let (plan, queue) = (self.plan.clone(), in_hand.queue);
        match in_hand.take() {
            Some(delivery) => {
                self.tasks.spawn(async move {
                    hand_back(&plan.queues[queue], delivery).await;
                    Ended::Unrun
                });
            }
            None => count(&plan.queues[queue].counters.requeued),
        }
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
