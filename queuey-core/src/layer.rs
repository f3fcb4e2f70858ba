//! Middleware: what runs around every job.

use std::future::Future;

use crate::{BoxFuture, context::JobContext, job_error::JobResult};

/// Middleware around every job of a worker, the first one added outermost.
///
/// It sees the result, panics and timeouts included, and may replace it. A panic in it is a failed attempt.
///
/// ```
/// use queuey_core::{JobContext, JobResult, Layer, Next};
///
/// struct Timing;
///
/// impl Layer for Timing {
///     async fn call(&self, ctx: JobContext, next: Next<'_>) -> JobResult {
///         let (job, start) = (ctx.job_type, std::time::Instant::now());
///         let result = next.run(ctx).await;
///         println!("{job} took {:?}", start.elapsed());
///         result
///     }
/// }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Runs around one job: `next.run(ctx)` goes on to the next layer or the handler.
    fn call(&self, ctx: JobContext, next: Next<'_>) -> impl Future<Output = JobResult> + Send;
}

/// Closures are layers: `.layer(|ctx, next: Next<'_>| next.run(ctx))`.
impl<F> Layer for F
where
    F: for<'a> Fn(JobContext, Next<'a>) -> BoxFuture<'a, JobResult> + Send + Sync + 'static,
{
    fn call(&self, ctx: JobContext, next: Next<'_>) -> impl Future<Output = JobResult> + Send {
        self(ctx, next)
    }
}

/// The rest of the way: the layers further in, and the handler.
pub struct Next<'a> {
    layers: &'a [Box<dyn ErasedLayer>],
    end: Box<dyn FnOnce(JobContext) -> BoxFuture<'a, JobResult> + Send + 'a>,
}

impl<'a> Next<'a> {
    pub(crate) fn new(
        layers: &'a [Box<dyn ErasedLayer>],
        end: Box<dyn FnOnce(JobContext) -> BoxFuture<'a, JobResult> + Send + 'a>,
    ) -> Self {
        Next { layers, end }
    }

    /// Runs what is further in. What a layer changed in the context, they see.
    pub fn run(self, ctx: JobContext) -> BoxFuture<'a, JobResult> {
        match self.layers.split_first() {
            Some((layer, layers)) => layer.call_boxed(ctx, Next { layers, end: self.end }),
            None => (self.end)(ctx),
        }
    }
}

impl std::fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

/// A [`Layer`] behind a pointer.
pub(crate) trait ErasedLayer: Send + Sync {
    fn call_boxed<'a>(&'a self, ctx: JobContext, next: Next<'a>) -> BoxFuture<'a, JobResult>;
}

impl<L: Layer> ErasedLayer for L {
    fn call_boxed<'a>(&'a self, ctx: JobContext, next: Next<'a>) -> BoxFuture<'a, JobResult> {
        Box::pin(self.call(ctx, next))
    }
}
