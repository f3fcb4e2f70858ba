//! One job name, one type: a payload is never read as another type than it was written as.

use std::collections::HashMap;

use tracing::warn;

use crate::{
    error::{BuildError, Place},
    job::{JobRegistration, JobType},
    queue::QueueSet,
    worker::registry::Registry,
};

/// A job type of the set, and where the program speaks of it.
#[derive(Clone, Copy)]
struct Known {
    job: &'static str,
    job_type: JobType,
    place: Place,
}

/// Refuses names that stand for two types of the set, whatever their queues.
///
/// Sets don't see each other: the same name in another set is fine, and worth a warning where even the queue is shared.
pub(crate) fn check_job_names<Q: QueueSet>(registry: &Registry, mistakes: &mut Vec<BuildError>) {
    let declared = JobRegistration::all::<Q>().map(|job| Known {
        job: job.name,
        job_type: job.job_type,
        place: job.place,
    });
    let handled = registry.iter().map(|handler| Known {
        job: handler.job,
        job_type: handler.job_type,
        place: handler.origin.place,
    });
    let mut known: Vec<Known> = declared.chain(handled).collect();
    // The order of registrations is the linker's.
    known.sort_by_key(|known| (known.job, known.place.file, known.place.line));
    mistakes.extend(clashes(&known));
    warn_of_shared_queues::<Q>(&known);
}

/// The first two types of each name that has several.
fn clashes(known: &[Known]) -> Vec<BuildError> {
    let mut types: HashMap<&str, (Known, bool)> = HashMap::new();
    let mut clashes = Vec::new();
    for second in known {
        let (first, refused) = types.entry(second.job).or_insert((*second, false));
        if first.job_type != second.job_type && !std::mem::replace(refused, true) {
            clashes.push(BuildError::DuplicateJob {
                job: second.job,
                first: (first.job_type.path(), first.place),
                second: (second.job_type.path(), second.place),
            });
        }
    }
    clashes
}

fn warn_of_shared_queues<Q: QueueSet>(known: &[Known]) {
    for other in JobRegistration::all_others::<Q>().filter(|other| Q::from_name(other.queue()).is_some()) {
        if let Some(own) = known.iter().find(|own| own.job == other.name) {
            warn!(
                job = own.job,
                queue = other.queue(),
                "two queue sets share this queue and this job name: payloads of `{}` ({}) are read as `{}` ({}) here",
                other.job_type.path(),
                other.place,
                own.job_type.path(),
                own.place
            );
        }
    }
}
