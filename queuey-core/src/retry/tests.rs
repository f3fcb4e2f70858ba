use super::*;
use proptest::prelude::*;

const DAY: Duration = Duration::from_secs(86_400);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        Just(Duration::from_nanos(1)),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
        (0..100_000_u64).prop_map(Duration::from_millis),
    ]
}

fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        prop::sample::select(vec![
            0.0,
            -0.0,
            1.0,
            0.5,
            1.5,
            2.0,
            1e300,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY
        ]),
    ]
}

fn any_attempt() -> impl Strategy<Value = u32> {
    prop_oneof![0..200_u32, Just(100_000), Just(u32::MAX - 1), Just(u32::MAX), any::<u32>()]
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    prop_oneof![
        any_duration().prop_map(Backoff::Fixed),
        prop::collection::vec(any_duration(), 0..4).prop_map(Backoff::Steps),
        (any_duration(), any_float(), any_duration()).prop_map(|(base, factor, max)| Backoff::Exponential {
            base,
            factor,
            max
        }),
    ]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![Just(Jitter::None), Just(Jitter::Full), any_float().prop_map(Jitter::Proportional)]
}

fn delay(policy: &RetryPolicy, attempt: u32, random: f64) -> Option<Duration> {
    match policy.decide_with(attempt, Duration::ZERO, random) {
        RetryDecision::Retry { delay } => Some(delay),
        RetryDecision::GiveUp => None,
    }
}

proptest! {
    // R09: whatever numbers come in, the rule holds and nothing panics.
    #[test]
    fn a_wait_is_never_zero_before_jitter_and_never_above_the_maximum(
        backoff in any_backoff(), attempt in any_attempt(), random in 0.0..1.0_f64, jitter in any_jitter(),
    ) {
        let plain = RetryPolicy::new(u32::MAX, backoff.clone()).jitter(false);
        let spread = RetryPolicy::new(u32::MAX, backoff.clone()).jitter(jitter);
        prop_assert_eq!(delay(&plain, attempt, random).is_some(), attempt < u32::MAX);
        if let (Some(wait), Some(jittered)) = (delay(&plain, attempt, random), delay(&spread, attempt, random)) {
            prop_assert!(wait > Duration::ZERO);
            if let Backoff::Exponential { max, .. } = backoff {
                let max = max.max(SHORTEST_WAIT);
                prop_assert!(wait <= max && jittered <= max);
            }
            match jitter {
                Jitter::None => prop_assert_eq!(jittered, wait),
                Jitter::Full => prop_assert!(jittered <= wait),
                Jitter::Proportional(_) => prop_assert!(jittered > Duration::ZERO && jittered <= wait.saturating_mul(2)),
            }
            prop_assert!(spread.longest_wait() >= jittered || attempt == 0);
        }
    }

    // R09: non-decreasing up to the cap, constant after.
    #[test]
    fn a_factor_of_one_or_more_never_makes_a_wait_shorter(
        base in any_duration(), factor in 1.0..1e300_f64, max in any_duration(), attempt in any_attempt(),
    ) {
        let backoff = Backoff::Exponential { base, factor, max };
        let (now, next) = (backoff.wait(attempt), backoff.wait(attempt.saturating_add(1)));
        prop_assert!(now <= next);
        if now == max { prop_assert_eq!(next, max); }
    }

    #[test]
    fn a_whole_policy_decides_without_panic(
        attempts in any_attempt(), backoff in any_backoff(), jitter in any_jitter(),
        failed in any_attempt(), age in any_duration(), limit in prop::option::of(any_duration()),
    ) {
        let policy = RetryPolicy { give_up_after: limit, ..RetryPolicy::new(attempts, backoff).jitter(jitter) };
        let gives_up = policy.decide(failed, age) == RetryDecision::GiveUp;
        prop_assert_eq!(gives_up, failed >= attempts.max(1) || limit.is_some_and(|limit| age >= limit));
        prop_assert_eq!(policy.schedule().len(), attempts.max(1).saturating_sub(1).min(1_000) as usize);
    }

    #[test]
    fn a_policy_survives_its_serde_form(
        attempts in 1..=u32::MAX, base in 1..10_000_u64, more in 0..10_000_u64, tenths in 1..100_u32, percent in 0..=100_u32,
    ) {
        let (base, max) = (Duration::from_millis(base), Duration::from_millis(base + more));
        let (factor, fraction) = (f64::from(tenths) / 10.0, f64::from(percent) / 100.0);
        let policy = RetryPolicy::new(attempts, Backoff::Exponential { base, factor, max })
            .jitter(fraction).give_up_after(max);
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), policy);
    }
}

