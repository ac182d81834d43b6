//! A dump of OpenIM is converted, imported, and found again field by field.

#![cfg(feature = "embedded")]

mod dump;

use std::{collections::HashMap, env, fs, path::Path};

use serde_json::{Value, json};

use self::dump::Dump;
use crate::{
    commands::{CommandOutput, kith},
    moved_data::{Caller, counts, import},
    process::Node,
};

fn convert(dump: &Path, folder: &Path) -> CommandOutput {
    kith(["convert", "openim", dump.to_str().unwrap(), folder.to_str().unwrap(), "-o", "json"])
}

/// The numbers of ids, as the converter gave them.
struct Numbers(HashMap<(String, String), String>);

impl Numbers {
    fn read(folder: &Path) -> Self {
        let lines = fs::read_to_string(folder.join("ids.jsonl")).unwrap();
        let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            ((text(&line, "kind"), text(&line, "id")), text(&line, "number"))
        };
        Self(lines.lines().map(line).collect())
    }

    fn of(&self, kind: &str, id: &str) -> String {
        self.0.get(&(kind.to_owned(), id.to_owned())).cloned().unwrap_or_else(|| id.to_owned())
    }

    fn user(&self, id: &str) -> String {
        self.of("user", id)
    }
}

fn sorted(list: &Value, of: impl Fn(&Value) -> String) -> Vec<String> {
    let mut all: Vec<String> = list.as_array().map(|list| list.iter().map(of).collect()).unwrap_or_default();
    all.sort();
    all
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn assert_users(caller: &mut Caller, dump: &Dump, numbers: &Numbers) {
    for (at, id) in dump.users.iter().enumerate() {
        let user_id = numbers.user(id);
        let user = caller.ok("User/GetUser", json!({ "userId": user_id })).await;
        assert_eq!(user["user"]["nickName"], format!("User {at}"));
        let list = json!({ "userId": user_id, "pageSize": 1000 });
        let follows = caller.ok("Relation/ListFollowing", list.clone()).await;
        let found = sorted(&follows["follows"], |follow| text(&follow["targetId"]));
        let mut expected: Vec<String> = dump.kept_friends(at).iter().map(|id| numbers.user(id)).collect();
        expected.sort();
        assert_eq!(found, expected, "{id}");
        let blocks = caller.ok("Relation/ListBlocks", list).await;
        let found = sorted(&blocks["settings"], |block| text(&block["targetId"]));
        let expected: Vec<String> = dump.blocked(at).into_iter().map(|id| numbers.user(id)).collect();
        assert_eq!(found, expected, "{id}");
        let request = json!({ "receivedBy": user_id });
        let applications = caller.ok("Application/ListApplications", request).await;
        let found = sorted(&applications["applications"], |one| {
            let one = &one["application"];
            if one["kind"] == "KIND_FRIEND" { text(&one["applicantId"]) } else { String::new() }
        });
        let found: Vec<String> = found.into_iter().filter(|id| !id.is_empty()).collect();
        let expected: Vec<String> = dump.asked_by(at).into_iter().map(|id| numbers.user(id)).collect();
        assert_eq!(found, expected, "{id}");
    }
}

async fn assert_groups(caller: &mut Caller, dump: &Dump, numbers: &Numbers) {
    for (at, id) in dump.groups.iter().enumerate() {
        let group_id = numbers.of("group", id);
        let group = caller.ok("Group/GetGroup", json!({ "groupId": group_id })).await;
        assert_eq!(group["group"]["name"], format!("Group {at}"));
        let list = json!({ "groupId": group_id, "pageSize": 1000 });
        let members = caller.ok("Member/ListMembers", list).await;
        let found = sorted(&members["members"], |member| {
            format!("{} {} {}", text(&member["userId"]), text(&member["role"]), text(&member["joinTime"]))
        });
        let mut expected: Vec<String> = dump
            .members(at)
            .iter()
            .map(|(id, role, time)| format!("{} {role} {time}", numbers.user(id)))
            .collect();
        expected.sort();
        assert_eq!(found, expected, "{id}");
        let conversation = format!("g{group_id}");
        assert_messages(caller, &conversation, &dump.group_messages(at), numbers).await;
        let (reader, read) = dump.reader(at);
        let marks = json!({ "userId": numbers.user(reader), "conversationIds": [conversation] });
        let marks = caller.ok("Message/GetReadSeqs", marks).await;
        assert_eq!(marks["results"][0]["read"]["readSeq"], read.to_string(), "{id}");
    }
}

async fn assert_messages(
    caller: &mut Caller,
    conversation: &str,
    sent: &[(String, String)],
    numbers: &Numbers,
) {
    let pull = json!({ "conversationId": conversation, "limit": 1000 });
    let page = caller.ok("Message/PullMessages", pull).await;
    let found: Vec<(String, String, String)> = page["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["seq"]), text(&one["senderId"]), text(&one["body"])))
        .collect();
    let expected: Vec<(String, String, String)> = (1..)
        .zip(sent)
        .map(|(seq, (sender, body))| (format!("{seq}"), numbers.user(sender), body.clone()))
        .collect();
    assert_eq!(found, expected, "{conversation}");
}

async fn assert_direct(caller: &mut Caller, dump: &Dump, numbers: &Numbers) {
    for pair in 0..dump.pairs {
        let (one, other) = dump.pair(pair);
        let mut ids = [numbers.user(one), numbers.user(other)].map(|id| id.parse::<i64>().unwrap());
        ids.sort_unstable();
        let conversation = format!("d{}-{}", ids[0], ids[1]);
        assert_messages(caller, &conversation, &dump.direct_messages(pair), numbers).await;
    }
}

/// Converts and imports a dump of this many users, and a fifth as many groups.
async fn assert_converts(users: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("dump"), folder.path().join("converted"));
    let dump = Dump::write(&from, users);
    let converted = convert(&from, &to);
    assert_eq!(converted.code, 1, "{converted:?}");
    for file in ["friend.json:1: not a document of JSON", "msg.json:1: it has no doc_id"] {
        assert!(converted.err.contains(file), "{converted:?}");
    }
    assert_eq!(converted.notes().len(), 2, "{converted:?}");
    let node = Node::start();
    let imported = import(&node.grpc, &to);
    assert_eq!(imported.code, 0, "{imported:?}");
    let mut caller = Caller::open(&node.grpc).await;
    let numbers = Numbers::read(&to);
    assert_users(&mut caller, &dump, &numbers).await;
    assert_groups(&mut caller, &dump, &numbers).await;
    assert_direct(&mut caller, &dump, &numbers).await;

    // The numbers stay, so the files are the same, and an import finds everything.
    let before = fs::read_to_string(to.join("members.jsonl")).unwrap();
    assert_eq!(convert(&from, &to).code, 1);
    assert_eq!(fs::read_to_string(to.join("members.jsonl")).unwrap(), before);
    let again = import(&node.grpc, &to);
    for (kind, [imported, _, bad]) in counts(&again) {
        assert_eq!((imported, bad), (0, 0), "{kind}: {again:?}");
    }
}

/// `cargo xtask nightly` sets the variable.
#[tokio::test(flavor = "multi_thread")]
async fn dump_of_openim_is_found_again() {
    assert_converts(if env::var_os("KITH_TEST_LONG").is_some() { 1_000 } else { 100 }).await;
}
