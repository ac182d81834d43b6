//! Changes to relations: all calls with one request together.

use std::collections::HashMap;

use crate::history::{RelationCall, RelationOutcome, RelationRequest};

/// A change to relations. Retries count as the same change.
#[derive(Clone, Debug)]
pub(super) struct RelationWrite<'a> {
    pub(super) what: &'a RelationRequest,
    /// When it was first sent: it took effect after this.
    pub(super) began: u64,
    /// When it was first acknowledged; else when the last call was given up or refused.
    pub(super) ended: u64,
    pub(super) outcome: WriteOutcome<'a>,
}

/// The outcome that a change had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome<'a> {
    /// It was acknowledged with this result.
    Done(&'a RelationOutcome),
    /// Unknown; it may take effect at any time.
    Open,
    /// It was refused because of the present state, which it may have read after it had begun to take effect.
    Denied,
    /// It had no effect.
    Nothing,
}

impl RelationWrite<'_> {
    /// The version that an acknowledged follow, or its end, has.
    pub(super) const fn version(&self) -> Option<u64> {
        match self.outcome {
            WriteOutcome::Done(RelationOutcome::Follows(version) | RelationOutcome::Ended(version)) => {
                Some(*version)
            }
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
pub(super) const fn changes(what: &RelationRequest) -> bool {
    matches!(what, RelationRequest::Follow(_) | RelationRequest::Unfollow(_) | RelationRequest::Set(..))
}

impl<'a> RelationWrite<'a> {
    fn join(&mut self, again: &Self) {
        let (done, next) =
            (matches!(self.outcome, WriteOutcome::Done(_)), matches!(again.outcome, WriteOutcome::Done(_)));
        match (done, next) {
            (true, true) => self.ended = self.ended.min(again.ended),
            (true, false) => {}
            (false, true) => (self.ended, self.outcome) = (again.ended, again.outcome),
            (false, false) => {
                self.ended = self.ended.max(again.ended);
                self.outcome = worse(self.outcome, again.outcome);
            }
        }
    }
}

const fn worse<'a>(one: WriteOutcome<'a>, other: WriteOutcome<'a>) -> WriteOutcome<'a> {
    match (one, other) {
        (WriteOutcome::Open, _) | (_, WriteOutcome::Open) => WriteOutcome::Open,
        (WriteOutcome::Denied, _) | (_, WriteOutcome::Denied) => WriteOutcome::Denied,
        _ => WriteOutcome::Nothing,
    }
}

fn of(call: &RelationCall) -> RelationWrite<'_> {
    let outcome = match &call.outcome {
        RelationOutcome::Open(_) => WriteOutcome::Open,
        RelationOutcome::Refused(code) if code == "FAILED_PRECONDITION" => WriteOutcome::Denied,
        RelationOutcome::Refused(_) => WriteOutcome::Nothing,
        outcome => WriteOutcome::Done(outcome),
    };
    RelationWrite { what: &call.what, began: call.began, ended: call.ended, outcome }
}
