use kith_lab::history::{Call, CopyPlace::Store};

use crate::builder::{CallBuilder, HistoryBuilder, SOUND, assert_judged, calls};

const C8: &[&str] = &["C8"];

const RACERS: u32 = 64;

fn creates(client: u32, from: u64, to: u64) -> CallBuilder {
    calls(client, client % 4).key("name:eve").creates("eve", u64::from(1_000 + client)).from(from).to(to)
}

fn made(client: u32, from: u64, to: u64) -> Call {
    creates(client, from, to).made(&format!("user:{}", 100 + client), u64::from(1_000 + client))
}

/// All but the winners get the error that the name is taken.
fn race(winners: &[u32]) -> HistoryBuilder {
    (0..RACERS).fold(HistoryBuilder::default(), |history, client| {
        let (from, to) = (10 + u64::from(client), 200 + u64::from(client));
        history.call(if winners.contains(&client) {
            made(client, from, to)
        } else {
            creates(client, from, to).refused("ALREADY_EXISTS")
        })
    })
}

#[test]
fn a_race_for_a_name_has_one_winner() {
    assert_eq!(race(&[17]).failed_checks(), [""; 0]);
    assert_eq!(race(&[17, 40]).failed_checks(), ["C8"], "two winners");
    assert_eq!(race(&[]).failed_checks(), ["C8"], "no winner");
}

#[test]
fn creation_of_open_outcome_may_win_the_race() {
    let history = race(&[]).fault("away", 1, 400).call(creates(64, 5, 300).open());
    assert_eq!(history.failed_checks(), [""; 0]);
}

#[test]
fn name_refused_before_any_creation_is_caught() {
    let history =
        HistoryBuilder::default().call(creates(1, 10, 20).refused("ALREADY_EXISTS")).call(made(2, 30, 40));
    assert_eq!(history.failed_checks(), ["C8"]);
}

#[test]
fn a_name_has_one_owner_at_a_time() {
    let delete = calls(1, 1).key("user:101").deletes().from(50).to(60);
    let deleted = || HistoryBuilder::default().call(made(1, 10, 20)).call(delete.clone().gone());
    let open =
        HistoryBuilder::default().fault("away", 50, 60).call(made(1, 10, 20)).call(delete.clone().open());
    let still =
        HistoryBuilder::of_one_record().fault("away", 50, 60).call(calls(1, 1).deletes().from(50).open());
    let still = still.call(calls(2, 2).key("name:ada").creates("ada", 77).from(70).made("user:2", 77));
    let seen = HistoryBuilder::default().fault("away", 10, 20).call(creates(1, 10, 20).open());
    let seen = seen.call(calls(3, 3).key("user:101").from(30).done(1, 1_001));
    assert_judged([
        ("made again during the deletion", SOUND, deleted().call(made(2, 30, 55))),
        ("made again after the deletion", SOUND, deleted().call(made(2, 61, 65))),
        ("made again before the deletion", C8, deleted().call(made(2, 30, 45))),
        ("made again after an open deletion", SOUND, open.call(made(2, 61, 65))),
        ("the open deletion may have happened", SOUND, still.clone()),
        // The dump leaves out the second owner.
        ("the store still has the first owner", &["C5", "C8"], still.held(Store, 1, 10)),
        ("an owner that was only seen", SOUND, seen.clone()),
        ("a second owner of the name", C8, seen.call(made(2, 40, 45))),
    ]);
}
