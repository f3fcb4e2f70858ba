//! Middleware: what runs around every job.

use std::{fmt, future::Future, sync::Arc};

use crate::{BoxFuture, context::JobContext, job_error::JobResult};

/// Middleware around every job of a worker, the first one added outermost.
///
/// It sees the result, panics and timeouts included, and may replace it. A panic in it is a failed attempt.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use queuey::{JobContext, JobResult, Layer, Next};
///
/// struct Timing;
///
/// impl Layer for Timing {
///     async fn call(&self, ctx: JobContext, next: Next) -> JobResult {
///         let (job, start) = (ctx.job_type, std::time::Instant::now());
///         let result = next.run(ctx).await;
///         println!("{job} took {:?}", start.elapsed());
///         result
///     }
/// }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Runs around one job: `next.run(ctx)` goes on to the next layer or the handler.
    fn call(&self, ctx: JobContext, next: Next) -> impl Future<Output = JobResult> + Send;
}

/// Functions and closures are layers: `.layer(async |ctx: JobContext, next: Next| next.run(ctx).await)`.
impl<F, Fut> Layer for F
where
    F: Fn(JobContext, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult> + Send,
{
    fn call(&self, ctx: JobContext, next: Next) -> impl Future<Output = JobResult> + Send {
        self(ctx, next)
    }
}

/// The layers of a worker, the outermost first.
pub(crate) type Layers = Arc<[Arc<dyn ErasedLayer>]>;

/// What stands at the end of the way: the handler.
pub(crate) type End = Box<dyn FnOnce(JobContext) -> BoxFuture<'static, JobResult> + Send>;

/// The rest of the way: the layers further in, and the handler.
#[must_use = "the job does not run unless `run` is called"]
pub struct Next {
    layers: Layers,
    /// The layer that comes next.
    at: usize,
    end: End,
}

impl Next {
    pub(crate) fn new(layers: Layers, end: End) -> Self {
        Next { layers, at: 0, end }
    }

    /// Runs what is further in. What a layer changed in the context, they see.
    pub fn run(self, ctx: JobContext) -> BoxFuture<'static, JobResult> {
        match self.layers.get(self.at) {
            Some(layer) => layer.clone().call_boxed(ctx, Next { at: self.at + 1, ..self }),
            None => (self.end)(ctx),
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("layers_left", &(self.layers.len() - self.at)).finish_non_exhaustive()
    }
}

/// A [`Layer`] behind a pointer.
pub(crate) trait ErasedLayer: Send + Sync {
    fn call_boxed(self: Arc<Self>, ctx: JobContext, next: Next) -> BoxFuture<'static, JobResult>;
}

impl<L: Layer> ErasedLayer for L {
    fn call_boxed(self: Arc<Self>, ctx: JobContext, next: Next) -> BoxFuture<'static, JobResult> {
        Box::pin(async move { self.call(ctx, next).await })
    }
}
