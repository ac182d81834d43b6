//! A node's answers about all its records.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::filled::{CONVERSATIONS, GROUPS, USERS};
#[cfg(feature = "cluster")]
use crate::cluster::site::Peer;
use crate::http::Connection;

/// Fields that an import sets again: versions, its times of creation and change, and ids of applications
/// and what their receivers marked.
const NEW: [&str; 10] = [
    "version",
    "settingsVersion",
    "createTime",
    "updateTime",
    "expireTime",
    "applicationId",
    "receiveTime",
    "readTime",
    "peerVersion",
    "nextPageToken",
];
/// How long a node may take until its counts are exact.
const BOUND: Duration = Duration::from_secs(40);

/// Fields that a backup restores with another value: a page token has random bytes.
#[cfg(feature = "cluster")]
const RANDOM: [&str; 1] = ["nextPageToken"];

/// Calls a node in JSON.
pub(crate) struct Caller {
    address: SocketAddr,
    connection: Connection<TcpStream>,
    /// The fields that may differ.
    ignored: &'static [&'static str],
}

impl Caller {
    pub(crate) async fn open(address: &str) -> Self {
        let address = address.parse().unwrap();
        Self { address, connection: Connection::open(address).await, ignored: &NEW }
    }

    /// Opens a connection to a node of a cluster.
    #[cfg(feature = "cluster")]
    pub(crate) async fn of(node: &Peer) -> Self {
        Self::open(node.address().trim_start_matches("http://")).await
    }

    /// Compares what an import sets again, too.
    #[cfg(feature = "cluster")]
    pub(crate) fn exact(self) -> Self {
        Self { ignored: &RANDOM, ..self }
    }

    async fn call(&mut self, method: &str, body: &Value) -> (u16, Value) {
        let (service, name) = method.split_once('/').unwrap();
        let domain = service.to_lowercase();
        let path = format!("/kith.{domain}.v1.{service}Service/{name}");
        let answer = self.connection.json(&path, body).await;
        (answer.code, answer.json())
    }

    /// Calls a method, such as `User/GetUser`, which must succeed.
    pub(crate) async fn ok(&mut self, method: &str, body: Value) -> Value {
        let (code, answer) = self.call(method, &body).await;
        assert_eq!(code, 200, "{method} {body}: {answer}");
        answer
    }

    /// Calls a method that finds a record, or nothing.
    #[cfg(feature = "cluster")]
    pub(crate) async fn found(&mut self, method: &str, body: Value) -> Option<Value> {
        let (code, answer) = self.call(method, &body).await;
        assert!(code == 200 || answer["code"] == "not_found", "{method} {body}: {answer}");
        (code == 200).then_some(answer)
    }

    async fn note(&mut self, all: &mut BTreeMap<String, Value>, method: &str, body: Value) {
        let answer = self.answer(method, &body).await;
        all.insert(format!("{method} {body}"), answer);
    }

    /// An answer without what may differ, or the code of an error.
    async fn answer(&mut self, method: &str, body: &Value) -> Value {
        let (code, mut answer) = self.call(method, body).await;
        assert!(
            code == 200 || answer["code"] == "not_found" || answer["code"] == "permission_denied",
            "{answer}"
        );
        if code == 200 {
            without(self.ignored, &mut answer);
            answer
        } else {
            answer["code"].clone()
        }
    }

    /// All answers, by call.
    pub(super) async fn checklist(&mut self) -> BTreeMap<String, Value> {
        self.open_again().await;
        let mut all = BTreeMap::new();
        for user in USERS {
            self.of_user(user, &mut all).await;
        }
        for group in GROUPS {
            let of = json!({ "groupId": group, "pageSize": 1000 });
            for method in ["Member/ListMembers", "Member/ListBans", "Member/ExportMembers"] {
                self.note(&mut all, method, of.clone()).await;
            }
            for method in ["Group/GetGroup", "Member/CountMembers"] {
                self.note(&mut all, method, json!({ "groupId": group })).await;
            }
            self.note(&mut all, "Application/ListApplications", of).await;
            let receiver = json!({ "receiver": { "groupId": group } });
            self.note(&mut all, "Application/CountPending", receiver).await;
        }
        all
    }

    async fn of_user(&mut self, user: i64, all: &mut BTreeMap<String, Value>) {
        let of = json!({ "userId": user });
        for method in
            ["User/GetUser", "User/GetUserAccess", "Relation/CountRelations", "Member/CountMemberships"]
        {
            self.note(all, method, of.clone()).await;
        }
        let of = json!({ "userId": user, "pageSize": 100 });
        for method in [
            "Relation/ListFollowing",
            "Relation/ListFans",
            "Relation/ListFriends",
            "Relation/ListBlocks",
            "Relation/ListDoNotDisturb",
            "Relation/ExportSettings",
            "Member/ListMemberships",
            "Message/ListConversations",
        ] {
            self.note(all, method, of.clone()).await;
        }
        for list in ["sentBy", "receivedBy"] {
            self.note(all, "Application/ListApplications", json!({ list: user })).await;
        }
        self.note(all, "Application/CountPending", json!({ "receiver": { "userId": user } })).await;
        self.note(all, "Relation/BatchGetRelations", json!({ "userId": user, "targetIds": others(user) }))
            .await;
        self.note(all, "Message/CountUnread", json!({ "userId": user })).await;
        let reads = json!({ "userId": user, "conversationIds": CONVERSATIONS });
        for method in ["Message/GetReadSeqs", "Message/GetMaxSeqs"] {
            self.note(all, method, reads.clone()).await;
        }
        for conversation in CONVERSATIONS {
            let of = json!({ "userId": user, "conversationId": conversation });
            for method in ["Message/History", "Message/GetConversation"] {
                self.note(all, method, of.clone()).await;
            }
            let reacted = json!({ "userId": user, "conversationId": conversation, "withReactions": true });
            self.note(all, "Message/PullMessages", reacted).await;
        }
    }

    /// All answers, once they do not change any more: counts follow after a while.
    pub(super) async fn settled(&mut self) -> BTreeMap<String, Value> {
        let (begun, mut last) = (Instant::now(), self.checklist().await);
        loop {
            let next = self.checklist().await;
            if next == last {
                return next;
            }
            assert!(begun.elapsed() < BOUND, "the answers change");
            last = next;
        }
    }

    /// Waits until the node answers the same to each of these calls.
    pub(super) async fn until_answers(&mut self, expected: &BTreeMap<String, Value>) {
        let begun = Instant::now();
        self.open_again().await;
        for (call, answer) in expected {
            let (method, body) = call.split_once(' ').unwrap();
            let body = serde_json::from_str(body).unwrap();
            loop {
                let found = self.answer(method, &body).await;
                if found == *answer {
                    break;
                }
                assert!(begun.elapsed() < BOUND, "{call}\nwas {answer}\nis  {found}");
            }
        }
    }

    /// A node closes a connection that has waited for an import.
    async fn open_again(&mut self) {
        self.connection = Connection::open(self.address).await;
    }
}

fn others(user: i64) -> Vec<i64> {
    USERS.into_iter().filter(|other| *other != user).collect()
}

fn without(ignored: &[&str], answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            fields.retain(|name, _| !ignored.contains(&name.as_str()));
            fields.values_mut().for_each(|value| without(ignored, value));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| without(ignored, value)),
        _ => {}
    }
}
