//! One subscription on one channel: made, drained, given up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt;
use lapin::{
    Channel, Consumer,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions},
    types::{FieldTable, ShortString},
};
use queuey_core::QueueConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    acks::{Acks, Signals},
    connection::Live,
    delivery::{Custody, Desk, Source},
    topology::DeclareError,
};

/// How long the broker may take to end a subscription.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A consumer tag is an AMQP short string.
const MAX_TAG: usize = 255;

/// A subscription that is under way.
pub(super) struct Attached {
    pub(super) live: Arc<Live>,
    pub(super) channel: Channel,
    pub(super) consumer: Consumer,
    pub(super) source: Arc<Source>,
    /// Fires when all of its deliveries are gone and their ends are written.
    pub(super) ended: CancellationToken,
    /// Fires when the broker delivers nothing more.
    quiet: CancellationToken,
    tag: ShortString,
}

impl Attached {
    /// Subscribes on a channel of its own, under a tag that was never used before.
    pub(super) async fn open(
        desk: &Arc<Desk>,
        config: &Arc<QueueConfig>,
        live: Arc<Live>,
        dropped: &CancellationToken,
    ) -> Result<Self, DeclareError> {
        let channel = live.channel().await.map_err(DeclareError::Lost)?;
        let tag = fresh_tag(&desk.context.options.connection_name, &config.name);
        let consumer = subscribe(&channel, config, &tag).await;
        let consumer = consumer.map_err(|error| DeclareError::of(error, &config.name))?;
        let lost = live.lost.child_token();
        let quiet = CancellationToken::new();
        let signals = Signals { lost: lost.clone(), dropped: dropped.clone(), quiet: quiet.clone() };
        let (acks, ended) = Acks::start(channel.clone(), config.prefetch, signals);
        let source = Source {
            config: config.clone(),
            desk: desk.clone(),
            acks,
            lost,
            cancelled: CancellationToken::new(),
        };
        Ok(Attached { live, channel, consumer, source: Arc::new(source), ended, quiet, tag })
    }

    /// Ends the subscription and hands back what was not passed on. The deliveries that were stay good.
    pub(super) async fn cancel(mut self) {
        let cancelling = self.channel.basic_cancel(self.tag.clone(), BasicCancelOptions::default());
        let drained = async {
            cancelling.await?;
            self.quiet.cancel();
            while let Some(received) = self.consumer.next().await {
                Custody::new(self.source.clone(), received?.delivery_tag).hand_back_now();
            }
            Ok::<(), lapin::Error>(())
        };
        if !matches!(tokio::time::timeout(CANCEL_TIMEOUT, drained).await, Ok(Ok(()))) {
            self.lose();
        }
    }

    /// Tells the broker that the tag is not used any more, although the broker has ended it itself: one of the 4.x series
    /// may go on to deliver to it.
    pub(super) async fn release(self) {
        self.source.cancelled.cancel();
        self.quiet.cancel();
        let cancelling = self.channel.basic_cancel(self.tag.clone(), BasicCancelOptions::default());
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancelling).await;
    }

    /// The channel is gone, and with it the claim on all that was not settled.
    pub(super) fn lose(self) {
        self.source.lost.cancel();
        let channel = self.channel;
        // Where it is not gone, it must be, or what was received over it stays out for ever.
        tokio::spawn(async move {
            let closing = channel.close(200, "lost".into());
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, closing).await;
        });
    }
}

async fn subscribe(channel: &Channel, config: &QueueConfig, tag: &ShortString) -> lapin::Result<Consumer> {
    channel.basic_qos(config.prefetch, BasicQosOptions::default()).await?;
    let queue = ShortString::from(config.name.as_str());
    channel.basic_consume(queue, tag.clone(), BasicConsumeOptions::default(), FieldTable::default()).await
}

/// A tag by which an operator knows the program and the queue; its number makes it unique on every connection.
fn fresh_tag(program: &str, queue: &str) -> ShortString {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = format!(".{}", NEXT.fetch_add(1, Relaxed));
    let mut tag = format!("{program}.{queue}");
    let end = (0..=MAX_TAG - number.len()).rev().find(|end| tag.is_char_boundary(*end)).unwrap_or(0);
    tag.truncate(end);
    ShortString::from(tag + &number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_program_and_queue_fits_and_is_never_used_twice() {
        let (first, second) = (fresh_tag("mailer 17", "emails"), fresh_tag("mailer 17", "emails"));
        assert!(first.as_str().starts_with("mailer 17.emails."));
        assert_ne!(first, second);
        assert!(fresh_tag(&"é".repeat(200), "q").as_str().len() <= MAX_TAG);
    }
}
