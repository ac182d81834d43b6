//! A group whose members send messages, and the sent messages.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use kith_proto::{
    group::v1::Group,
    member::v1::{AddMembersRequest, RemoveMembersRequest, member_service_client::MemberServiceClient},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{FORBIDDEN, MEMBERS, PreparedCall, STORED, Workload};
use crate::{
    faults::answered::{call, make_group},
    history::{Draft, LoggedMessage, MessageOutcome, MessageRequest, SendOutcome},
};

/// The pause after a failed call, and after a call that was refused because the user is not a member.
const PAUSE: Duration = Duration::from_millis(20);
/// A send with an unknown outcome may still be stored this long after it was given up.
const LATE: Duration = Duration::from_secs(15);

/// A group with an owner and users who are removed and come back.
#[derive(Debug)]
pub(super) struct RemovalGroup {
    pub(super) state: Arc<Workload>,
    pub(super) id: i64,
    pub(super) owner: i64,
    pub(super) members: Vec<RemovedUser>,
}

/// A user who is removed and comes back.
#[derive(Debug)]
pub(super) struct RemovedUser {
    pub(super) user: i64,
    /// When it was not in.
    pub(super) absences: Mutex<Vec<Absence>>,
    sends: Mutex<Vec<SendAttempt>>,
}

/// The time from a removal's acknowledgement until the next join began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub(super) from: Instant,
    /// `None`: it lasts.
    pub(super) until: Option<Instant>,
}

/// A message that a user tried to send.
#[derive(Clone, Copy, Debug)]
struct SendAttempt {
    value: u64,
    began: Instant,
    ended: Instant,
    is_open: bool,
}

impl RemovalGroup {
    /// Creates the group with this number, with only its owner.
    ///
    /// # Errors
    /// If it is not made.
    pub(super) async fn create(state: &Arc<Workload>, id: i64) -> Result<Self> {
        let first = (id - 1) * (MEMBERS + 1) + 1;
        let group = Group { group_id: id, name: "talking".to_owned(), creator_id: first, ..Group::default() };
        make_group(&state.nodes, group, Vec::new()).await?;
        let member = |user| RemovedUser { user, absences: Mutex::default(), sends: Mutex::default() };
        let members = (first + 1..=first + MEMBERS).map(member).collect();
        Ok(Self { state: Arc::clone(state), id, owner: first, members })
    }

