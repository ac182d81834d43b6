//! The comparison works: the same faults are done to every scheme, and their effects are observed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../quick/measured.rs"]
mod measured;
mod rows;

use futures::future::join_all;
use kith_bench::comparison::{Fault, Run, Scheme, Sizes, run};

const SEED: u64 = 1;

async fn quick(scheme: Scheme, fault: Fault) -> Run {
    let run = run(scheme, fault, &Sizes::QUICK, SEED).await.unwrap();
    assert_eq!((run.ages.failed, run.refused), (0, 0), "{run:?}");
    assert!(run.ages.reads > 1_000 && run.writes > 50, "{run:?}");
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_fault_writes_agree_and_kith_is_fresh() {
    let runs = join_all(Scheme::ALL.map(|scheme| quick(scheme, Fault::Nothing))).await;
    for run in &runs {
        assert_eq!(run.writes, runs[0].writes, "{run:?}");
        assert!(run.scheme != Scheme::Kith || (run.stale_for_ever, run.ages.beyond) == (0, 0), "{run:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overtaken_load_stays_stale_except_in_kith() {
    let kith = quick(Scheme::Kith, Fault::Races).await;
    let other = quick(Scheme::DeleteAndPublish, Fault::Races).await;
    assert!(kith.loads > 50 && other.loads > 50, "nothing is raced: {kith:?}, {other:?}");
    assert_eq!((kith.stale_for_ever, kith.ages.beyond), (0, 0), "{kith:?}");
    assert!(other.stale_for_ever > 0 && other.ages.beyond > 0, "{other:?}");
}
