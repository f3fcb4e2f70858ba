//! The operator sees what is there, and changes nothing that he was not asked to.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use queuey_tests::{Admin, QueueState, shared_broker, unique};

use super::declare;

#[tokio::test]
async fn a_message_is_taken_as_it_was_published() {
    let Some(url) = shared_broker() else { return };
    let (admin, queue) = (Admin::new(&url), unique("admin", "taken"));
    declare(&admin, &queue).await;
    let mut headers = FieldTable::default();
    headers.insert("x-foreign".into(), AMQPValue::Double(0.5));
    let properties =
        BasicProperties::default().with_headers(headers).with_app_id("t".into()).with_priority(3);
    for body in [&b"\xFF\0"[..], b""] {
        admin.publish(&queue, body, properties.clone()).await;
    }
    let messages = admin.take_all(&queue).await;
    let bodies: Vec<_> = messages.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [&b"\xFF\0"[..], b""]);
    assert!(messages.iter().all(|message| message.properties == properties && !message.redelivered));
    assert_eq!(admin.ready(&queue).await, 0);
    admin.delete(&queue).await;
}

#[tokio::test]
async fn looking_leaves_all_messages_in_their_order() {
    let Some(url) = shared_broker() else { return };
    let (admin, queue) = (Admin::new(&url), unique("admin", "looked_at"));
    declare(&admin, &queue).await;
    for body in [b"a", b"b", b"c"] {
        admin.publish(&queue, body, BasicProperties::default()).await;
    }
    for redelivered in [false, true] {
        let messages = admin.look_at_all(&queue).await;
        let bodies: Vec<_> = messages.iter().map(|message| &message.body[..]).collect();
        assert_eq!(bodies, [b"a", b"b", b"c"]);
        assert!(messages.iter().all(|message| message.redelivered == redelivered));
    }
    assert_eq!(admin.queue(&queue).await, Some(QueueState { ready: 3, consumers: 0 }));
    admin.delete(&queue).await;
}

#[tokio::test]
async fn a_missing_queue_is_told_from_an_empty_one() {
    let Some(url) = shared_broker() else { return };
    let (admin, queue) = (Admin::new(&url), unique("admin", "missing"));
    assert_eq!(admin.queue(&queue).await, None);
    assert_eq!(admin.take_all(&queue).await, []);
    admin.delete(&queue).await;
    assert!(!admin.exists(&queue).await);

    declare(&admin, &queue).await;
    assert_eq!(admin.queue(&queue).await, Some(QueueState { ready: 0, consumers: 0 }));
    // A refusal closes its channel and no more.
    assert!(admin.declare(&queue, FieldTable::default()).await.is_err());
    admin.delete(&queue).await;
    assert!(!admin.exists(&queue).await);
}
