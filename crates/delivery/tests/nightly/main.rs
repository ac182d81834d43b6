//! Long tests, run by `cargo xtask nightly`: random histories for windows, inboxes and sequences, and rules
//! that are taken away.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../it/inbox_model/mod.rs"]
mod inbox_model;
mod inboxes;
#[path = "../it/model/mod.rs"]
mod model;
#[path = "../it/sequence_model/mod.rs"]
mod sequence_model;

use model::{MUTANTS, run};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask nightly"]
async fn nothing_wrong_is_served_in_long_histories() {
    let report = run(10_000, 32_000, None).await.unwrap();
    assert!(report.steps >= 32_000 && report.ended > 3_000, "{report:?}");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask nightly"]
async fn every_rule_is_needed() {
    let mut missed = Vec::new();
    for mutant in &MUTANTS {
        match run(10_000, 2_000_000, Some(mutant)).await {
            Ok(report) => missed.push(format!("{}: {report:?}", mutant.rule)),
            Err(found) => println!("{}: {}", mutant.rule, found.lines().next().unwrap_or_default()),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask nightly"]
async fn long_histories_give_out_no_number_twice() {
    let report = sequence_model::run(100_000, 60_000, None).await.unwrap();
    assert!(report.steps >= 60_000 && report.ended > 8_000, "{report:?}");
}
