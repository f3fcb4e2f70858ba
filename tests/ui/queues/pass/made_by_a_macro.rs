#![deny(warnings)]

use queuey::prelude::*;

macro_rules! app {
    ($vis:vis $set:ident, $prefix:literal, $prefetch:expr, $ttl:literal, [$($queue:ident => $job:ident),*], $arg:ty) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
        #[queues(prefix = $prefix)]
        $vis enum $set {
            $(#[queue(prefetch = $prefetch, message_ttl = $ttl, dead_letter_expired = true)] $queue),*
        }

        $(
            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = $set::$queue, timeout = $ttl)]
            $vis struct $job;
        )*

        mod handlers {
            use super::*;
            $(
                #[allow(non_snake_case)]
                #[handler(concurrency = $prefetch)]
                $vis async fn $job(_job: super::$job, _arg: $arg) -> Result<(), JobError> {
                    Ok(())
                }
            )*
        }
    };
}

macro_rules! job {
    ($queue:path, $name:expr, $item:item) => {
        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = $queue, name = $name)]
        $item
    };
}

macro_rules! handled {
    ($item:item) => {
        #[handler]
        $item
    };
}

app!(pub(crate) Set, "made", 3, "30s", [Mails => SendMail, Images => Resize], State<u8>);
job!(Set::Mails, "given", struct Given;);
handled! {
    async fn given(_job: Given, _ctx: JobContext) {}
}

fn main() {
    assert_eq!(Set::all().iter().map(Set::name).collect::<Vec<_>>(), ["made.mails", "made.images"]);
    assert_eq!(Set::Mails.config().prefetch, 3);
    assert_eq!(SendMail::timeout(), Some(std::time::Duration::from_secs(30)));
    assert_eq!((Given::NAME, Given::QUEUE), ("given", Set::Mails));
    let _ = (SendMail, Resize, Given);
}
