#![deny(warnings)]

mod outer {
    use queuey::prelude::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(crate) enum Open {
        Mails,
    }

    pub mod inner {
        use queuey::prelude::*;

        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
        enum Private {
            Mails,
        }

        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = Private::Mails)]
        struct Hidden;

        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = super::Open::Mails)]
        pub(in crate::outer) struct Shown;

        #[handler]
        async fn hidden(_: Hidden) {}

        #[handler]
        pub(super) async fn shown(_: Shown) {}

        pub fn queues() -> usize {
            let _ = Hidden;
            Private::all().len()
        }
    }

    pub async fn call() {
        inner::shown(inner::Shown).await;
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = self::Open::Mails)]
    pub(crate) struct Send;
}

use queuey::{Job, QueueSet};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    outer::call().await;
    assert_eq!(outer::Open::all().len() + outer::inner::queues(), 2);
    assert!(outer::Send::NAME.ends_with("::outer::Send"));
    let _ = outer::Send;
}
