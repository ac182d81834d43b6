//! A node with records of every kind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::checklist::Caller;

pub(super) const USERS: [i64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
pub(super) const GROUPS: [i64; 3] = [9, 10, 11];
pub(super) const CONVERSATIONS: [&str; 6] = ["d1-2", "d3-4", "d5-5", "g9", "g10", "g11"];

const LATER: &str = "2100-01-01T00:00:00Z";

pub(super) async fn fill(caller: &mut Caller) {
    people(caller).await;
    groups(caller).await;
    relations(caller).await;
    messages(caller).await;
    dialogs(caller).await;
    applications(caller).await;
    own_marks(caller).await;
}

/// Publishes two notices, which an export leaves out. User 2 reads one of them.
pub(super) async fn notices(caller: &mut Caller) {
    let audience = json!({ "audienceId": 1, "name": "all", "ofUsers": true });
    caller.ok("Notice/RegisterAudience", json!({ "audience": audience })).await;
    let readers = json!({ "audienceId": 1, "readers": [{ "readerId": 2 }] });
    caller.ok("Notice/RegisterReaders", readers).await;
    for (id, pinned) in [(5, true), (6, false)] {
        let notice = json!({
            "noticeId": id, "title": format!("notice {id}"), "body": "Hello.", "audienceIds": [1],
            "pinned": pinned, "mustConfirm": true, "forNewcomers": true,
        });
        caller.ok("Notice/PublishNotice", json!({ "notice": notice })).await;
    }
    caller.ok("Notice/MarkRead", json!({ "audienceId": 1, "readerId": 2, "noticeIds": [5] })).await;
}

/// The page of notices that a reader sees.
pub(super) async fn list_notices(caller: &mut Caller, reader: i64) -> Value {
    caller.ok("Notice/ListNotices", json!({ "audienceId": 1, "readerId": reader })).await
}

async fn people(caller: &mut Caller) {
    for id in USERS {
        let user = json!({
            "userId": id, "userName": format!("user{id}"), "email": format!("user{id}@example.org"),
            "params": { "lang": "en" }, "age": 20 + id,
        });
        caller.ok("User/CreateUser", json!({ "user": user })).await;
    }
    caller.ok("User/SuspendUser", json!({ "userId": 8, "reason": "spam" })).await;
    caller.ok("User/SuspendUser", json!({ "userId": 7, "until": LATER })).await;
}

async fn groups(caller: &mut Caller) {
    for (id, creator, history) in [(9, 1, false), (10, 2, true), (11, 0, false)] {
        let group = json!({
            "groupId": id, "name": format!("group {id}"), "creatorId": creator, "tags": ["chess"],
            "historyForNewMembers": history, "visibility": "VISIBILITY_PUBLIC",
        });
        caller.ok("Group/CreateGroup", json!({ "group": group })).await;
    }
    caller.ok("Member/AddMembers", json!({ "groupId": 9, "userIds": [5, 2, 3] })).await;
    caller.ok("Member/AddMembers", json!({ "groupId": 10, "userIds": [1, 3] })).await;
    caller.ok("Group/TransferGroup", json!({ "groupId": 10, "ownerId": 3 })).await;
    caller.ok("Member/SetRole", json!({ "groupId": 9, "userId": 2, "role": "ROLE_ADMIN" })).await;
    caller.ok("Member/SetMemberRemark", json!({ "groupId": 9, "userId": 2, "remark": "Bo" })).await;
    caller.ok("Member/MuteMember", json!({ "groupId": 9, "userId": 3, "muteTime": LATER })).await;
    caller.ok("Member/MuteGroup", json!({ "groupId": 10, "muteTime": LATER })).await;
    let ban = json!({ "groupId": 9, "userIds": [6], "ban": true });
    caller.ok("Member/RemoveMembers", ban).await;
    let ban = json!({ "groupId": 9, "userIds": [7], "ban": true, "banUntil": LATER });
    caller.ok("Member/RemoveMembers", ban).await;
}

async fn relations(caller: &mut Caller) {
    for (user, target) in [(1, 4), (1, 2), (2, 1), (1, 3), (3, 1), (6, 1), (2, 3), (5, 1)] {
        caller.ok("Relation/Follow", json!({ "userId": user, "targetId": target })).await;
    }
    for target in [5, 4] {
        caller.ok("Relation/Block", json!({ "userId": 1, "targetId": target })).await;
    }
    caller.ok("Relation/SetRemark", json!({ "userId": 1, "targetId": 2, "remark": "Bob" })).await;
    caller.ok("Relation/SetPermissions", json!({ "userId": 2, "targetId": 1, "permissions": 5 })).await;
    let silent = json!({ "userId": 1, "targetId": 5, "doNotDisturb": true });
    caller.ok("Relation/SetDoNotDisturb", silent).await;
}

async fn messages(caller: &mut Caller) {
    for number in 1..=9 {
        send(caller, json!({ "groupId": 9, "senderId": 1 }), number).await;
        send(caller, json!({ "userId": 2, "senderId": 1 }), number).await;
    }
    caller.ok("Member/AddMembers", json!({ "groupId": 9, "userIds": [4] })).await;
    caller.ok("Member/RemoveMembers", json!({ "groupId": 9, "userIds": [5] })).await;
    for number in 10..=15 {
        send(caller, json!({ "groupId": 9, "senderId": 2 }), number).await;
        send(caller, json!({ "groupId": 10, "senderId": 3, "silent": number % 2 == 0 }), number).await;
        send(caller, json!({ "userId": 4, "senderId": 3, "keepUnread": true }), number).await;
    }
    caller.ok("Member/AddMembers", json!({ "groupId": 9, "userIds": [5] })).await;
    send(caller, json!({ "userId": 5, "senderId": 5 }), 1).await;
    send(caller, json!({ "groupId": 9, "senderId": 5, "mentionIds": [4], "replyToSeq": 3 }), 1).await;
    for (user, conversation, seq, kind) in [
        (2, "d1-2", 3, "ok"),
        (1, "d1-2", 3, "+1"),
        (2, "d1-2", 3, "+1"),
        (4, "d3-4", 5, "ok"),
        (4, "d3-4", 2, "ok"),
    ] {
        let reaction = json!({ "userId": user, "conversationId": conversation, "seq": seq, "kind": kind });
        caller.ok("Message/React", reaction).await;
    }
    caller.ok("Message/TrimConversation", json!({ "conversationId": "d3-4", "minSeq": 4 })).await;
}

async fn send(caller: &mut Caller, mut message: serde_json::Value, number: i64) {
    message["clientMessageId"] = json!(format!("m-{number}"));
    message["contentType"] = json!("text/plain");
    message["body"] = json!("aGk=");
    caller.ok("Message/SendMessage", message).await;
}

async fn dialogs(caller: &mut Caller) {
    let ranges = json!([{ "first": 2, "last": 3 }, { "first": 6, "last": 6 }]);
    caller.ok("Message/MarkRead", json!({ "userId": 2, "conversationId": "d1-2", "ranges": ranges })).await;
    let hidden = json!({ "userId": 4, "conversationId": "d3-4", "upTo": 5, "hidden": true });
    caller.ok("Message/MarkRead", hidden).await;
    for (user, conversation) in [(2, "g9"), (2, "d1-2")] {
        let settings = json!({ "pinned": true, "ext": "aGk=" });
        let update = json!({
            "userId": user, "conversationId": conversation, "settings": settings, "updateMask": "pinned,ext",
        });
        caller.ok("Message/UpdateDialog", update).await;
    }
    let update = json!({
        "userId": 3, "conversationId": "g9", "settings": { "doNotDisturb": true, "markedUnread": true },
        "updateMask": "doNotDisturb,markedUnread",
    });
    caller.ok("Message/UpdateDialog", update).await;
    caller.ok("Message/HideConversation", json!({ "userId": 1, "conversationId": "d1-2" })).await;
    caller.ok("Message/ClearConversation", json!({ "userId": 3, "conversationId": "d3-4" })).await;
    let range = json!({ "userId": 4, "conversationId": "g9", "minSeq": 14, "maxSeq": 15 });
    caller.ok("Message/SetUserSeqRange", range).await;
}

async fn applications(caller: &mut Caller) {
    let friend = json!({ "kind": "KIND_FRIEND", "applicantId": 4, "userId": 6, "message": "Hi!" });
    caller.ok("Application/Apply", friend).await;
    let join = json!({ "kind": "KIND_JOIN", "applicantId": 1, "groupId": 11, "reference": "r-1" });
    caller.ok("Application/Apply", join).await;
    let invite = json!({ "kind": "KIND_INVITE", "applicantId": 3, "userId": 5, "groupId": 10 });
    caller.ok("Application/Apply", invite).await;
}

/// Waits until the senders have read up to their last messages.
async fn own_marks(caller: &mut Caller) {
    let begun = Instant::now();
    for (user, conversation, seq) in [(1, "d1-2", "9"), (2, "g9", "1"), (3, "g10", "1"), (5, "g9", "1")] {
        loop {
            let of = json!({ "userId": user, "conversationIds": [conversation] });
            let read = caller.ok("Message/GetReadSeqs", of).await;
            let read: i64 = read["results"][0]["read"]["readSeq"].as_str().unwrap_or("0").parse().unwrap();
            if read >= seq.parse().unwrap() {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{user} has not read {conversation}");
        }
    }
}
