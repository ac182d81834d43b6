//! An account under a deleted user's id, whose cleanup ran in another process, has nothing of that user.

use std::time::Duration;

use crate::application_calls::*;
use crate::bare_node::{change_members, in_store, new_group, new_message};
use crate::dialog_calls::{conversation, counts, listed_ids, pin, read, until_read};
use crate::group_calls::{add, chat, group_with_history, is_in, make_admin, members, public_group};
use crate::message_calls::{
    by_seqs, direct, edit, history, max_seqs, pull, read_all, recall, say, seq_by_time, seqs, texts, to_edit,
    to_pull,
};
use crate::node::{
    TestNode, assert_denied, assert_forbidden, assert_not_found, principal, until, update_of_group,
};
use crate::relation_calls::{follow, unfriend, with_users};
use kith_proto::{
    application::v1::{ListRelationLogRequest, State, list_applications_request::List},
    group::v1 as groups,
    message::v1::send_message_request::To,
    user::v1::*,
};
use kith_store::{
    ApplicationBasis, ApplicationChange, ApplicationId, ApplicationPurpose, ConversationId, Decision,
    DialogKey, Edge, GroupId, JoinPolicy, MemberChange, MessageKey, NewApplication, NewMessage, Receiver,
    Stores, Timestamp, UserId, Write,
};
use tempfile::TempDir;
use tonic::Status;

const CHOSEN: i64 = 11;
/// The time is long past, so that no test waits for the clean-up.
const LONG_AGO: Timestamp = Timestamp(1_000);

/// Deletes the user long ago, like a node that crashes right afterwards.
async fn deleted_and_crashed(folder: &TempDir) {
    deleted_at(folder, CHOSEN, LONG_AGO).await;
}

async fn deleted_at(folder: &TempDir, user: i64, at: Timestamp) {
    let user = UserId::new(user).unwrap();
    in_store(folder, async |stores| {
        stores.edges.note_removal(user, at).await.unwrap();
        stores.users.delete_user(user, at, Write::at(at)).await.unwrap();
    })
    .await;
}

/// Makes the user's message, as if it had been sent long ago.
fn old_message(body: &str) -> NewMessage {
    let sender = UserId::new(CHOSEN).unwrap();
    new_message(MessageKey::of(Some(sender), body), Some(sender), LONG_AGO, body)
}

/// Appends the user's messages with these bodies to its conversation with another user, as if they had been
/// sent long ago.
async fn wrote_long_ago(folder: &TempDir, other: i64, bodies: &[&str]) {
    let conversation = ConversationId::direct(UserId::new(CHOSEN).unwrap(), UserId::new(other).unwrap());
    let messages: Vec<_> = bodies.iter().map(|body| old_message(body)).collect();
    in_store(folder, async |stores| {
        // The time is before the direct conversation's first message.
        stores.dialogs.make_dialogs(&DialogKey::of_direct(conversation), Timestamp(1)).await.unwrap();
        stores.messages.append(conversation, &messages).await.unwrap();
    })
    .await;
}

