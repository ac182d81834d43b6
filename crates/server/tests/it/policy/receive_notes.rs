//! A stream brings notes and signals besides messages.

use crate::application_calls::{accept, apply, befriend, of_group, of_user, refuse, to_join, withdraw};
use crate::dialog_calls::{mark, mark_up_to, to_hide};
use crate::group_calls::{add, chat, chat_with_id, mute, mute_all, public_group, set_role, transfer};
use crate::message_calls::*;
use crate::message_streams::*;
use crate::node::{TestNode, mask, update_of_group};
use crate::node::{assert_denied, assert_forbidden, assert_not_found};
use crate::relation_calls::{block, follow, node_with_users, unfollow, with_users};
use kith_proto::message::v1::{
    delivery::What, note::What as Noted, send_message_request::To, signal::What as Signaled, *,
};
use kith_proto::{
    group::v1::{Group, JoinPolicy},
    member::v1::Role,
    user::v1::{UpdateUserRequest, User},
};

#[tokio::test]
async fn notes_are_resumed_by_cursor() {
    let (node, [ann, bea]) = with_users().await;
    let cursor = live(&node, bea).await.cursor;
    follow(&node, ann, bea).await.unwrap();
    say(&node, ann, To::UserId(bea), "x").await.unwrap();
    let mut stream = open(&node, bea, after(&cursor)).await.unwrap();
    let mut came = [stream.next().await, stream.next().await];
    came.sort_by_key(|what| matches!(what, What::Message(_)));
    let added = Noted::FollowerAdded(ContactChanged { user_id: ann });
    assert_eq!(came[0], What::Note(Note { what: Some(added) }));
    assert!(matches!(&came[1], What::Message(message) if message.seq == 1), "{came:?}");
}

#[tokio::test]
async fn followers_that_come_and_go_are_noted() {
    let (node, [ann, bea]) = with_users().await;
    let mut stream = live(&node, bea).await;
    follow(&node, ann, bea).await.unwrap();
    assert_eq!(stream.note().await, Noted::FollowerAdded(ContactChanged { user_id: ann }));
    unfollow(&node, ann, bea).await.unwrap();
    assert_eq!(stream.note().await, Noted::FollowerRemoved(ContactChanged { user_id: ann }));
}

/// A time long after all tests.
const LATER: Option<i64> = Some(4_102_444_800);

/// Returns the next note; messages before it are ignored.
async fn next_note(stream: &mut Stream) -> Noted {
    loop {
        if let What::Note(note) = stream.next().await {
            return note.what.unwrap();
        }
    }
}

async fn set_nick_name(node: &TestNode, user_id: i64, nick_name: &str) {
    let user = User { user_id, nick_name: nick_name.to_owned(), ..Default::default() };
    let update_mask = mask(&["nick_name"]);
    let request = UpdateUserRequest { user: Some(user), update_mask, ..Default::default() };
    node.users().update_user(request).await.unwrap();
}

fn application(receiver: application_changed::Receiver, application_id: i64) -> Noted {
    Noted::Application(ApplicationChanged { receiver: Some(receiver), application_id })
}

#[tokio::test]
async fn friend_requests_and_decisions_are_noted() {
    let (node, [ann, bea, cat]) = with_users().await;
    let mut streams = [live(&node, ann).await, live(&node, bea).await];
    let note = |id| application(application_changed::Receiver::UserId(bea), id);
    let asked = befriend(&node, ann, bea).await.application_id;
    for stream in &mut streams {
        assert_eq!(stream.note().await, note(asked), "both sides");
    }
    befriend(&node, ann, bea).await;
    refuse(&node, bea, of_user(bea), asked).await.unwrap();
    let again = befriend(&node, ann, bea).await.application_id;
    withdraw(&node, ann, of_user(bea), again).await.unwrap();
    for expected in [asked, again, again] {
        for stream in &mut streams {
            assert_eq!(stream.note().await, note(expected), "a request that is repeated is not noted");
        }
    }
    let other = befriend(&node, cat, bea).await.application_id;
    block(&node, bea, cat).await;
    let last = befriend(&node, ann, bea).await.application_id;
    for expected in [other, last] {
        assert_eq!(streams[1].note().await, note(expected), "a request that a block closes is not noted");
    }
}

