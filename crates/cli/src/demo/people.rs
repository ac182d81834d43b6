//! Lets the demo's people act by themselves: they come and go, write now and then, and answer the users on
//! the page.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use kith_proto::{
    message::v1::{
        ListConversationsRequest, MarkReadRequest, SendMessageRequest, SendSignalRequest, SignalKind,
        message_service_client::MessageServiceClient, send_message_request::To,
    },
    presence::v1::{
        BatchGetPresenceRequest, CloseSessionRequest, HeartbeatRequest, OpenSessionRequest, SessionName,
        presence_service_client::PresenceServiceClient,
    },
};
use rand::{Rng as _, seq::IteratorRandom as _};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::{Request, Status, transport::Channel};

use super::{
    names::{GROUPS, PEOPLE, friends, members},
    phrases::{phrase, reply},
};

/// How often the people act.
const STEP: Duration = Duration::from_secs(2);
/// How long a person takes to write a message.
const WRITING: Duration = Duration::from_millis(1_200);
/// After this many messages the people are silent: a forgotten demo must not write for ever.
const MESSAGES: u32 = 20_000;
/// How many people are online at a time.
const ONLINE: usize = 70;
/// The gateway at which the people are connected. Users on the page are connected through a node's socket.
const GATEWAY: &str = "demo-people";
const SOCKETS: &str = "ws-";
const DEVICE: &str = "demo";

/// Lets the people go on until this is dropped. `silent`: they are online, and write nothing.
pub(super) async fn run(channel: Channel, silent: bool) {
    let mut people = DemoPeople {
        messages: MessageServiceClient::new(channel.clone()),
        presence: PresenceServiceClient::new(channel),
        token: String::new(),
        online: BTreeSet::new(),
        users: HashSet::new(),
        messages_left: if silent { 0 } else { MESSAGES },
    };
    let mut steps = interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        steps.tick().await;
        // A step that fails is left out; the node logs the reason itself.
        drop(people.come_and_go().await);
        if people.messages_left > 0 {
            drop(people.send_messages().await);
        }
    }
}

struct DemoPeople {
    messages: MessageServiceClient<Channel>,
    presence: PresenceServiceClient<Channel>,
    token: String,
    /// The people who are online.
    online: BTreeSet<i64>,
    /// The users on the page: the demo does not act for them.
    users: HashSet<i64>,
    messages_left: u32,
}

impl DemoPeople {
    async fn come_and_go(&mut self) -> Result<(), Status> {
        self.find_page_users().await?;
        self.send_heartbeat().await?;
        if self.online.len() > ONLINE {
            let leaves = self.online.iter().copied().choose(&mut rand::rng());
            return self.leave(leaves).await;
        }
        let absent = (1..=PEOPLE).filter(|id| !self.online.contains(id));
        let come = absent.choose_multiple(&mut rand::rng(), if self.online.is_empty() { ONLINE } else { 1 });
        for user_id in come {
            let (device_id, gateway_id) = (DEVICE.to_owned(), GATEWAY.to_owned());
            let gateway_token = self.token.clone();
            let request = OpenSessionRequest { user_id, device_id, gateway_id, gateway_token };
            self.presence.open_session(request).await?;
            self.online.insert(user_id);
        }
        Ok(())
    }

    async fn find_page_users(&mut self) -> Result<(), Status> {
        let user_ids = (1..=PEOPLE).collect();
        let found =
            self.presence.batch_get_presence(BatchGetPresenceRequest { user_ids }).await?.into_inner();
        let uses = |sessions: &[kith_proto::presence::v1::Session]| {
            sessions.iter().any(|session| session.gateway_id.starts_with(SOCKETS))
        };
        let users = found.presences.into_iter().filter(|presence| uses(&presence.sessions));
        self.users = users.map(|presence| presence.user_id).collect();
        Ok(())
    }

    async fn send_heartbeat(&mut self) -> Result<(), Status> {
        let name = |user_id: &i64| SessionName { user_id: *user_id, device_id: DEVICE.to_owned() };
        let (gateway_id, gateway_token) = (GATEWAY.to_owned(), self.token.clone());
        let sessions = self.online.iter().map(name).collect();
        let beat = self.presence.heartbeat(HeartbeatRequest { gateway_id, gateway_token, sessions }).await?;
        let beat = beat.into_inner();
        self.token = beat.gateway_token;
        for unknown in beat.unknown_sessions {
            self.online.remove(&unknown.user_id);
        }
        Ok(())
    }

