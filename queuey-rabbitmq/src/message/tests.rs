use super::*;
use proptest::prelude::*;
use serde_json::value::to_raw_value;

fn envelope() -> Envelope {
    let body = br#"{"job_id":"0190b2c0-0000-7000-8000-000000000000","job_type":"emails.send","queue":"q",
        "attempt":2,"enqueued_at_ms":1700000000999,"deferrals":3,"priority":4,"payload":{}}"#;
    Envelope::from_bytes(body).expect("an envelope")
}

fn headers(message: &Message) -> Vec<(String, AMQPValue)> {
    let table = message.properties.headers().clone().unwrap_or_default();
    table.inner().iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

fn death<'a>(reason: &'a str, detail: Option<&'a str>) -> Death<'a> {
    Death { queue: "q", dead_queue: "q.dead", cause: "fatal", reason, detail }
}

#[test]
fn a_job_has_these_properties_and_headers() {
    let message = Message::job(&envelope().with_correlation_id("c"), "q", true).expect("a message");
    let expected = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2)
        .with_message_id("0190b2c0-0000-7000-8000-000000000000".into())
        .with_type("emails.send".into())
        .with_priority(4)
        .with_timestamp(1_700_000_000)
        .with_correlation_id("c".into())
        .with_headers(message.properties.headers().clone().expect("headers"));
    assert_eq!(message.properties, expected);
    assert_eq!(
        headers(&message),
        [("x-attempt".into(), AMQPValue::LongUInt(2)), ("x-deferrals".into(), AMQPValue::LongUInt(3))]
    );
    let held = message.held(&"q.deferred.1000".into(), 17);
    assert_eq!(held.queue.as_str(), "q.deferred.1000");
    assert!(headers(&held).contains(&("x-available-at-ms".into(), AMQPValue::LongLongInt(17))));
    assert_eq!(held.body, message.body);
    let transient = Message::job(&envelope(), "q", false).expect("a message").at_priority(10);
    assert_eq!(
        (*transient.properties.delivery_mode(), *transient.properties.priority()),
        (Some(1), Some(10))
    );
}

#[test]
fn what_does_not_fit_is_cut_at_a_character_or_refused() {
    let mut long = envelope();
    long.job_type = "日".repeat(100);
    let message = Message::job(&long, "q", true).expect("a message");
    assert_eq!(message.properties.kind().as_ref().map(|kind| kind.as_str().len()), Some(255));
    let id = "c".repeat(256);
    assert!(matches!(
        Message::job(&long.with_correlation_id(id), "q", true),
        Err(Error::InvalidOption { .. })
    ));
    assert!(matches!(Message::job(&envelope(), &"q".repeat(256), true), Err(Error::InvalidQueue { .. })));
}

#[test]
fn a_dead_letter_says_why_in_a_bounded_header() {
    let reason = "é".repeat(100_000);
    let message = Message::dead(&envelope(), &death(&reason, None)).expect("a message");
    assert_eq!(message.queue.as_str(), "q.dead");
    let found: Vec<String> = headers(&message).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "x-attempt",
        "x-attempts",
        "x-dead-at",
        "x-death-cause",
        "x-death-reason",
        "x-deferrals",
        "x-original-queue",
    ];
    assert_eq!(found, expected);
    for (name, value) in headers(&message) {
        if let AMQPValue::LongString(text) = value {
            assert!(text.len() <= MAX_HEADER && std::str::from_utf8(text.as_bytes()).is_ok(), "{name}");
        }
    }
    assert_eq!(*message.body, envelope().to_bytes());
}

#[test]
fn a_malformed_copy_keeps_the_body_and_little_else() {
    let mut foreign_headers = FieldTable::default();
    for reserved in ["CC", "BCC", "x-death", "x-first-death-queue", "x-last-death-queue", "x-delivery-count"]
    {
        foreign_headers.insert(reserved.into(), AMQPValue::LongString("lie".into()));
    }
    foreign_headers.insert("keep".into(), AMQPValue::Boolean(true));
    foreign_headers.insert("large".into(), AMQPValue::LongString("x".repeat(40_000).into()));
    let mut deep = AMQPValue::Void;
    for _ in 0..50 {
        deep = AMQPValue::FieldArray(vec![deep].into());
    }
    foreign_headers.insert("deep".into(), deep);
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_user_id("mallory".into())
        .with_expiration("1".into())
        .with_priority(200)
        .with_delivery_mode(1)
        .with_message_id("theirs".into())
        .with_headers(foreign_headers);
    let foreign = Foreign { properties, body: b"\xff".to_vec() };
    let message = Message::malformed(foreign, &death("malformed envelope", Some("why"))).expect("a message");
    assert_eq!(*message.body, *b"\xff");
    let properties = &message.properties;
    assert_eq!(properties.content_type().as_ref().map(ShortString::as_str), Some("text/plain"));
    assert_eq!((properties.user_id(), properties.expiration(), *properties.priority()), (&None, &None, None));
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_ne!(properties.message_id().as_ref().map(ShortString::as_str), Some("theirs"));
    let found: Vec<String> = headers(&message).into_iter().map(|(name, _)| name).collect();
    let expected =
        ["keep", "x-dead-at", "x-death-cause", "x-death-detail", "x-death-reason", "x-original-queue"];
    assert_eq!(found, expected);
}

#[test]
fn the_brokers_count_is_read_in_every_width() {
    let counted = |value| {
        let mut headers = FieldTable::default();
        headers.insert(HEADER_DELIVERY_COUNT.into(), value);
        delivery_count(&BasicProperties::default().with_headers(headers))
    };
    assert_eq!(counted(AMQPValue::LongLongInt(3)), Some(3));
    assert_eq!(counted(AMQPValue::ShortShortUInt(3)), Some(3));
    assert_eq!(counted(AMQPValue::LongLongInt(-3)), Some(0));
    assert_eq!(counted(AMQPValue::LongLongInt(i64::MAX)), Some(u32::MAX));
    assert_eq!(counted(AMQPValue::Void), None);
    assert_eq!(delivery_count(&BasicProperties::default()), None);
}

proptest! {
    #[test]
    fn a_cut_fits_and_is_a_beginning(text in ".{0,100}", most in 0..300_usize) {
        let beginning = cut(&text, most);
        prop_assert!(beginning.len() <= most && text.starts_with(beginning));
        prop_assert!(text.len() <= most || beginning.len() + 4 > most);
    }

    #[test]
    fn every_envelope_becomes_a_message(job_type in ".{0,300}", label in ".{0,40}") {
        let envelope = Envelope::raw(job_type, "q", to_raw_value(&label).expect("JSON"));
        let message = Message::job(&envelope, "q", true).expect("a message");
        prop_assert_eq!(Envelope::from_bytes(&message.body).expect("an envelope").job_id, envelope.job_id);
    }
}
