use kith_lab::history::{Call, Level::Cached};

use crate::builder::{CallBuilder, HistoryBuilder, SOUND, assert_judged, calls};

const C4: &[&str] = &["C4"];

/// A strong read that finds a version.
fn read(client: u32, from: u64, version: u64) -> Call {
    calls(client, client).from(from).done_as(version)
}

/// A write that makes a version.
fn write(client: u32, from: u64, version: u64) -> Call {
    calls(client, client).updates(10 * version).from(from).done_as(version)
}

/// A record whose version 2 is written from 20 to 40.
fn written_until_40() -> HistoryBuilder {
    HistoryBuilder::of_one_record().call(calls(2, 2).updates(20).from(20).to(40).done_as(2))
}

/// A record with a write that has an open outcome from 20 on.
fn open_from_20() -> HistoryBuilder {
    HistoryBuilder::of_one_record().fault("away", 20, 30).call(calls(2, 2).updates(20).from(20).to(25).open())
}

#[test]
fn strong_reads_never_go_back() {
    let from_memory = calls(1, 1).reads(Cached).from(22).to(23).done_as(2);
    let seen = open_from_20().call(read(1, 100, 1)).call(read(1, 200, 2));
    assert_judged([
        (
            "with and without a write under way",
            SOUND,
            written_until_40().call(read(1, 22, 1)).call(read(1, 25, 2)),
        ),
        ("without a write before", C4, HistoryBuilder::written_until(2).call(read(1, 22, 1))),
        ("without what another read found", C4, written_until_40().call(read(1, 22, 2)).call(read(3, 25, 1))),
        ("without what a memory had", C4, written_until_40().call(from_memory).call(read(3, 25, 1))),
        ("of an open write much later", SOUND, seen.clone()),
        ("of an open write, and then not", C4, seen.call(read(1, 300, 1))),
    ]);
}

#[test]
fn read_of_a_later_write_is_caught() {
    let read = calls(1, 1).reads(Cached).from(15).to(16).done_as(2);
    let history = HistoryBuilder::written_until(2).call(read);
    let violations = &history.report().checks[3].violations;
    assert!(violations.iter().any(|text| text.contains("its write began at")), "{violations:?}");
}

#[test]
fn each_version_has_a_write_of_its_own() {
    let record = HistoryBuilder::of_one_record;
    let too_late = calls(2, 2).updates(20).from(50).to(55).open();
    let created = HistoryBuilder::default().fault("away", 1, 30);
    let created = created.call(calls(9, 9).key("name:ada").from(1).creates("ada", 10).open());
    let open = calls(3, 3).updates(20).from(20).open();
    let same = calls(2, 2).updates(77).from(15).to(30).done(2, 77);
    assert_judged([
        ("an open write fills a gap", SOUND, open_from_20().call(write(3, 40, 3))),
        ("a gap without a write", C4, record().call(write(3, 40, 3))),
        (
            "a write that began after the next version was shown",
            C4,
            record().call(write(3, 40, 3)).fault("away", 50, 60).call(too_late),
        ),
        ("one open write for two versions", C4, open_from_20().call(write(3, 40, 4))),
        // A huge version costs no time.
        ("a huge gap", C4, record().call(calls(3, 3).updates(7).from(40).done(u64::MAX - 1, 7))),
        ("the creation makes the first version", SOUND, created.clone().call(write(2, 40, 2))),
        ("a gap above the first version", C4, created.clone().call(write(2, 40, 3))),
        ("an open write fills it", SOUND, created.call(open).call(write(2, 40, 3))),
        ("two writes of one version", C4, HistoryBuilder::written_until(2).call(same)),
        ("versions against the order of writes", C4, record().call(write(2, 20, 3)).call(write(2, 30, 2))),
    ]);
}

#[test]
fn creations_and_deletions_are_in_order() {
    let record = HistoryBuilder::of_one_record;
    let gone = |calls: CallBuilder, from| calls.from(from).gone();
    let created = HistoryBuilder::default().call(calls(2, 2).from(0).to(9).creates("ada", 10).done(1, 10));
    let created = created.call(gone(calls(1, 1), 3)).call(read(1, 5, 1));
    let deleted = record().call(gone(calls(2, 2).deletes(), 20)).call(gone(calls(1, 1), 30));
    let deleted = deleted.call(gone(calls(1, 1).updates(20), 40)).call(gone(calls(3, 3).deletes(), 45));
    let open = record().fault("away", 20, 30).call(calls(2, 2).deletes().from(20).open());
    let open = open.call(read(1, 40, 1)).call(gone(calls(1, 1), 50));
    assert_judged([
        ("found or not while it is created", SOUND, created.clone()),
        ("not found after it was found", C4, created.call(gone(calls(1, 1), 7))),
        ("not found, and never deleted", C4, record().call(gone(calls(1, 1), 20))),
        ("not updated, and never deleted", C4, record().call(gone(calls(1, 1).updates(20), 20))),
        ("not found after its deletion", SOUND, deleted.clone()),
        ("found after its deletion", C4, deleted.clone().call(read(1, 50, 1))),
        ("updated after its deletion", C4, deleted.call(write(1, 50, 2))),
        ("an open deletion that happens", SOUND, open.clone()),
        ("found after an open deletion happened", C4, open.call(read(1, 60, 1))),
    ]);
}
