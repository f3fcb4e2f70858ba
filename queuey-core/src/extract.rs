//! What a function with `#[handler]` takes beside its job, and what it answers.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
};

use crate::{
    context::JobContext,
    error::{BoxError, BuildError, Place},
    job_error::{JobError, JobResult},
};

/// A value that handlers share: [`WorkerBuilder::state`](crate::WorkerBuilder::state) is given it, a function with
/// `#[handler]` takes it.
///
/// It is found by its type, and every run gets a clone: a pool, a client or an `Arc` is made for that.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use std::sync::Arc;
/// use queuey::State;
///
/// #[derive(Clone)]
/// struct Mailer(Arc<str>);
///
/// async fn greet(State(mailer): State<Mailer>) -> usize {
///     mailer.0.len()
/// }
/// # let _ = greet(State(Mailer("smtp".into())));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// What a handler can take beside its job.
#[diagnostic::on_unimplemented(
    message = "a handler can't take `{Self}`",
    label = "expected `JobContext` or `State<...>`",
    note = "the job comes first; a value that handlers share is taken as `State<{Self}>` and given to `WorkerBuilder::state`"
)]
pub trait HandlerArg: Sized {
    /// Finds, once for all runs, where the argument comes from; without it, the type of the state that is missing.
    fn source(states: &States) -> Result<Source<Self>, &'static str>;
}

/// Where an argument comes from, run after run.
pub struct Source<A>(Box<dyn Fn(&JobContext) -> A + Send + Sync>);

impl<A> Source<A> {
    /// The argument for one run.
    pub fn get(&self, ctx: &JobContext) -> A {
        (self.0)(ctx)
    }

    /// For a handler that no worker gets to run.
    pub(crate) fn nowhere() -> Self {
        Source(Box::new(|_| unreachable!("a worker is not built while a state is missing")))
    }
}

impl HandlerArg for JobContext {
    fn source(_: &States) -> Result<Source<Self>, &'static str> {
        Ok(Source(Box::new(JobContext::clone)))
    }
}

impl<T: Clone + Send + Sync + 'static> HandlerArg for State<T> {
    fn source(states: &States) -> Result<Source<Self>, &'static str> {
        let value = states.get::<T>().ok_or_else(type_name::<T>)?.clone();
        Ok(Source(Box::new(move |_| State(value.clone()))))
    }
}

/// The values that handlers share, by their types.
#[derive(Default)]
pub struct States(HashMap<TypeId, Given>);

struct Given {
    value: Box<dyn Any + Send + Sync>,
    place: Place,
}

impl States {
    /// Keeps `value`, which was given at `place`. A second value of a type would be taken for the first: a mistake.
    pub(crate) fn give<T: Send + Sync + 'static>(
        &mut self,
        value: T,
        place: Place,
    ) -> Result<(), BuildError> {
        let given = Given { value: Box::new(value), place };
        match self.0.insert(TypeId::of::<T>(), given) {
            None => Ok(()),
            Some(first) => {
                Err(BuildError::DuplicateState { state: type_name::<T>(), first: first.place, second: place })
            }
        }
    }

    fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.value.downcast_ref()
    }
}

/// What a handler can answer.
#[diagnostic::on_unimplemented(
    message = "a handler can't answer with `{Self}`",
    label = "expected `()`, `Result<(), JobError>` or `Result<(), E>`, where `E` is an error or can be boxed as one"
)]
pub trait IntoJobResult {
    /// The answer as a worker judges it.
    fn into_job_result(self) -> JobResult;
}

impl IntoJobResult for () {
    fn into_job_result(self) -> JobResult {
        Ok(())
    }
}

impl IntoJobResult for JobResult {
    fn into_job_result(self) -> JobResult {
        self
    }
}

/// A retryable failure, or a fatal one where a [`Fatal`](crate::Fatal) is in its chain.
impl<E: Into<BoxError>> IntoJobResult for Result<(), E> {
    fn into_job_result(self) -> JobResult {
        self.map_err(JobError::retryable)
    }
}

impl<A> fmt::Debug for Source<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("types", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::job_error::{Fatal, JobErrorKind};

    #[test]
    fn answers_of_every_kind_become_one() {
        let fatal: Result<(), JobError> = Err(JobError::fatal_msg("x"));
        let of_anyhow: anyhow::Result<()> = Err(anyhow::anyhow!("inner").context("outer"));
        let fatal_in_anyhow: anyhow::Result<()> = Err(anyhow::Error::new(Fatal::new("bad")).context("c"));
        let of_io: io::Result<()> = Err(io::Error::other("disk"));
        let text: Result<(), &'static str> = Err("text");
        let boxed: Result<(), BoxError> = Err("boxed".into());
        for (answer, kind, reason) in [
            (fatal.into_job_result(), JobErrorKind::Fatal, "x"),
            (of_anyhow.into_job_result(), JobErrorKind::Retryable, "outer: inner"),
            (fatal_in_anyhow.into_job_result(), JobErrorKind::Fatal, "c: bad"),
            (of_io.into_job_result(), JobErrorKind::Retryable, "disk"),
            (text.into_job_result(), JobErrorKind::Retryable, "text"),
            (boxed.into_job_result(), JobErrorKind::Retryable, "boxed"),
        ] {
            let error = answer.unwrap_err();
            assert_eq!((error.kind(), error.reason().as_str()), (kind, reason));
        }
        assert!(().into_job_result().is_ok());
    }

    #[test]
    fn a_second_state_of_a_type_is_a_mistake_and_types_are_apart() {
        let (here, there) = (Place { file: "a.rs", line: 1 }, Place { file: "b.rs", line: 2 });
        let mut states = States::default();
        states.give(1_u8, here).unwrap();
        states.give("text", here).unwrap();
        let error = states.give(2_u8, there).unwrap_err().to_string();
        assert!(["`u8`", "a.rs:1", "b.rs:2"].iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(states.get::<&str>(), Some(&"text"));
        assert_eq!(State::<u16>::source(&states).unwrap_err(), "u16");
    }
}
