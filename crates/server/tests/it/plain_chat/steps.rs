//! The steps that users and services make in a world.

use kith_proto::{
    member::v1::JoinRequest,
    message::v1::{RecallMessageRequest, SendMessageRequest, send_message_request::To},
};
use rand::{Rng as _, rngs::StdRng};

use super::model::{Model, SentMessage, Stay};
use crate::{
    dialog_calls::*,
    group_calls::leave,
    message_calls::{send, text},
    node::{SERVICE, TestNode, principal},
};

/// The most stays that a user has in a group: marks know them all.
const STAYS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub enum Action {
    Send { silent: bool, mentions: Vec<i64>, mention_all: bool, keep_unread: bool },
    Mark(i64),
    Hidden(i64),
    Ranges(Vec<(i64, i64)>),
    Come,
    Go,
    Pin(bool),
    Hide,
    Clear,
    See(Option<i64>, Option<i64>),
    Trim(i64),
    Recall(i64),
}

/// One user's step in one conversation.
#[derive(Clone, Debug)]
pub struct Step {
    user: i64,
    id: String,
    action: Action,
}

impl Step {
    pub fn any(random: &mut StdRng, model: &Model) -> Self {
        let (user, id) = (model.any_user(random), model.any_log(random));
        let end = model.logs[&id].end();
        let mut seq = || random.random_range(0..=end);
        let (one, other) = (seq(), seq());
        let (low, high) = (one.min(other), one.max(other));
        let action = match random.random_range(0..100) {
            0..45 => Action::Send {
                silent: random.random_bool(0.1),
                mentions: if random.random_bool(0.3) { vec![model.any_user(random)] } else { Vec::new() },
                mention_all: random.random_bool(0.1),
                keep_unread: random.random_bool(0.2),
            },
            45..60 => Action::Mark(one),
            60..65 => Action::Hidden(one),
            65..75 => Action::Ranges(vec![(low, high)]),
            75..80 => Action::Come,
            80..84 => Action::Go,
            84..88 => Action::Pin(random.random_bool(0.5)),
            88..92 => Action::Hide,
            92..94 => Action::Clear,
            94..96 => {
                let mut bound = |seq: i64| random.random_bool(0.5).then_some(seq);
                Action::See(bound(low.max(1)), bound(high))
            }
            96..98 => Action::Trim(one.min(low + 3).max(1)),
            _ => Action::Recall(one),
        };
        Self { user, id, action }
    }

    /// Makes the step, also in the model. An impossible step is left out.
    pub async fn make(&self, node: &TestNode, model: &mut Model) {
        let Self { user, id, action } = self;
        match action {
            Action::Send { .. } => self.send(node, model).await,
            Action::Come => self.come(node, model).await,
            Action::Go => self.go(node, model).await,
            Action::Trim(min) => {
                let min = trim(node, SERVICE, id, *min).await.unwrap();
                let log = model.logs.get_mut(id).unwrap();
                log.min = log.min.max(min);
            }
            Action::Recall(seq) if !model.logs[id].is_whole(*seq) => {}
            Action::Recall(seq) => self.recall(*seq, node, model).await,
            _ if model.range(*user, id).is_none() => {}
            Action::Mark(seq) | Action::Hidden(seq) if *seq == 0 => {}
            Action::Ranges(ranges) if ranges[0].0 == 0 => {}
            _ => self.set(node, model).await,
        }
    }

