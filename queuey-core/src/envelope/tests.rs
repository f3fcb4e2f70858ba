use super::*;
use proptest::prelude::*;

const MINIMAL: &str = r#"{"job_id":"0190b2c0-0000-7000-8000-000000000000","job_type":"a","queue":"q","attempt":1,"enqueued_at_ms":1,"payload":null}"#;

fn read(text: &str) -> Result<Envelope, EnvelopeError> {
    Envelope::from_bytes(text.as_bytes())
}

fn written(envelope: &Envelope) -> String {
    String::from_utf8(envelope.to_bytes()).unwrap()
}

#[test]
fn missing_optional_fields_have_their_defaults() {
    let envelope = read(MINIMAL).unwrap();
    assert_eq!((envelope.deferrals, envelope.priority, envelope.redeliveries), (0, 0, 0));
    assert_eq!((envelope.correlation_id.as_deref(), envelope.due_at_ms), (None, None));
    assert!(envelope.metadata.is_empty());
    let text = written(&envelope);
    for absent in ["correlation_id", "redeliveries", "due_at_ms", "metadata"] {
        assert!(!text.contains(absent), "{text}");
    }
}

#[test]
fn what_is_no_envelope_is_malformed() {
    let change = |from: &str, to: &str| {
        assert!(MINIMAL.contains(from), "{from}");
        MINIMAL.replacen(from, to, 1)
    };
    let bad = [
        String::new(),
        "{".into(),
        "null".into(),
        "[]".into(),
        "\"x\"".into(),
        "\u{feff}".to_owned() + MINIMAL,
        "[".repeat(10_000),
        MINIMAL.to_owned() + "x",
        change(r#""payload":null"#, r#""extra":null"#),
        change(r#""attempt":1,"#, ""),
        change(r#""attempt":1"#, r#""attempt":0"#),
        change(r#""attempt":1"#, r#""attempt":-1"#),
        change(r#""attempt":1"#, r#""attempt":1.0"#),
        change(r#""attempt":1"#, r#""attempt":"1""#),
        change(r#""attempt":1"#, r#""attempt":1099511627776"#),
        change(r#""attempt":1"#, r#""attempt":1,"attempt":1"#),
        change(r#""attempt":1"#, r#""attempt":1,"priority":256"#),
        change(r#""attempt":1"#, r#""attempt":1,"deferrals":null"#),
        change(r#""attempt":1"#, r#""attempt":1,"correlation_id":null"#),
        change(r#""attempt":1"#, r#""attempt":1,"metadata":{"k":1}"#),
        change(r#""attempt":1"#, r#""attempt":1,"metadata":{"k":"1","k":"1"}"#),
        change(r#""attempt":1"#, r#""attempt":1,"x":1,"x":2"#),
        change("0190b2c0-0000", "not-a-uuid"),
    ];
    for text in bad {
        let error = read(&text).expect_err(&text);
        assert_eq!(error.to_string(), "malformed envelope");
        assert!(std::error::Error::source(&error).is_some());
    }
    assert!(Envelope::from_bytes(b"\xff\xfe").is_err());
}

#[test]
fn a_deep_payload_is_carried_without_recursion() {
    let deep = MINIMAL.replace("null", &("[".repeat(50_000) + &"]".repeat(50_000)));
    assert_eq!(written(&read(&deep).unwrap()).matches('[').count(), 50_000);
}

#[test]
fn each_successor_changes_only_its_own_counters() {
    let mut first = read(MINIMAL).unwrap();
    (first.attempt, first.deferrals, first.priority, first.redeliveries) = (2, 3, 4, 5);
    let counters = |e: &Envelope| (e.attempt, e.deferrals, e.priority, e.redeliveries);
    assert_eq!(counters(&first.next_attempt()), (3, 3, 0, 0));
    assert_eq!(counters(&first.deferred(10)), (2, 4, 10, 0));
    assert_eq!(counters(&first.redelivered()), (2, 3, 4, 6));
    assert_eq!(first.next_attempt().job_id, first.job_id);
}

#[test]
fn counters_saturate() {
    let mut last = read(MINIMAL).unwrap();
    (last.attempt, last.deferrals, last.redeliveries) = (u32::MAX, u32::MAX, u32::MAX);
    assert_eq!(last.next_attempt().attempt, u32::MAX);
    assert_eq!(last.deferred(0).deferrals, u32::MAX);
    assert_eq!(last.redelivered().redeliveries, u32::MAX);
}

#[test]
fn age_counts_from_when_the_job_was_due() {
    let mut envelope = read(MINIMAL).unwrap();
    envelope.due_at_ms = Some(clock::now_ms() - 5_000);
    assert!((5..60).contains(&envelope.age().as_secs()));
    envelope.due_at_ms = Some(u64::MAX);
    assert_eq!(envelope.age(), Duration::ZERO);
}

#[test]
fn a_long_correlation_id_is_refused() {
    let envelope = |bytes| read(MINIMAL).unwrap().with_correlation_id("x".repeat(bytes));
    assert!(envelope(255).check().is_ok());
    assert!(envelope(256).check().unwrap_err().to_string().contains("256 bytes; 255"));
}

#[test]
fn a_payload_is_checked_only_where_it_gives_reason() {
    for text in [r#"{"a":"null [[[ \" 12345678901234567890","b":123456789012345678}"#, "[]", "true", "0.5"] {
        assert!(!wire::may_not_read_back(text), "{text}");
    }
    for text in [
        r#"{"1":2}"#,
        r#"{"a":{"-1":2}}"#,
        "null",
        r#"{"a":null}"#,
        "340282366920938463463374607431768211455",
        &"[".repeat(128),
    ] {
        assert!(wire::may_not_read_back(text), "{text}");
    }
}

proptest! {
    #[test]
    fn no_body_makes_decoding_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Envelope::from_bytes(&body);
    }

    #[test]
    fn what_is_written_is_read_back(
        counters in any::<(u32, u64, u32, u8, u32)>(), correlation in prop::option::of(".{0,20}"),
        due in any::<Option<u64>>(), metadata in prop::collection::btree_map(".{0,8}", ".{0,8}", 0..4),
        payload in ".{0,40}", unknown in any::<Option<i64>>(),
    ) {
        let mut envelope = Envelope::raw("job", "q", serde_json::value::to_raw_value(&payload).unwrap());
        envelope.attempt = counters.0.max(1);
        envelope.enqueued_at_ms = counters.1;
        (envelope.deferrals, envelope.priority, envelope.redeliveries) = (counters.2, counters.3, counters.4);
        envelope.correlation_id = correlation;
        (envelope.due_at_ms, envelope.metadata) = (due, metadata);
        envelope.unknown.extend(unknown.map(|n| ("later".to_owned(), serde_json::value::to_raw_value(&n).unwrap())));
        let text = written(&envelope);
        prop_assert_eq!(written(&Envelope::from_bytes(text.as_bytes()).unwrap()), text);
    }
}