#[tokio::test]
async fn requests_to_join_reach_owner_and_admins() {
    let (node, [ann, bea, cat, dan]) = with_users().await;
    let group = public_group(&node, ann, JoinPolicy::Approval).await;
    add(&node, group, &[bea, cat]).await;
    set_role(&node, group, bea, Role::Admin).await;
    let mut streams = [live(&node, ann).await, live(&node, bea).await, live(&node, dan).await];
    let mut of_cat = live(&node, cat).await;
    let asked = apply(&node, dan, to_join(group, "")).await.unwrap().application_id;
    let note = application(application_changed::Receiver::GroupId(group), asked);
    for stream in &mut streams {
        assert_eq!(next_note(stream).await, note);
    }
    accept(&node, bea, of_group(group), asked).await.unwrap();
    let effect = Noted::GroupJoined(GroupChanged { group_id: group });
    let mut came = [next_note(&mut streams[2]).await, next_note(&mut streams[2]).await];
    came.sort_by_key(|noted| *noted == note);
    assert_eq!(came, [effect, note.clone()]);
    assert_eq!(next_note(&mut streams[0]).await, note);
    set_role(&node, group, cat, Role::Admin).await;
    assert_eq!(next_note(&mut of_cat).await, group_changed(group), "it decided nothing before");
}

fn group_changed(group_id: i64) -> Noted {
    Noted::GroupChanged(GroupChanged { group_id })
}

#[tokio::test]
async fn roles_and_mutes_are_noted_to_their_members() {
    let (node, [ann, bea, cat]) = with_users().await;
    let group = chat(&node, ann, &[bea, cat]).await;
    let mut streams = [live(&node, ann).await, live(&node, bea).await, live(&node, cat).await];
    set_role(&node, group, bea, Role::Admin).await;
    set_role(&node, group, bea, Role::Member).await;
    mute(&node, group, bea, LATER).await;
    mute(&node, group, bea, None).await;
    for _ in 0..4 {
        assert_eq!(next_note(&mut streams[1]).await, group_changed(group));
    }
    mute_all(&node, group, LATER).await;
    for stream in &mut streams {
        assert_eq!(next_note(stream).await, group_changed(group), "all members of a small group, once");
    }
    transfer(&node, group, bea).await;
    for stream in &mut streams[..2] {
        assert_eq!(next_note(stream).await, group_changed(group), "the new owner and the former one");
    }
    follow(&node, ann, cat).await.unwrap();
    let followed = Noted::FollowerAdded(ContactChanged { user_id: ann });
    assert_eq!(next_note(&mut streams[2]).await, followed, "nothing of it concerns another member");
}

#[tokio::test]
async fn group_note_is_bounded_by_its_members() {
    let change = |config: &mut kith_server::config::Config| config.messages.fan_out_members_max = 2;
    let (node, [ann, bea, cat]) = node_with_users(change).await;
    let (small, large) = (chat(&node, ann, &[bea]).await, chat(&node, ann, &[bea, cat]).await);
    let mut stream = live(&node, bea).await;
    mute_all(&node, large, LATER).await;
    mute(&node, large, bea, LATER).await;
    assert_eq!(next_note(&mut stream).await, group_changed(large), "its own mute");
    mute_all(&node, small, LATER).await;
    assert_eq!(next_note(&mut stream).await, group_changed(small));
}

#[tokio::test]
async fn changed_picture_of_a_group_is_noted() {
    let (node, [ann, bea]) = with_users().await;
    let group_id = chat(&node, ann, &[bea]).await;
    let mut streams = [live(&node, ann).await, live(&node, bea).await];
    let picture = Group { group_id, icon: "a.png".to_owned(), ..Group::default() };
    node.groups().update_group(update_of_group(picture, &["icon"])).await.unwrap();
    for stream in &mut streams {
        assert_eq!(next_note(stream).await, group_changed(group_id));
    }
    // A new name is an event.
    let named = Group { group_id, name: "new name".to_owned(), ..Group::default() };
    node.groups().update_group(update_of_group(named, &["name"])).await.unwrap();
    follow(&node, ann, bea).await.unwrap();
    let followed = Noted::FollowerAdded(ContactChanged { user_id: ann });
    assert_eq!(next_note(&mut streams[1]).await, followed);
}

#[tokio::test]
async fn changed_profile_is_signalled_to_friends() {
    let (node, [ann, bea, cat, dan]) = with_users().await;
    for (one, other) in [(ann, bea), (bea, ann), (ann, cat), (dan, ann), (ann, dan)] {
        follow(&node, one, other).await.unwrap();
    }
    block(&node, dan, ann).await;
    let mut streams =
        [live(&node, ann).await, live(&node, bea).await, live(&node, cat).await, live(&node, dan).await];
    let cursor = streams[1].cursor.clone();
    set_nick_name(&node, ann, "Annie").await;
    for stream in &mut streams[..2] {
        let signal = stream.signal().await;
        assert_eq!((signal.user_id, signal.conversation_id.as_str()), (ann, ""));
        assert_eq!(signal.what, Some(Signaled::Profile(ProfileChanged {})));
    }
    for (stream, user) in streams[2..].iter_mut().zip([cat, dan]) {
        say(&node, user, To::UserId(user), "x").await.unwrap();
        assert_eq!(stream.places(1).await, [(direct(user, user), 1)], "no friend");
    }
    let mut again = open(&node, bea, after(&cursor)).await.unwrap();
    assert_eq!(again.until_live().await, [], "it takes no room in an inbox");
}

