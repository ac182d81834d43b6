//! The near cache of the client for Rust, on a node that expects each try.

use std::{fs, sync::mpsc, time::Duration};

use kith_client::{
    NearCache,
    proto::user::v1::{UpdateUserRequest, User, user_service_client::UserServiceClient},
};
use serde_json::{Value, json};

use super::{Play, Script};

const GET: &str = "kith.user.v1.UserService/GetUser";

fn get(name: &str) -> Value {
    json!({"method": GET, "request": {"userId": 7}, "answer": {"user": {"userId": 7, "nickName": name}}})
}

/// A node that expects these tries, in their order. Time stands still until it is advanced: the runtime does
/// not advance it by itself while a blocking task runs.
struct Node {
    _time: mpsc::Sender<()>,
    script: Script,
    run: Value,
    play: Play,
    near: NearCache,
    _folder: tempfile::TempDir,
}

impl Node {
    fn expecting(tries: &[Value]) -> Self {
        let (time, until_dropped) = mpsc::channel::<()>();
        drop(tokio::task::spawn_blocking(move || until_dropped.recv()));
        tokio::time::pause();
        let folder = tempfile::tempdir().unwrap();
        let cases = json!([{"name": "case", "says": "A copy is used.", "steps": [], "node": tries}]);
        fs::write(folder.path().join("near.json"), cases.to_string()).unwrap();
        let script = Script::start(folder.path());
        let begun = script.ask("POST /begin/near/case");
        let play = Play::new(&begun);
        let near = NearCache::new(play.client.clone(), 100);
        Self { _time: time, script, run: begun["run"].clone(), play, near, _folder: folder }
    }

    async fn name(&self) -> String {
        self.near.user(7).await.unwrap().unwrap().nick_name.clone()
    }

    /// Ends the run. Each try was expected, and each that was expected has come.
    fn end(self) {
        let verdict = self.script.ask(&format!("POST /end/{}", self.run));
        assert_eq!(verdict["wrong"], json!([]));
    }
}

#[tokio::test]
async fn copy_answers_for_a_second_and_no_longer() {
    let node = Node::expecting(&[get("Ann"), get("Bea")]);
    let (one, other) = tokio::join!(node.name(), node.name());
    assert_eq!((&*one, &*other), ("Ann", "Ann"), "one flight");
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(node.name().await, "Ann");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(node.name().await, "Bea");
    node.end();
}

#[tokio::test]
async fn own_write_drops_the_copy() {
    let update = json!({"method": "kith.user.v1.UserService/UpdateUser", "ids": ["requestId"],
        "request": {"user": {"userId": 7, "nickName": "Bea"}}, "answer": {}});
    let node = Node::expecting(&[get("Ann"), update, get("Bea")]);
    assert_eq!(node.name().await, "Ann");
    let user = Some(User { user_id: 7, nick_name: "Bea".to_owned(), ..User::default() });
    let request = UpdateUserRequest { user, ..UpdateUserRequest::default() };
    UserServiceClient::new(node.play.client.clone()).update_user(request).await.unwrap();
    assert_eq!((node.name().await, node.name().await), ("Bea".to_owned(), "Bea".to_owned()));
    node.end();
}

#[tokio::test]
async fn absence_is_copied_and_an_error_is_not() {
    let group = |error: Value| json!({"method": "kith.group.v1.GroupService/GetGroup", "request": {"groupId": 9}, "error": error});
    let refused = group(json!({"code": "permission_denied", "reason": "SCOPE_MISSING"}));
    let absent = group(json!({"code": "not_found", "reason": "GROUP_NOT_FOUND"}));
    let node = Node::expecting(&[refused, absent]);
    assert!(node.near.group(9).await.is_err());
    assert_eq!(node.near.group(9).await.unwrap(), None);
    assert_eq!(node.near.group(9).await.unwrap(), None);
    node.end();
}
