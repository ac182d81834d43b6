//! Cases for fan-out notes, in stores that several nodes share.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{DueNote, FanOutNote, FanOutNoteStore, Stores};

fn notes(stores: &Stores) -> &dyn FanOutNoteStore {
    stores.fan_out_notes.as_deref().expect("nodes share this store")
}

fn note(conversation: &str, node: &str, step: u64) -> FanOutNote {
    FanOutNote { conversation: conversation.parse().unwrap(), node: node.parse().unwrap(), step }
}

async fn due(stores: &Stores, age: Duration, limit: usize) -> Vec<DueNote> {
    notes(stores).due_fan_out_notes(age, limit).await.unwrap()
}

async fn all(stores: &Stores) -> Vec<FanOutNote> {
    due(stores, Duration::ZERO, 100).await.into_iter().map(|due| due.note).collect()
}

/// Waits until this many notes are as old as this, by the store's clock.
async fn until_due(stores: &Stores, age: Duration, count: usize) -> Vec<DueNote> {
    let give_up = Instant::now() + Duration::from_secs(20);
    loop {
        let due = due(stores, age, 100).await;
        if due.len() >= count {
            return due;
        }
        assert!(Instant::now() < give_up, "the notes do not grow old");
        sleep(Duration::from_millis(5)).await;
    }
}

pub async fn note_is_kept_once(stores: Stores) {
    let one = note("g9223372036854775807", "node-1", u64::MAX);
    notes(&stores).keep_fan_out_note(&one).await.unwrap();
    until_due(&stores, Duration::from_millis(20), 1).await;
    notes(&stores).keep_fan_out_note(&one).await.unwrap();
    let found = due(&stores, Duration::from_millis(20), 100).await;
    assert_eq!(found.into_iter().map(|due| due.note).collect::<Vec<_>>(), [one], "the first time counts");
}

pub async fn note_is_removed_alone(stores: Stores) {
    let kept = [note("g9", "a", 1), note("d7-8", "a", 1), note("g9", "b", 1), note("g9", "a", 2)];
    for note in &kept {
        notes(&stores).keep_fan_out_note(note).await.unwrap();
    }
    notes(&stores).remove_fan_out_notes(&[note("g9", "a", 1), note("g9", "c", 1)]).await.unwrap();
    let found = all(&stores).await;
    assert_eq!(found.len(), 3);
    assert!(kept[1..].iter().all(|note| found.contains(note)), "{found:?}");
    notes(&stores).remove_fan_out_notes(&[]).await.unwrap();
    assert_eq!(all(&stores).await.len(), 3);
}

pub async fn notes_are_due_by_age(stores: Stores) {
    assert_eq!(due(&stores, Duration::ZERO, 100).await, []);
    notes(&stores).keep_fan_out_note(&note("g9", "a", 1)).await.unwrap();
    assert_eq!(due(&stores, Duration::from_secs(3600), 100).await, []);
    let found = until_due(&stores, Duration::from_millis(50), 1).await;
    assert!((Duration::from_millis(50)..Duration::from_secs(60)).contains(&found[0].age), "{found:?}");
}

pub async fn oldest_notes_come_first(stores: Stores) {
    for (step, count) in [(3, 1), (1, 2), (2, 3)] {
        notes(&stores).keep_fan_out_note(&note("g9", "a", step)).await.unwrap();
        // The next note is younger by the store's clock.
        until_due(&stores, Duration::from_millis(2), count).await;
    }
    let found = due(&stores, Duration::ZERO, 2).await;
    assert_eq!(found.iter().map(|due| due.note.step).collect::<Vec<_>>(), [3, 1]);
}
