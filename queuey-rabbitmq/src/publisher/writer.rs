//! One channel and the task that alone writes to it.

use std::{pin::Pin, sync::Arc, time::Duration};

use lapin::{
    Channel, Confirmation,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use queuey_core::{Error, Result};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::warn;

use super::request::Request;
use crate::{
    connection::{Link, Live},
    error::{ACCESS_REFUSED, Failure, Refusal, with_sources},
    message::Message,
};

/// A confirm that takes longer than this is waited for beside the channel's work.
const OVERDUE: Duration = Duration::from_secs(1);

/// The reply code of a broker that ends connections for reasons of its own.
const CONNECTION_FORCED: u16 = 320;

/// How often a message may take its connection down before it is taken for the cause.
const MAX_BREAKS: u32 = 3;

/// What the writers of a publisher share.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) link: Link,
    /// What is to be written; each writer takes the next one.
    pub(super) requests: Arc<Mutex<mpsc::Receiver<Request>>>,
    /// Where a request goes back to whose channel died while it was waited for aside.
    pub(super) again: mpsc::WeakSender<Request>,
    /// Bounds how many channels wait for an overdue confirm.
    pub(super) aside: Arc<Semaphore>,
}

/// A channel with confirms, and the connection it is on.
#[derive(Clone)]
struct Line {
    channel: Channel,
    live: Arc<Live>,
}

/// What became of a message that was handed to the channel.
enum Written {
    Answered(Result<()>),
    /// The channel died with it; the message may be there.
    Unknown,
}

type Writing = Pin<Box<dyn Future<Output = Written> + Send>>;

/// Writes until nobody can ask any more.
pub(super) async fn write_all(desk: Desk) {
    let mut line = None;
    loop {
        let request = desk.requests.lock().await.recv().await;
        let Some(request) = request else { return };
        line = carry(&desk, line.take(), request).await;
    }
}

/// Publishes one message, again after every loss, until its outcome is known or nobody waits for it. Gives the channel
/// back where it is still good.
async fn carry(desk: &Desk, mut line: Option<Line>, mut request: Request) -> Option<Line> {
    let mut breaks = 0;
    loop {
        let opened = tokio::select! {
            biased;
            () = request.given_up() => return line,
            opened = open_line(&desk.link, line.take()) => opened,
        };
        let open = match opened {
            Ok(open) => open,
            Err(error) => {
                request.answer(Err(error));
                return None;
            }
        };
        if !request.hand_over() {
            return Some(open);
        }
        let mut writing = write(open.clone(), request.message.clone(), breaks);
        match wait(desk, &mut writing, &mut request).await {
            Waited::For(Written::Answered(result)) => {
                request.answer(result);
                return Some(open);
            }
            Waited::For(Written::Unknown) => breaks += 1,
            Waited::TooLong(permit) => {
                tokio::spawn(wait_aside(desk.again.clone(), open, writing, request, permit));
                return None;
            }
            Waited::ForNobody => return None,
        }
    }
}

enum Waited {
    For(Written),
    /// The confirm is overdue, and there is room to wait for it aside.
    TooLong(OwnedSemaphorePermit),
    /// The caller has gone, and the confirm is overdue.
    ForNobody,
}

async fn wait(desk: &Desk, writing: &mut Writing, request: &mut Request) -> Waited {
    loop {
        match tokio::time::timeout(OVERDUE, writing.as_mut()).await {
            Ok(written) => return Waited::For(written),
            // Where the broker takes nothing at all, another channel would be no better.
            Err(_) if desk.link.state().blocked.is_some() => {}
            Err(_) if request.is_given_up() => return Waited::ForNobody,
            Err(_) => {
                if let Ok(permit) = desk.aside.clone().try_acquire_owned() {
                    return Waited::TooLong(permit);
                }
            }
        }
    }
}

/// Waits for an overdue confirm while the writer goes on with a new channel.
async fn wait_aside(
    again: mpsc::WeakSender<Request>,
    line: Line,
    writing: Writing,
    mut request: Request,
    _permit: OwnedSemaphorePermit,
) {
    let queue = request.message.queue.clone();
    warn!(queue = queue.as_str(), "a publish was not confirmed for a second: still waiting for it, aside");
    let written = tokio::select! {
        written = writing => Some(written),
        () = request.given_up() => None,
    };
    match written {
        Some(Written::Answered(result)) => request.answer(result),
        Some(Written::Unknown) => match again.upgrade() {
            Some(again) => drop(again.send(request).await),
            None => request.answer(Err(Error::ShutDown)),
        },
        None => {}
    }
    drop(line);
}

/// The channel at hand where it is good, else a new one; waits for a connection that takes messages.
async fn open_line(link: &Link, line: Option<Line>) -> Result<Line> {
    loop {
        let live = link.ready().await?;
        if let Some(line) = &line
            && Arc::ptr_eq(&line.live, &live)
            && line.channel.status().connected()
        {
            return Ok(line.clone());
        }
        match with_confirms(&live).await {
            Ok(channel) => return Ok(Line { channel, live }),
            // The connection broke under it; wait for the next one.
            Err(error) => {
                tracing::debug!(error = with_sources(&error), "no channel to publish on");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn with_confirms(live: &Live) -> lapin::Result<Channel> {
    let channel = live.channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

/// Publishes on a channel that nobody else writes to, and awaits the confirm.
fn write(line: Line, message: Arc<Message>, breaks: u32) -> Writing {
    Box::pin(async move {
        match publish(&line.channel, &message).await {
            Ok(confirmation) => Written::Answered(judge(&message, confirmation)),
            Err(error) => refused(&message, &error, breaks),
        }
    })
}

async fn publish(channel: &Channel, message: &Message) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let (queue, properties) = (message.queue.clone(), message.properties.clone());
    channel.basic_publish("".into(), queue, options, &message.body, properties).await?.await
}

/// A return comes before the confirm of its message, and is known by message id and routing key.
fn judge(message: &Message, confirmation: Confirmation) -> Result<()> {
    let confirmed = confirmation.is_ack();
    match confirmation.take_message() {
        Some(returned)
            if returned.routing_key == message.queue
                && returned.properties.message_id().as_ref() == Some(&message.id) =>
        {
            Err(message.unroutable())
        }
        _ if confirmed => Ok(()),
        _ => Err(Error::Refused { queue: message.queue.to_string() }),
    }
}

/// The message was alone on its channel: what the channel was closed for, it is the cause of.
fn refused(message: &Message, error: &lapin::Error, breaks: u32) -> Written {
    let Some(refusal) = Refusal::of(error) else { return Written::Unknown };
    if let Some((size, limit)) = refusal.too_large() {
        return Written::Answered(Err(Error::TooLarge { size, limit }));
    }
    let soft = error.is_amqp_soft_error();
    if soft && refusal.code == ACCESS_REFUSED {
        return Written::Answered(Err(Error::AccessRefused { what: refusal.text }));
    }
    if soft || (refusal.code != CONNECTION_FORCED && breaks + 1 >= MAX_BREAKS) {
        let what = format!("the broker would not have a message for queue `{}`", message.queue);
        return Written::Answered(Err(Failure::caused(what, error.clone())));
    }
    Written::Unknown
}
