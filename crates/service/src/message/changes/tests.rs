//! Whether two edits are identical.

use kith_store::Edited;

use super::{super::sample::stored, *};
use crate::sample::user;

const NOW: Timestamp = Timestamp(9);

fn edit(body: &'static str) -> MessageEdit {
    MessageEdit { content_type: "".into(), body: body.into(), mentions: None, expected_edits: None }
}

/// A message with this number of edits and this body.
fn message(edits: u32, body: &'static str) -> Message {
    let edited =
        Some(Edited { count: edits, last: Timestamp(8), event: None }).filter(|edited| edited.count > 0);
    Message { body: body.into(), edited, ..stored(5, 1) }
}

#[test]
fn repeated_edit_is_the_last_edit() {
    let first = edit("new").of(&message(1, "old"), NOW);
    let again = edit("new").of(&message(2, "new"), Timestamp(10));
    assert_eq!((first.event.key, first.event.hash), (again.event.key, again.event.hash));
    let back = edit("old").of(&message(2, "new"), NOW);
    assert_ne!(back.event.key, first.event.key);
}

#[test]
fn edits_with_other_mentions_are_not_the_same() {
    let hash = |mentions| MessageEdit { mentions, ..edit("new") }.of(&message(0, "old"), NOW).event.hash;
    let all = [None, Some((vec![], true)), Some((vec![user(7)], false)), Some((vec![user(8)], false))];
    let hashes: Vec<_> = all.into_iter().map(hash).collect();
    for (at, one) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(one), "{at}");
    }
    let repeated = MessageEdit { mentions: Some((vec![user(7)], false)), ..edit("new") };
    let mentioning = Message { mentions: vec![user(7)], ..message(1, "new") };
    assert_eq!(repeated.edits_before(&mentioning), 0);
    assert_eq!(repeated.edits_before(&message(1, "new")), 1, "another edit");
}
