//! Input and times that are not as one would like them: huge reasons, foreign headers, and a broker in trouble.

use lapin::{
    BasicProperties,
    types::{AMQPValue, DecimalValue, FieldArray, FieldTable},
};
use queuey::{prelude::*, topology};
use queuey_tests::{
    Admin, Message, Node, Proxy, Running, captured_at, eventually, queue_set, shared_broker, until,
};

use crate::scene::{SECOND, clear, connect, dead, hold, table};

mod huge_reasons {
    use super::*;

    queue_set!(Set { Work: |queue| queue.prefetch(1) });

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    enum How {
        Fatal,
        Exhausted,
        Panics,
        Chain,
    }

    #[derive(Clone, Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task {
        how: How,
        /// Bytes before the long part, so that a cut can fall anywhere in a character.
        offset: usize,
        length: usize,
    }

    impl Task {
        fn text(&self) -> String {
            let mut text = "\0\u{1b}\r\n"[..self.offset].to_owned();
            text.extend(std::iter::repeat_n('\u{1F980}', self.length / 4));
            text
        }
    }

    /// An error with a long row of sources.
    #[derive(Debug)]
    struct Link(String, Option<Box<Link>>);

    impl std::fmt::Display for Link {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl std::error::Error for Link {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|link| link as _)
        }
    }

    async fn fail(job: Task) -> JobResult {
        let text = job.text();
        Err(match job.how {
            How::Fatal => JobError::fatal_msg(text),
            How::Exhausted => JobError::retryable_msg(text),
            How::Panics => panic!("{text}"),
            How::Chain => {
                let links = (0..1_000).fold(None, |link, _| Some(Box::new(Link("because".into(), link))));
                JobError::fatal(Link(text, links))
            }
        })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn p05_a_huge_reason_is_cut_and_costs_no_connection() {
        let Some(url) = shared_broker() else { return };
        let (admin, dead) = (Admin::new(&url), dead(Set::Work.name()));
        let (backend, events) = connect(&url, RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let handler = FnHandler::<Task, _>::new(async |job: Task, _| fail(job).await);
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        let mut jobs = Vec::new();
        for (how, length) in [
            (How::Fatal, 1_000),
            (How::Fatal, 130_000),
            (How::Exhausted, 300_000),
            (How::Fatal, 5_000_000),
            (How::Exhausted, 5_000_000),
            (How::Panics, 300_000),
            (How::Chain, 130_000),
        ] {
            jobs.extend((0..4).map(|offset| Task { how, offset, length }));
        }
        let mut ids = Vec::new();
        for job in &jobs {
            ids.push(producer.enqueue(job).await.unwrap().to_string());
        }
        worker.until_ended(jobs.len() as u64).await;
        let letters = admin.take_all(&dead).await;
        assert_eq!(letters.len(), jobs.len());
        for (job, id) in jobs.iter().zip(ids) {
            let of_job = |letter: &&Message| {
                letter.properties.message_id().as_ref().is_some_and(|found| found.as_str() == id)
            };
            let letter = letters.iter().find(of_job).expect("one for each job");
            let headers = letter.properties.headers().clone().unwrap();
            let Some(AMQPValue::LongString(reason)) = headers.inner().get(topology::HEADER_DEATH_REASON)
            else {
                panic!("{headers:?}");
            };
            let reason = std::str::from_utf8(reason.as_bytes()).expect("whole characters");
            assert!(
                reason.len() <= 8 * 1024 && reason.contains(&job.text()[..job.offset + 40]),
                "{reason:?}"
            );
        }
        assert_eq!((worker.stats().settle_failures, events.lost()), (0, 0));
        worker.stop().await;
        clear(&backend, &admin, &[Set::Work.name()], &[]).await;
    }
}

mod foreign_headers {
    use super::*;

    const WAIT: std::time::Duration = SECOND;

    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(3, WAIT)) });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task;

    /// A value of every type the client can write.
    fn every_type() -> Vec<AMQPValue> {
        let inner = FieldTable::default();
        let nested = (0..5)
            .fold(AMQPValue::FieldTable(inner), |value, _| AMQPValue::FieldTable(table(&[("in", value)])));
        vec![
            AMQPValue::Boolean(true),
            AMQPValue::ShortShortInt(-1),
            AMQPValue::ShortShortUInt(255),
            AMQPValue::ShortInt(-2),
            AMQPValue::ShortUInt(65_535),
            AMQPValue::LongInt(-3),
            AMQPValue::LongUInt(u32::MAX),
            AMQPValue::LongLongInt(i64::MIN),
            // The broker takes neither NaN nor infinity.
            AMQPValue::Float(f32::MIN),
            AMQPValue::Double(f64::MIN_POSITIVE),
            AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 314 }),
            AMQPValue::LongString("\u{0}\u{1F980}".into()),
            AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void, AMQPValue::Boolean(false)])),
            AMQPValue::Timestamp(u64::MAX),
            AMQPValue::ByteArray(vec![0xFF, 0].into()),
            AMQPValue::Void,
            nested,
        ]
    }

    /// Properties as no client of ours would set them, with 60 kB of headers.
    fn properties(timestamp: u64) -> BasicProperties {
        let mut headers = FieldTable::default();
        for (number, value) in every_type().into_iter().enumerate() {
            headers.insert(format!("foreign-{number}").as_str().into(), value);
        }
        for number in 0..60 {
            headers.insert(
                format!("long-{number}").as_str().into(),
                AMQPValue::LongString("x".repeat(1_000).into()),
            );
        }
        // What the broker or we would read something into.
        headers.insert("x-death".into(), AMQPValue::LongString("none".into()));
        headers.insert(topology::HEADER_ATTEMPT.into(), AMQPValue::LongString("many".into()));
        headers.insert(topology::HEADER_DELIVERY_COUNT.into(), AMQPValue::LongLongInt(99));
        BasicProperties::default()
            .with_headers(headers)
            .with_priority(200)
            .with_expiration("600000".into())
            .with_reply_to("nobody".into())
            .with_timestamp(timestamp)
            .with_app_id("foreign".into())
    }

    /// The names of the headers of a message, sorted.
    fn headers(message: &Message) -> Vec<String> {
        let headers = message.properties.headers().clone().unwrap_or_default();
        headers.inner().keys().map(ToString::to_string).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn p08_foreign_headers_end_with_the_first_hop_and_nothing_piles_up() {
        let Some(url) = shared_broker() else { return };
        let (admin, queue) = (Admin::new(&url), Set::Work.name());
        let (backend, events) = connect(&url, RabbitMqOptions::default()).await;
        let handler = FnHandler::<Task, _>::new(async |_, ctx: JobContext| match ctx.attempt {
            1 | 2 => Err(JobError::retryable_msg("not yet")),
            _ => Err(JobError::fatal_msg("broken")),
        });
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        let envelope = queuey::Envelope::raw("task", queue, serde_json::value::to_raw_value(&Task).unwrap());
        for timestamp in [0, 1 << 55] {
            admin.publish(queue, &envelope.to_bytes(), properties(timestamp)).await;
        }
        // A message that is no job keeps of its headers what is safe to keep.
        admin.publish(queue, b"no job", properties(0)).await;
        let held = hold(queue, WAIT);
        let ours = [topology::HEADER_ATTEMPT, topology::HEADER_AVAILABLE_AT_MS, topology::HEADER_DEFERRALS];
        let mut seen = 0;
        while worker.ended() < 2 {
            for message in admin.look_at_all(&held).await {
                assert_eq!(headers(&message), ours);
                assert_eq!(
                    (*message.properties.priority(), message.properties.expiration()),
                    (Some(0), &None)
                );
                seen += 1;
            }
            tokio::time::sleep(SECOND / 20).await;
        }
        assert!(seen > 0, "none was seen waiting");
        assert_eq!(worker.stats().retried, 4);
        eventually("all dead", || async { admin.ready(&dead(queue)).await == 3 }).await;
        let mut letters = admin.take_all(&dead(queue)).await;
        let no_job = letters.iter().position(|letter| letter.body == b"no job").expect("it is kept");
        let no_job = letters.remove(no_job);
        for letter in &letters {
            let headers = headers(letter);
            assert!(headers.iter().all(|name| name.starts_with("x-")), "{headers:?}");
        }
        let kept = headers(&no_job);
        assert!(kept.iter().any(|name| name == "foreign-0") && kept.len() < 70, "{kept:?}");
        assert_eq!((events.lost(), worker.stats().settle_failures), (0, 0));
        worker.stop().await;
        clear(&backend, &admin, &[queue], &[WAIT]).await;
    }
}

