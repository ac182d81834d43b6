//! `kith forward` over a node that keeps changes, with a receiver of its own.

mod alerts;
mod scene;

use std::{
    collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, process::Stdio, sync::Arc, time::Duration,
};

use kith_forward::Secrets;
use parking_lot::Mutex;
use serde_json::json;

use self::scene::Scene;
use crate::{
    polls::until,
    receiver::{Reaction, Request},
    spawned::{KilledOnDrop, http, output_of, refused, signal},
};

const PATIENCE: Duration = Duration::from_secs(60);
const SECRETS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n";

/// Changes a record of every kind.
fn change_all(scene: &Scene) {
    for id in [7, 8, 9] {
        scene.call("CreateUser", &json!({"user": {"userId": id, "userName": format!("user {id}")}}));
    }
    scene.call("CreateGroup", &json!({"group": {"groupId": 9, "name": "Readers", "creatorId": 7}}));
    scene.call("AddMembers", &json!({"groupId": 9, "userIds": [8, 9]}));
    scene.call("Follow", &json!({"userId": 7, "targetId": 8}));
    scene.call("Block", &json!({"userId": 8, "targetId": 9}));
    let message =
        |sender: i64| json!({"groupId": 9, "senderId": sender, "contentType": "text/plain", "body": "aGk="});
    (0..3).for_each(|_| drop(scene.call("SendMessage", &message(8))));
    scene.call("MessageService/MarkRead", &json!({"userId": 9, "conversationId": "g9", "upTo": 2}));
    scene.call("TrimConversation", &json!({"conversationId": "g9", "minSeq": 1}));
    scene.call("RegisterAudience", &json!({"audience": {"audienceId": 3, "name": "Customers"}}));
    scene.call("PublishNotice", &json!({"notice": {"noticeId": 5, "title": "News", "audienceIds": [3]}}));
}

