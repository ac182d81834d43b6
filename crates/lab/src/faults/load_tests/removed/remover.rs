//! Removes members and adds them again, and checks what they can do.

use std::sync::Arc;

use anyhow::{Result, bail};
use tokio::time::Instant;

use super::{
    ACKNOWLEDGED, PreparedCall, READ_BEYOND, READ_OF_ABSENCE, READS, REFUSED,
    group::{Absence, RemovalGroup, RemovedUser},
};
use crate::history::{LoggedMessage, MessageOutcome, MessageRequest, Pages, SendOutcome};

/// How often the message during an absence is attempted.
const TRIES: usize = 100;

/// Removes users from one group.
#[derive(Debug)]
pub(super) struct Remover {
    group: Arc<RemovalGroup>,
    rounds: usize,
}

impl Remover {
    pub(super) fn new(group: &Arc<RemovalGroup>) -> Self {
        Self { group: Arc::clone(group), rounds: 0 }
    }

    /// Takes users in and removes them until enough were removed in all groups.
    pub(super) async fn work(mut self) -> Result<()> {
        let mut hidden = vec![None; self.group.members.len()];
        while !self.group.state.progress.has_enough() {
            let member = self.rounds % hidden.len();
            hidden[member] = Some(self.round(member, hidden[member]).await?);
            self.rounds += 1;
            self.group.state.progress.add(1);
        }
        Ok(())
    }

    /// A user comes, sends and is removed. Returns the number of a message that was sent after that.
    /// `hidden`: the message during its previous absence.
    async fn round(&self, member: usize, hidden: Option<u64>) -> Result<u64> {
        let Some(member) = self.group.members.get(member) else { bail!("there is no such member") };
        let node = self.rounds % self.group.state.nodes.len();
        self.add_back(member, node, hidden).await?;
        let request_id = format!("{}-removed-{}", self.group.id, self.rounds);
        self.group.change(member.user, false, node, &request_id).await?;
        member.absences.lock().push(Absence { from: Instant::now(), until: None });
        let nodes = 0..self.group.state.nodes.len();
        for other in nodes.clone().filter(|other| *other != node) {
            if let SendOutcome::At(seq) = self.group.send_as(member, other).await {
                let what = format!("user {} was removed, and its message got number {seq}", member.user);
                self.group.add_violation(ACKNOWLEDGED, &what);
            }
        }
        let after = self.send_as_owner().await?;
        for node in nodes {
            self.read_after_removal(member, node, after).await;
        }
        Ok(after)
    }

    /// It sends at once through another node, and cannot read messages from its absence.
    async fn add_back(&self, member: &RemovedUser, node: usize, hidden: Option<u64>) -> Result<()> {
        if let Some(absence) = member.absences.lock().last_mut() {
            absence.until = Some(Instant::now());
        }
        let request_id = format!("{}-comes-{}", self.group.id, self.rounds);
        self.group.change(member.user, true, node, &request_id).await?;
        let other = (node + 1) % self.group.state.nodes.len();
        let sent = self.group.send_as(member, other).await;
        if matches!(&sent, SendOutcome::Refused(code) if code == "PERMISSION_DENIED") {
            self.group.add_violation(REFUSED, &format!("user {} is in, and may not send", member.user));
        }
        let Some(hidden) = hidden else { return Ok(()) };
        let Some((messages, _)) = self.read(member.user, other, Pages::These(vec![hidden])).await else {
            return Ok(());
        };
        if !messages.is_empty() {
            let what = format!("user {} is back and reads {messages:?} of its absence", member.user);
            self.group.add_violation(READ_OF_ABSENCE, &what);
        }
        Ok(())
    }

    /// The owner sends. Returns the number.
    async fn send_as_owner(&self) -> Result<u64> {
        for node in (0..self.group.state.nodes.len()).cycle().take(TRIES) {
            let value = self.group.state.value();
            match self.group.send(self.group.owner, value, node).await {
                SendOutcome::At(seq) => return Ok(seq),
                SendOutcome::Refused(code) | SendOutcome::Open(code) => self.group.state.fail(&code),
            }
        }
        bail!("the owner of group {} cannot send", self.group.id)
    }

    /// A removed user reads all it may, up to a message that was sent after its removal.
    async fn read_after_removal(&self, member: &RemovedUser, node: usize, after: u64) {
        for pages in [Pages::From(after), Pages::Before(0), Pages::These(vec![after])] {
            let Some((messages, end)) = self.read(member.user, node, pages.clone()).await else { continue };
            self.group.state.count(READS, 1);
            let beyond = messages.iter().find(|message| message.seq >= after);
            if beyond.is_some() || end.is_some_and(|end| end >= after) {
                let what = format!("user {} was removed, and {pages:?} on node {node} reads", member.user);
                self.group
                    .add_violation(READ_BEYOND, &format!("{what} {beyond:?} up to {end:?}, from {after} on"));
            }
        }
    }

    /// The messages that a user reads, and the highest number that it may read. `None`: there was no answer.
    async fn read(&self, user: i64, node: usize, pages: Pages) -> Option<(Vec<LoggedMessage>, Option<u64>)> {
        let conversation = self.group.conversation();
        let request = MessageRequest::Read { user, conversation, pages, at_least: 0 };
        let asked = PreparedCall { request, named: false };
        match asked.send(self.group.state.nodes[node].clone()).await {
            MessageOutcome::Read { messages, range, .. } => Some((messages, range.map(|(_, end)| end))),
            MessageOutcome::Refused(code) | MessageOutcome::Open(code) => {
                self.group.state.fail(&code);
                None
            }
            MessageOutcome::Sent(_) | MessageOutcome::Marked(_) => None,
        }
    }
}
