//! A person at the shell of MongoDB, as far as a test needs one: a few commands in BSON over a socket.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::site::variable;

/// `OP_MSG`, the only kind of message that servers still take.
const OP_MSG: u32 = 2013;

/// Sets a text of a record, and nothing else.
pub(crate) fn set(database: &str, collection: &str, id: i64, field: &str, text: &str) {
    let query = document(&[number("_id", id)]);
    let change = document(&[inner(3, "$set", &document(&[string(field, text)]))]);
    let update = document(&[inner(3, "q", &query), inner(3, "u", &change)]);
    let updates = document(&[inner(3, "0", &update)]);
    let command =
        document(&[string("update", collection), inner(4, "updates", &updates), string("$db", database)]);
    let answer = ask(&command);
    assert!(contains(&answer, &element(16, "nModified", &1_i32.to_le_bytes())), "nothing was changed");
}

/// Drops a database with all that is in it.
pub(crate) fn drop_database(database: &str) {
    let one = element(16, "dropDatabase", &1_i32.to_le_bytes());
    let answer = ask(&document(&[one, string("$db", database)]));
    assert!(contains(&answer, &element(1, "ok", &1_f64.to_le_bytes())), "it was not dropped");
}

fn ask(command: &[u8]) -> Vec<u8> {
    let uri = variable("KITH_TEST_MONGODB");
    let hosts = uri.trim_start_matches("mongodb://").split(['/', '?', ',']).next().unwrap();
    let mut socket = TcpStream::connect(hosts.rsplit('@').next().unwrap()).unwrap();
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

fn inner(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    element(kind, name, value)
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
