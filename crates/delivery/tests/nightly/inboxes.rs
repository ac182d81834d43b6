//! Random inbox histories.

use crate::inbox_model::{MUTANTS, run};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask nightly"]
async fn long_histories_deliver_every_message_once() {
    let report = run(10_000, 90_000, None).await.unwrap();
    assert!(report.steps >= 90_000, "{report:?}");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask nightly"]
async fn every_rule_of_inboxes_is_needed() {
    let mut missed = Vec::new();
    for mutant in &MUTANTS {
        match run(10_000, 90_000, Some(mutant)).await {
            Ok(report) => missed.push(format!("{}: {report:?}", mutant.rule)),
            Err(found) => println!("{}: {}", mutant.rule, found.lines().next().unwrap_or_default()),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}
