//! The append's times, by a clock that the tests set, and the commands that it sends.

use std::{collections::HashMap, time::Duration};

use kith_store::{Appended, NewMessage, Outcome, StoreError, Timestamp};
use tokio::time::Instant;

use super::{
    super::{
        append::{Log, append},
        documents::{DocumentInsert, DocumentSummary, EarlierSend, PushOutcome},
        hints::Hints,
    },
    batch, log, message, messages, new,
    scripted::{Command, Scripted, ScriptedAnswer},
};
use crate::mongo::error::out_of_time;

const MINUTE: Duration = Duration::from_secs(60);
const WITHIN: Duration = Duration::from_secs(10);
/// A long time, for tests about another time.
const LONG: Duration = Duration::from_secs(3600);

fn seconds(seconds: u64, answer: ScriptedAnswer) -> (Duration, ScriptedAnswer) {
    (Duration::from_secs(seconds), answer)
}

fn at_once(answer: ScriptedAnswer) -> (Duration, ScriptedAnswer) {
    (Duration::from_millis(1), answer)
}

fn tail(document: i64, size: i64) -> ScriptedAnswer {
    ScriptedAnswer::Tail(Some(DocumentSummary { document, size, sent: None, highest: None }))
}

async fn appended(
    documents: &Scripted,
    hint: Option<i64>,
    batch: &[NewMessage],
    within: Duration,
) -> Result<Vec<Appended>, StoreError> {
    let hints = Hints::default();
    hint.into_iter().for_each(|document| hints.set(log(), document));
    append(Log { documents, hints: &hints, conversation: log() }, batch, within).await
}

