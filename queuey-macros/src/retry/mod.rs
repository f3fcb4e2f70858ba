//! `retry(…)`, which queues and jobs have in common.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use parse::Retry;
