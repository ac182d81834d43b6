//! The commands in the runbook and on operator pages run as printed, in the container of a node in the
//! compose file.

use std::{cell::RefCell, path::Path, time::Duration};

use super::{files::text, stage::Stage};
use crate::{cluster::site::variable, node::data_stores::DataStores, polls::block_until, spawned::Started};

const PATIENCE: Duration = Duration::from_secs(30);
const PAGES: [&str; 4] = ["runbook", "cluster", "upgrade", "data"];
/// Prefixes of commands that do not run here: they start a node, need a terminal or a node on SQLite, are
/// only named, or are run by another test.
const NOT_RUN: [&str; 10] = [
    "kith serve",
    "kith top",
    "kith backup",
    "kith restore",
    "kith epoch after-restore",
    "kith forward",
    "kith import",
    "kith export",
    "kith convert",
    "kith token check",
];

/// Returns a page's commands in their order: code in a text, and lines without their comments.
fn commands(page: &str) -> Vec<String> {
    let content = text(&format!("docs/operate/{page}.md"));
    let mut found = Vec::new();
    for paragraph in content.split("\n\n") {
        let lines = paragraph.lines().filter_map(|line| line.strip_prefix("    "));
        found.extend(lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()));
        if !paragraph.starts_with("    ") {
            found.extend(paragraph.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")));
        }
    }
    let is_run = |command: &String| {
        ["kith ", "curl ", "docker "].iter().any(|program| command.starts_with(program))
            && !NOT_RUN.iter().any(|other| command.starts_with(other))
            && command != "kith inspect"
    };
    found.retain(is_run);
    found
}

/// Returns the command with real names instead of placeholders.
fn filled(command: &str, stage: &Stage, nodes: &[Started]) -> String {
    let [a, b, c] = [0, 1, 2].map(|node| stage.address_of_others(node));
    let names = [("NODE", &a), ("A", &a), ("B", &b), ("C", &c)];
    let services = [("kith-1:7600", &a), ("kith-2:7600", &b), ("kith-3:7600", &c)];
    let command = match command.split_once("--addr ") {
        Some((before, named)) => {
            let real = names.iter().chain(&services);
            let addresses = real.fold(named.to_owned(), |text, (name, address)| text.replace(name, address));
            format!("{before}--addr {addresses}")
        }
        None => command.replace("user/ID", "user/7").replace("NODE:7601", &nodes[0].operations()),
    };
    if command.starts_with("kith ") { format!("docker compose exec kith-1 {command}") } else { command }
}

/// Returns whether a command worked. A doctor may find problems that the compose file leaves open, but must
/// reach the node; a record may be in no tier.
fn is_done(command: &str, code: i32, printed: &str) -> bool {
    let command = command.trim_start_matches("docker compose exec kith-1 ");
    match command.split(' ').nth(1) {
        Some("doctor") => {
            let asked = ["node", "store", "redis", "port"];
            code <= 1
                && !printed.lines().any(|line| asked.contains(&line.split_whitespace().next().unwrap_or("")))
        }
        Some("inspect") => [0, 3].contains(&code),
        _ => code == 0,
    }
}

#[test]
fn commands_of_the_runbook_are_found() {
    let found = commands("runbook");
    for command in
        ["kith status --addr A,B,C", "curl -s http://NODE:7601/readyz", "kith doctor", "kith epoch start"]
    {
        assert!(found.iter().any(|one| one == command), "{command}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs servers: run cargo xtask test"]
async fn operators_commands_run_as_printed() {
    let [mongodb, cql] = ["KITH_TEST_MONGODB", "KITH_TEST_CQL"].map(variable);
    let lent = DataStores::of(Path::new("runbook"), &mongodb, Some(&cql)).await;
    let keyspace = lent.stores.keyspace.as_deref().unwrap();
    let stage = Stage::new("runbook", keyspace, 3);
    let nodes = stage.up();
    let made = [
        "docker compose exec kith-1 kith keys create chat --scopes backend --file callers.toml",
        "docker compose exec kith-1 kith call CreateUser '{\"user\": {\"userId\": 7, \"userName\": \"grace\"}}'",
    ];
    for line in made {
        let (code, printed) = stage.shell(line);
        assert_eq!(code, 0, "{line}: {printed}");
    }
    for page in PAGES {
        let found = commands(page);
        assert!(!found.is_empty(), "{page}");
        for command in found {
            let (line, last) = (filled(&command, &stage, &nodes), RefCell::new(String::new()));
            // A node needs a moment to follow a new epoch.
            let done = || {
                let (code, printed) = stage.shell(&line);
                last.replace(format!("{page}: {line}\nexit code {code}\n{printed}"));
                is_done(&command, code, &printed)
            };
            block_until(PATIENCE, done, || last.borrow().clone());
        }
    }
    nodes.into_iter().for_each(Started::stop);
}
