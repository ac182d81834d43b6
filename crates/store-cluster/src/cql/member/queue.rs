//! Changes of members that wait for their group. Changes of one group are decided by one task at a time, many in one
//! step: concurrent conditional writes of one partition would only refuse each other.

use std::collections::{HashMap, VecDeque};

use kith_store::{
    Applied, ChangeContext, GroupId, MEMBERS_AT_ONCE, MemberChange, MembersUpdated, Outcome, StoreError,
    UserId, Write,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::cql::{client::error::unavailable, idempotency::RequestKey};

/// Maximum changes in one step.
const STEP_MAX: usize = 50;
/// Changes that wait for one group.
const WAITING_MAX: usize = 1_024;

/// The result of a change.
pub(in crate::cql) type ChangeResult = Result<Applied<MembersUpdated>, StoreError>;

/// A change that a caller waits for.
#[derive(Debug)]
pub(in crate::cql) struct PendingChange {
    pub(in crate::cql) change: MemberChange,
    pub(in crate::cql) terms: ChangeContext,
    pub(in crate::cql) write: Write,
    /// When its request was first made, if it has one.
    begun: Option<i64>,
    answer: oneshot::Sender<ChangeResult>,
}

impl PendingChange {
    /// A wish, and the receiver of its answer.
    pub(in crate::cql) fn new(
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
        begun: Option<i64>,
    ) -> (Self, oneshot::Receiver<ChangeResult>) {
        let (answer, answered) = oneshot::channel();
        (Self { change, terms, write, begun, answer }, answered)
    }

    /// The users that are needed for the decision, except for the owner.
    pub(in crate::cql) fn users(&self) -> impl Iterator<Item = UserId> {
        self.change.users().into_iter().chain(self.terms.by)
    }

    /// The key of its request, if it has one.
    pub(in crate::cql) fn key(&self) -> Option<RequestKey<'_>> {
        let request = self.write.request.as_ref()?;
        self.begun.map(|begun| RequestKey { request, begun })
    }

    /// Sends the answer. A caller that is gone does not receive it.
    pub(in crate::cql) fn respond(self, answer: ChangeResult) {
        self.answer.send(answer).ok();
    }

    fn is_of_request(&self, other: &Self) -> bool {
        let id = |wish: &Self| wish.write.request.as_ref().map(|request| request.id.clone());
        id(self).is_some_and(|own| id(other) == Some(own))
    }
}

/// Waits for the answer to a wish.
pub(in crate::cql) async fn answer(answered: oneshot::Receiver<ChangeResult>) -> ChangeResult {
    answered.await.unwrap_or_else(|_| Err(unavailable("the change was given up", Outcome::Unknown)))
}

/// All waiting changes. A group is in the map as long as a task decides for it.
#[derive(Debug, Default)]
struct Waiting {
    groups: HashMap<GroupId, VecDeque<PendingChange>>,
    count: usize,
}

/// The queues of all groups.
#[derive(Debug)]
pub(in crate::cql) struct ChangeQueue {
    waiting: Mutex<Waiting>,
    /// Maximum waiting changes of all groups.
    most: usize,
}

impl ChangeQueue {
    pub(in crate::cql) fn new(most: usize) -> Self {
        Self { waiting: Mutex::default(), most }
    }

    /// Queues a wish; returns whether the caller has to start a task that decides.
    pub(in crate::cql) fn push(&self, group: GroupId, wish: PendingChange) -> Result<bool, StoreError> {
        let mut waiting = self.waiting.lock();
        let before = waiting.groups.get(&group).map(VecDeque::len);
        if waiting.count >= self.most || before.is_some_and(|before| before >= WAITING_MAX) {
            return Err(StoreError::Overloaded);
        }
        waiting.count += 1;
        waiting.groups.entry(group).or_default().push_back(wish);
        Ok(before.is_none())
    }

    /// Begins to decide for a group.
    pub(in crate::cql) fn turn(&self, group: GroupId) -> Turn<'_> {
        Turn { wishes: self, group, ended: false }
    }
}

/// The right to decide for a group.
#[derive(Debug)]
pub(in crate::cql) struct Turn<'a> {
    wishes: &'a ChangeQueue,
    group: GroupId,
    ended: bool,
}

impl Turn<'_> {
    /// The next changes, in the order of arrival; `None`: nothing waits, and the turn has ended.
    pub(in crate::cql) fn next(&mut self) -> Option<Vec<PendingChange>> {
        let mut waiting = self.wishes.waiting.lock();
        let Waiting { groups, count } = &mut *waiting;
        let step = groups.get_mut(&self.group).map(step_of);
        let (step, taken) = step.unwrap_or_default();
        *count -= taken;
        if step.is_empty() {
            groups.remove(&self.group);
            self.ended = true;
            return None;
        }
        Some(step)
    }
}

impl Drop for Turn<'_> {
    /// If it was dropped early, waiters get an error, and the next caller begins a new turn.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut waiting = self.wishes.waiting.lock();
        let left = waiting.groups.remove(&self.group).unwrap_or_default();
        waiting.count -= left.len();
    }
}

