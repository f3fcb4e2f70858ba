//! Which publish of a batch a return belongs to, and when a publish is known to have arrived. Pure.
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

use std::collections::HashMap;

use lapin::types::ShortString;

/// What a return is known by: message id and routing key.
pub(super) type Key = (ShortString, ShortString);

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirm {
    Open,
    /// Resolved during this look, or between it and the next.
    Acked(u32),
    Nacked(u32),
    Lost,
}

impl Confirm {
    fn had_come_before(self, look: u32) -> bool {
        matches!(self, Confirm::Acked(at) | Confirm::Nacked(at) if at < look)
    }
}

#[derive(Debug, Clone, Copy)]
struct Publish {
    confirm: Confirm,
    returned: bool,
    told: bool,
}

/// The publishes of one batch on one channel, by their place in it.
#[derive(Debug)]
pub(super) struct Matching {
    publishes: Vec<Publish>,
    look: u32,
    /// Filled when the first return comes.
    places: HashMap<Key, usize>,
}

impl Matching {
    pub(super) fn new(publishes: usize) -> Self {
        let publish = Publish { confirm: Confirm::Open, returned: false, told: false };
        Matching { publishes: vec![publish; publishes], look: 0, places: HashMap::new() }
    }

    /// A confirm has resolved.
    pub(super) fn confirmed(&mut self, place: usize, acked: bool) {
        self.resolve(place, if acked { Confirm::Acked(self.look) } else { Confirm::Nacked(self.look) });
    }

    /// A confirm will never resolve. Where its message is known to be returned, the doubt stays for ever.
    pub(super) fn lost(&mut self, place: usize) {
        self.resolve(place, Confirm::Lost);
    }

    fn resolve(&mut self, place: usize, confirm: Confirm) {
        debug_assert_eq!(self.publishes[place].confirm, Confirm::Open);
        self.publishes[place].confirm = confirm;
    }

    /// A return came out with some confirm. `keys` gives those of all publishes, in their order.
    pub(super) fn returned(&mut self, key: &Key, keys: impl Iterator<Item = Key>) {
        if self.places.is_empty() {
            self.places = keys.zip(0..).collect();
        }
        if let Some(place) = self.places.get(key) {
            self.publishes[*place].returned = true;
        }
    }

    pub(super) fn is_open(&self, place: usize) -> bool {
        self.publishes[place].confirm == Confirm::Open
    }

    /// All confirms that had not resolved are being looked at once more. Gives the number of the look.
    pub(super) fn look_again(&mut self) -> u32 {
        self.look += 1;
        self.look
    }

    /// The verdicts that are certain after a look and were not told yet.
    pub(super) fn after_look(&mut self, look: u32) -> Vec<(usize, Verdict)> {
        let doubt = self.is_in_doubt(look);
        self.tell(|publish| publish.verdict(look, doubt))
    }

    /// All verdicts that were not told yet, once no confirm is open.
    pub(super) fn at_the_end(&mut self) -> Vec<(usize, Verdict)> {
        let look = self.look_again();
        let doubt = self.is_in_doubt(look);
        self.tell(|publish| Some(publish.verdict(look, doubt).unwrap_or(Verdict::Unknown)))
    }

    fn is_in_doubt(&self, look: u32) -> bool {
        let returns = !self.places.is_empty();
        returns && self.publishes.iter().any(|one| one.returned && !one.confirm.had_come_before(look))
    }

    fn tell(&mut self, verdict: impl Fn(&Publish) -> Option<Verdict>) -> Vec<(usize, Verdict)> {
        let mut verdicts = Vec::new();
        for (place, publish) in self.publishes.iter_mut().enumerate().filter(|(_, publish)| !publish.told) {
            if let Some(verdict) = verdict(publish) {
                publish.told = true;
                verdicts.push((place, verdict));
            }
        }
        verdicts
    }
}

impl Publish {
    fn verdict(&self, look: u32, doubt: bool) -> Option<Verdict> {
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
