//! Sockets over a whole node: users' actions reach other users.

use std::net::SocketAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kith_proto::{
    admin::v1::GetNodeRequest,
    notice::v1::Notice,
    presence::v1::{GetPresenceRequest, Presence, PresenceState},
};
use serde_json::{Value, json};

use crate::{
    group_calls::join,
    node::{TestNode, until},
    notice_calls::{audience, new_notice, publish},
    relation_calls::{follow, node_with_users},
    sockets::{Socket, on},
};

async fn node_with<const N: usize>() -> (TestNode, [i64; N]) {
    node_with_users(on).await
}

fn direct(one: i64, other: i64) -> String {
    format!("d{}-{}", one.min(other), one.max(other))
}

fn text(body: &str) -> Value {
    json!({"contentType": "text/plain", "body": STANDARD.encode(body)})
}

/// Returns the body for a text to a conversation.
fn to(conversation: &str, body: &str) -> Value {
    let mut message = text(body);
    message["conversationId"] = conversation.into();
    message
}

/// Returns the answer to a call that succeeds.
async fn done(socket: &mut Socket, call: &str, body: Value) -> Value {
    let frame = socket.call(call, &body).await;
    assert!(frame.get("answer").is_some(), "{call}: {frame}");
    frame["answer"].clone()
}

/// Returns the numbers of the next `count` messages.
async fn seqs(socket: &mut Socket, count: usize) -> Vec<String> {
    let mut seqs = Vec::new();
    for _ in 0..count {
        seqs.push(socket.until("message").await["message"]["seq"].as_str().unwrap().to_owned());
    }
    seqs
}

/// Opens a socket after a cursor. Returns it with the frames up to `live`.
async fn resumed(address: SocketAddr, user: i64, cursor: &str) -> (Socket, Vec<Value>) {
    let mut socket = Socket::greeted(address, &json!({"user": user, "cursor": cursor})).await;
    let mut frames = vec![socket.next().await];
    while frames.last().is_none_or(|frame| frame.get("live").is_none()) {
        frames.push(socket.next().await);
    }
    (socket, frames)
}

#[tokio::test]
async fn cursor_brings_missed_messages_once_in_order() {
    let (node, [ann, bea]) = node_with().await;
    let mut of_ann = Socket::live(node.address, ann).await;
    let mut of_bea = Socket::live(node.address, bea).await;
    done(&mut of_ann, "SendMessage", to(&direct(ann, bea), "1")).await;
    let cursor = of_bea.until("message").await["cursor"].as_str().unwrap().to_owned();
    drop(of_bea);
    for body in ["2", "3", "4"] {
        done(&mut of_ann, "SendMessage", to(&direct(ann, bea), body)).await;
    }
    let (mut again, frames) = resumed(node.address, bea, &cursor).await;
    let missed: Vec<_> = frames.iter().filter_map(|frame| frame["message"]["seq"].as_str()).collect();
    assert_eq!(missed, ["2", "3", "4"]);
    done(&mut of_ann, "SendMessage", to(&direct(ann, bea), "5")).await;
    assert_eq!(seqs(&mut again, 1).await, ["5"]);
}

