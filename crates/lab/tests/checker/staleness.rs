use std::time::Duration;

use kith_lab::{
    checker::{Ages, Bounds, FaultEffect, KEPT},
    history::Level::Cached,
};

use crate::builder::{self, BOUNDS, HistoryBuilder, MS, SOUND, assert_judged, calls};

const C3: &[&str] = &["C3"];

/// Version 2 is acknowledged at 21 ms; the bound is 100 ms, or 1000 ms up to 500 ms after a fault.
fn read_at(began: u64) -> HistoryBuilder {
    HistoryBuilder::written_until(2).call(calls(1, 1).reads(Cached).from(began).done_as(1))
}

#[test]
fn staleness_counts_from_first_newer_write() {
    let history = HistoryBuilder::written_until(4).call(calls(1, 1).reads(Cached).from(121).done_as(1));
    assert_eq!(history.report().staleness.all.max, 100 * MS);
}

#[test]
fn newer_acknowledged_version_makes_older_stale() {
    let history = HistoryBuilder::of_one_record()
        .call(calls(2, 2).updates(20).from(10).to(90).done_as(2))
        .call(calls(3, 3).updates(30).from(10).to(40).done_as(3));
    let history = history.call(calls(1, 1).reads(Cached).from(50).done_as(1));
    assert_eq!(history.report().staleness.all.max, 10 * MS);
}

#[test]
fn cached_reads_are_no_older_than_their_bound() {
    let deleted = || HistoryBuilder::of_one_record().call(calls(2, 2).deletes().from(20).gone());
    let read = |at| calls(1, 1).reads(Cached).from(at);
    let open =
        HistoryBuilder::of_one_record().fault("away", 15, 30).call(calls(2, 2).updates(20).from(20).open());
    let two = read_at(950).fault("redis away", 30, 60).fault("redis away", 40, 500);
    assert_judged([
        ("as old as the bound", SOUND, read_at(121)),
        ("older", C3, read_at(122)),
        ("near a fault", SOUND, read_at(900).fault("redis away", 700, 800)),
        ("near a fault and older", C3, read_at(1_022).fault("redis away", 700, 800)),
        ("as a fault heals", SOUND, read_at(550).fault("redis away", 30, 50)),
        ("after a fault healed", C3, read_at(551).fault("redis away", 30, 50)),
        ("before a fault", C3, read_at(150).fault("redis away", 152, 200)),
        ("until the last end of a fault", SOUND, two),
        ("a deleted record", SOUND, deleted().call(read(121).done_as(1))),
        ("a record deleted longer ago", C3, deleted().call(read(122).done_as(1))),
        ("not found after the creation", C3, HistoryBuilder::of_one_record().call(read(103).gone())),
        ("an open write makes nothing stale", SOUND, open.call(read(5_000).done_as(1))),
    ]);
}

/// Like [`BOUNDS`], but one fault's effect lasts longer, and another's shorter.
fn bounds() -> Bounds {
    let effect = |bound, heals| {
        let [bound, heals] = [bound, heals].map(Duration::from_millis);
        FaultEffect { bound, heals }
    };
    let by_fault = [("death", effect(3_000, 900)), ("loss", effect(200, 50))];
    Bounds { by_fault: by_fault.map(|(name, effect)| (name.to_owned(), effect)).into(), ..BOUNDS }
}

/// The checks that fail for a read at this time, with these faults.
fn failed_checks_near(read: u64, faults: &[&str], on: u64, off: u64) -> Vec<&'static str> {
    let history = faults.iter().fold(read_at(read), |history, name| history.fault(name, on, off));
    builder::failed_checks(&history.judged_by(&bounds()))
}

#[test]
fn each_fault_has_its_own_bound_and_heals() {
    assert_eq!(failed_checks_near(1_500, &["death"], 1_400, 1_450), [""; 0]);
    assert_eq!(failed_checks_near(1_500, &["loss"], 1_450, 1_460), ["C3"]);
    assert_eq!(failed_checks_near(221, &["loss"], 180, 190), [""; 0]);
    assert_eq!(failed_checks_near(222, &["loss"], 180, 190), ["C3"]);
    assert_eq!(failed_checks_near(1_021, &["redis away"], 900, 950), [""; 0], "the default");
    assert_eq!(failed_checks_near(1_022, &["redis away"], 900, 950), ["C3"], "the default");
    assert_eq!(
        failed_checks_near(1_500, &["loss", "death"], 1_450, 1_460),
        [""; 0],
        "the longest of several"
    );
    assert_eq!(failed_checks_near(900, &["death"], 25, 30), [""; 0]);
    assert_eq!(failed_checks_near(931, &["death"], 25, 30), ["C3"]);
    assert_eq!(failed_checks_near(150, &["loss"], 90, 100), [""; 0]);
    assert_eq!(failed_checks_near(151, &["loss"], 90, 100), ["C3"]);
}

#[test]
fn ages_are_reported_in_total_and_by_fault() {
    let mut history = HistoryBuilder::written_until(2).fault("a", 4_000, 5_000).fault("b", 4_000, 5_000);
    for at in 0..99 {
        history = history.call(calls(1, 1).reads(Cached).from(1_000 + at).done_as(2));
    }
    history = history.call(calls(1, 1).reads(Cached).from(61).done_as(1));
    history = history.call(calls(1, 1).reads(Cached).from(4_021).done_as(1));
    let staleness = history.report().staleness;
    let all =
        Ages { reads: 101, p50: 0, p99: 40 * MS, p999: 4_000 * MS, max: 4_000 * MS, bound: None, over: 1 };
    assert_eq!(staleness.all, all);
    let Ages { reads, p99, max, over, .. } = staleness.undisturbed;
    assert_eq!((reads, p99, max, over), (100, 0, 40 * MS, 0));
    let faults: Vec<(&str, u64, u64)> =
        staleness.by_fault.iter().map(|(name, ages)| (name.as_str(), ages.reads, ages.over)).collect();
    assert_eq!(faults, [("a", 1, 1), ("b", 1, 1)]);
}

#[test]
fn violations_past_the_limit_are_only_counted() {
    let mut history = HistoryBuilder::written_until(2);
    for at in 0..30 {
        history = history.call(calls(1, 1).reads(Cached).from(1_000 + at).done_as(1));
    }
    let checked = &history.report().checks[2];
    assert_eq!((checked.violations.len(), checked.more, checked.violated()), (KEPT, 10, 30));
    assert!(history.report().to_string().contains("- and 10 more"));
}