#[tokio::test(start_paused = true)]
async fn append_gives_up_by_time_and_not_by_tries() {
    let quick = Scripted::new([(Duration::from_millis(10), ScriptedAnswer::Pushed(PushOutcome::Unmatched))]);
    let begun = Instant::now();
    let error = appended(&quick, Some(0), &messages(["a"]), WITHIN).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
    assert_eq!(begun.elapsed(), WITHIN);
    assert_eq!(quick.commands().len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn append_given_up_halfway_is_unknown() {
    let part = Scripted::new([at_once(ScriptedAnswer::Pushed(PushOutcome::After(99, None)))]);
    let error = appended(&part, Some(0), &messages(["a", "b"]), WITHIN).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn refusal_after_a_part_is_unknown() {
    let full = || StoreError::Full { source: std::sync::Arc::new(std::io::Error::other("full")) };
    for refusal in [full(), StoreError::Overloaded, out_of_time(Outcome::NotApplied)] {
        let part = [ScriptedAnswer::Pushed(PushOutcome::After(99, None)), ScriptedAnswer::Failed(refusal)]
            .map(at_once);
        let error = appended(&Scripted::new(part), Some(0), &messages(["a", "b"]), WITHIN).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    }
    let alone = Scripted::new([at_once(ScriptedAnswer::Failed(full()))]);
    let error = appended(&alone, Some(0), &messages(["a"]), WITHIN).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn refusal_after_a_replay_is_unknown() {
    let sent = EarlierSend { seq: 3, hash: Some(message("a").hash), sent: Timestamp(0) };
    let found = HashMap::from([(message("a").key, sent)]);
    let answers = [
        ScriptedAnswer::Pushed(PushOutcome::Duplicate),
        ScriptedAnswer::Found(found),
        ScriptedAnswer::Failed(out_of_time(Outcome::NotApplied)),
    ];
    let replay = Scripted::new(answers.map(at_once));
    let error = appended(&replay, Some(0), &messages(["a", "b"]), WITHIN).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn full_document_permits_next_one_for_a_minute() {
    for (took, next) in [(59, Command::Make(1)), (60, Command::Tail), (4000, Command::Tail)] {
        let slow = Scripted::new([seconds(took, ScriptedAnswer::Pushed(PushOutcome::After(99, None)))]);
        appended(&slow, Some(0), &messages(["a", "b"]), 2 * LONG).await.unwrap_err();
        assert_eq!(slow.commands()[..2], [Command::Push(0), next], "the answer took {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn full_tail_permits_next_document_for_a_minute() {
    for (took, next) in [(59, Command::Make(1)), (60, Command::Tail), (4000, Command::Tail)] {
        let slow = Scripted::new([seconds(took, tail(0, 100))]);
        appended(&slow, None, &messages(["a"]), 2 * LONG).await.ok();
        assert_eq!(slow.commands()[..2], [Command::Tail, next], "the answer took {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn permission_that_ended_is_asked_for_again() {
    let answers = [
        (MINUTE, tail(0, 100)),
        at_once(tail(6, 100)),
        at_once(ScriptedAnswer::Made(DocumentInsert::Inserted)),
    ];
    let slow = Scripted::new(answers);
    assert_eq!(appended(&slow, None, &batch("m", 2), LONG).await.unwrap(), new([701, 702]));
    assert_eq!(slow.commands(), [Command::Tail, Command::Tail, Command::Make(7)]);
}

#[tokio::test(start_paused = true)]
async fn hint_permits_no_document() {
    let old = Scripted::new([at_once(ScriptedAnswer::Pushed(PushOutcome::Unmatched))]);
    appended(&old, Some(4), &messages(["a"]), Duration::from_millis(5)).await.unwrap_err();
    assert_eq!(old.commands()[..4], [Command::Push(4), Command::Push(5), Command::Find, Command::Tail]);
}

#[tokio::test(start_paused = true)]
async fn permission_ends_with_the_append() {
    let (hints, full) =
        (Hints::default(), Scripted::new([at_once(ScriptedAnswer::Pushed(PushOutcome::After(99, None)))]));
    hints.set(log(), 0);
    let of = |documents| Log { documents, hints: &hints, conversation: log() };
    assert_eq!(append(of(&full), &messages(["a"]), WITHIN).await.unwrap(), new([100]));
    let later = Scripted::new([tail(6, 5), ScriptedAnswer::Pushed(PushOutcome::After(5, None))].map(at_once));
    assert_eq!(append(of(&later), &messages(["b"]), WITHIN).await.unwrap(), new([606]));
    assert_eq!(later.commands(), [Command::Tail, Command::Push(6)]);
}

#[tokio::test(start_paused = true)]
async fn append_pushes_into_document_of_other_node() {
    let answers = [
        tail(2, 100),
        ScriptedAnswer::Made(DocumentInsert::Duplicate),
        ScriptedAnswer::Pushed(PushOutcome::After(40, None)),
    ];
    let lost = Scripted::new(answers.map(at_once));
    assert_eq!(appended(&lost, None, &batch("m", 2), WITHIN).await.unwrap(), new([341, 342]));
    assert_eq!(lost.commands(), [Command::Tail, Command::Make(3), Command::Push(3)]);
}

fn sent_at(time: Timestamp) -> ScriptedAnswer {
    let sent = EarlierSend { seq: 7, hash: Some(message("a").hash), sent: time };
    ScriptedAnswer::Found(HashMap::from([(message("a").key, sent)]))
}

#[tokio::test(start_paused = true)]
async fn unseen_push_is_new_only_with_its_own_time() {
    let time = message("a").sent;
    for (found, expected) in [
        (time, Appended::New(7)),
        (Timestamp(time.0 - 1), Appended::Replayed { seq: 7, sent: Timestamp(time.0 - 1) }),
    ] {
        let unseen = [ScriptedAnswer::Pushed(PushOutcome::Unseen), sent_at(found)].map(at_once);
        let unseen = Scripted::new(unseen);
        assert_eq!(appended(&unseen, Some(0), &messages(["a"]), WITHIN).await.unwrap(), [expected]);
        assert_eq!(unseen.commands(), [Command::Push(0), Command::Find]);
    }
    let refused = [ScriptedAnswer::Pushed(PushOutcome::Duplicate), sent_at(time)].map(at_once);
    let replay = appended(&Scripted::new(refused), Some(0), &messages(["a"]), WITHIN).await.unwrap();
    assert_eq!(replay, [Appended::Replayed { seq: 7, sent: time }]);
}

#[tokio::test(start_paused = true)]
async fn failure_after_an_unseen_push_is_unknown() {
    let refusal = ScriptedAnswer::Failed(out_of_time(Outcome::NotApplied));
    let unseen = [ScriptedAnswer::Pushed(PushOutcome::Unseen), refusal].map(at_once);
    let error = appended(&Scripted::new(unseen), Some(0), &messages(["a"]), WITHIN).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_append_leaves_no_hint() {
    let hints = Hints::default();
    hints.set(log(), 0);
    let failing = Scripted::new([at_once(ScriptedAnswer::Failed(StoreError::Overloaded))]);
    let log_of = Log { documents: &failing, hints: &hints, conversation: log() };
    append(log_of, &messages(["a"]), WITHIN).await.unwrap_err();
    assert_eq!(hints.get(log()), None);
}