#[tokio::test]
async fn pages_on_sockets_fit_into_a_frame() {
    let (node, [ann, bea]) = node_with().await;
    let id = direct(ann, bea);
    let mut socket = Socket::live(node.address, ann).await;
    let body = "x".repeat(60_000);
    for _ in 0..20 {
        done(&mut socket, "SendMessage", to(&id, &body)).await;
    }
    // This socket has no messages of its own to read.
    let mut socket = Socket::live(node.address, ann).await;
    for (call, field) in [("PullMessages", "fromSeq"), ("History", "beforeSeq")] {
        let (mut seqs, mut at) = (Vec::new(), 0);
        loop {
            let mut body = json!({"conversationId": id});
            if at > 0 {
                body[field] = at.into();
            }
            socket.send(&json!({"id": 1, "call": call, "body": body})).await;
            let text = socket.next_text().await;
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame.get("id").is_none() {
                panic!("an answer, and not {frame}");
            }
            assert!(text.len() < 1 << 20, "{call}: {} bytes", text.len());
            let page = frame["answer"]["messages"].as_array().expect("a page");
            seqs.extend(page.iter().map(|one| one["seq"].as_str().unwrap().parse::<i64>().unwrap()));
            if frame["answer"].get("more").is_none() {
                break;
            }
            at = seqs.last().unwrap() + i64::from(call == "PullMessages");
        }
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=20).collect::<Vec<_>>(), "{call}");
    }
    let seqs: Vec<_> = (1..=20).collect();
    let found = done(&mut socket, "PullBySeqs", json!({"conversationId": id, "seqs": seqs})).await;
    assert_eq!(found["more"], true);
}

#[tokio::test]
async fn restart_resets_and_positions_go_on() {
    let (node, [ann, bea]) = node_with().await;
    let mut of_ann = Socket::live(node.address, ann).await;
    let id = direct(ann, bea);
    done(&mut of_ann, "SendMessage", to(&id, "1")).await;
    let mut of_bea = Socket::live(node.address, bea).await;
    done(&mut of_ann, "SendMessage", to(&id, "2")).await;
    let cursor = of_bea.until("message").await["cursor"].as_str().unwrap().to_owned();
    done(&mut of_ann, "SendMessage", to(&id, "3")).await;
    drop((of_ann, of_bea));
    let data = node.stop().await;
    let again = TestNode::start_with(|config| {
        on(config);
        config.data_dir = data.path().join("data");
    })
    .await;
    let mut of_bea = Socket::greeted(again.address, &json!({"user": bea, "cursor": cursor})).await;
    of_bea.until("reset").await;
    of_bea.send(&json!({"hello": {"user": bea, "positions": {id: 2}}})).await;
    assert_eq!(seqs(&mut of_bea, 1).await, ["3"], "the one that it lacks");
    of_bea.until("live").await;
}

#[tokio::test]
async fn typing_and_recalls_reach_the_other_one() {
    let (node, [ann, bea]) = node_with().await;
    let id = direct(ann, bea);
    let (mut of_ann, mut of_bea) =
        (Socket::live(node.address, ann).await, Socket::live(node.address, bea).await);
    done(&mut of_ann, "SendSignal", json!({"conversationId": id, "kind": "SIGNAL_KIND_TYPING"})).await;
    let signal = of_bea.until("signal").await["signal"].clone();
    assert_eq!(
        signal,
        json!({"conversationId": id, "userId": ann.to_string(), "activity": "SIGNAL_KIND_TYPING"})
    );
    done(&mut of_ann, "SendMessage", to(&id, "oh no")).await;
    done(&mut of_ann, "RecallMessage", json!({"conversationId": id, "seq": 1})).await;
    let sent = of_bea.until("message").await;
    assert_eq!(sent["message"]["seq"], "1");
    let event = of_bea.until("message").await["message"]["event"].clone();
    assert_eq!(event, json!({"recalled": {"seq": "1", "userId": ann.to_string()}}));
    let page = done(&mut of_bea, "PullMessages", json!({"conversationId": id})).await;
    assert!(page["messages"][0].get("body").is_none() && page["messages"][0]["recall"].is_object(), "{page}");
}

