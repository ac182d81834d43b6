//! Random histories, as many as a run of all tests can wait for. Long histories are in the executable
//! `nightly`.

use crate::model::{MUTANTS, run};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn nothing_wrong_is_served() {
    let report = run(1, 2_000, None).await.unwrap();
    assert!(report.steps >= 2_000 && report.ended > 200, "{report:?}");
    for answer in ["hit", "old", "miss", "busy", "held", "away", "stored", "lost", "head", "stored headers"] {
        assert!(report.answers.contains_key(answer), "no {answer}: {report:?}");
    }
}

#[test]
fn each_rule_has_a_mutant() {
    for number in 1..=11 {
        let rule = format!("W{number}: ");
        assert!(MUTANTS.iter().any(|mutant| mutant.rule.starts_with(&rule)), "{rule}");
    }
}
