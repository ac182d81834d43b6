//! Tables in CSV are converted, imported, and found again.

#![cfg(feature = "embedded")]

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    commands::{CommandOutput, kith},
    moved_data::{Caller, counts, import},
    process::Node,
};

const TABLES: [(&str, &str); 5] = [
    (
        "users",
        "\u{feff}userId,userName,nickName,age,params.about\n\
         7,ann,\"Ann, the \"\"first\"\"\",21,\"two\nlines\"\n\
         0b5c-1,bob,,,\n\
         8,cal,Cal\n\
         9,dan,Dan,30,\n",
    ),
    (
        "groups",
        "groupId,name,creatorId,tags:list,historyForNewMembers:bool\nchess,Chess,0b5c-1,a; b,T\n70,Go,7,,maybe\n",
    ),
    (
        "members",
        "groupId,userId,role,joinTime\n\
         chess,0b5c-1,ROLE_OWNER,2020-01-01T00:00:00Z\n\
         chess,7,ROLE_ADMIN,2021-01-01T00:00:00Z\n\
         chess,9,ROLE_MEMBER,2022-01-01T00:00:00Z\n",
    ),
    ("follows", "userId,targetId,followTime\n7,0b5c-1,2020-01-01T00:00:00Z\n0b5c-1,7,2021-01-01T00:00:00Z\n"),
    ("settings", "userId,targetId,remark,blockTime\n9,7,,2022-01-01T00:00:00Z\n7,0b5c-1,Bobby,\n"),
];
/// The first number of an id that is none.
const BOB: &str = "1000000000000";

fn convert(from: &Path, to: &Path) -> CommandOutput {
    kith(["convert", "csv", from.to_str().unwrap(), to.to_str().unwrap(), "-o", "json"])
}

fn assert_bad_rows(converted: &CommandOutput) {
    let named = ["users.csv:5: ", "groups.csv:3: historyForNewMembers is neither true nor false"];
    assert!(converted.code == 1 && converted.notes().len() == 2, "{converted:?}");
    named.iter().for_each(|named| assert!(converted.err.contains(named), "{named}: {converted:?}"));
}

async fn assert_found(address: &str) {
    let mut caller = Caller::open(address).await;
    let user = |user: i64| json!({ "userId": user });
    let ann = &caller.ok("User/GetUser", user(7)).await["user"];
    let fields = |value: &Value, names: [&str; 3]| names.map(|name| value[name].clone());
    let found = fields(ann, ["nickName", "age", "params"]);
    assert_eq!(found, [json!("Ann, the \"first\""), json!(21), json!({ "about": "two\nlines" })]);
    let group = json!({ "groupId": 1_000_000_000_001_i64 });
    let chess = &caller.ok("Group/GetGroup", group.clone()).await["group"];
    let found = fields(chess, ["tags", "historyForNewMembers", "creatorId"]);
    assert_eq!(found, [json!(["a", "b"]), json!(true), json!(BOB)]);
    let members = caller.ok("Member/ListMembers", group).await;
    let members =
        members["members"].as_array().unwrap().iter().map(|one| fields(one, ["userId", "role", "_"]));
    let role = |user: &str, role: &str| [json!(user), json!(role), Value::Null];
    let expected = [role("7", "ROLE_ADMIN"), role("9", "ROLE_MEMBER"), role(BOB, "ROLE_OWNER")];
    assert_eq!(members.collect::<Vec<_>>(), expected);
    let friends = caller.ok("Relation/ListFriends", user(7)).await;
    assert_eq!(friends["userIds"], json!([BOB]));
    let blocks = caller.ok("Relation/ListBlocks", user(9)).await;
    assert_eq!(blocks["settings"][0]["targetId"], "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_in_csv_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("tables"), folder.path().join("converted"));
    fs::create_dir(&from).unwrap();
    let refused = convert(&from, &to);
    assert!(refused.code == 2 && refused.err.contains("has none of users.csv, groups.csv"), "{refused:?}");
    TABLES.iter().for_each(|(kind, table)| fs::write(from.join(format!("{kind}.csv")), table).unwrap());
    assert_bad_rows(&convert(&from, &to));
    let node = Node::start();
    let imported = import(&node.grpc, &to);
    assert_eq!(imported.code, 0, "{imported:?}");
    assert_found(&node.grpc).await;
    assert_bad_rows(&convert(&from, &to));
    let again = import(&node.grpc, &to);
    assert_eq!(again.code, 0, "{again:?}");
    counts(&again).iter().for_each(|(kind, [imported, ..])| assert_eq!(*imported, 0, "{kind}"));
    for header in ["userId,,userName", "userId,age:number"] {
        fs::write(from.join("users.csv"), format!("{header}\n1,a,b\n")).unwrap();
        let refused = convert(&from, &to);
        assert!(refused.code == 2 && refused.err.contains("users.csv"), "{refused:?}");
    }
}