#[tokio::test]
async fn reactions_work_over_a_socket() {
    let (node, [ann, bea]) = node_with().await;
    let id = direct(ann, bea);
    let (mut of_ann, mut of_bea) =
        (Socket::live(node.address, ann).await, Socket::live(node.address, bea).await);
    done(&mut of_ann, "SendMessage", to(&id, "hi")).await;
    let reaction = json!({"conversationId": id, "seq": 1, "kind": "👍"});
    let counts = json!([{"kind": "👍", "count": 1}]);
    assert_eq!(done(&mut of_bea, "React", reaction.clone()).await, json!({"reactions": counts}));
    let signal = of_ann.until("signal").await["signal"].clone();
    let expected = json!({"conversationId": id, "userId": bea.to_string(), "reactions": {"seq": "1"}});
    assert_eq!(signal, expected);
    let seen = done(&mut of_bea, "BatchGetReactions", json!({"conversationId": id, "seqs": [1]})).await;
    assert_eq!(seen, json!({"messages": [{"seq": "1", "reactions": counts, "ownKinds": ["👍"]}]}));
    let listed = done(&mut of_ann, "ListReactions", reaction.clone()).await;
    assert_eq!(listed["reactions"][0]["userId"], bea.to_string());
    assert_eq!(done(&mut of_bea, "Unreact", reaction).await, json!({}));
}