/// The changes of one step: as many users as one change may name, and no request twice. Returns how many it took,
/// including those whose callers are gone.
fn step_of(queue: &mut VecDeque<PendingChange>) -> (Vec<PendingChange>, usize) {
    let before = queue.len();
    let (mut step, mut users) = (Vec::new(), 0);
    while let Some(next) = queue.front() {
        if next.answer.is_closed() {
            queue.pop_front();
            continue;
        }
        users += next.change.users().len();
        let is_full = step.len() >= STEP_MAX || users > MEMBERS_AT_ONCE;
        if !step.is_empty() && (is_full || step.iter().any(|before| next.is_of_request(before))) {
            break;
        }
        step.extend(queue.pop_front());
    }
    (step, before - queue.len())
}

#[cfg(test)]
mod tests {
    use kith_store::{Request, Timestamp};

    use super::*;

    const LARGE: usize = 100_000;

    fn group(id: i64) -> GroupId {
        GroupId::new(id).unwrap()
    }

    fn users(count: i64) -> Vec<UserId> {
        (1..=count).map(|id| UserId::new(id).unwrap()).collect()
    }

    fn wish(count: i64) -> (PendingChange, oneshot::Receiver<ChangeResult>) {
        let terms = ChangeContext { by: None, members_max: 9, bans_max: 9, history: false };
        PendingChange::new(MemberChange::Add(users(count)), terms, Write::at(Timestamp(7)), None)
    }

    fn asked(id: &str) -> (PendingChange, oneshot::Receiver<ChangeResult>) {
        let (wish, answered) = wish(1);
        let request = Some(Request { id: id.parse().unwrap(), fingerprint: [7; 32] });
        (PendingChange { write: Write { request, ..wish.write }, begun: Some(7), ..wish }, answered)
    }

    fn sizes(turn: &mut Turn<'_>) -> Vec<usize> {
        std::iter::from_fn(|| turn.next()).map(|step| step.len()).collect()
    }

    #[test]
    fn one_decides_for_a_group_until_nothing_waits() {
        let wishes = ChangeQueue::new(LARGE);
        let (first, second, other, later) = (wish(1), wish(1), wish(1), wish(1));
        assert!(wishes.push(group(1), first.0).unwrap());
        assert!(!wishes.push(group(1), second.0).unwrap(), "somebody does already");
        assert!(wishes.push(group(2), other.0).unwrap(), "of another group");
        let mut turn = wishes.turn(group(1));
        assert_eq!(turn.next().map(|step| step.len()), Some(2));
        assert!(turn.next().is_none());
        drop(turn);
        assert!(wishes.push(group(1), later.0).unwrap());
    }

    #[test]
    fn a_step_has_bounds() {
        let wishes = ChangeQueue::new(LARGE);
        let mut waits = Vec::new();
        for count in [60, 40, 100, 1].into_iter().chain([1; 60]) {
            let (wish, answered) = wish(count);
            wishes.push(group(1), wish).unwrap();
            waits.push(answered);
        }
        assert_eq!(sizes(&mut wishes.turn(group(1))), [2, 1, 50, 11]);
    }

    #[test]
    fn a_request_is_in_a_step_once() {
        let wishes = ChangeQueue::new(LARGE);
        let mut waits = Vec::new();
        for id in ["a", "b", "a", "c"] {
            let (wish, answered) = asked(id);
            wishes.push(group(1), wish).unwrap();
            waits.push(answered);
        }
        assert_eq!(sizes(&mut wishes.turn(group(1))), [2, 2]);
    }

    #[test]
    fn what_waits_is_bounded_for_a_group_and_for_all() {
        let wishes = ChangeQueue::new(WAITING_MAX + 1);
        let mut waits = Vec::new();
        let mut push = |of| {
            let (wish, answered) = wish(1);
            waits.push(answered);
            wishes.push(group(of), wish)
        };
        assert!((0..WAITING_MAX).all(|_| push(1).is_ok()));
        assert!(matches!(push(1), Err(StoreError::Overloaded)));
        assert!(push(2).is_ok());
        assert!(matches!(push(3), Err(StoreError::Overloaded)));
    }

    #[test]
    fn who_has_gone_does_not_wait_any_more() {
        let wishes = ChangeQueue::new(2);
        let (gone, stays) = (wish(1), wish(1));
        drop(gone.1);
        wishes.push(group(1), gone.0).unwrap();
        wishes.push(group(1), stays.0).unwrap();
        assert_eq!(sizes(&mut wishes.turn(group(1))), [1]);
        assert!(wishes.push(group(1), wish(1).0).is_ok() && wishes.push(group(1), wish(1).0).is_ok());
    }

    #[tokio::test]
    async fn cut_turn_answers_waiters_and_next_one_runs() {
        let wishes = ChangeQueue::new(LARGE);
        let (waits, later) = (wish(1), wish(1));
        wishes.push(group(1), waits.0).unwrap();
        drop(wishes.turn(group(1)));
        let told = answer(waits.1).await.unwrap_err();
        assert_eq!(told.outcome(), Outcome::Unknown);
        assert!(wishes.push(group(1), later.0).unwrap());
    }
}
