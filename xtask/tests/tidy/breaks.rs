//! Checks that the rules in `buf.yaml` refuse changes to the contract that break clients, each by the rule
//! that is meant for it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::tree::{root, text, tracked};

/// The file, the text that is replaced everywhere in it, the new text, and the rule that refuses the change.
const BREAKS: [(&str, &str, &str, &str); 15] = [
    (USER, USER_ID, "message GetUserRequest {\n  int64 user_id = 9;", "FIELD_NO_DELETE"),
    (USER, USER_ID, "message GetUserRequest {\n  int32 user_id = 1;", "FIELD_SAME_TYPE"),
    (USER, USER_ID, "message GetUserRequest {\n  int64 id = 1;", "FIELD_SAME_NAME"),
    (USER, USER_ID, "message GetUserRequest {", "FIELD_NO_DELETE"),
    (USER, USER_ID, "message GetUserRequest {\n  repeated int64 user_id = 1;", "FIELD_SAME_CARDINALITY"),
    (USER, "GetUserResponse", "ReadUserResponse", "MESSAGE_NO_DELETE"),
    (USER, "rpc GetUser(", "rpc ReadUser(", "RPC_NO_DELETE"),
    (USER, "rpc GetUser(GetUserRequest)", "rpc GetUser(FindUserByNameRequest)", "RPC_SAME_REQUEST_TYPE"),
    (USER, "returns (GetUserResponse)", "returns (FindUserByNameResponse)", "RPC_SAME_RESPONSE_TYPE"),
    (USER, "returns (GetUserResponse)", "returns (stream GetUserResponse)", "RPC_SAME_SERVER_STREAMING"),
    (USER, "    option idempotency_level = NO_SIDE_EFFECTS;\n", "", "RPC_SAME_IDEMPOTENCY_LEVEL"),
    (USER, "GENDER_FEMALE", "GENDER_WOMAN", "ENUM_VALUE_SAME_NAME"),
    (USER, "  GENDER_FEMALE = 1;\n", "", "ENUM_VALUE_NO_DELETE"),
    (USER, "Gender ", "Sex ", "ENUM_NO_DELETE"),
    (SEQUENCE, "service SequenceService", "service NumberService", "SERVICE_NO_DELETE"),
];
const USER_ID: &str = "message GetUserRequest {\n  int64 user_id = 1;";
const USER: &str = "proto/kith/user/v1/user.proto";
const SEQUENCE: &str = "proto/kith/sequence/v1/sequence.proto";

/// Writes the contract with a change into its own folder.
fn changed(name: &str, file: &str, from: &str, to: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("breaks").join(name);
    for known in tracked(".proto").into_iter().chain(["buf.yaml".to_owned()]) {
        let mut text = text(&known);
        if known == file {
            assert!(text.contains(from), "{file} has no {from}");
            text = text.replace(from, to);
        }
        let copy = folder.join(known);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, text).unwrap();
    }
    folder
}

/// Returns whether buf accepts the contract in this folder, and what it prints.
fn breaking(folder: &Path) -> (bool, String) {
    let buf = env::var_os("KITH_TEST_BUF").expect("KITH_TEST_BUF names the buf program");
    let mut command = Command::new(buf);
    command
        .args(["breaking", "--error-format", "json", "--against"])
        .arg(root().join("proto/baseline.binpb"));
    let output = command.current_dir(folder).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).unwrap())
}

#[test]
#[ignore = "needs buf: cargo xtask test names it in KITH_TEST_BUF"]
fn contract_breaks_are_refused_by_their_rules() {
    for (number, (file, from, to, rule)) in BREAKS.into_iter().enumerate() {
        let (accepted, printed) = breaking(&changed(&format!("{number}-{rule}"), file, from, to));
        assert!(!accepted && printed.contains(&format!("\"type\":\"{rule}\"")), "{from} -> {to}: {printed}");
    }
}

#[test]
#[ignore = "needs buf: cargo xtask test names it in KITH_TEST_BUF"]
fn additions_to_the_contract_are_accepted() {
    let (from, to) = ("message GetUserRequest {\n", "message GetUserRequest {\n  string added = 99;\n");
    let (accepted, printed) = breaking(&changed("addition", USER, from, to));
    assert!(accepted, "{printed}");
}
