//! Two faults in a real cluster against the published alerts.

use kith_lab::{
    alerts::{CASES, CaseRun, Rules, run},
    faults::Plan,
};

use crate::kith;

/// Scrapes before the fault, and from its beginning on: as few as these alerts need.
const BEFORE: usize = 6;
const LASTS: usize = 16;

async fn ran(name: &str) -> CaseRun {
    let case = CASES.iter().find(|case| case.name == name).unwrap().within(BEFORE, LASTS);
    run(&case, &Plan::new(kith(), 2, 1), &Rules::published()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs servers: run cargo xtask test"]
async fn killed_and_cut_nodes_fire_only_their_alerts() {
    let (rules, folder) = (Rules::published(), tempfile::tempdir().unwrap());
    let killed = ran("one-killed").await.judge(&rules, folder.path()).await.unwrap();
    assert!(killed.holds(), "{killed:?}");
    let cut = ran("one-cut").await;
    let shown = cut.judge(&rules, folder.path()).await.unwrap();
    assert!(shown.holds(), "{shown:?}");
    // Tests the same nodes under wrong rules: a rule that is never true, and a rule that is true for a
    // healthy node.
    let never = rules.with("kith_bus_trusted == 0", "kith_bus_trusted == 2");
    let shown = cut.judge(&never, folder.path()).await.unwrap();
    assert!(!shown.holds() && shown.missing() == ["KithNodeUntrusted"], "{shown:?}");
    let always =
        rules.with("kith_bus_trusted == 0\n        for: 1m", "kith_bus_trusted <= 1\n        for: 0m");
    let shown = cut.judge(&always, folder.path()).await.unwrap();
    assert!(!shown.holds() && shown.early() == ["KithNodeUntrusted"], "{shown:?}");
}