const KINDS: [&str; 11] = [
    "audience",
    "block",
    "conversation",
    "dialog",
    "follow",
    "group",
    "member",
    "messages",
    "notice",
    "roster",
    "user",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_arrives_and_nothing_erased_does() {
    let scene = Scene::set(|_| Reaction::Status(200)).await;
    let begun = scene.call("GetCursor", &json!({}));
    let mut forwarder = scene.forward().await;
    change_all(&scene);
    let came = || {
        let types = scene.last().into_keys().map(|name| name.split('.').next().unwrap().to_owned());
        types.collect::<BTreeSet<_>>()
    };
    until(PATIENCE, async || came().len() == KINDS.len()).await;
    assert!(came().iter().eq(KINDS), "{:?}", came());
    let record = |name: &str| scene.last()[name]["record"].clone();
    assert_eq!(record(r#"user.changed {"userId":"7"}"#)["userName"], "user 7");
    assert_eq!(record(r#"member.changed {"groupId":"9","userId":"8"}"#)["userId"], "8");
    assert_eq!(record(r#"notice.changed {"noticeId":"5"}"#)["title"], "News");
    // A user is deleted, and its messages are erased: what is sent of the same changes now has no content.
    scene.call("EraseUserMessages", &json!({"userId": 8}));
    scene.call("DeleteUser", &json!({"userId": 8}));
    let erased =
        || scene.call("EraseUserMessages", &json!({"userId": 8}))["state"] == "ERASURE_STATE_FINISHED";
    until(PATIENCE, async || erased()).await;
    signal(forwarder.0.id(), "-TERM");
    assert_eq!(forwarder.0.wait().unwrap().code(), Some(0));
    let before = scene.receiver.requests.lock().len();
    let words =
        format!("forward webhook --name again RECEIVER --after {}", begun["cursor"].as_str().unwrap());
    let _again = KilledOnDrop(scene.command(&words).stderr(Stdio::null()).spawn().unwrap());
    // A dialog has the last message, too.
    let is_erasure = |request: &Request| {
        let text = String::from_utf8_lossy(&request.body);
        text.contains("messages.changed") && text.contains(r#"{"erased":{"userId":"8"}}"#)
    };
    until(PATIENCE, async || scene.receiver.requests.lock()[before..].iter().any(is_erasure)).await;
    let secrets = Secrets::parse(SECRETS).unwrap();
    let mut messages = 0;
    for request in &scene.receiver.requests.lock()[before..] {
        let text = String::from_utf8(request.body.clone()).unwrap();
        assert!(!text.contains("aGk=") && !text.contains("user 8"), "{text}");
        messages += usize::from(text.contains("messages.changed"));
        let signed =
            secrets.sign(&request.id(), request.header("webhook-timestamp").parse().unwrap(), &request.body);
        assert_eq!(request.header("webhook-signature"), signed.to_lowercase());
    }
    assert!(messages > 4, "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_misses_nothing() {
    let scene = Scene::set(|_| Reaction::Status(200)).await;
    drop(scene.forward().await);
    for round in 0..4 {
        let forwarder = scene.forward().await;
        for id in 0..10 {
            scene.call(
                "CreateUser",
                &json!({"user": {"userId": 100 + round * 10 + id, "userName": format!("user {round} {id}")}}),
            );
        }
        drop(forwarder);
    }
    let mut forwarder = scene.forward().await;
    until(PATIENCE, async || scene.last().len() == 40).await;
    // Another process is kept out, and a signal ends the first process.
    let second = refused(scene.command("forward webhook --name search RECEIVER --from-now"));
    assert!(second.contains("another process uses"), "{second}");
    assert_eq!(scene.json("forward status --name search")["running"], true);
    signal(forwarder.0.id(), "-TERM");
    assert_eq!(forwarder.0.wait().unwrap().code(), Some(0));
    let status = scene.json("forward status --name search");
    assert_eq!((&status["running"], &status["parked"]), (&json!(false), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_record_is_shown_and_retried() {
    let fails = Arc::new(Mutex::new(true));
    let failing = Arc::clone(&fails);
    let react = move |request: &Request| match *failing.lock() {
        true if request.json()["data"]["key"]["userId"] == "8" => Reaction::Status(422),
        _ => Reaction::Status(200),
    };
    let scene = Scene::set(react).await;
    let _forwarder = scene.forward().await;
    for id in [7, 8] {
        scene.call("CreateUser", &json!({"user": {"userId": id, "userName": format!("user {id}")}}));
    }
    let parked = || scene.json("forward status --name search")["parked"].clone();
    until(PATIENCE, async || parked() != json!([])).await;
    assert_eq!(parked()[0]["record"], "user/8");
    assert_eq!(parked()[0]["reason"], "the receiver answers 422");
    until(PATIENCE, async || http(&scene.metrics, "GET", "/metrics").1.contains("kith_forward_parked 1"))
        .await;
    let unknown = refused(scene.command("forward retry --name search user/7"));
    assert!(unknown.contains("user/7 is not parked"), "{unknown}");
    *fails.lock() = false;
    assert_eq!(scene.json("forward retry --name search user/8"), json!({"records": 1}));
    until(PATIENCE, async || parked() == json!([])).await;
    let tested = scene.json("forward test RECEIVER");
    assert_eq!(tested, json!({"delivered": true, "answer": "the receiver answers 200"}));
    assert_eq!(scene.receiver.requests.lock().last().unwrap().json()["type"], "forward.test");
}

#[tokio::test(flavor = "multi_thread")]
async fn start_that_cannot_work_is_refused() {
    let scene = Scene::set(|_| Reaction::Status(410)).await;
    let secret = scene.folder.path().join("secret");
    for (words, why) in [
        ("forward webhook --name search RECEIVER", "there is no state of search yet"),
        ("forward webhook --name Search RECEIVER", "the name has 1 to 64 of"),
        ("forward webhook --name search RECEIVER --after wrong", ""),
        ("forward test --url https://127.0.0.1:1/ --secret-file secret", "--allow-private allows it"),
        ("forward test --url http://search.example/ --secret-file secret", "--allow-http allows it"),
        ("forward test --url https://a:b@search.example/ --secret-file secret", "no user and no password"),
        ("forward test --url https://search.example/ --secret-file absent", "there is no file absent"),
        ("forward status --name search2", "there is no state in ./forward/search2.json"),
    ] {
        let (code, _, err) = output_of(scene.command(words));
        assert!(matches!(code, Some(1 | 2)) && err.contains(why), "{words}: {err}");
        assert!(!err.contains("whsec_") && !err.contains("panicked"), "{err}");
    }
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o604)).unwrap();
    assert!(refused(scene.command("forward test RECEIVER")).contains("everybody on this machine may read"));
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_receiver_ends_the_process() {
    let scene = Scene::set(|_| Reaction::Status(410)).await;
    let mut forwarder = scene.forward().await;
    scene.call("CreateUser", &json!({"user": {"userId": 7, "userName": "ann"}}));
    assert_eq!(forwarder.0.wait().unwrap().code(), Some(1));
    let status = scene.json("forward status --name search");
    assert!(status["stopped"].as_str().unwrap().contains("answers 410"), "{status}");
}