/// Makes the user a group member, as if it had joined a day ago, and appends a message there.
async fn joined_long_ago(folder: &TempDir, group: i64) {
    let (group, user) = (GroupId::new(group).unwrap(), UserId::new(CHOSEN).unwrap());
    let at = Timestamp(Timestamp::now().0 - 86_400_000);
    let read = [old_message("old")];
    in_store(folder, async |stores| {
        change_members(stores, group, MemberChange::Join(user), at).await;
        stores.messages.append(ConversationId::Group(group), &read).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn new_account_reads_no_message_of_the_old_one() {
    let (node, [ann, bob]) = with_users().await;
    assert!(create(&node, "first").await);
    let folder = node.stop().await;
    wrote_long_ago(&folder, ann, &["old1", "old2", "old3"]).await;
    wrote_long_ago(&folder, bob, &["old"]).await;
    deleted_and_crashed(&folder).await;

    let node = TestNode::start_over(&folder).await;
    until(async || create(&node, "second").await).await;
    let (with_ann, with_bob) = (direct(CHOSEN, ann), direct(CHOSEN, bob));
    assert_eq!(read_all(&node, CHOSEN, &with_ann).await, [""; 0]);
    assert_eq!(max_seqs(&node, CHOSEN, &[&with_ann, &with_bob]).await, [Ok(0), Ok(0)]);
    say(&node, ann, To::UserId(CHOSEN), "new1").await.unwrap();
    say(&node, CHOSEN, To::UserId(ann), "new2").await.unwrap();
    assert_eq!(read_all(&node, CHOSEN, &with_ann).await, ["new1", "new2"]);
    let page = pull(&node, CHOSEN, to_pull(&with_ann, 1, 0, 1)).await.unwrap();
    assert_eq!((seqs(&page.messages), page.min_seq, page.max_seq, page.more), (vec![4], 4, 5, true));
    let page = history(&node, CHOSEN, &with_ann, 0, 50).await.unwrap();
    assert_eq!((seqs(&page.messages), page.min_seq, page.more), (vec![5, 4], 4, false));
    let found = by_seqs(&node, CHOSEN, &with_ann, &[1, 2, 3, 4]).await.unwrap();
    assert_eq!(texts(&found.messages), ["new1"]);
    let long_ago = prost_types::Timestamp::default();
    assert_eq!(seq_by_time(&node, CHOSEN, &with_ann, long_ago).await.unwrap(), 4);
    assert_eq!(max_seqs(&node, CHOSEN, &[&with_ann, &with_bob]).await, [Ok(5), Ok(0)]);
    node.stop().await;
}

#[tokio::test]
async fn new_account_changes_no_message_of_the_old_one() {
    let (node, [ann]) = with_users().await;
    assert!(create(&node, "first").await);
    let group = group_with_history(&node, ann).await;
    add(&node, group, &[CHOSEN]).await;
    for to in [To::GroupId(group), To::UserId(ann)] {
        say(&node, CHOSEN, to, "old").await.unwrap();
    }
    let folder = node.stop().await;
    deleted_and_crashed(&folder).await;

    let node = TestNode::start_over(&folder).await;
    until(async || create(&node, "second").await).await;
    add(&node, group, &[CHOSEN]).await;
    for id in [format!("g{group}"), direct(CHOSEN, ann)] {
        assert_not_found(edit(&node, CHOSEN, to_edit(&id, 1, "new")).await);
        assert_not_found(recall(&node, CHOSEN, &id, 1).await);
        let own = say(&node, CHOSEN, To::ConversationId(id.clone()), "mine").await.unwrap();
        edit(&node, CHOSEN, to_edit(&id, own, "edited")).await.unwrap();
        recall(&node, CHOSEN, &id, own).await.unwrap();
    }
    node.stop().await;
}

#[tokio::test]
async fn recreated_user_reads_no_old_message() {
    let (node, [ann]) = with_users().await;
    assert!(create(&node, "first").await);
    let (id, notes) = (direct(CHOSEN, ann), direct(CHOSEN, CHOSEN));
    let shared = chat(&node, ann, &[CHOSEN]).await;
    for (by, to) in [(ann, CHOSEN), (CHOSEN, ann), (CHOSEN, CHOSEN)] {
        say(&node, by, To::UserId(to), "old").await.unwrap();
    }
    say(&node, CHOSEN, To::GroupId(shared), "old").await.unwrap();
    // The user only reads in this group: it has no dialog.
    let silent = chat(&node, ann, &[]).await;
    until_read(&node, CHOSEN, &id, 2).await;
    pin(&node, CHOSEN, &id, true).await;
    let folder = node.stop().await;
    joined_long_ago(&folder, silent).await;
    deleted_and_crashed(&folder).await;

    let node = TestNode::start_over(&folder).await;
    until(async || create(&node, "second").await).await;
    assert_eq!(listed_ids(&node, CHOSEN).await, [""; 0]);
    for id in [&id, &notes] {
        assert_eq!(read_all(&node, CHOSEN, id).await, [""; 0]);
        let shown = conversation(&node, CHOSEN, id).await.unwrap();
        assert_eq!((shown.max_seq, shown.unread, shown.last_message, shown.pinned), (0, 0, None, false));
    }
    // The stay in the first group began so recently that it might belong to the new account: the dialog hides
    // its messages.
    let of_groups = [&*format!("g{shared}"), &format!("g{silent}")];
    assert_eq!(max_seqs(&node, CHOSEN, &of_groups).await, [Ok(0), Err("NOT_FOUND".to_owned())]);
    assert_eq!(read(&node, CHOSEN, &id).await.read_seq, 2, "what was read is kept");
    say(&node, ann, To::UserId(CHOSEN), "new").await.unwrap();
    assert_eq!(read_all(&node, CHOSEN, &id).await, ["new"]);
    assert_eq!(counts(&node, CHOSEN, &[]).await, [(id.clone(), 1)]);
    assert_eq!(listed_ids(&node, CHOSEN).await, [&*id]);
    assert_eq!(read_all(&node, ann, &id).await, ["old", "old", "new"], "the other user reads all");
    node.stop().await;
}

async fn try_create(node: &TestNode, name: &str) -> Result<(), Status> {
    let user = User { user_id: CHOSEN, user_name: name.to_owned(), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    node.users().create_user(request).await.map(drop)
}

async fn create(node: &TestNode, name: &str) -> bool {
    try_create(node, name).await.is_ok()
}

/// Writes that began while the user existed may arrive after the clean-up.
#[tokio::test]
async fn id_is_held_for_a_while_after_the_clean_up() {
    let (node, [ann, bob]) = with_users().await;
    assert!(create(&node, "first").await);
    let shared = public_group(&node, ann, groups::JoinPolicy::Open).await;
    make_admin(&node, shared, bob).await;
    let folder = node.stop().await;
    let now = Timestamp::now();
    deleted_at(&folder, CHOSEN, now).await;
    deleted_at(&folder, bob, Timestamp(now.0 + 1)).await;

    let node = TestNode::start_over(&folder).await;
    // Notes are handled in time order: when bob's is done, its predecessor is done.
    until(async || members(&node, shared).await.iter().all(|(user, _)| *user == ann)).await;
    assert_forbidden(try_create(&node, "second").await);
    node.stop().await;
}

#[tokio::test]
async fn new_account_has_nothing_of_the_old_one() {
    let (node, [ann, bob]) = with_users().await;
    assert!(create(&node, "first").await);
    let shared = public_group(&node, CHOSEN, groups::JoinPolicy::Open).await;
    make_admin(&node, shared, ann).await;
    let asked = befriend(&node, CHOSEN, bob).await.application_id;
    let invited = apply(&node, CHOSEN, to_invite(shared, bob)).await.unwrap().application_id;
    let received = befriend(&node, bob, CHOSEN).await.application_id;
    for (from, to) in [(CHOSEN, ann), (ann, CHOSEN)] {
        follow(&node, from, to).await.unwrap();
    }
    unfriend(&node, CHOSEN, ann).await;
    let folder = node.stop().await;
    deleted_and_crashed(&folder).await;

    let node = TestNode::start_over(&folder).await;
    until(async || create(&node, "second").await).await;
    assert_eq!(members(&node, shared).await.iter().map(|(user, _)| *user).collect::<Vec<_>>(), [ann]);
    assert_eq!((pending(&node, of_user(bob)).await, pending(&node, of_user(CHOSEN)).await), ((0, 0), (0, 0)));
    for (by, receiver, id) in
        [(bob, of_user(bob), asked), (bob, of_user(bob), invited), (bob, of_user(CHOSEN), received)]
    {
        assert_eq!(get(&node, by, receiver, id).await.unwrap().state(), State::Closed);
    }
    node.stop().await;
}

/// Creates the user's group a day ago. No other user is in it: the deletion leaves it without an owner.
async fn founded(stores: &Stores) -> i64 {
    let (creator, at) = (UserId::new(CHOSEN).unwrap(), Timestamp(Timestamp::now().0 - 86_400_000));
    let id = GroupId::new(7).unwrap();
    stores.groups.create_group(new_group(id, JoinPolicy::Open, Some(creator)), Write::at(at)).await.unwrap();
    change_members(stores, id, MemberChange::AddFounder(creator), at).await;
    id.get()
}

#[tokio::test]
async fn new_account_does_not_own_the_old_groups() {
    let node = TestNode::start().await;
    assert!(create(&node, "first").await);
    let folder = node.stop().await;
    let lone = in_store(&folder, founded).await;
    deleted_and_crashed(&folder).await;

    let node = TestNode::start_over(&folder).await;
    until(async || create(&node, "second").await).await;
    let group = groups::Group { group_id: lone, name: "Mine".into(), ..Default::default() };
    let request = update_of_group(group, &["name"]);
    assert_denied(node.groups().update_group(principal(CHOSEN, request)).await);
    assert_eq!(members(&node, lone).await, []);
    assert!(!is_in(&node, lone, CHOSEN).await);
    node.stop().await;
}

/// Stores an application that was made and refused a day ago.
async fn applied(stores: &Stores, from: i64, to: i64) -> i64 {
    let [from, to] = [from, to].map(|id| UserId::new(id).unwrap());
    let at = Timestamp(Timestamp::now().0 - 86_400_000);
    let new = NewApplication {
        id: ApplicationId::at(at, 7),
        purpose: ApplicationPurpose::Friend(to),
        applicant: from,
        message: "Hello".into(),
        reference: "".into(),
        receivers: vec![to],
        basis: ApplicationBasis { applicant: at, user: Some(at), group: None, by_role: false },
        expires: at.after(Duration::from_secs(86_400)),
        kept: Duration::from_secs(864_000),
        pending_max: 100,
    };
    let id = new.id;
    let refuse = ApplicationChange::Decide(id, Decision::Refuse, Some(to));
    for change in [ApplicationChange::Apply(new), refuse] {
        stores.applications.change_application(Receiver::User(to), change, Write::at(at)).await.unwrap();
    }
    id.get()
}

/// Makes a friendship that ended a day ago.
async fn unfriended(stores: &Stores, user: i64, other: i64) {
    let at = Timestamp(Timestamp::now().0 - 86_400_000);
    let edge = Edge::new(UserId::new(user).unwrap(), UserId::new(other).unwrap()).unwrap();
    for edge in [edge, edge.reversed()] {
        stores.follows.follow(edge, Duration::ZERO, Write::at(at)).await.unwrap();
    }
    stores.follows.unfollow(edge, Write::at(at)).await.unwrap();
}

async fn events(node: &TestNode, user_id: i64) -> usize {
    let request = ListRelationLogRequest { user_id, ..Default::default() };
    let log = node.applications().list_relation_log(principal(user_id, request)).await.unwrap();
    log.into_inner().events.len()
}

#[tokio::test]
async fn new_account_does_not_see_what_the_old_one_did() {
    let (node, [bob]) = with_users().await;
    assert!(create(&node, "first").await);
    let folder = node.stop().await;
    let (sent, received) = in_store(&folder, async |stores| {
        unfriended(stores, CHOSEN, bob).await;
        (applied(stores, CHOSEN, bob).await, applied(stores, bob, CHOSEN).await)
    })
    .await;
    deleted_and_crashed(&folder).await;

    let node = TestNode::start_over(&folder).await;
    until(async || create(&node, "second").await).await;
    for list in [List::SentBy(CHOSEN), List::ReceivedBy(CHOSEN)] {
        assert_eq!(shown(&node, CHOSEN, list).await, []);
    }
    assert_eq!(events(&node, CHOSEN).await, 0);
    for (receiver, id) in [(of_user(bob), sent), (of_user(CHOSEN), received)] {
        assert_not_found(get(&node, CHOSEN, receiver, id).await);
    }
    node.stop().await;
}
