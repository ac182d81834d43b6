//! Changes of relations: all calls of one request together.

use std::collections::HashMap;

use crate::history::{About, Relates, RelationCall};

/// A change of relations. Retries count as one.
#[derive(Clone, Debug)]
pub(super) struct RelationWrite<'a> {
    pub(super) what: &'a About,
    /// When it was first sent: it took effect after this.
    pub(super) began: u64,
    /// When it was first acknowledged; else when the last call was given up or refused.
    pub(super) ended: u64,
    pub(super) fate: Fate<'a>,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    /// It was acknowledged with this result.
    Done(&'a Relates),
    /// Unknown; it may take effect at any time.
    Open,
    /// It was refused because of the present state, which it may have read after it had begun to take effect.
    Denied,
    /// It had no effect.
    Nothing,
}

impl RelationWrite<'_> {
    /// Of an acknowledged follow or its end.
    pub(super) const fn version(&self) -> Option<u64> {
        match self.fate {
            Fate::Done(Relates::Follows(version) | Relates::Ended(version)) => Some(*version),
            _ => None,
        }
    }
}

/// The changes among these calls, which are in the order in which they began.
pub(super) fn writes<'a>(calls: &[&'a RelationCall]) -> Vec<RelationWrite<'a>> {
    let (mut all, mut known): (Vec<RelationWrite<'a>>, HashMap<&str, usize, ahash::RandomState>) =
        Default::default();
    for call in calls.iter().filter(|call| changes(&call.what)) {
        let next = of(call);
        let at = call.request_id.as_deref().map(|id| *known.entry(id).or_insert(all.len()));
        match at.and_then(|at| all.get_mut(at)) {
            Some(write) => write.join(&next),
            None => all.push(next),
        }
    }
    all
}

/// Whether the call changes anything.
pub(super) const fn changes(what: &About) -> bool {
    matches!(what, About::Follow(_) | About::Unfollow(_) | About::Set(..))
}

impl<'a> RelationWrite<'a> {
    fn join(&mut self, again: &Self) {
        let (done, next) = (matches!(self.fate, Fate::Done(_)), matches!(again.fate, Fate::Done(_)));
        match (done, next) {
            (true, true) => self.ended = self.ended.min(again.ended),
            (true, false) => {}
            (false, true) => (self.ended, self.fate) = (again.ended, again.fate),
            (false, false) => {
                self.ended = self.ended.max(again.ended);
                self.fate = worse(self.fate, again.fate);
            }
        }
    }
}

const fn worse<'a>(one: Fate<'a>, other: Fate<'a>) -> Fate<'a> {
    match (one, other) {
        (Fate::Open, _) | (_, Fate::Open) => Fate::Open,
        (Fate::Denied, _) | (_, Fate::Denied) => Fate::Denied,
        _ => Fate::Nothing,
    }
}

fn of(call: &RelationCall) -> RelationWrite<'_> {
    let fate = match &call.outcome {
        Relates::Open(_) => Fate::Open,
        Relates::Refused(code) if code == "FAILED_PRECONDITION" => Fate::Denied,
        Relates::Refused(_) => Fate::Nothing,
        outcome => Fate::Done(outcome),
    };
    RelationWrite { what: &call.what, began: call.began, ended: call.ended, fate }
}
