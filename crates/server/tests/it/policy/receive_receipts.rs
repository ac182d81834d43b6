//! Senders with a stream learn that their messages were read.

use kith_proto::{
    group::v1::ReceiptVisibility,
    message::v1::{ReceiptCount, ReceiptCounts, send_message_request::To, signal::What as Signaled},
};

use crate::dialog_calls::{mark, mark_up_to, to_hide};
use crate::group_calls::{chat, chat_with_id};
use crate::message_calls::*;
use crate::message_streams::{Stream, live};
use crate::node::TestNode;
use crate::receipt_calls::show;
use crate::relation_calls::with_users;

async fn say_to(node: &TestNode, by: i64, group: i64) -> i64 {
    say(node, by, To::GroupId(group), "x").await.unwrap()
}

/// Returns the next signal's counts, which must be receipt counts.
async fn counts(stream: &mut Stream, id: &str, user: i64) -> Vec<(i64, [i64; 3])> {
    let signal = stream.signal().await;
    assert_eq!((signal.conversation_id.as_str(), signal.user_id), (id, user));
    let Some(Signaled::Receipts(ReceiptCounts { counts })) = signal.what else { panic!("{signal:?}") };
    let of = |count: ReceiptCount| (count.seq, [count.read, count.unread, count.left]);
    counts.into_iter().map(of).collect()
}

#[tokio::test]
async fn sender_learns_who_has_read_within_2_s() {
    let (node, [ann, bea, cat]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat]).await;
    let (first, second) = (say_to(&node, ann, group).await, say_to(&node, ann, group).await);
    let other = say_to(&node, cat, group).await;
    let (mut stream, mut sent_by_cat) = (live(&node, ann).await, live(&node, cat).await);
    let begun = std::time::Instant::now();
    mark_up_to(&node, bea, &id, other).await;
    let found = counts(&mut stream, &id, ann).await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(found.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [second, first], "the newest first");
    assert!(found.iter().all(|(_, [read, ..])| *read >= 1), "{found:?}");
    assert_eq!(counts(&mut sent_by_cat, &id, cat).await[0].0, other);
}

#[tokio::test]
async fn marks_within_a_second_are_one_signal() {
    let (node, [ann, bea, cat, dan]) = with_users().await;
    let group = chat(&node, ann, &[bea, cat, dan]).await;
    let (id, seq) = (format!("g{group}"), say_to(&node, ann, group).await);
    let mut stream = live(&node, ann).await;
    let marks = [bea, cat, dan].map(|user| mark_up_to(&node, user, &id, seq));
    futures::future::join_all(marks).await;
    assert_eq!(counts(&mut stream, &id, ann).await, [(seq, [3, 0, 0])]);
    let next = say_to(&node, ann, group).await;
    mark_up_to(&node, bea, &id, next).await;
    assert_eq!(stream.seqs(&id, 1).await, [next]);
    let found = counts(&mut stream, &id, ann).await;
    assert_eq!(found[0], (next, [1, 2, 0]), "there was no signal in between");
}

#[tokio::test]
async fn hidden_marks_make_no_signal() {
    let (node, [ann, bea]) = with_users().await;
    let (hidden, off, shown) =
        (chat(&node, ann, &[bea]).await, chat(&node, ann, &[bea]).await, chat(&node, ann, &[bea]).await);
    show(&node, off, ReceiptVisibility::Off).await;
    let mut stream = None;
    for group in [hidden, off, shown] {
        let (id, seq) = (format!("g{group}"), say_to(&node, ann, group).await);
        if stream.is_none() {
            stream = Some(live(&node, ann).await);
        }
        if group == hidden {
            mark(&node, bea, to_hide(&id, seq)).await.unwrap();
        } else {
            mark_up_to(&node, bea, &id, seq).await;
        }
    }
    let mut stream = stream.unwrap();
    stream.places(2).await;
    let found = counts(&mut stream, &format!("g{shown}"), ann).await;
    assert_eq!(found.len(), 1, "those of the others would have come first");
}