    /// Changes only the user's dialog.
    async fn set(&self, node: &TestNode, model: &mut Model) {
        let Self { user, id, action } = self;
        let log = model.logs.get_mut(id).unwrap();
        let end = log.end();
        let kept = log.users.get_mut(user).unwrap();
        match action {
            Action::Mark(seq) => {
                let marked = mark(node, *user, to_mark(id, *seq)).await.unwrap();
                kept.mark(1, kept.seen(*seq));
                assert_eq!(marked.read_seq, kept.read_seq, "{self:?}");
            }
            Action::Hidden(seq) => {
                let marked = mark(node, *user, to_hide(id, *seq)).await.unwrap();
                kept.hide(kept.seen(*seq));
                assert_eq!(marked.read_seq, kept.read_seq, "{self:?}");
            }
            Action::Ranges(ranges) => {
                mark(node, *user, to_mark_ranges(id, ranges)).await.unwrap();
                ranges.iter().for_each(|(first, last)| kept.mark(*first, kept.seen(*last)));
            }
            Action::Pin(pinned) => {
                pin(node, *user, id, *pinned).await;
                kept.pinned = *pinned;
            }
            Action::Hide => {
                hide(node, *user, id).await.unwrap();
                kept.hidden = Some(kept.seen(end));
            }
            Action::Clear => {
                clear(node, *user, id).await.unwrap();
                kept.min = kept.min.max(Some(kept.seen(end) + 1));
            }
            Action::See(min, max) => {
                set_range(node, *user, id, *min, *max).await;
                (kept.min, kept.max) = (*min, *max);
            }
            Action::Send { .. } | Action::Come | Action::Go | Action::Trim(_) | Action::Recall(_) => {
                unreachable!("made elsewhere")
            }
        }
    }

    async fn send(&self, node: &TestNode, model: &mut Model) {
        let Self { user, id, action: Action::Send { silent, mentions, mention_all, keep_unread } } = self
        else {
            return;
        };
        let log = model.logs.get_mut(id).unwrap();
        let Some(kept) = log.users.get_mut(user).filter(|kept| kept.is_member()) else { return };
        let request = SendMessageRequest {
            sender_id: *user,
            silent: *silent,
            mention_ids: mentions.clone(),
            mention_all: *mention_all,
            keep_unread: *keep_unread,
            ..text(To::ConversationId(id.clone()), "hi")
        };
        let sent = send(node, SERVICE, request).await.unwrap();
        if !keep_unread {
            until_read(node, *user, id, kept.read_seq.max(sent.seq)).await;
            kept.mark(1, sent.seq);
        }
        let (mentions, time) = (mentions.clone(), sent.send_time.unwrap());
        let (silent, mention_all) = (*silent, *mention_all);
        log.messages.push(SentMessage {
            sender: *user,
            silent,
            mentions,
            mention_all,
            recalled: false,
            time,
        });
        assert_eq!(sent.seq, log.end());
    }

    /// Recalls a message as a service.
    async fn recall(&self, seq: i64, node: &TestNode, model: &mut Model) {
        let request =
            RecallMessageRequest { conversation_id: self.id.clone(), seq, ..RecallMessageRequest::default() };
        node.messages().recall_message(request).await.unwrap();
        let place = usize::try_from(seq - 1).unwrap();
        model.logs.get_mut(&self.id).unwrap().messages[place].recalled = true;
        model.event(node, &self.id).await;
    }

    async fn come(&self, node: &TestNode, model: &mut Model) {
        let log = model.logs.get_mut(&self.id).unwrap();
        let Some(group_id) = self.id.strip_prefix('g') else { return };
        let end = log.end();
        let kept = log.users.entry(self.user).or_default();
        if kept.is_member() || kept.stays.len() >= STAYS_MAX {
            return;
        }
        let (group_id, user_id) = (group_id.parse().unwrap(), self.user);
        let request = JoinRequest { group_id, user_id, ..Default::default() };
        node.members().join(principal(user_id, request)).await.unwrap();
        let last = kept.stays.last().and_then(|stay| stay.to).unwrap_or_default();
        kept.stays.push(Stay { from: end.max(last) + 1, to: None });
        model.event(node, &self.id).await;
    }

    /// Leaves the group, unless the user is the owner.
    async fn go(&self, node: &TestNode, model: &mut Model) {
        let is_owner = self.user == model.users[0];
        let log = model.logs.get_mut(&self.id).unwrap();
        let Some(group_id) = self.id.strip_prefix('g').filter(|_| !is_owner) else { return };
        let end = log.end();
        let Some(kept) = log.users.get_mut(&self.user).filter(|kept| kept.is_member()) else { return };
        leave(node, group_id.parse().unwrap(), self.user).await;
        let stay = kept.stays.last_mut().unwrap();
        stay.to = Some(end.max(stay.from - 1));
        model.event(node, &self.id).await;
    }
}