#[test]
fn waits_far_out_are_the_cap() {
    for base in [Duration::from_millis(1), secs(1), secs(3600)] {
        for (factor, max) in [(1.5, secs(1)), (2.0, DAY * 24), (10.0, DAY * 24), (1e300, DAY * 24)] {
            let backoff = Backoff::Exponential { base, factor, max };
            for k in [200, 1_000, 100_000, u32::MAX] {
                assert_eq!(backoff.wait(k), max, "{backoff:?} {k}");
            }
        }
        let constant = Backoff::Exponential { base, factor: 1.0, max: DAY };
        assert_eq!(constant.wait(u32::MAX), base);
    }
}

#[test]
fn waits_follow_the_formula() {
    let table: [(RetryPolicy, &[u64]); 5] = [
        (RetryPolicy::none(), &[]),
        (RetryPolicy::new(3, Backoff::None), &[0, 0]),
        (RetryPolicy::fixed(3, secs(7)), &[7, 7]),
        (RetryPolicy::exponential(12), &[1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (RetryPolicy::steps(5, [secs(1), secs(10), secs(60)]), &[1, 10, 60, 60]),
    ];
    for (policy, waits) in table {
        let waits: Vec<_> = waits.iter().copied().map(secs).collect();
        assert_eq!(policy.schedule(), waits, "{policy:?}");
    }
}

#[test]
fn jitter_is_full_for_exponential_only_unless_said_otherwise() {
    assert_eq!(RetryPolicy::exponential(2).jitter, Jitter::Full);
    assert_eq!(RetryPolicy::fixed(2, secs(1)).jitter, Jitter::None);
    let full = RetryPolicy::exponential(2);
    assert_eq!(delay(&full, 1, 0.0), Some(Duration::ZERO));
    assert_eq!(delay(&full, 1, 0.25), Some(Duration::from_millis(250)));
    let fifth = RetryPolicy::fixed(2, secs(10)).jitter(0.2);
    assert_eq!(delay(&fifth, 1, 0.0), Some(secs(8)));
    assert_eq!(delay(&fifth, 1, 0.5), Some(secs(10)));
}

#[test]
fn the_last_attempt_and_old_age_are_final() {
    let policy = RetryPolicy::fixed(3, secs(1)).give_up_after(secs(60));
    assert_eq!(policy.decide(2, secs(59)), RetryDecision::Retry { delay: secs(1) });
    assert_eq!(policy.decide(3, secs(0)), RetryDecision::GiveUp);
    assert_eq!(policy.decide(1, secs(60)), RetryDecision::GiveUp);
}

#[test]
fn the_longest_wait_counts_attempts_and_jitter() {
    let steps = [secs(1), secs(100), secs(2)];
    assert_eq!(RetryPolicy::none().longest_wait(), Duration::ZERO);
    assert_eq!(RetryPolicy::steps(2, steps).longest_wait(), secs(1));
    assert_eq!(RetryPolicy::steps(9, steps).longest_wait(), secs(100));
    assert_eq!(RetryPolicy::fixed(2, secs(10)).jitter(0.5).longest_wait(), secs(15));
    assert_eq!(RetryPolicy::exponential(4).longest_wait(), secs(4));
}

#[test]
fn configuration_has_the_attributes_keys_and_refusals() {
    let read = |text: &str| serde_json::from_str::<RetryPolicy>(text).map_err(|error| error.to_string());
    assert_eq!(read("{}"), Ok(RetryPolicy::exponential(3)));
    assert_eq!(
        read(r#"{"max_attempts":2,"backoff":"fixed","delay":"2m","jitter":0.1}"#),
        Ok(RetryPolicy::fixed(2, secs(120)).jitter(0.1))
    );
    let long_base = read(r#"{"base":"1h"}"#).unwrap();
    assert_eq!(long_base.schedule(), [secs(3600); 2]);
    for (text, word) in [
        (r#"{"backof":"fixed"}"#, "backof"),
        (r#"{"backoff":"linear"}"#, "linear"),
        (r#"{"backoff":"fixed"}"#, "delay"),
        (r#"{"backoff":"steps","delays":[]}"#, "delays"),
        (r#"{"delay":"1s"}"#, "fixed"),
        (r#"{"max_attempts":0}"#, "max_attempts"),
        (r#"{"factor":0}"#, "factor"),
        (r#"{"base":"2s","max":"1s"}"#, "base"),
        (r#"{"base":"0s"}"#, "zero"),
        (r#"{"base":0}"#, "above zero"),
        (r#"{"jitter":1.5}"#, "jitter"),
        (r#"{"jitter":1}"#, "jitter"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(word), "{text}: {error}");
    }
}
