//! Random inbox histories, as many as a run of all tests can wait for. Long histories are in the executable
//! `nightly`.

use crate::inbox_model::{MUTANTS, run};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn every_message_is_delivered_once() {
    let report = run(1, 6_000, None).await.unwrap();
    assert!(report.steps >= 6_000, "{report:?}");
    for what in
        ["caught up", "continued", "listed again", "read", "reset", "reset by marks", "unsettled", "woken"]
    {
        assert!(report.counts.contains_key(what), "no {what}: {report:?}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn missing_rule_is_noticed() {
    let found = run(1, 20_000, Some(&MUTANTS[0])).await;
    assert!(found.is_err(), "{}: {found:?}", MUTANTS[0].rule);
}
