//! From an outcome to a settlement. Pure: time and chance come in as values.

use std::time::Duration;

use crate::{
    dead_letter::DeadLetterCause,
    duration::human,
    envelope::Envelope,
    job_error::JobErrorKind,
    retry::{RetryDecision, RetryPolicy},
    settlement::Settlement,
    worker::attempt::Outcome,
};

/// All that a judgement depends on besides the outcome.
pub(crate) struct Case<'a> {
    pub(crate) envelope: &'a Envelope,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) max_deferrals: Option<u32>,
    /// The priority a deferral comes back with.
    pub(crate) deferral_priority: u8,
    /// Whether the worker is shutting down, so that a failure may be its doing.
    pub(crate) stopping: bool,
    pub(crate) age: Duration,
    /// Uniform in `[0, 1)`.
    pub(crate) random: f64,
}

/// What becomes of a delivery, and what to say of it in the log.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) settlement: Settlement,
    pub(crate) reason: String,
}

impl Verdict {
    pub(crate) fn dead(cause: DeadLetterCause, reason: String) -> Self {
        Verdict { settlement: Settlement::DeadLetter { cause, reason: reason.clone() }, reason }
    }
}

/// Judges what an attempt came to.
pub(crate) fn judge(case: &Case<'_>, outcome: Outcome) -> Verdict {
    let (kind, reason) = match outcome {
        Outcome::Succeeded => return Verdict { settlement: Settlement::Ack, reason: String::new() },
        Outcome::Undecodable { reason, at } => {
            let settlement = Settlement::DeadLetter { cause: DeadLetterCause::Decode, reason };
            return Verdict { settlement, reason: at };
        }
        Outcome::Failed { kind, reason } => (kind, reason),
    };
    match kind {
        JobErrorKind::Retryable | JobErrorKind::RetryAfter(_) if case.stopping => requeue(case, reason),
        JobErrorKind::Retryable => failed(case, None, reason),
        JobErrorKind::RetryAfter(delay) => failed(case, Some(delay), reason),
        JobErrorKind::Fatal => Verdict::dead(DeadLetterCause::Fatal, reason),
        JobErrorKind::Deferred(delay) => deferred(case, delay, reason),
        JobErrorKind::Discard => Verdict { settlement: Settlement::Discard, reason },
        JobErrorKind::Requeue => requeue(case, reason),
    }
}

fn failed(case: &Case<'_>, own_delay: Option<Duration>, reason: String) -> Verdict {
    let attempt = case.envelope.attempt;
    match case.policy.decide_with(attempt, case.age, case.random) {
        RetryDecision::Retry { delay } => {
            let next = case.envelope.next_attempt();
            Verdict { settlement: Settlement::Retry { next, delay: own_delay.unwrap_or(delay) }, reason }
        }
        RetryDecision::GiveUp if attempt >= case.policy.max_attempts => Verdict::dead(
            DeadLetterCause::Exhausted,
            format!(
                "max attempts ({}) exhausted after attempt {attempt}: {reason}",
                case.policy.max_attempts.max(1)
            ),
        ),
        RetryDecision::GiveUp => Verdict::dead(
            DeadLetterCause::Expired,
            format!("too old to be tried again ({}) after attempt {attempt}: {reason}", human(case.age)),
        ),
    }
}

fn deferred(case: &Case<'_>, delay: Duration, reason: String) -> Verdict {
    let next = case.envelope.deferred(case.deferral_priority);
    match case.max_deferrals {
        Some(max) if next.deferrals > max => {
            let colon = if reason.is_empty() { "" } else { ": " };
            Verdict::dead(
                DeadLetterCause::Deferred,
                format!("max deferrals ({max}) exhausted{colon}{reason}"),
            )
        }
        _ => Verdict { settlement: Settlement::Defer { next, delay }, reason },
    }
}

