//! A minimal MongoDB shell: a few commands in BSON over a socket.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::cluster::site::variable;

/// The collection with a profile's commands.
const PROFILE: &str = "system.profile";
/// `OP_MSG`, the only message kind that servers still accept.
const OP_MSG: u32 = 2013;

/// Sets a text in a record, and nothing else.
pub(crate) fn set(database: &str, collection: &str, id: i64, field: &str, text: &str) {
    update(database, collection, id, &[element(3, "$set", &document(&[string(field, text)]))]);
}

/// Deletes a document that is named by a text.
pub(crate) fn delete_named(database: &str, collection: &str, id: &str) {
    delete_one(database, collection, &document(&[string("_id", id)]));
}

fn delete_one(database: &str, collection: &str, query: &[u8]) {
    let delete = document(&[element(3, "q", query), element(16, "limit", &1_i32.to_le_bytes())]);
    let deletes = element(4, "deletes", &document(&[element(3, "0", &delete)]));
    let answer = ask(&document(&[string("delete", collection), deletes, string("$db", database)]));
    assert!(contains(&answer, &element(16, "n", &1_i32.to_le_bytes())), "nothing was deleted");
}

/// Sets the body of one message in a conversation's first document, and nothing else. `place`: 0 is the first
/// message.
pub(crate) fn set_body(database: &str, conversation: &str, place: usize, body: &str) {
    let id = element(3, "_id", &document(&[string("c", conversation), number("d", 0)]));
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    let body = element(5, &format!("m.{place}.b"), &[&length[..], &[0], body.as_bytes()].concat());
    update_one(database, "messages", &document(&[id]), &[element(3, "$set", &document(&[body]))]);
}

fn update(database: &str, collection: &str, id: i64, change: &[Vec<u8>]) {
    update_one(database, collection, &document(&[number("_id", id)]), change);
}

fn update_one(database: &str, collection: &str, query: &[u8], change: &[Vec<u8>]) {
    let update = document(&[element(3, "q", query), element(3, "u", &document(change))]);
    let updates = document(&[element(3, "0", &update)]);
    let command =
        document(&[string("update", collection), element(4, "updates", &updates), string("$db", database)]);
    let answer = ask(&command);
    assert!(contains(&answer, &element(16, "nModified", &1_i32.to_le_bytes())), "nothing was changed");
}

/// Drops a collection.
pub(crate) fn drop_collection(database: &str, collection: &str) {
    let answer = ask(&document(&[string("drop", collection), string("$db", database)]));
    assert!(contains(&answer, &element(1, "ok", &1_f64.to_le_bytes())), "it was not dropped");
}

/// Copies a collection's documents to another database, without its indexes. Replaces the documents there.
pub(crate) fn copy_collection(from: &str, to: &str, collection: &str) {
    let out = element(3, "$out", &document(&[string("db", to), string("coll", collection)]));
    let pipeline = element(4, "pipeline", &document(&[element(3, "0", &document(&[out]))]));
    let cursor = element(3, "cursor", &document(&[]));
    let answer = ask(&document(&[string("aggregate", collection), pipeline, cursor, string("$db", from)]));
    assert!(contains(&answer, &element(1, "ok", &1_f64.to_le_bytes())), "it was not copied");
}

/// Drops a database with everything in it.
pub(crate) fn drop_database(database: &str) {
    let one = element(16, "dropDatabase", &1_i32.to_le_bytes());
    let answer = ask(&document(&[one, string("$db", database)]));
    assert!(contains(&answer, &element(1, "ok", &1_f64.to_le_bytes())), "it was not dropped");
}

/// Begins an empty profile that records all commands on a database, or ends it.
pub(crate) fn profile(database: &str, on: bool) {
    set_profile(database, 0);
    if on {
        ask(&document(&[string("drop", PROFILE), string("$db", database)]));
        set_profile(database, 2);
    }
}

/// Counts the profiled commands on a collection.
pub(crate) fn profiled(database: &str, collection: &str) -> i32 {
    let query = document(&[string("ns", &format!("{database}.{collection}"))]);
    let answer =
        ask(&document(&[string("count", PROFILE), element(3, "query", &query), string("$db", database)]));
    let before = element(16, "n", &[]);
    let at = answer.windows(before.len()).position(|window| window == before).unwrap() + before.len();
    i32::from_le_bytes(answer[at..at + 4].try_into().unwrap())
}

fn set_profile(database: &str, level: i32) {
    let profile = element(16, "profile", &level.to_le_bytes());
    let answer = ask(&document(&[profile, string("$db", database)]));
    assert!(contains(&answer, &element(1, "ok", &1_f64.to_le_bytes())), "there is no profile");
}

/// Returns the host and port in the connection string for the tests' MongoDB.
pub(crate) fn host() -> String {
    let uri = variable("KITH_TEST_MONGODB");
    let hosts = uri.trim_start_matches("mongodb://").split(['/', '?', ',']).next().unwrap();
    hosts.rsplit('@').next().unwrap().to_owned()
}

fn ask(command: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(host()).unwrap();
    let length = u32::try_from(16 + 5 + command.len()).unwrap();
    let head: Vec<u8> = [length, 1, 0, OP_MSG, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    socket.write_all(&[&head, &[0][..], command].concat()).unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap() - 4];
    socket.read_exact(&mut answer).unwrap();
    answer
}

fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let body = elements.concat();
    let length = u32::try_from(body.len() + 5).unwrap().to_le_bytes();
    [&length[..], &body, &[0]].concat()
}

fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

fn number(name: &str, value: i64) -> Vec<u8> {
    element(18, name, &value.to_le_bytes())
}

fn string(name: &str, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 1).unwrap().to_le_bytes();
    element(2, name, &[&length[..], text.as_bytes(), &[0]].concat())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
