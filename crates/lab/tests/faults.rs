//! A short hunt: the harness, the servers, the links and the checker together.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kith_lab::{
    checker::CheckResult,
    faults::{Cassandra, JudgedRun, LOAD_TESTS, Load, Mix, Plan, ROWS, Sizes, run_and_judge},
};

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
    // As many messages as fit into the fault's time.
    sends: Some(0),
};

/// The program that runs a node; the server's tests build it.
fn kith() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_kith-lab")).with_file_name("kith")
}

/// One cluster at a time: two would keep each other from being in time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn run(name: &str) -> JudgedRun {
    let _alone = ALONE.lock().await;
    let row = ROWS.iter().find(|row| row.name == name).unwrap();
    let plan = Plan::new(kith(), 2, 1);
    let folder = tempfile::tempdir().unwrap();
    let judged = run_and_judge(row, &plan, LOAD, folder.path()).await.unwrap();
    assert!(judged.holds(), "{}", judged.report());
    judged
}

async fn hunt(name: &str) {
    let judged = run(name).await;
    let report = judged.report();
    assert!(report.staleness.all.reads > 200, "{report}");
    let others = ["C8", "C9", "C10", "C12", "C13", "C14", "C15"];
    let silent = report.checks.iter().filter(|check| check.judged == 0);
    let mut silent = silent.map(|check| check.name.split(' ').next().unwrap());
    assert!(silent.all(|check| others.contains(&check)), "{report}");
}

async fn send(name: &str) {
    let judged = run(name).await;
    let report = judged.report();
    for check in ["C3", "C9", "C10", "C15", "C17"] {
        // A busy machine makes few calls, and record reads are the fewest.
        let least = if check == "C3" { 5 } else { 20 };
        let is_judged = |checked: &CheckResult| checked.name.starts_with(check) && checked.judged > least;
        assert!(report.checks.iter().any(is_judged), "{check}: {report}");
    }
}

/// A row that is measured, in little.
async fn measure(name: &str) {
    let _alone = ALONE.lock().await;
    let plan = Plan::new(kith(), 1, 1);
    let load_test = LOAD_TESTS.iter().find(|load_test| load_test.name == name).unwrap();
    let figures = load_test.run(&plan, &Sizes::QUICK).await.unwrap();
    assert!(figures.iter().all(|figure| figure.holds), "{figures:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn messages_survive_loss_of_nodes_and_redis() {
    let _kept = Cassandra::shared().await.unwrap();
    // F60b takes three MongoDBs: `cargo xtask lab` runs it.
    for name in ["F60a", "F60c"] {
        send(name).await;
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn another_node_goes_on_with_an_erasure() {
    measure("F63").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn no_acknowledged_mark_is_lost_with_redis() {
    measure("F59a").await;
}