/// A confirmed copy with all counters as they were, so that no broker counts it as a failure.
fn requeue(case: &Case<'_>, reason: String) -> Verdict {
    Verdict { settlement: Settlement::Redeliver { next: case.envelope.clone() }, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(attempt: u32, deferrals: u32) -> Envelope {
        let mut envelope = Envelope::raw("job", "q", Default::default());
        (envelope.attempt, envelope.deferrals, envelope.priority, envelope.redeliveries) =
            (attempt, deferrals, 7, 2);
        envelope
    }

    /// The settlement in a few words.
    fn summary(settlement: &Settlement) -> String {
        match settlement {
            Settlement::Retry { next, delay } => {
                format!("retry {} in {delay:?} at priority {}", next.attempt, next.priority)
            }
            Settlement::Defer { next, delay } => {
                format!("defer {} in {delay:?} at priority {}", next.deferrals, next.priority)
            }
            Settlement::DeadLetter { cause, reason } => format!("{cause}: {reason}"),
            Settlement::Redeliver { next } => {
                format!("requeue {} {} {}", next.attempt, next.priority, next.redeliveries)
            }
            other => format!("{other:?}"),
        }
    }

    fn failure(kind: JobErrorKind) -> Outcome {
        Outcome::Failed { kind, reason: "why".into() }
    }

    #[test]
    fn every_outcome_has_its_settlement() {
        const SECOND: Duration = Duration::from_secs(1);
        use JobErrorKind::{Deferred, Discard, Fatal, Requeue, RetryAfter, Retryable};
        let table = [
            (1, 0, false, Outcome::Succeeded, "Ack"),
            (9, 0, true, Outcome::Succeeded, "Ack"),
            (1, 0, false, Outcome::Undecodable { reason: "why".into(), at: "1:2".into() }, "decode: why"),
            (1, 0, false, failure(Retryable), "retry 2 in 5s at priority 0"),
            (2, 0, false, failure(RetryAfter(SECOND)), "retry 3 in 1s at priority 0"),
            (3, 0, false, failure(Retryable), "exhausted: max attempts (3) exhausted after attempt 3: why"),
            (
                3,
                0,
                false,
                failure(RetryAfter(SECOND)),
                "exhausted: max attempts (3) exhausted after attempt 3: why",
            ),
            (4, 0, false, failure(Retryable), "exhausted: max attempts (3) exhausted after attempt 4: why"),
            (1, 0, false, failure(Fatal), "fatal: why"),
            (3, 1, false, failure(Deferred(SECOND)), "defer 2 in 1s at priority 10"),
            (1, 2, false, failure(Deferred(SECOND)), "deferred: max deferrals (2) exhausted: why"),
            (1, 0, false, failure(Discard), "Discard"),
            (2, 1, false, failure(Requeue), "requeue 2 7 2"),
            (3, 0, true, failure(Retryable), "requeue 3 7 2"),
            (1, 0, true, failure(RetryAfter(SECOND)), "requeue 1 7 2"),
            (1, 0, true, failure(Fatal), "fatal: why"),
            (1, 0, true, failure(Deferred(SECOND)), "defer 1 in 1s at priority 10"),
            (1, 0, true, failure(Discard), "Discard"),
        ];
        let policy = RetryPolicy::fixed(3, Duration::from_secs(5));
        for (attempt, deferrals, stopping, outcome, expected) in table {
            let case = Case {
                envelope: &envelope(attempt, deferrals),
                policy: &policy,
                max_deferrals: Some(2),
                deferral_priority: 10,
                stopping,
                age: Duration::ZERO,
                random: 0.5,
            };
            let said = format!("{attempt} {deferrals} {stopping} {outcome:?}");
            assert_eq!(summary(&judge(&case, outcome).settlement), expected, "{said}");
        }
    }

    #[test]
    fn an_old_job_is_given_up_on_before_its_last_attempt() {
        let policy = RetryPolicy::fixed(9, Duration::from_secs(5)).give_up_after(Duration::from_secs(60));
        let case = Case {
            envelope: &envelope(2, 0),
            policy: &policy,
            max_deferrals: None,
            deferral_priority: 0,
            stopping: false,
            age: Duration::from_secs(90),
            random: 0.0,
        };
        let verdict = judge(&case, failure(JobErrorKind::Retryable));
        assert_eq!(
            summary(&verdict.settlement),
            "expired: too old to be tried again (1m 30s) after attempt 2: why"
        );
    }
}
