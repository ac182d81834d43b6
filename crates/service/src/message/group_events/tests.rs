//! Tests the events that member changes write into a group's log.

use tokio::time::Instant;

use super::*;
use crate::{
    message::{
        MessagesConfig,
        deliver::tests::delivery_to_nobody,
        fake_logs::{AppendFault, FakeLogs},
        sample::{logs, mutations},
    },
    sample::{self, group_id},
};

fn member(id: i64, role: Role) -> Member {
    Member { version: Version::FIRST.next(), ..sample::member(id, role) }
}

fn joined(members: Vec<Member>) -> MembershipEvent {
    let users = members.iter().map(|member| member.key.user).collect();
    MembershipEvent::Joined { group: group_id(9), users, members }
}

fn event_of(members: Vec<Member>) -> Option<GroupEvent> {
    GroupEvent::of(&joined(members))
}

#[test]
fn no_client_id_is_the_key_of_an_event() {
    let event = event_of(vec![member(7, Role::Member)]).unwrap();
    assert!(NewMessage::client_message_id(&event.key).is_err());
}

#[test]
fn dismissed_group_gets_no_events() {
    assert_eq!(GroupEvent::of(&MembershipEvent::Dismissed(group_id(9))), None);
    let ended = EndedMemberships { reason: LeaveReason::Removed, version: Version::NONE, users: Vec::new() };
    let left = MembershipEvent::Left { group: group_id(9), users: Vec::new(), deciders: Vec::new(), ended };
    assert_eq!(GroupEvent::of(&left), None);
}

/// How long a change waits for its event if the event's append has this fault.
async fn waited(fault: AppendFault) -> Duration {
    let store = FakeLogs::with_faults(Duration::ZERO, [fault]);
    let delivery = delivery_to_nobody();
    let queue = AppendQueue::new(logs(store), delivery, mutations(), &MessagesConfig::default());
    let (events, begun) = (GroupEvents::new(queue, Duration::from_secs(1)), Instant::now());
    events.changed(&joined(vec![member(7, Role::Member)])).await.expect("the change is kept");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn event_that_fails_does_not_fail_the_change() {
    assert_eq!(waited(AppendFault::Full).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn change_does_not_wait_long_for_its_event() {
    assert_eq!(waited(AppendFault::Hangs).await, Duration::from_secs(1));
}
