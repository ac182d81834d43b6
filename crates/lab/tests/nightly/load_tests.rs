//! Rows that are measured, in little: what holds on any machine, however slow the build is.

use std::time::Duration;

use kith_lab::faults::{Cassandra, Figure, LOAD_TESTS, Plan, Sizes};

use crate::kith;

const SIZES: Sizes = Sizes {
    measured: Duration::from_secs(2),
    lasts: Duration::from_secs(5),
    rounds: 2,
    writes: 500,
    ..Sizes::QUICK
};

/// One row at a time: two would keep each other from being in time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The figures of a row, but for those of how long something takes: they need more calls, an optimised build and a
/// machine that does nothing else.
async fn figures(name: &str, sizes: &Sizes) -> Vec<Figure> {
    let _alone = ALONE.lock().await;
    let plan = Plan::new(kith(), 1, 1);
    let load_test = LOAD_TESTS.iter().find(|load_test| load_test.name == name).unwrap();
    let mut figures = load_test.run(&plan, sizes).await.unwrap();
    let timed = |figure: &Figure| {
        // What never came about is no matter of time.
        let came = figure.figure.is_some_and(|of| !of.is_nan());
        let is_pace = figure.name.ends_with("p99") || figure.name.ends_with("goodput");
        figure.unit == "ms" || is_pace || (figure.name.ends_with(" after") && came)
    };
    figures.retain(|figure| !timed(figure));
    figures
}

async fn holds(name: &str) {
    holds_of(name, SIZES).await;
}

async fn holds_of(name: &str, sizes: Sizes) {
    let figures = figures(name, &sizes).await;
    assert!(figures.iter().filter(|figure| figure.target.is_some()).count() >= 2, "{figures:#?}");
    assert!(figures.iter().all(|figure| figure.holds), "{figures:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn store_keeps_its_pace_under_tenfold_reads() {
    holds("F35a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn store_keeps_its_pace_under_tenfold_writes() {
    holds("F35b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the program of a node: run cargo xtask test"]
async fn only_the_caller_that_floods_is_refused() {
    holds("F36").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn rolling_restart_fails_no_configured_client() {
    holds("F40b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the program of a node: run cargo xtask test"]
async fn calls_go_on_while_nobody_takes_the_log() {
    holds("F44").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn strict_write_decides_on_other_nodes_at_once() {
    let alone = ALONE.lock().await;
    let _kept = Cassandra::shared().await.unwrap();
    drop(alone);
    for name in ["F50a", "F50b", "F50c", "F52a", "F52b", "F52c"] {
        holds(name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn decisions_take_effect_once_while_nodes_die() {
    holds("F53").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn dead_sessions_expire_and_lost_ones_return() {
    let alone = ALONE.lock().await;
    let _kept = Cassandra::shared().await.unwrap();
    drop(alone);
    for name in ["F54a", "F54b", "F54c"] {
        holds(name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn dropped_database_is_not_served() {
    holds("F55").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn lost_channels_are_subscribed_again() {
    holds("F56").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn changes_by_hand_are_seen_within_their_bound() {
    holds("F57").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn counts_are_right_within_their_bound() {
    holds("F58").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn marks_are_kept_while_redis_is_lost() {
    holds_of("F59a", Sizes { writes: 100_000, ..SIZES }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn changed_messages_are_read_as_they_are_now() {
    holds("F61").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn removed_members_send_and_read_nothing_more() {
    holds("F62").await;
}
