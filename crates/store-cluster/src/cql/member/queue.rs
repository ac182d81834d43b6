//! Queues for member changes, one for each group. One task at a time decides a group's changes, many in one
//! step, because concurrent conditional writes to one partition would only refuse each other.

use std::collections::{HashMap, VecDeque};

use kith_store::{
    Applied, ChangeContext, GroupId, MEMBERS_AT_ONCE, MemberChange, MembersUpdated, Outcome, StoreError,
    UserId, Write,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::cql::{client::error::unavailable, request_key::RequestKey};

/// The most changes in one step, which one conditional write makes.
const STEP_MAX: usize = 50;
/// The most changes that wait for one group.
const WAITING_MAX: usize = 1_024;

/// How a change ended.
pub(in crate::cql) type ChangeResult = Result<Applied<MembersUpdated>, StoreError>;

/// A change that a caller waits for.
#[derive(Debug)]
pub(in crate::cql) struct PendingChange {
    pub(in crate::cql) change: MemberChange,
    pub(in crate::cql) terms: ChangeContext,
    pub(in crate::cql) write: Write,
    /// When the request was first made, if there is any.
    begun: Option<i64>,
    answer: oneshot::Sender<ChangeResult>,
}

impl PendingChange {
    /// A change, and where its answer is received.
    pub(in crate::cql) fn new(
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
        begun: Option<i64>,
    ) -> (Self, oneshot::Receiver<ChangeResult>) {
        let (answer, answered) = oneshot::channel();
        (Self { change, terms, write, begun, answer }, answered)
    }

    /// The users whose rows the decision needs, except for the owner.
    pub(in crate::cql) fn users(&self) -> impl Iterator<Item = UserId> {
        self.change.users().into_iter().chain(self.terms.by)
    }

    /// The request's key, if there is any.
    pub(in crate::cql) fn key(&self) -> Option<RequestKey<'_>> {
        let request = self.write.request.as_ref()?;
        self.begun.map(|begun| RequestKey { request, begun, now: self.write.now })
    }

    /// Sends the answer. A caller that is gone does not receive it.
    pub(in crate::cql) fn respond(self, answer: ChangeResult) {
        self.answer.send(answer).ok();
    }

    fn has_same_request(&self, other: &Self) -> bool {
        let id = |pending: &Self| pending.write.request.as_ref().map(|request| request.id.clone());
        id(self).is_some_and(|own| id(other) == Some(own))
    }
}

/// Waits for the answer to a change.
pub(in crate::cql) async fn await_answer(answered: oneshot::Receiver<ChangeResult>) -> ChangeResult {
    answered.await.unwrap_or_else(|_| Err(unavailable("the change was abandoned", Outcome::Unknown)))
}

/// All waiting changes. A group is in the map as long as a task decides its changes.
#[derive(Debug, Default)]
struct Waiting {
    groups: HashMap<GroupId, VecDeque<PendingChange>>,
    count: usize,
}

/// All groups' queues.
#[derive(Debug)]
pub(in crate::cql) struct ChangeQueue {
    waiting: Mutex<Waiting>,
    /// The most waiting changes, over all groups.
    waiting_max: usize,
}

impl ChangeQueue {
    pub(in crate::cql) fn new(waiting_max: usize) -> Self {
        Self { waiting: Mutex::default(), waiting_max }
    }

    /// Queues a change. Returns whether the caller has to start the task that decides the group's changes.
    /// Returns `Overloaded` if too many wait.
    pub(in crate::cql) fn push(&self, group: GroupId, pending: PendingChange) -> Result<bool, StoreError> {
        let mut waiting = self.waiting.lock();
        let before = waiting.groups.get(&group).map(VecDeque::len);
        if waiting.count >= self.waiting_max || before.is_some_and(|before| before >= WAITING_MAX) {
            return Err(StoreError::Overloaded);
        }
        waiting.count += 1;
        waiting.groups.entry(group).or_default().push_back(pending);
        Ok(before.is_none())
    }

    /// Consumes a group's changes.
    pub(in crate::cql) fn consumer(&self, group: GroupId) -> QueueConsumer<'_> {
        QueueConsumer { queue: self, group, ended: false }
    }
}

/// Takes a group's changes to decide them. At most one exists for each group.
#[derive(Debug)]
pub(in crate::cql) struct QueueConsumer<'a> {
    queue: &'a ChangeQueue,
    group: GroupId,
    ended: bool,
}

