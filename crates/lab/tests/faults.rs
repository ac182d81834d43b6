//! A short hunt: the harness, the servers, the links and the checker together. `cargo xtask lab` runs every
//! row.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kith_lab::faults::{Load, Mix, Plan, ROWS, run_and_judge};

const LOAD: Load = Load {
    pinned: 3,
    roaming: 1,
    before: Duration::from_secs(1),
    // A busy machine makes few calls.
    lasts: Some(Duration::from_secs(6)),
    // This is longer than a killed node's open transactions lock its records.
    after: Some(Duration::from_secs(12)),
    cold: 50,
    mix: Mix::WRITING,
    deaths: 0,
    sends: None,
};

/// The program that runs a node; the server's tests build it.
fn kith() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_kith-lab")).with_file_name("kith")
}

/// One cluster at a time: two would keep each other from being in time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn hunt(name: &str) {
    let _alone = ALONE.lock().await;
    let row = ROWS.iter().find(|row| row.name == name).unwrap();
    let plan = Plan::new(kith(), 2, 1);
    let folder = tempfile::tempdir().unwrap();
    let judged = run_and_judge(row, &plan, LOAD, folder.path()).await.unwrap();
    assert!(judged.holds(), "{}", judged.report());
    let report = judged.report();
    assert!(report.staleness.all.reads > 200, "{report}");
    let others = ["C8", "C9", "C10", "C12", "C13", "C14", "C15"];
    let silent = report.checks.iter().filter(|check| check.judged == 0);
    let mut silent = silent.map(|check| check.name.split(' ').next().unwrap());
    assert!(silent.all(|check| others.contains(&check)), "{report}");
}

#[tokio::test]
#[ignore = "needs servers: run cargo xtask test"]
async fn lost_broadcasts_leave_nothing_stale_or_lost() {
    hunt("F11b").await;
}

#[tokio::test]
#[ignore = "needs servers: run cargo xtask test"]
async fn killed_nodes_leave_nothing_stale_or_lost() {
    hunt("F43").await;
}
