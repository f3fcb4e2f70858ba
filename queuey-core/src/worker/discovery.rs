//! Functions with `#[handler]`, which a worker finds by itself.

use std::{
    any::TypeId,
    collections::{HashMap, hash_map::Entry},
    fmt,
    time::Duration,
};

use tracing::warn;

use crate::{
    BoxFuture,
    context::JobContext,
    error::{BuildError, Origin, Place},
    extract::{HandlerArg, Source, States},
    handler::FnHandler,
    job::Job,
    job_error::JobResult,
    queue::QueueSet,
    worker::registry::Registered,
};

/// What `#[handler]` leaves behind for workers to find: that the function exists, where, and how it is made a handler.
#[derive(Debug)]
pub struct HandlerRegistration {
    origin: Origin,
    make: fn(&mut Wanted<'_>) -> Found,
}

impl HandlerRegistration {
    /// Describes the function with this path, written at this place. `make` asks for what the function takes, then
    /// hands it over.
    ///
    /// The types are those of the function and inferred, so that the expansion names none of them a second time.
    pub const fn new(
        function: &'static str,
        file: &'static str,
        line: u32,
        make: fn(&mut Wanted<'_>) -> Found,
    ) -> Self {
        HandlerRegistration { origin: Origin { function: Some(function), place: Place { file, line } }, make }
    }
}

inventory::collect!(HandlerRegistration);

/// What a function takes, as far as it is there.
pub struct Wanted<'a> {
    /// The queue set of the worker.
    set: TypeId,
    states: &'a States,
    origin: Origin,
    missing: Vec<BuildError>,
    timeout: Option<Duration>,
    concurrency: Option<usize>,
}

impl Wanted<'_> {
    /// Where an argument comes from.
    pub fn arg<A: HandlerArg>(&mut self) -> Source<A> {
        A::source(self.states).unwrap_or_else(|state| {
            self.missing.push(BuildError::MissingState { state, handler: self.origin });
            Source::nowhere()
        })
    }

    /// Bounds one run.
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        self.timeout = Some(limit);
        self
    }

    /// Bounds how many of the function's jobs run at once.
    pub fn concurrency(&mut self, most: usize) -> &mut Self {
        self.concurrency = Some(most);
        self
    }

    /// Hands over the function.
    pub fn handler<J, F>(&mut self, run: F) -> Found
    where
        J: Job,
        F: Fn(J, JobContext) -> BoxFuture<'static, JobResult> + Send + Sync + 'static,
    {
        // A foreign set is not asked for its configuration, which may come from anywhere.
        if TypeId::of::<J::Queue>() != self.set {
            return Found(None);
        }
        let mut handler = FnHandler::<J, F>::new(run);
        handler.timeout = self.timeout;
        handler.concurrency = self.concurrency;
        Found(Some(Registered::new(handler, self.origin)))
    }
}

/// A function as a handler, if its job is of the worker's set.
pub struct Found(Option<Registered>);

/// A handler, which may run if nothing is missing.
struct Candidate {
    handler: Registered,
    missing: Vec<BuildError>,
}

impl Candidate {
    /// The functions for jobs of `Q` that are linked into the program, in the order of the source.
    fn all<Q: QueueSet>(states: &States) -> Vec<Candidate> {
        let linked = inventory::iter::<HandlerRegistration>();
        let mut of_set: Vec<Candidate> =
            linked.filter_map(|registration| Self::of(registration, TypeId::of::<Q>(), states)).collect();
        of_set.sort_by_key(|candidate| {
            let place = candidate.handler.origin.place;
            (place.file, place.line)
        });
        of_set
    }

    fn of(registration: &HandlerRegistration, set: TypeId, states: &States) -> Option<Self> {
        let origin = registration.origin;
        let mut wanted =
            Wanted { set, states, origin, missing: Vec::new(), timeout: None, concurrency: None };
        let Found(handler) = (registration.make)(&mut wanted);
        handler.map(|handler| Candidate { handler, missing: wanted.missing })
    }
}

/// The functions that handle jobs of `Q`, but for jobs which have a handler among `added`.
///
/// One that lacks a state is a mistake where its queue is consumed; a worker of other queues does without it.
pub(crate) fn discover<Q: QueueSet>(
    added: &[Registered],
    states: &States,
    is_consumed: impl Fn(&str) -> bool,
    mistakes: &mut Vec<BuildError>,
) -> Vec<Registered> {
    let candidates = Candidate::all::<Q>(states);
    if candidates.is_empty() {
        warn!(
            "no function with `#[handler]` was found for this queue set: the linker sees a crate of handlers only where it is named once, as in `use my_jobs as _;`"
        );
    }
    let is_replaced = |job: &str| added.iter().any(|handler| handler.job == job);
    let candidates = candidates.into_iter().filter(|candidate| !is_replaced(candidate.handler.job));
    one_for_each_job(candidates, is_consumed, mistakes)
}

fn one_for_each_job(
    candidates: impl Iterator<Item = Candidate>,
    is_consumed: impl Fn(&str) -> bool,
    mistakes: &mut Vec<BuildError>,
) -> Vec<Registered> {
    let (mut handlers, mut first_of) = (Vec::new(), HashMap::new());
    for Candidate { handler, missing } in candidates {
        let (job, second) = (handler.job, handler.origin);
        let is_complete = missing.is_empty();
        mistakes.extend(missing.into_iter().filter(|_| is_consumed(handler.queue)));
        match first_of.entry(job) {
            Entry::Vacant(entry) => {
                entry.insert(second);
                handlers.extend(is_complete.then_some(handler));
            }
            Entry::Occupied(entry) => {
                mistakes.push(BuildError::DuplicateHandler { job, first: *entry.get(), second });
            }
        }
    }
    handlers
}

impl fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Found").field(&self.0.as_ref().map(|handler| handler.job)).finish()
    }
}