impl QueueConsumer<'_> {
    /// The changes for the next step, in the order of arrival. `None`: no change waits, and the consumer
    /// ends.
    pub(in crate::cql) fn next(&mut self) -> Option<Vec<PendingChange>> {
        let mut waiting = self.queue.waiting.lock();
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

impl Drop for QueueConsumer<'_> {
    /// If it is dropped before it has ended, waiting callers get an error, and the next change starts a new
    /// consumer.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut waiting = self.queue.waiting.lock();
        let left = waiting.groups.remove(&self.group).unwrap_or_default();
        waiting.count -= left.len();
    }
}

/// Takes the changes for one step: at most as many users as one change may name, and no request twice. Also
/// returns how many changes it took, including those whose callers are gone.
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
        if !step.is_empty() && (is_full || step.iter().any(|before| next.has_same_request(before))) {
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

    fn pending(count: i64) -> (PendingChange, oneshot::Receiver<ChangeResult>) {
        let terms = ChangeContext { by: None, members_max: 9, bans_max: 9, history: false };
        PendingChange::new(MemberChange::Add(users(count)), terms, Write::at(Timestamp(7)), None)
    }

    fn asked(id: &str) -> (PendingChange, oneshot::Receiver<ChangeResult>) {
        let (pending, answered) = pending(1);
        let request = Some(Request { id: id.parse().unwrap(), fingerprint: [7; 32] });
        (PendingChange { write: Write { request, ..pending.write }, begun: Some(7), ..pending }, answered)
    }

    fn sizes(consumer: &mut QueueConsumer<'_>) -> Vec<usize> {
        std::iter::from_fn(|| consumer.next()).map(|step| step.len()).collect()
    }

    #[test]
    fn group_has_one_consumer_at_a_time() {
        let queue = ChangeQueue::new(LARGE);
        let (first, second, other, later) = (pending(1), pending(1), pending(1), pending(1));
        assert!(queue.push(group(1), first.0).unwrap());
        assert!(!queue.push(group(1), second.0).unwrap(), "the group has a consumer");
        assert!(queue.push(group(2), other.0).unwrap(), "another group");
        let mut consumer = queue.consumer(group(1));
        assert_eq!(consumer.next().map(|step| step.len()), Some(2));
        assert!(consumer.next().is_none());
        drop(consumer);
        assert!(queue.push(group(1), later.0).unwrap());
    }

    #[test]
    fn step_bounds_changes_and_users() {
        let queue = ChangeQueue::new(LARGE);
        let mut waits = Vec::new();
        for count in [60, 40, 100, 1].into_iter().chain([1; 60]) {
            let (pending, answered) = pending(count);
            queue.push(group(1), pending).unwrap();
            waits.push(answered);
        }
        assert_eq!(sizes(&mut queue.consumer(group(1))), [2, 1, 50, 11]);
    }

    #[test]
    fn step_has_each_request_once() {
        let queue = ChangeQueue::new(LARGE);
        let mut waits = Vec::new();
        for id in ["a", "b", "a", "c"] {
            let (pending, answered) = asked(id);
            queue.push(group(1), pending).unwrap();
            waits.push(answered);
        }
        assert_eq!(sizes(&mut queue.consumer(group(1))), [2, 2]);
    }

    #[test]
    fn waiting_changes_are_bounded() {
        let queue = ChangeQueue::new(WAITING_MAX + 1);
        let mut waits = Vec::new();
        let mut push = |of| {
            let (pending, answered) = pending(1);
            waits.push(answered);
            queue.push(group(of), pending)
        };
        assert!((0..WAITING_MAX).all(|_| push(1).is_ok()));
        assert!(matches!(push(1), Err(StoreError::Overloaded)));
        assert!(push(2).is_ok());
        assert!(matches!(push(3), Err(StoreError::Overloaded)));
    }

    #[test]
    fn changes_of_gone_callers_are_dropped() {
        let queue = ChangeQueue::new(2);
        let (gone, stays) = (pending(1), pending(1));
        drop(gone.1);
        queue.push(group(1), gone.0).unwrap();
        queue.push(group(1), stays.0).unwrap();
        assert_eq!(sizes(&mut queue.consumer(group(1))), [1]);
        assert!(queue.push(group(1), pending(1).0).is_ok() && queue.push(group(1), pending(1).0).is_ok());
    }

    #[tokio::test]
    async fn dropped_consumer_fails_waiters_frees_group() {
        let queue = ChangeQueue::new(LARGE);
        let (waits, later) = (pending(1), pending(1));
        queue.push(group(1), waits.0).unwrap();
        drop(queue.consumer(group(1)));
        let error = await_answer(waits.1).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(queue.push(group(1), later.0).unwrap());
    }
}
