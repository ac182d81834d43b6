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

/// A row's figures, except those about how long something takes: they need more calls, an optimised build and
/// a machine that does nothing else.
async fn figures(name: &str, sizes: &Sizes) -> Vec<Figure> {
    let _alone = ALONE.lock().await;
    let plan = Plan::new(kith(), 1, 1);
    let load_test = LOAD_TESTS.iter().find(|load_test| load_test.name == name).unwrap();
    let mut figures = load_test.run(&plan, sizes).await.unwrap();
    let timed = |figure: &Figure| {
        // An event that never came does not depend on time.
        let came = figure.figure.is_some_and(|of| !of.is_nan());
        let is_pace = figure.name.ends_with("p99") || figure.name.ends_with("goodput");
        figure.unit == "ms" || is_pace || (figure.name.ends_with(" after") && came)
    };
    figures.retain(|figure| !timed(figure));
    figures
}

/// All figures in these rows hold. A failure in one row does not hide failures in the others.
async fn hold(names: &[&str], sizes: Sizes) {
    let mut failed = Vec::new();
    for name in names {
        let figures = figures(name, &sizes).await;
        let judged = figures.iter().filter(|figure| figure.target.is_some()).count();
        failed.extend((judged < 2).then(|| format!("{name} has too few figures: {figures:#?}")));
        let broken = figures.iter().filter(|figure| !figure.holds);
        failed.extend(broken.map(ToString::to_string));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the program of a node: run cargo xtask test"]
async fn rows_of_a_single_node_hold() {
    hold(&["F36", "F44"], SIZES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn rows_without_relations_hold() {
    hold(&["F35a", "F35b", "F40b", "F55", "F56", "F57", "F57b"], SIZES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn rows_with_relations_hold() {
    let _kept = Cassandra::shared().await.unwrap();
    let strict = ["F50a", "F50b", "F50c", "F52a", "F52b", "F52c"];
    hold(&strict, SIZES).await;
    hold(&["F53", "F54a", "F54b", "F54c", "F58", "F61", "F62"], SIZES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn marks_are_kept_while_redis_is_lost() {
    hold(&["F59a"], Sizes { writes: 100_000, ..SIZES }).await;
}
