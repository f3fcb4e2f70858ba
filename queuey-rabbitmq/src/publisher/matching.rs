//! Which publish on a channel a return belongs to, and when a publish is known to have arrived. Pure.
//!
//! The broker sends the return of a message before its confirm, and returns in the order of the publishes. The client
//! library hands each return out with the confirm that happens to resolve next, so a confirm alone says nothing: the
//! return of its own message may come with another one.
//!
//! What is certain: at the moment when a confirm has resolved, its message's return, where there is one, has been received.
//! It has come out with a confirm that had resolved by then, or it still waits behind others, all of which came earlier; one
//! of these belongs to a publish whose confirm had not resolved, for each confirm that does resolve takes a return along.
//! So look at all confirms once more, and judge by that moment before the look: a publish that had its confirm then has
//! arrived, when no return is known of it, nor of any publish that did not have its confirm then. One that got it during
//! the look must not count as settled: the return that it pushed out may have come with a confirm that was looked at before.
//! It stays until the next look, whatever it was told.

/// What has become of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in its queue.
    Arrived,
    /// There is no such queue.
    Returned,
    /// The broker would not have it.
    Refused,
    /// The channel died with it; it may have arrived.
    Unknown,
}

/// What a look at a confirm shows.
#[derive(Debug)]
pub(super) enum Seen<R> {
    Open,
    /// It has resolved, and a return came out with it: of whichever publish.
    Confirmed {
        acked: bool,
        returned: Option<R>,
    },
    /// It will never resolve. Where the message is known to be returned, the doubt stays for ever.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirm {
    Open,
    /// Resolved during this look.
    Acked(u64),
    Nacked(u64),
    Lost,
}

impl Confirm {
    fn had_come_before(self, look: u64) -> bool {
        matches!(self, Confirm::Acked(at) | Confirm::Nacked(at) if at < look)
    }
}

#[derive(Debug)]
struct Publish<T> {
    what: T,
    confirm: Confirm,
    returned: bool,
    told: bool,
}

/// The publishes of one channel that are not settled, in their order.
#[derive(Debug)]
pub(super) struct Matching<T> {
    publishes: Vec<Publish<T>>,
    look: u64,
    open: usize,
}

impl<T> Matching<T> {
    pub(super) fn new() -> Self {
        Matching { publishes: Vec::new(), look: 0, open: 0 }
    }

    pub(super) fn push(&mut self, what: T) {
        self.publishes.push(Publish { what, confirm: Confirm::Open, returned: false, told: false });
        self.open += 1;
    }

    /// How many have no confirm.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Those that have no confirm.
    pub(super) fn all_open(&mut self) -> impl Iterator<Item = &mut T> {
        let open = self.publishes.iter_mut().filter(|publish| publish.confirm == Confirm::Open);
        open.map(|publish| &mut publish.what)
    }

    /// Looks at all confirms that had not resolved; `is` finds the publish of a return. False where nothing is new.
    pub(super) fn look<R>(
        &mut self,
        mut see: impl FnMut(&mut T) -> Seen<R>,
        is: impl Fn(&T, &R) -> bool,
    ) -> bool {
        self.look += 1;
        let (before, mut returns) = (self.open, Vec::new());
        for publish in self.publishes.iter_mut().filter(|publish| publish.confirm == Confirm::Open) {
            publish.confirm = match see(&mut publish.what) {
                Seen::Open => continue,
                Seen::Confirmed { acked, returned } => {
                    returns.extend(returned);
                    if acked { Confirm::Acked(self.look) } else { Confirm::Nacked(self.look) }
                }
                Seen::Lost => Confirm::Lost,
            };
            self.open -= 1;
        }
        for returned in returns {
            if let Some(publish) = self.publishes.iter_mut().find(|publish| is(&publish.what, &returned)) {
                publish.returned = true;
            }
        }
        self.open < before
    }

    /// Tells the verdicts that are certain after the last look and were not told yet. Gives what is settled.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(&mut T, Verdict)) -> impl Iterator<Item = T> {
        let (look, doubt) = (self.look, self.is_in_doubt());
        for publish in self.publishes.iter_mut().filter(|publish| !publish.told) {
            if let Some(verdict) = publish.verdict(look, doubt) {
                publish.told = true;
                tell(&mut publish.what, verdict);
            }
        }
        let settled = self.publishes.extract_if(.., move |one| one.told && one.confirm.had_come_before(look));
        settled.map(|publish| publish.what)
    }

    /// Tells all verdicts that were not told yet, where no open confirm will be looked at any more. Gives what is left.
    pub(super) fn end(mut self, mut tell: impl FnMut(&mut T, Verdict)) -> impl Iterator<Item = T> {
        self.look += 1;
        let (look, doubt) = (self.look, self.is_in_doubt());
        for publish in self.publishes.iter_mut().filter(|publish| !publish.told) {
            let verdict = publish.verdict(look, doubt).unwrap_or(Verdict::Unknown);
            tell(&mut publish.what, verdict);
        }
        self.publishes.into_iter().map(|publish| publish.what)
    }

    fn is_in_doubt(&self) -> bool {
        self.publishes.iter().any(|one| one.returned && !one.confirm.had_come_before(self.look))
    }
}

impl<T> Publish<T> {
    fn verdict(&self, look: u64, doubt: bool) -> Option<Verdict> {
        match self.confirm {
            _ if self.returned => Some(Verdict::Returned),
            Confirm::Nacked(_) => Some(Verdict::Refused),
            confirm if confirm.had_come_before(look) && !doubt => Some(Verdict::Arrived),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
