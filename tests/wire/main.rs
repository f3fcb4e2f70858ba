//! The wire format, byte for byte. What is pinned here may be added to, and never changed.

use std::time::Duration;

use queuey::{Envelope, prelude::*};
use serde_json::value::RawValue;

/// A golden file without the newline at its end.
fn golden(text: &'static str) -> &'static str {
    text.trim_end_matches('\n')
}

const FULL: &str = include_str!("golden/envelope_full.json");
const MINIMAL: &str = include_str!("golden/envelope_minimal.json");

#[test]
fn golden_envelopes_come_back_byte_for_byte() {
    for text in [FULL, MINIMAL] {
        let envelope = Envelope::from_bytes(golden(text).as_bytes()).unwrap();
        assert_eq!(String::from_utf8(envelope.to_bytes()).unwrap(), golden(text));
    }
}

#[test]
fn every_successor_carries_payload_and_unknown_fields_untouched() {
    let envelope = Envelope::from_bytes(golden(FULL).as_bytes()).unwrap();
    let tail = golden(FULL).split_once(r#""payload""#).unwrap().1;
    for successor in [envelope.next_attempt(), envelope.deferred(10), envelope.redelivered()] {
        let text = String::from_utf8(successor.to_bytes()).unwrap();
        assert!(text.ends_with(tail), "{text}");
        assert!(text.contains(r#""due_at_ms":1700000060000"#), "{text}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "wire")]
enum WireQueues {
    Emails,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(queue = WireQueues::Emails, name = "emails.send")]
struct Numbers {
    big: u128,
    small: i128,
}

#[tokio::test]
async fn what_a_producer_writes_is_the_documented_form() {
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<WireQueues>::new(backend.clone()).await.unwrap();
    let job = Numbers { big: u128::MAX, small: i128::MIN };
    let options =
        EnqueueOptions::after(Duration::from_secs(60)).priority(3).correlation_id("c").metadata("k", "v");
    let id = producer.enqueue_with(&job, options).await.unwrap();
    let held = backend.deferred("wire.emails").remove(0);
    let (enqueued, due) = (held.enqueued_at_ms, held.due_at_ms.unwrap());
    assert!((60_000..70_000).contains(&(due - enqueued)));
    assert_eq!(
        String::from_utf8(held.to_bytes()).unwrap(),
        format!(
            r#"{{"job_id":"{id}","job_type":"emails.send","queue":"wire.emails","attempt":1,"enqueued_at_ms":{enqueued},"deferrals":0,"priority":3,"correlation_id":"c","due_at_ms":{due},"metadata":{{"k":"v"}},"payload":{{"big":340282366920938463463374607431768211455,"small":-170141183460469231731687303715884105728}}}}"#
        )
    );
    assert_eq!(held.decode::<Numbers>().unwrap(), job);
    assert_eq!(id.get_version_num(), 7);
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = WireQueues::Emails)]
struct Score {
    value: f64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = WireQueues::Emails)]
#[serde(tag = "kind")]
enum Tagged {
    Amount { cents: u128 },
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = WireQueues::Emails)]
struct Optional {
    value: Option<u32>,
}

#[tokio::test]
async fn a_job_that_its_own_type_cannot_read_back_is_refused() {
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<WireQueues>::new(backend.clone()).await.unwrap();
    let nan = producer.enqueue(&Score { value: f64::NAN }).await.unwrap_err();
    let tagged = producer.enqueue(&Tagged::Amount { cents: u128::MAX }).await.unwrap_err();
    for error in [nan, tagged] {
        assert!(matches!(error, queuey::Error::Serde { .. }), "{error}");
        assert!(error.to_string().contains("Score") || error.to_string().contains("Tagged"), "{error}");
    }
    producer.enqueue(&Tagged::Amount { cents: 5 }).await.unwrap();
    producer.enqueue(&Optional { value: None }).await.unwrap();
    assert_eq!(backend.pending("wire.emails").len(), 2);
}

#[test]
fn a_payload_keeps_every_digit_and_the_order_of_its_keys() {
    let text = r#"{"z":1.10,"a":12345678901234567890123,"z":2}"#;
    let payload = RawValue::from_string(text.to_owned()).unwrap();
    let envelope = Envelope::raw("job", "q", payload);
    let back = Envelope::from_bytes(&envelope.to_bytes()).unwrap();
    assert_eq!(back.payload.get(), text);
}
