use std::{future::pending, sync::Arc};

use kith_cache::Node;
use kith_store::{
    Appended, Changed, DocumentKey, LogDocument, LogEnd, LogHead, MemberKey, Message, MessageChange,
    MessageKind, MessageStore, Outcome, Seq, StoreError, StoredHeader,
};
use tokio::time::Instant;

use super::*;
use crate::{
    message::{MessagesConfig, sample::logs},
    write::mutations::{Mutations, WriteLimits},
};

fn group() -> GroupId {
    GroupId::new(9).unwrap()
}

fn member(user: i64, role: Role) -> Member {
    Member {
        key: MemberKey { group: group(), user: UserId::new(user).unwrap() },
        version: Version::FIRST.next(),
        role,
        ordinal: 0,
        remark: "".into(),
        muted_until: None,
        joined: Timestamp(0),
        from_seq: 1,
        joined_seq: 1,
    }
}

fn joined(members: Vec<Member>) -> MembershipEvent {
    let users = members.iter().map(|member| member.key.user).collect();
    MembershipEvent::Joined { group: group(), users, members }
}

fn event_of(members: Vec<Member>) -> Option<GroupEvent> {
    GroupEvent::of(&joined(members))
}

#[test]
fn founder_has_not_joined() {
    assert_eq!(event_of(vec![member(7, Role::Owner)]), None);
    assert_eq!(event_of(Vec::new()), None, "all were members already");
    let event = event_of(vec![member(7, Role::Member), member(8, Role::Member)]).unwrap();
    assert_eq!(event.event, What::Joined(MembersJoined { user_ids: vec![7, 8] }));
    assert_eq!(event.key, "members:2");
}

#[test]
fn event_is_silent_and_repeated_with_its_key() {
    let event = event_of(vec![member(7, Role::Member)]).unwrap();
    let (first, again) = (event.clone().message(Timestamp(1)), event.message(Timestamp(2)));
    assert_eq!((first.kind, first.silent, first.sender), (MessageKind::Event, true, None));
    assert_eq!((first.key, first.hash), (again.key, again.hash));
}

#[test]
fn no_client_id_is_the_key_of_an_event() {
    let event = event_of(vec![member(7, Role::Member)]).unwrap();
    assert!(NewMessage::client_message_id(&event.key).is_err());
}

#[test]
fn dismissed_group_gets_no_events() {
    assert_eq!(GroupEvent::of(&MembershipEvent::Dismissed(group())), None);
    let ended = Ended { how: Leaving::Removed, version: Version::NONE, users: Vec::new() };
    let left = MembershipEvent::Left { group: group(), users: Vec::new(), deciders: Vec::new(), ended };
    assert_eq!(GroupEvent::of(&left), None);
}

/// A store that does not append: it refuses, or never answers.
#[derive(Debug)]
struct NoStore {
    answers: bool,
}

#[async_trait]
impl MessageStore for NoStore {
    async fn append(&self, _: ConversationId, _: &[NewMessage]) -> Result<Vec<Appended>, StoreError> {
        if !self.answers {
            pending::<()>().await;
        }
        let source = Arc::new(std::io::Error::other("refused"));
        Err(StoreError::Internal { outcome: Outcome::NotApplied, source })
    }

    async fn messages(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<Message>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn ends(&self, _: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        unreachable!("nothing is read")
    }

    async fn strong_end(&self, _: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("nothing is read")
    }

    async fn seq_at(&self, _: ConversationId, _: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("nothing is read")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<Changed, StoreError> {
        unreachable!("nothing is changed")
    }
}

/// How long a change waits for its event over this store.
async fn waited(store: NoStore) -> Duration {
    let second = Duration::from_secs(1);
    let limits = WriteLimits { at_once: 8, wait: second, takes: 60 * second, answer: second };
    let mutations = Mutations::new(Node::local(1), &limits);
    let queue = AppendQueue::new(logs(Arc::new(store)), mutations, &MessagesConfig::default());
    let (events, begun) = (GroupEvents::new(queue, second), Instant::now());
    events.changed(&joined(vec![member(7, Role::Member)])).await.expect("the change is kept");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn event_that_fails_does_not_fail_the_change() {
    assert_eq!(waited(NoStore { answers: true }).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn change_does_not_wait_long_for_its_event() {
    assert_eq!(waited(NoStore { answers: false }).await, Duration::from_secs(1));
}
