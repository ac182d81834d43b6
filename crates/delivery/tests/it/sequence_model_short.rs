//! Random histories, as many as a run of all tests can wait for. Long histories are in the executable
//! `nightly`.

use crate::sequence_model::{MUTANTS, run};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn no_number_is_given_out_twice() {
    let report = run(1, 8_000, None).await.unwrap();
    assert!(report.steps >= 8_000 && report.ended > 1_000, "{report:?}");
    for answer in ["some", "all", "fetch", "wait", "away", "ahead", "late", "put back", "given"] {
        assert!(report.answers.contains_key(answer), "no {answer}: {report:?}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn every_rule_of_numbers_is_needed() {
    let mut missed = Vec::new();
    for mutant in &MUTANTS {
        // Most are noticed within 10,000 steps, and then it ends. Some runs need ten times as many.
        match run(10_000, 640_000, Some(mutant)).await {
            Ok(report) => missed.push(format!("{}: {report:?}", mutant.rule)),
            Err(found) => println!("{}: {}", mutant.rule, found.lines().next().unwrap_or_default()),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
}

#[test]
fn each_rule_of_numbers_has_a_mutant() {
    for number in 1..=9 {
        let rule = format!("S{number}: ");
        assert!(MUTANTS.iter().any(|mutant| mutant.rule.starts_with(&rule)), "{rule}");
    }
}
