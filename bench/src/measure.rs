//! How everything is measured: both sides in turn, each time on a runtime of its own, the first round not counted.

use std::{
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use tokio::sync::Notify;

use crate::process::cpu_time;

/// A measurement that takes longer hangs.
const HANGS: Duration = Duration::from_secs(900);

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// What every number of jobs is divided by.
    pub(crate) divisor: u64,
    /// How many queues a scenario has at most.
    pub(crate) queues: u64,
}

impl Effort {
    pub(crate) fn jobs(self, full: u64) -> u64 {
        (full / self.divisor).max(1)
    }

    pub(crate) fn queues<const N: usize>(self, full: [u64; N]) -> [u64; N] {
        full.map(|queues| queues.min(self.queues))
    }
}

/// Measures both sides in turn, A B A B, after a round that only warms up.
pub(crate) fn in_turn<T, A, B>(
    rounds: usize,
    queuey: impl Fn() -> A,
    other: impl Fn() -> B,
) -> Result<(Vec<T>, Vec<T>)>
where
    T: Send + 'static,
    A: Future<Output = Result<T>> + Send + 'static,
    B: Future<Output = Result<T>> + Send + 'static,
{
    let (ours, [theirs]) = in_turn_beside(rounds, queuey, [()], |()| other())?;
    Ok((ours, theirs))
}

/// Measures queuey and each of the others in turn, A B C A B C, after a round that only warms up.
pub(crate) fn in_turn_beside<T, K, A, B, const N: usize>(
    rounds: usize,
    queuey: impl Fn() -> A,
    others: [K; N],
    other: impl Fn(K) -> B,
) -> Result<(Vec<T>, [Vec<T>; N])>
where
    T: Send + 'static,
    K: Copy,
    A: Future<Output = Result<T>> + Send + 'static,
    B: Future<Output = Result<T>> + Send + 'static,
{
    let (mut ours, mut theirs) = (Vec::new(), [const { Vec::new() }; N]);
    for round in 0..=rounds {
        let mine = on_a_runtime(queuey()).context("queuey")?;
        if round > 0 {
            ours.push(mine);
        }
        for (which, measured) in others.into_iter().zip(&mut theirs) {
            let its = on_a_runtime(other(which)).context("what it is compared with")?;
            if round > 0 {
                measured.push(its);
            }
        }
    }
    Ok((ours, theirs))
}

/// What both sides measured at each point, a value per round.
pub(crate) struct AtEach<T> {
    pub(crate) queuey: Vec<Vec<T>>,
    pub(crate) other: Vec<Vec<T>>,
}

/// Measures both sides in turn at each point in turn, after a round that only warms up.
pub(crate) fn in_turn_at_each<T, A, B>(
    rounds: usize,
    points: &[u64],
    queuey: impl Fn(u64) -> A,
    other: impl Fn(u64) -> B,
) -> Result<AtEach<T>>
where
    T: Send + 'static,
    A: Future<Output = Result<T>> + Send + 'static,
    B: Future<Output = Result<T>> + Send + 'static,
{
    let none = || points.iter().map(|_| Vec::new()).collect();
    let mut measured = AtEach { queuey: none(), other: none() };
    for round in 0..=rounds {
        for (at, point) in points.iter().enumerate() {
            let mine = on_a_runtime(queuey(*point)).context("queuey")?;
            let its = on_a_runtime(other(*point)).context("what it is compared with")?;
            if round > 0 {
                measured.queuey[at].push(mine);
                measured.other[at].push(its);
            }
        }
    }
    Ok(measured)
}

/// Measures at each point in turn, after a round that only warms up; gives the rounds of each point.
pub(crate) fn at_each<T, F>(rounds: usize, points: &[u64], measure: impl Fn(u64) -> F) -> Result<Vec<Vec<T>>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut measured: Vec<Vec<T>> = points.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for (point, results) in points.iter().zip(&mut measured) {
            let result = on_a_runtime(measure(*point)).with_context(|| format!("at {point}"))?;
            if round > 0 {
                results.push(result);
            }
        }
    }
    Ok(measured)
}

/// Runs a measurement on two threads of a runtime of its own, so that nothing is left of the one before.
pub(crate) fn on_a_runtime<T: Send + 'static>(
    measure: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let task = runtime.spawn(async { tokio::time::timeout(HANGS, measure).await });
    runtime.block_on(task)?.map_err(|_| anyhow!("it hangs: no result after {HANGS:?}"))?
}