    async fn leave(&mut self, leaves: Option<i64>) -> Result<(), Status> {
        let Some(user_id) = leaves else { return Ok(()) };
        let (device_id, gateway_id) = (DEVICE.to_owned(), GATEWAY.to_owned());
        let gateway_token = self.token.clone();
        self.presence
            .close_session(CloseSessionRequest { user_id, device_id, gateway_id, gateway_token })
            .await?;
        self.online.remove(&user_id);
        Ok(())
    }

    async fn send_messages(&mut self) -> Result<(), Status> {
        for user in self.users.clone() {
            self.answer(user).await?;
        }
        let (by, to) = self.choose_message();
        if self.users.contains(&by) {
            return Ok(());
        }
        let text = phrase(by, rand::rng().random_range(0..1_000));
        self.write(by, to, text).await
    }

    /// Chooses the next writer and the recipient: a group, a user on the page, or a friend.
    fn choose_message(&self) -> (i64, To) {
        let mut random = rand::rng();
        let anybody = random.random_range(1..=PEOPLE);
        match (random.random_range(0..10), self.users.iter().copied().choose(&mut random)) {
            (0..6, _) => {
                let group = i64::try_from(random.random_range(1..=GROUPS.len())).unwrap_or(1);
                (members(group).choose(&mut random).unwrap_or(anybody), To::GroupId(group))
            }
            (6, Some(user)) => (friends(user).choose(&mut random).unwrap_or(anybody), To::UserId(user)),
            _ => (anybody, To::UserId(friends(anybody).choose(&mut random).unwrap_or(anybody))),
        }
    }

    /// Answers the last messages that a user on the page wrote to the demo's people.
    async fn answer(&mut self, user: i64) -> Result<(), Status> {
        let request = ListConversationsRequest { user_id: user, page_size: 10, ..Default::default() };
        let listed = self.messages.list_conversations(request).await?.into_inner().conversations;
        for conversation in listed {
            let Some(last) = conversation.last_message.filter(|last| last.recall.is_none()) else { continue };
            let Some(peer) = peer(&conversation.conversation_id, user) else { continue };
            if last.sender_id != user || conversation.peer_read_seq >= last.seq || self.users.contains(&peer)
            {
                continue;
            }
            let (conversation_id, up_to) = (conversation.conversation_id, last.seq);
            let read = MarkReadRequest { user_id: peer, conversation_id, up_to, ..Default::default() };
            self.messages.mark_read(read).await?;
            self.write(peer, To::UserId(user), reply(peer, rand::rng().random_range(0..1_000))).await?;
        }
        Ok(())
    }

    /// Shows for a moment that a person writes, then sends.
    async fn write(&mut self, by: i64, to: To, text: &str) -> Result<(), Status> {
        let Some(left) = self.messages_left.checked_sub(1) else { return Ok(()) };
        let conversation_id = match &to {
            To::ConversationId(id) => id.clone(),
            To::UserId(user) => format!("d{}-{}", by.min(*user), by.max(*user)),
            To::GroupId(group) => format!("g{group}"),
        };
        let signal = SendSignalRequest { conversation_id, user_id: by, kind: SignalKind::Typing.into() };
        // Large groups accept no signals.
        drop(self.messages.send_signal(signal).await);
        sleep(WRITING).await;
        let message = SendMessageRequest {
            to: Some(to),
            sender_id: by,
            content_type: "text/plain".to_owned(),
            body: text.to_owned().into(),
            ..SendMessageRequest::default()
        };
        self.messages.send_message(Request::new(message)).await?;
        self.messages_left = left;
        Ok(())
    }
}

/// Returns the other user in a direct conversation.
fn peer(conversation: &str, user: i64) -> Option<i64> {
    let (one, other) = conversation.strip_prefix('d')?.split_once('-')?;
    let (one, other): (i64, i64) = (one.parse().ok()?, other.parse().ok()?);
    if one == other { None } else { Some(if one == user { other } else { one }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_the_other_one() {
        assert_eq!((peer("d7-8", 7), peer("d7-8", 8)), (Some(8), Some(7)));
        assert_eq!((peer("g9", 7), peer("d7-7", 7), peer("d7", 7)), (None, None, None));
    }
}
