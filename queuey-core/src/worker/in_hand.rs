//! The delivery of a running job, where both the job's task and a shutdown can reach it: a handler that blocks its
//! thread can't be aborted, but its delivery can be handed back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::{BoxFuture, backend::Delivery, context::Losable};

/// Holds a delivery while its job runs.
pub(crate) struct InHand {
    pub(crate) job_id: Uuid,
    pub(crate) queue: usize,
    delivery: Mutex<Option<Box<dyn Delivery>>>,
}

impl InHand {
    pub(crate) fn new(job_id: Uuid, queue: usize) -> Self {
        InHand { job_id, queue, delivery: Mutex::new(None) }
    }

    pub(crate) fn hold(&self, delivery: Box<dyn Delivery>) {
        *self.lock() = Some(delivery);
    }

    /// Takes it for settling; `None` where it was taken already.
    pub(crate) fn take(&self) -> Option<Box<dyn Delivery>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Delivery>>> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Losable for InHand {
    fn lost(&self) -> BoxFuture<'static, ()> {
        match &*self.lock() {
            Some(delivery) => delivery.lost(),
            None => Box::pin(std::future::pending()),
        }
    }
}