/// What a measurement came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) jobs_per_second: f64,
    /// What this process has worked for each job, without the broker. No number where that can't be told.
    pub(crate) cpu_micros: f64,
}

impl Measured {
    /// The time that passed for each job.
    pub(crate) fn micros(self) -> f64 {
        1e6 / self.jobs_per_second
    }
}

/// One number of each round.
pub(crate) fn each<T>(rounds: &[T], number: impl Fn(&T) -> f64) -> Vec<f64> {
    rounds.iter().map(number).collect()
}

/// Measures from its start on.
pub(crate) struct Stopwatch {
    start: Instant,
    cpu: Option<Duration>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch { cpu: cpu_time(), start: Instant::now() }
    }

    pub(crate) fn stop(self, jobs: u64) -> Measured {
        let took = self.start.elapsed();
        let cpu = cpu_time().zip(self.cpu).map(|(now, then)| now.saturating_sub(then));
        Measured {
            jobs_per_second: jobs as f64 / took.as_secs_f64(),
            cpu_micros: cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6 / jobs as f64),
        }
    }
}

/// Counts jobs down in many tasks, and wakes the one who waits for the last.
#[derive(Debug)]
pub(crate) struct Tally {
    left: AtomicU64,
    done: Notify,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Tally {
    pub(crate) fn of(jobs: u64) -> Self {
        Tally { left: AtomicU64::new(jobs), done: Notify::new(), failure: Mutex::default() }
    }

    /// Counts one job. More than there were to be are counted as well, as none left.
    pub(crate) fn one(&self) {
        if self.left.fetch_sub(1, SeqCst) == 1 {
            self.done.notify_one();
        }
    }

    /// Counts a job that came to this; a failure ends the count.
    pub(crate) fn outcome(&self, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.one(),
            Err(error) => {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                self.done.notify_one();
            }
        }
    }

    /// Resolves with the last job, for the one who waits.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub(crate) async fn done(&self) -> Result<()> {
        self.done.notified().await;
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Runs `jobs` in `tasks` tasks, one after the other in each of them.
///
/// # Errors
///
/// The first failure.
pub(crate) async fn in_tasks<F>(
    tasks: u64,
    jobs: u64,
    run: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks.min(jobs) {
        let run = run.clone();
        running.spawn(async move {
            for number in (task..jobs).step_by(tasks as usize) {
                run(number).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn sides_take_turns_and_the_first_round_is_not_counted() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let side = |name: char| {
            let order = order.clone();
            async move {
                let mut order = order.lock().unwrap();
                order.push(name);
                Ok(order.len())
            }
        };
        let (ours, theirs) = in_turn_beside(2, || side('a'), ['b', 'c'], side).unwrap();
        assert_eq!((ours, theirs), (vec![4, 7], [vec![5, 8], vec![6, 9]]));
        assert_eq!(order.lock().unwrap().iter().collect::<String>(), "abcabcabc");
    }

    #[test]
    fn points_take_turns_and_the_first_round_is_not_counted() {
        let measured = at_each(2, &[1, 10], |point| async move { Ok(point * 2) }).unwrap();
        assert_eq!(measured, [vec![2, 2], vec![20, 20]]);
    }

    #[test]
    fn a_failure_says_on_which_side_it_was() {
        let fine = || async { Ok(1) };
        let broken = || async { Err(anyhow!("no broker")) };
        let error = in_turn(1, fine, broken).unwrap_err();
        assert_eq!(format!("{error:#}"), "what it is compared with: no broker");
    }

    #[tokio::test]
    async fn every_job_runs_once_and_in_that_many_tasks() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tally = Arc::new(Tally::of(10));
        let (numbers, count) = (seen.clone(), tally.clone());
        in_tasks(3, 10, move |number| {
            let (numbers, count) = (numbers.clone(), count.clone());
            async move {
                numbers.lock().unwrap().push(number);
                count.one();
                Ok(())
            }
        })
        .await
        .unwrap();
        tally.done().await.unwrap();
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_failure_ends_a_count() {
        let tally = Tally::of(10);
        tally.outcome(Ok(()));
        tally.outcome(Err(anyhow!("lost")));
        assert_eq!(tally.done().await.unwrap_err().to_string(), "lost");
    }
}
