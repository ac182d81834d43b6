//! The demonstration runs to its end, with few users.

use std::{fmt::Write as _, fs};

use kith_lab::demo::Demo;

use crate::kith;

const USERS: u32 = 250;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn every_chapter_is_shown_and_the_promise_holds() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.jsonl");
    let mut lines = String::new();
    for id in 1..=USERS {
        writeln!(lines, "{{\"userId\":{id},\"userName\":\"person_{id}\"}}").unwrap();
    }
    fs::write(&users, lines).unwrap();
    let mut printed = Vec::new();
    let ended = Demo { kith: kith(), users }.run(&mut |line| printed.push(line.to_owned())).await;
    let printed = printed.join("\n");
    ended.unwrap_or_else(|error| panic!("{error:#}\n{printed}"));
    let chapters = ["THREE NODES", "A READ", "A WRITE", "REDIS IS KILLED", "NODE C IS KILLED", "IN THE END"];
    for chapter in chapters {
        assert!(printed.contains(chapter), "{chapter} is missing in:\n{printed}");
    }
    for shown in ["250", "answers from redis", "user/", "writes done, 0 refused", "from memory"] {
        assert!(printed.contains(shown), "{shown} is missing in:\n{printed}");
    }
}