mod told {
    use super::*;

    queue_set!(Set { Work, Lost });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task {
        secret: String,
    }

    async fn until_health(backend: &RabbitMqBackend, what: &str, wanted: impl Fn(&queuey::Health) -> bool) {
        eventually(what, || async { wanted(&backend.health().await) }).await;
    }

    /// Connected, consuming, blocked, reconnecting, suspended and at work, each seen from outside and told from the others.
    #[tokio::test]
    async fn o12_every_trouble_can_be_told_from_every_other() {
        let Some(node) = Node::start().await else { return };
        node.ctl(&["add_user", "mailer", "hunter2-pass"]).await;
        node.ctl(&["set_permissions", "mailer", ".*", ".*", ".*"]).await;
        let (log, _guard) = captured_at("trace,lapin=off,amq_protocol=off,hyper=off");
        let (admin, proxy) = (Admin::new(node.url()), Proxy::start(node.url()).await);
        let url = proxy.url().replace("guest:guest", "mailer:hunter2-pass");
        let options = RabbitMqOptions::default().blocked_timeout(SECOND).publish_timeout(2 * SECOND);
        let (backend, _) = connect(&url, options).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let handler =
            FnHandler::<Task, _>::with(gate.clone(), async |gate: Arc<tokio::sync::Semaphore>, _, _| {
                gate.acquire().await.map_err(JobError::retryable)?.forget();
                Ok(())
            });
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        let (work, lost) = (Set::Work.name(), Set::Lost.name());
        let consuming = |health: &queuey::Health| health.consuming == [lost, work];
        until_health(&backend, "all is well", |health| {
            health.connected && consuming(health) && health.blocked.is_none() && health.reconnecting.is_none()
        })
        .await;
        let job = Task { secret: "hunter2-payload".into() };
        producer.enqueue(&job).await.unwrap();
        until("one runs", || worker.stats().in_flight == 1).await;
        gate.add_permits(1);
        worker.until_ended(1).await;
        assert_eq!(worker.stats().in_flight, 0);

        node.memory_alarm(true).await;
        let error = producer.enqueue(&job).await.expect_err("enqueued in an alarm");
        assert!(
            matches!(error, queuey::Error::Unconfirmed { .. } | queuey::Error::Blocked { .. }),
            "{error}"
        );
        until_health(&backend, "it is blocked", |health| {
            health.blocked.as_ref().is_some_and(|why| why.contains("memory"))
                && health.connected
                && consuming(health)
        })
        .await;
        node.memory_alarm(false).await;
        until_health(&backend, "it is not blocked", |health| health.blocked.is_none()).await;

        let before = log.text().lines().count();
        let start = std::time::Instant::now();
        proxy.refuse_new().await;
        proxy.cut();
        until_health(&backend, "it reconnects", |health| {
            let attempts =
                health.reconnecting.as_ref().is_some_and(|r| r.attempts >= 3 && !r.reason.is_empty());
            !health.connected && attempts && health.consuming.is_empty()
        })
        .await;
        let error = producer.enqueue(&job).await.expect_err("enqueued without a connection");
        assert!(matches!(error, queuey::Error::NotConnected), "{error}");
        let (lines, seconds) = (log.text().lines().count() - before, start.elapsed().as_secs() as usize + 1);
        assert!(lines <= 20 + 10 * seconds, "{lines} lines in {seconds} s");

        admin.delete(lost).await;
        admin.declare(lost, table(&[("x-max-priority", AMQPValue::LongInt(3))])).await.unwrap();
        proxy.accept_new().await;
        until_health(&backend, "one queue is suspended", |health| {
            health.connected
                && health.consuming == [work]
                && health.suspended.iter().any(|(queue, _)| queue == lost)
        })
        .await;
        gate.add_permits(10);
        producer.enqueue(&job).await.unwrap();
        until("it runs", || worker.ended() >= 2).await;
        worker.stop().await;
        backend.close().await.unwrap();
        assert!(!backend.health().await.connected);
        for said in
            ["connection to the broker lost", "the broker takes no messages", "can't be declared again"]
        {
            assert!(log.lines_with(&[said]) > 0, "{said}: {}", log.text());
        }
        assert_eq!(log.lines_with(&["hunter2"]), 0, "{}", log.text());
    }
}