#[tokio::test]
async fn notices_work_over_one_socket() {
    let (node, [ann, bea]) = node_with().await;
    audience(&node, 1, true).await;
    audience(&node, 2, false).await;
    let new = Notice { for_newcomers: true, must_confirm: true, ..new_notice(&[1]) };
    let id = publish(&node, new).await.notice_id.to_string();
    let mut socket = Socket::greeted(node.address, &json!({"user": ann, "notice_audiences": [1]})).await;
    let totals = socket.until("noticeTotals").await["noticeTotals"].clone();
    assert_eq!(totals, json!({"audienceId": 1, "unread": 1, "unconfirmed": 1}));
    socket.until("live").await;
    let reader = json!({"audienceId": 1, "readerId": ann.to_string()});
    let with = |fields: Value| {
        let mut body = reader.clone();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let listed = done(&mut socket, "ListNotices", reader.clone()).await;
    assert_eq!(listed["notices"][0]["notice"]["noticeId"], json!(id));
    let body = with(json!({"noticeIds": [id.clone()], "confirm": true}));
    let marked = done(&mut socket, "NoticeService.MarkRead", body.clone()).await;
    assert_eq!(marked["totals"], json!({"read": 1}));
    let totals = socket.until("noticeTotals").await["noticeTotals"].clone();
    assert_eq!(totals, json!({"audienceId": 1, "read": 1}));
    let states = done(&mut socket, "GetReadState", with(json!({"noticeIds": [id.clone()]}))).await;
    assert_eq!(states["states"][0]["confirmed"], true);
    done(&mut socket, "MarkUnread", with(json!({"noticeIds": [id.clone()]}))).await;
    assert_eq!(done(&mut socket, "CountNotices", reader.clone()).await["totals"], json!({"unread": 1}));
    assert_eq!(
        done(&mut socket, "GetNotice", json!({"noticeId": id})).await["notice"]["title"],
        "Maintenance"
    );
    let own = socket.call("MarkRead", &body).await;
    assert_eq!(own["error"]["code"], "invalid_argument", "that of messages: {own}");
    let other = socket.call("CountNotices", &json!({"audienceId": 1, "readerId": bea.to_string()})).await;
    assert_eq!(other["error"]["reason"], "NOT_ALLOWED", "{other}");
    let mut refused = Socket::greeted(node.address, &json!({"user": ann, "noticeAudiences": [2]})).await;
    refused.assert_closed(1008, "INVALID_FIELD").await;
}

#[tokio::test]
async fn presence_is_watched_on_a_socket() {
    let (node, [ann, bea, cid]) = node_with().await;
    // Friends see each other's presence.
    for (user, other) in [(ann, bea), (bea, ann), (ann, cid), (cid, ann)] {
        follow(&node, user, other).await.unwrap();
    }
    let mut of_ann = Socket::live(node.address, ann).await;
    let watch = async |socket: &mut Socket, id: i64, users: Value| {
        socket.send(&json!({"id": id, "call": "WatchPresence", "body": {"userIds": users}})).await;
    };
    let online = async |socket: &mut Socket, id: i64, user: i64| {
        loop {
            let frame = socket.until("answer").await;
            assert_eq!(frame["id"], id, "{frame}");
            let presence = &frame["answer"]["presence"];
            if presence["userId"] == json!(user.to_string()) && presence["state"] == "PRESENCE_STATE_ONLINE" {
                return;
            }
        }
    };
    watch(&mut of_ann, 5, json!([bea])).await;
    of_ann.until("answer").await;
    let of_bea = Socket::live(node.address, bea).await;
    online(&mut of_ann, 5, bea).await;
    watch(&mut of_ann, 6, json!([cid.to_string()])).await;
    let first = of_ann.until("answer").await;
    assert_eq!((&first["id"], &first["answer"]["presence"]["userId"]), (&json!(6), &json!(cid.to_string())));
    of_bea.close().await;
    let _of_cid = Socket::live(node.address, cid).await;
    online(&mut of_ann, 6, cid).await;
    watch(&mut of_ann, 7, json!([])).await;
    let refused = of_ann.until("error").await;
    assert_eq!((&refused["id"], &refused["error"]["reason"]), (&json!(7), &json!("INVALID_FIELD")));
}

#[tokio::test]
async fn user_acts_for_itself_alone() {
    let (node, [ann, bea, cid]) = node_with().await;
    let mut of_ann = Socket::live(node.address, ann).await;
    let mut of_bea = Socket::live(node.address, bea).await;
    done(&mut of_bea, "SendMessage", to(&direct(bea, cid), "secret")).await;
    let mut sends = to(&direct(bea, cid), "not mine");
    sends["senderId"] = bea.into();
    let tries = [
        ("SendMessage", sends),
        ("SendMessage", to(&direct(bea, cid), "not mine")),
        ("PullMessages", json!({"userId": bea, "conversationId": direct(bea, cid)})),
        ("PullMessages", json!({"conversationId": direct(bea, cid)})),
        ("History", json!({"conversationId": direct(bea, cid)})),
        ("ListConversations", json!({"userId": bea})),
        ("MarkRead", json!({"userId": bea, "conversationId": direct(bea, cid), "upTo": 1})),
        (
            "UpdateDialog",
            json!({"userId": bea, "conversationId": direct(bea, cid), "updateMask": "pinned", "settings": {"pinned": true}}),
        ),
        ("RecallMessage", json!({"conversationId": direct(bea, cid), "seq": 1})),
        ("React", json!({"conversationId": direct(bea, cid), "seq": 1, "kind": "a"})),
        ("BatchGetReactions", json!({"conversationId": direct(bea, cid), "seqs": [1]})),
        (
            "SendSignal",
            json!({"userId": bea, "conversationId": direct(bea, cid), "kind": "SIGNAL_KIND_TYPING"}),
        ),
    ];
    for (call, body) in tries {
        let frame = of_ann.call(call, &body).await;
        let code = frame["error"]["code"].as_str().unwrap_or_default();
        assert!(
            ["permission_denied", "not_found", "invalid_argument"].contains(&code),
            "{call} {body}: {frame}"
        );
        assert!(!frame.to_string().contains("c2VjcmV0"), "{frame}");
    }
}

#[tokio::test]
async fn unknown_users_and_extra_devices_are_refused() {
    let (node, [ann]) = node_with().await;
    let mut none = Socket::greeted(node.address, &json!({"user": ann + 1_000})).await;
    none.assert_closed(1008, "NOT_FOUND").await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(Socket::live(node.address, ann).await);
    }
    let mut ninth = Socket::greeted(node.address, &json!({"user": ann})).await;
    ninth.assert_closed(1013, "TOO_MANY_RECEIVERS").await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn user_is_online_while_a_socket_is_open() {
    let (node, [ann]) = node_with().await;
    let node_id = node.admin().get_node(GetNodeRequest {}).await.unwrap().into_inner().node_id;
    let first = Socket::live(node.address, ann).await;
    let second = Socket::live(node.address, ann).await;
    until(async || presence(&node, ann).await.sessions.len() == 2).await;
    let sessions = presence(&node, ann).await.sessions;
    assert!(sessions.iter().all(|session| session.gateway_id == format!("ws-{node_id}")), "{sessions:?}");
    assert!(sessions.iter().all(|session| session.device_id.starts_with("web.")), "{sessions:?}");
    first.close().await;
    until(async || presence(&node, ann).await.sessions.len() == 1).await;
    drop(second);
    until(async || presence(&node, ann).await.state == i32::from(PresenceState::Offline)).await;
}

async fn presence(node: &TestNode, user_id: i64) -> Presence {
    let answer = node.presence().get_presence(GetPresenceRequest { user_id }).await.unwrap();
    answer.into_inner().presence.unwrap()
}

#[tokio::test]
async fn all_that_a_chat_does_goes_over_one_socket() {
    let (node, [ann, bea, cid]) = node_with().await;
    let mut of_ann = Socket::live(node.address, ann).await;
    let mut of_bea = Socket::live(node.address, bea).await;
    // Reads another user.
    let user = done(&mut of_ann, "GetUser", json!({"userId": bea})).await;
    assert_eq!(user["user"]["userId"], bea.to_string());
    // Makes a contact from both sides, with its conversation.
    follow(&node, bea, ann).await.unwrap();
    of_ann.until("note").await;
    done(&mut of_ann, "Follow", json!({"userId": ann, "targetId": bea})).await;
    assert_eq!(of_bea.until("note").await["note"]["followerAdded"]["userId"], ann.to_string());
    assert_eq!(
        done(&mut of_ann, "ListFriends", json!({"userId": ann})).await["userIds"],
        json!([bea.to_string()])
    );
    let made = done(&mut of_ann, "CreateConversation", json!({"otherUserId": bea})).await;
    assert_eq!(made["conversation"]["conversationId"], direct(ann, bea));
    // Sends a message, reads its history, and marks it.
    done(&mut of_ann, "SendMessage", to(&direct(ann, bea), "hello")).await;
    of_bea.until("message").await;
    let history = done(&mut of_bea, "History", json!({"conversationId": direct(ann, bea)})).await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 1);
    done(&mut of_bea, "MarkRead", json!({"conversationId": direct(ann, bea), "upTo": 1})).await;
    assert_eq!(of_ann.until("signal").await["signal"]["readSeq"], "1");
    // Makes, joins, writes to and leaves a group.
    let group =
        json!({"name": "Film club", "visibility": "VISIBILITY_PUBLIC", "joinPolicy": "JOIN_POLICY_OPEN"});
    let made = done(&mut of_ann, "CreateGroup", json!({"group": group})).await;
    let group = made["group"]["groupId"].as_str().unwrap().to_owned();
    let id = format!("g{group}");
    done(&mut of_bea, "Join", json!({"groupId": group, "userId": bea})).await;
    let added = done(&mut of_ann, "AddMembers", json!({"groupId": group, "userIds": [cid]})).await;
    assert_eq!(added["invitedUserIds"], json!([cid.to_string()]), "a stranger");
    join(&node, group.parse().unwrap(), cid).await.unwrap();
    let sent = done(&mut of_bea, "SendMessage", to(&id, "hello all")).await;
    while of_ann.until("message").await["message"]["seq"] != sent["seq"] {}
    let members = done(&mut of_ann, "ListMembers", json!({"groupId": group})).await;
    assert_eq!(members["members"].as_array().unwrap().len(), 3);
    done(&mut of_bea, "Leave", json!({"groupId": group, "userId": bea})).await;
    let refused = of_bea.call("SendMessage", &to(&id, "once more")).await;
    assert_eq!(refused["error"]["code"], "permission_denied", "{refused}");
    // Ends the contact.
    done(&mut of_ann, "Unfriend", json!({"userId": ann, "friendId": bea})).await;
    assert_eq!(done(&mut of_ann, "ListFriends", json!({"userId": ann})).await, json!({}));
}