    /// Has a user send, one message after the other, through all nodes by turns.
    pub(super) async fn send_repeatedly(self: Arc<Self>, member: usize) -> Result<()> {
        let Some(member) = self.members.get(member) else { bail!("there is no such member") };
        let nodes = self.state.nodes.iter().enumerate().cycle();
        for (node, _) in nodes {
            if self.state.progress.has_enough() {
                return Ok(());
            }
            if !matches!(self.send_as(member, node).await, SendOutcome::At(_)) {
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Sends a member's message through a node, and records when.
    pub(super) async fn send_as(&self, member: &RemovedUser, node: usize) -> SendOutcome {
        let (value, began) = (self.state.value(), Instant::now());
        let outcome = self.send(member.user, value, node).await;
        let is_open = matches!(outcome, SendOutcome::Open(_));
        member.sends.lock().push(SendAttempt { value, began, ended: Instant::now(), is_open });
        match &outcome {
            SendOutcome::Refused(code) if code == "PERMISSION_DENIED" => {}
            SendOutcome::Refused(code) | SendOutcome::Open(code) => self.state.fail(code),
            SendOutcome::At(_) => {}
        }
        outcome
    }

    /// Sends a message without an id.
    pub(super) async fn send(&self, sender: i64, value: u64, node: usize) -> SendOutcome {
        let conversation = self.conversation();
        let request = MessageRequest::Send(vec![Draft { conversation, sender, value, silent: false }]);
        let asked = PreparedCall { request, named: false };
        match asked.send(self.state.nodes[node].clone()).await {
            MessageOutcome::Sent(results) => {
                results.into_iter().next().unwrap_or_else(|| SendOutcome::Open("INTERNAL".to_owned()))
            }
            MessageOutcome::Open(code) => SendOutcome::Open(code),
            MessageOutcome::Refused(code) => SendOutcome::Refused(code),
            MessageOutcome::Read { .. } | MessageOutcome::Marked(_) => {
                SendOutcome::Open("INTERNAL".to_owned())
            }
        }
    }

    /// Adds a user, or removes it, first through this node.
    ///
    /// # Errors
    /// If no node does it.
    pub(super) async fn change(&self, user: i64, comes: bool, node: usize, request_id: &str) -> Result<()> {
        let (group_id, user_ids, request_id) = (self.id, vec![user], request_id.to_owned());
        let changed = if comes {
            let request = AddMembersRequest { group_id, user_ids, request_id };
            self.state.call(node, request, call!(MemberServiceClient::add_members)).await.0.map(drop)
        } else {
            let request = RemoveMembersRequest { group_id, user_ids, request_id, ..Default::default() };
            self.state.call(node, request, call!(MemberServiceClient::remove_members)).await.0.map(drop)
        };
        changed.with_context(|| format!("group {group_id}: user {user} comes: {comes}"))
    }

    pub(super) fn conversation(&self) -> String {
        format!("g{}", self.id)
    }

    /// Searches the log for messages that were sent while their sender was not a member.
    pub(super) fn judge(&self, logs: &BTreeMap<String, Vec<LoggedMessage>>) {
        let log = logs.get(&self.conversation()).map_or(&[][..], Vec::as_slice);
        let by_value: BTreeMap<u64, u64> =
            log.iter().filter_map(|message| Some((message.value?, message.seq))).collect();
        for member in &self.members {
            for sent in member.while_absent() {
                self.state.count(FORBIDDEN, 1);
                if let Some(seq) = by_value.get(&sent.value) {
                    self.add_violation(STORED, &format!("user {}: {sent:?} has number {seq}", member.user));
                }
            }
        }
    }

    pub(super) fn add_violation(&self, kind: &'static str, what: &str) {
        let group = self.id;
        self.state.add_violation(kind, || format!("group {group}: {what}"));
    }
}

impl RemovedUser {
    /// The messages that it sent after a removal was acknowledged and before the next join began.
    fn while_absent(&self) -> Vec<SendAttempt> {
        let absences = self.absences.lock();
        let sends = self.sends.lock();
        let is_forbidden = |sent: &&SendAttempt| {
            let before = absences.partition_point(|absence| absence.from < sent.began);
            before > 0 && absences[before - 1].covers(sent)
        };
        sends.iter().filter(is_forbidden).copied().collect()
    }
}

impl Absence {
    /// Whether the send was over before the absence was. A send with an unknown outcome may be stored later.
    fn covers(&self, sent: &SendAttempt) -> bool {
        let over = if sent.is_open { sent.ended + LATE } else { sent.ended };
        self.from < sent.began && self.until.is_none_or(|until| over < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(absences: &[(u64, Option<u64>)], sends: &[(u64, u64, bool)], zero: Instant) -> RemovedUser {
        let at = |seconds: u64| zero + Duration::from_secs(seconds);
        let absence = |(from, until): &(u64, Option<u64>)| Absence { from: at(*from), until: until.map(at) };
        let sent = |(value, (began, ended, is_open)): (u64, &(u64, u64, bool))| SendAttempt {
            value,
            began: at(*began),
            ended: at(*ended),
            is_open: *is_open,
        };
        RemovedUser {
            user: 1,
            absences: Mutex::new(absences.iter().map(absence).collect()),
            sends: Mutex::new((0..).zip(sends).map(sent).collect()),
        }
    }

    #[test]
    fn only_sends_within_an_absence_are_forbidden() {
        let zero = Instant::now();
        let sends = [(5, 11, false), (11, 12, false), (19, 21, false), (25, 26, false), (31, 99, false)];
        let member = member(&[(10, Some(20)), (30, None)], &sends, zero);
        let forbidden: Vec<u64> = member.while_absent().iter().map(|sent| sent.value).collect();
        assert_eq!(forbidden, [1, 4]);
    }

    #[test]
    fn unknown_send_may_be_stored_after_absence() {
        let zero = Instant::now();
        let sends = [(11, 12, true), (11, 12, false)];
        let of = |until| member(&[(10, Some(until))], &sends, zero).while_absent().len();
        assert_eq!((of(20), of(40)), (1, 2));
    }
}