#[tokio::test]
async fn block_is_not_noted() {
    let (node, [ann, bea, cat]) = with_users().await;
    follow(&node, ann, bea).await.unwrap();
    let mut stream = live(&node, bea).await;
    block(&node, ann, bea).await;
    follow(&node, cat, bea).await.unwrap();
    assert_eq!(stream.note().await, Noted::FollowerAdded(ContactChanged { user_id: cat }));
}

#[tokio::test]
async fn peer_learns_what_was_read_live() {
    let (node, [ann, bea], id) = direct_chat().await;
    for _ in 0..3 {
        say(&node, ann, To::UserId(bea), "x").await.unwrap();
    }
    let mut stream = live(&node, ann).await;
    mark(&node, bea, to_hide(&id, 1)).await.unwrap();
    mark_up_to(&node, bea, &id, 3).await;
    let signal = stream.signal().await;
    assert_eq!((signal.conversation_id, signal.user_id), (id, bea));
    assert_eq!(signal.what, Some(Signaled::ReadSeq(3)), "a hidden mark is not shown");
}

#[tokio::test]
async fn blocked_peer_learns_nothing_of_marks() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "x").await.unwrap();
    block(&node, bea, ann).await;
    let mut stream = live(&node, ann).await;
    mark_up_to(&node, bea, &id, 1).await;
    say(&node, ann, To::UserId(ann), "later").await.unwrap();
    assert_eq!(stream.places(1).await, [(direct(ann, ann), 1)]);
}

#[tokio::test]
async fn typing_reaches_the_others_once_in_3_s() {
    let (node, [ann, bea, cat]) = with_users().await;
    let (_, id) = chat_with_id(&node, ann, &[bea]).await;
    let mut streams = [live(&node, bea).await, live(&node, ann).await, live(&node, cat).await];
    for kind in [SignalKind::Typing, SignalKind::Typing, SignalKind::Stopped] {
        send_signal(&node, ann, &id, kind).await.unwrap();
    }
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let signal = streams[0].signal().await;
        assert_eq!((&signal.conversation_id, signal.user_id), (&id, ann));
        kinds.push(signal.what.unwrap());
    }
    let kind = |kind: SignalKind| Signaled::Activity(kind.into());
    kinds.sort_by_key(|what| *what != kind(SignalKind::Typing));
    assert_eq!(kinds, [kind(SignalKind::Typing), kind(SignalKind::Stopped)]);
    for (stream, user) in streams.iter_mut().zip([bea, ann, cat]) {
        say(&node, user, To::UserId(user), "x").await.unwrap();
        assert_eq!(stream.places(1).await, [(direct(user, user), 1)]);
    }
}

#[tokio::test]
async fn signal_is_in_no_cursor() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mut stream = live(&node, bea).await;
    let cursor = stream.cursor.clone();
    send_signal(&node, ann, &id, SignalKind::Typing).await.unwrap();
    stream.signal().await;
    let mut again = open(&node, bea, after(&cursor)).await.unwrap();
    assert_eq!(again.until_live().await, []);
}

#[tokio::test]
async fn signals_need_the_right_to_send() {
    let (node, [ann, bea, cat]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    assert_denied(send_signal(&node, cat, &format!("g{group}"), SignalKind::Typing).await);
    assert_not_found(send_signal(&node, cat, &direct(ann, bea), SignalKind::Typing).await);
    block(&node, bea, ann).await;
    assert_forbidden(send_signal(&node, ann, &direct(ann, bea), SignalKind::Typing).await);
}

#[tokio::test]
async fn large_groups_have_no_signals() {
    let (node, [ann]) = with_users().await;
    let mut members = Vec::new();
    for at in 0..100 {
        members.push(node.user(&format!("member{at}")).await.user_id);
    }
    let (group, id) = chat_with_id(&node, ann, &members[..99]).await;
    send_signal(&node, ann, &id, SignalKind::Typing).await.unwrap();
    add(&node, group, &members[99..]).await;
    assert_forbidden(send_signal(&node, ann, &id, SignalKind::Typing).await);
}
