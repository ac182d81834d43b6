//! Refused starts print one line, end with code 2, and leave nothing behind.

use std::{fs, path::Path};

use crate::{
    ephemeral::spawn::{files, serve},
    spawned::{kith, refused},
};

#[track_caller]
fn assert_refused(folder: &Path, flags: &[&str], line: &str) {
    let before = files(folder).len();
    assert_eq!(refused(serve(folder, flags)), format!("kith: {line}"));
    assert_eq!(files(folder).len(), before, "nothing is left behind");
}

#[test]
fn a_bad_line_of_a_seed_is_named_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (
            "{\"userName\":\"ann\"}\n\n{\"userName\":\n",
            "3: not JSON: EOF while parsing a value at column 12, in user_name",
        ),
        ("{\"age\":7}\n", "1: neither a user (userName) nor a group (name)"),
        ("{\"userName\":\"ann\"}\n{\"userName\":\"Ann\"}\n", "2: user_name is taken"),
        ("{\"user\":{\"userName\":\"ann\",\"age\":-1}}\n", "1: age must be 0 to 150"),
        ("{\"group\":{\"name\":\"\",\"shoeSize\":44}}\n", "1: group.shoeSize is no field of Group"),
    ];
    for (seed, line) in cases {
        fs::write(folder.path().join("seed"), seed).unwrap();
        assert_refused(folder.path(), &["--ephemeral", "--seed", "seed"], &format!("seed:{line}"));
    }
}

#[test]
fn a_seed_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = "seed: No such file or directory (os error 2)";
    assert_refused(folder.path(), &["--ephemeral", "--seed", "seed"], line);
}

#[test]
fn what_contradicts_data_in_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ["--ephemeral", "--set", "store.backend=cluster", "--set", "store.mongodb.uri=mongodb://x"];
    let line = "an ephemeral node keeps data in memory; leave store.backend = \"cluster\" out";
    assert_refused(folder.path(), &cluster, line);
    let line = "an ephemeral node keeps data in memory; leave --data-dir out";
    assert_refused(folder.path(), &["--ephemeral", "--data-dir", "d"], line);
    let line = "ephemeral.seed is for a node that says --ephemeral; use kith import for others";
    assert_refused(folder.path(), &["--set", "ephemeral.seed=s"], line);
    let line = "--port and --listen are both given; give one";
    assert_refused(folder.path(), &["--listen", "127.0.0.1:0"], line);
}

#[test]
fn unwritable_ports_file_ends_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let ports = ["--port", "0", "--operations-port", "0", "--ports-file", "nowhere/ports.json"];
    let ended = kith(folder.path(), &[&["serve", "--ephemeral"], &ports[..]].concat()).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&ended.stderr),
        "kith: --ports-file nowhere/ports.json: its folder is not there; make it, or name another file\n"
    );
}
