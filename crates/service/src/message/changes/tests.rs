//! Whether two edits are identical.

use kith_proto::message::v1::Event;
use kith_store::{Edited, MessageKind};
use prost::Message as _;

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
fn edit_to_the_original_content_is_an_edit() {
    let ContentChange::Edit(content) = edit("new").of(&message(0, "new"), NOW).content else { panic!() };
    assert_eq!(content.edits_before, 0);
}

#[test]
fn expected_edits_decide() {
    for expected in [0, 2, 7] {
        let edit = MessageEdit { expected_edits: Some(expected), ..edit("new") };
        let ContentChange::Edit(content) = edit.of(&message(2, "new"), NOW).content else { panic!() };
        assert_eq!(content.edits_before, expected);
    }
}

#[test]
fn mentions_stay_unless_they_are_given() {
    let mentioning = Message { mentions: vec![user(7)], mention_all: true, ..message(0, "old") };
    let with = |mentions| {
        let edit = MessageEdit { mentions, ..edit("new") };
        let ContentChange::Edit(content) = edit.of(&mentioning, NOW).content else { panic!() };
        (content.mentions, content.mention_all)
    };
    assert_eq!(with(None), (vec![user(7)], true));
    assert_eq!(with(Some((vec![], false))), (vec![], false));
    assert_eq!(with(Some((vec![user(8)], true))), (vec![user(8)], true));
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

#[test]
fn event_is_silent_and_says_which_message() {
    let target = ChangeTarget { conversation: super::super::sample::group(9), seq: 5, by: Some(user(7)) };
    let recalled = recall(target, NOW);
    let edited = edit("new").of(&message(0, "old"), NOW);
    assert_eq!(recalled.event.key, MessageKey::of_recall(5));
    assert_eq!(edited.event.key, MessageKey::of_edit(5, 0));
    for event in [&recalled.event, &edited.event] {
        assert!(event.silent && event.sender.is_none() && event.kind == MessageKind::Event);
    }
    let what = |event: &NewMessage| Event::decode(event.body.clone()).unwrap().what.unwrap();
    assert_eq!(what(&recalled.event), What::Recalled(MessageRecalled { seq: 5, user_id: 7 }));
    assert_eq!(what(&edited.event), What::Edited(MessageEdited { seq: 5 }));
}
