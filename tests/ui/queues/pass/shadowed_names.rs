// M02
#![deny(warnings)]

/// Where every name that generated code could lean on is the user's own.
#[allow(dead_code, non_camel_case_types, non_upper_case_globals, unused_imports, unused_macros)]
mod shadows {
    pub type Result<T> = T;
    pub struct Option;
    pub struct String;
    pub struct Vec;
    pub struct Box;
    pub struct Duration;
    pub struct QueueConfig;
    pub struct RetryPolicy;
    pub struct QueueSet;
    pub struct str;
    pub struct u8;
    pub struct u16;
    pub struct u32;
    pub struct u64;
    pub struct usize;
    pub struct f64;
    pub struct bool;
    pub enum Answers {
        Ok,
        Err,
        Some,
        None,
    }
    pub use Answers::{Err, None, Ok, Some};
    pub mod core {}
    pub mod std {}
    pub mod alloc {}
    pub mod queuey {}
    pub const name: () = ();
    pub const job: () = ();
    pub static ctx: () = ();
    macro_rules! concat {
        () => {};
    }
    macro_rules! module_path {
        () => {};
    }
    macro_rules! file {
        () => {};
    }
    macro_rules! line {
        () => {};
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ::queuey::Queues)]
    #[queues(prefix = "shadowed")]
    pub enum Set {
        #[queue(
            name = "mails",
            prefetch = 5,
            durable = true,
            message_ttl = "30s",
            max_priority = 7,
            kind = "classic",
            redelivery_limit = 9,
            dead_letter_expired = true,
            max_deferrals = 3,
            retry(
                max_attempts = 4,
                backoff = "exponential",
                base = "2s",
                factor = 3.0,
                max = "1m",
                jitter = 0.5,
                give_up_after = "1h"
            )
        )]
        Mails,
        #[queue(kind = "quorum", ack_timeout = "2h", retry(backoff = "steps", delays = ["1s", 2], jitter = false))]
        Reports,
    }

    #[derive(::serde::Serialize, ::serde::Deserialize, ::queuey::Job)]
    #[job(queue = Set::Mails, timeout = "9s", max_deferrals = 2, retry(backoff = "fixed", delay = "3s"))]
    pub struct Send;

    #[derive(::serde::Serialize, ::serde::Deserialize, ::queuey::Job)]
    #[job(queue = Set::Reports, name = "named")]
    pub struct Named;

    #[::queuey::handler(concurrency = 3, timeout = "5s")]
    pub async fn send(
        _: Send,
        ::queuey::State(number): ::queuey::State<::core::primitive::u8>,
        _: ::queuey::JobContext,
    ) -> ::core::result::Result<(), ::queuey::JobError> {
        ::core::assert_eq!(number, 5);
        ::core::result::Result::Ok(())
    }
}

mod clean {
    use queuey::prelude::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    #[queues(prefix = "shadowed")]
    pub enum Set {
        #[queue(
            name = "mails",
            prefetch = 5,
            durable = true,
            message_ttl = "30s",
            max_priority = 7,
            kind = "classic",
            redelivery_limit = 9,
            dead_letter_expired = true,
            max_deferrals = 3,
            retry(
                max_attempts = 4,
                backoff = "exponential",
                base = "2s",
                factor = 3.0,
                max = "1m",
                jitter = 0.5,
                give_up_after = "1h"
            )
        )]
        Mails,
        #[queue(kind = "quorum", ack_timeout = "2h", retry(backoff = "steps", delays = ["1s", 2], jitter = false))]
        Reports,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Mails, timeout = "9s", max_deferrals = 2, retry(backoff = "fixed", delay = "3s"))]
    pub struct Send;
}

use queuey::prelude::*;

fn main() {
    for (shadowed, clean) in shadows::Set::all().iter().zip(clean::Set::all()) {
        assert_eq!(format!("{:?}", shadowed.config()), format!("{:?}", clean.config()));
    }
    assert_eq!(shadows::Set::from_name("shadowed.reports"), Some(shadows::Set::Reports));
    assert_eq!(shadows::Send::NAME.replace("shadows", "clean"), clean::Send::NAME);
    assert_eq!(shadows::Named::NAME, "named");
    assert_eq!(shadows::Send::timeout(), clean::Send::timeout());
    assert_eq!(shadows::Send::max_deferrals(), clean::Send::max_deferrals());
    assert_eq!(format!("{:?}", shadows::Send::retry_policy()), format!("{:?}", clean::Send::retry_policy()));
}
