//! Signals to users who receive now: a user's activity, and a peer's read marks.

use std::{collections::HashMap, time::Duration};

use kith_proto::message::v1::SignalKind;
use kith_store::{ConversationId, UserId};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Receiving,
    convert::{self, Activity},
};
use crate::{
    error::{Error, Reason},
    metric::SIGNALS,
};

/// The largest group with signals.
const MEMBERS_MAX: usize = 100;
/// A user's signal to a conversation is ignored if a signal of its kind was sent within this time before.
const APART: Duration = Duration::from_secs(3);
/// Most signals that are remembered for that; further ones are sent.
const REMEMBERED_MAX: usize = 100_000;

/// When each user sent a signal to each conversation, through this node.
#[derive(Debug, Default)]
pub(super) struct SignalLimit(Mutex<HashMap<(UserId, ConversationId, SignalKind), Instant>>);

impl SignalLimit {
    /// Whether a signal may be sent now.
    fn allows(&self, activity: Activity) -> bool {
        let mut sent = self.0.lock();
        if sent.len() >= REMEMBERED_MAX {
            sent.retain(|_, at| at.elapsed() < APART);
        }
        let key = (activity.user, activity.conversation, activity.kind);
        if sent.get(&key).is_some_and(|at| at.elapsed() < APART) {
            return false;
        }
        if sent.len() < REMEMBERED_MAX {
            sent.insert(key, Instant::now());
        }
        true
    }
}

impl Receiving {
    /// Sends a signal to the other users in a conversation who receive now.
    ///
    /// # Errors
    /// The errors of a send; FAILED_PRECONDITION in a group with too many members.
    pub(super) async fn send_signal(&self, activity: Activity) -> Result<(), Error> {
        let parts = &self.0;
        parts.messages.may_send(Some(activity.user), activity.conversation).await?;
        let others = self.others(activity).await?;
        if parts.config.signals && parts.signals.allows(activity) {
            let kind = if activity.kind == SignalKind::Typing { "typing" } else { "stopped" };
            metrics::counter!(SIGNALS.name, "kind" => kind).increment(1);
            parts.inboxes().signal(others, &convert::activity_to_bytes(activity));
        }
        Ok(())
    }

    /// The users in a conversation besides the sender.
    async fn others(&self, activity: Activity) -> Result<Vec<UserId>, Error> {
        let users = self.0.delivery.recipients(activity.conversation).await?;
        let users = users.filter(|users| users.len() <= MEMBERS_MAX).ok_or_else(too_large)?;
        Ok(users.iter().copied().filter(|user| *user != activity.user).collect())
    }
}

fn too_large() -> Error {
    Error::new(Reason::StateForbids, format!("groups of more than {MEMBERS_MAX} members have no signals"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(user: i64, conversation: &str, kind: SignalKind) -> Activity {
        Activity { user: UserId::new(user).unwrap(), conversation: conversation.parse().unwrap(), kind }
    }

    #[tokio::test(start_paused = true)]
    async fn second_signal_of_a_kind_in_3_s_is_ignored() {
        let limit = SignalLimit::default();
        let typing = activity(7, "g9", SignalKind::Typing);
        assert!(limit.allows(typing) && !limit.allows(typing));
        for other in [
            activity(8, "g9", SignalKind::Typing),
            activity(7, "g8", SignalKind::Typing),
            activity(7, "g9", SignalKind::Stopped),
        ] {
            assert!(limit.allows(other), "{other:?}");
        }
        tokio::time::advance(APART).await;
        assert!(limit.allows(typing));
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_signals_are_bounded() {
        let limit = SignalLimit::default();
        let of = |user| activity(user, "g9", SignalKind::Typing);
        assert!((1..=100_001).all(|user| limit.allows(of(user))));
        assert_eq!(limit.0.lock().len(), REMEMBERED_MAX);
        tokio::time::advance(APART).await;
        assert!(limit.allows(of(1)));
        assert_eq!(limit.0.lock().len(), 1);
    }
}
