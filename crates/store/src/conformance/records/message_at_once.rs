//! Message store cases: many appends to one log at once.

use std::collections::BTreeMap;

use super::{
    message_sample::{append, batch, end, fill, log, log_of, new_numbers, page, replayed, stored, with_body},
    sample::{at_once, each_at_once},
};
use crate::{Appended, ConversationId, Message, NewMessage, Seq, Stores, document_of};

const CALLERS: usize = 12;
const STEPS: usize = 5;

/// A batch and the numbers that it got.
type Sent = (Vec<NewMessage>, Vec<Seq>);

/// Appends batches in many sizes, one after the other.
async fn append_some(stores: Stores, conversation: ConversationId, caller: usize) -> Vec<Sent> {
    let mut sent = Vec::with_capacity(STEPS);
    for step in 0..STEPS {
        let batch = batch(&format!("{caller}-{step}"), 1 + (caller * 11 + step * 17) % 40);
        let numbers = new_numbers(&append(&stores, conversation, &batch).await);
        sent.push((batch, numbers));
    }
    sent
}

/// Many callers send at once. Returns each caller's messages.
async fn append_at_once(stores: &Stores, conversation: ConversationId) -> Vec<Vec<Sent>> {
    at_once((0..CALLERS).map(|caller| append_some(stores.clone(), conversation, caller))).await
}

/// The log that has each message at its number.
fn log_with(callers: &[Vec<Sent>]) -> Vec<Message> {
    let sent = callers.iter().flatten().flat_map(|(batch, numbers)| numbers.iter().zip(batch));
    let by_number: BTreeMap<Seq, Message> = sent.map(|(seq, new)| (*seq, stored(new, *seq))).collect();
    by_number.into_values().collect()
}

pub async fn concurrent_appenders_get_unique_numbers(stores: Stores) {
    let callers = append_at_once(&stores, log_of(9)).await;
    let mut numbers: Vec<Seq> = callers.iter().flatten().flat_map(|sent| sent.1.clone()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq((1..).take(numbers.len())), "a hole, or a number twice: {numbers:?}");
    assert_eq!(log(&stores, log_of(9)).await, log_with(&callers));
}

pub async fn concurrent_batch_is_whole_in_a_document(stores: Stores) {
    for caller in append_at_once(&stores, log_of(9)).await {
        for (_, numbers) in &caller {
            // Between the parts in two documents there may be messages from others.
            let goes_on = |pair: &[Seq]| {
                let is_next = pair[1] == pair[0] + 1;
                is_next || document_of(pair[1]) > document_of(pair[0])
            };
            assert!(numbers.windows(2).all(goes_on), "{numbers:?}");
        }
        let all: Vec<Seq> = caller.into_iter().flat_map(|(_, numbers)| numbers).collect();
        assert!(all.is_sorted(), "a later append of one caller got a lower number: {all:?}");
    }
}

pub async fn acknowledged_message_is_read_at_once(stores: Stores) {
    each_at_once(&stores, 0..CALLERS, |stores, caller| async move {
        for step in 0..STEPS {
            let batch = batch(&format!("{caller}-{step}"), 7);
            let last = new_numbers(&append(&stores, log_of(9), &batch).await)[6];
            assert_eq!(page(&stores, log_of(9), last, last).await, [stored(&batch[6], last)]);
            assert!(end(&stores, log_of(9)).await >= last);
            assert!(stores.messages.strong_end(log_of(9)).await.unwrap() >= last);
        }
    })
    .await;
    assert_eq!(log(&stores, log_of(9)).await.len(), CALLERS * STEPS * 7);
}

pub async fn resent_id_is_one_message_concurrently(stores: Stores) {
    // The ten that all send cross a border.
    fill(&stores, log_of(9), &batch("before", 95)).await;
    let results = each_at_once(&stores, 0..CALLERS, |stores, caller| async move {
        let own = batch(&format!("own{caller}"), 2);
        let sent = [&own[..1], &batch("shared", 10), &own[1..]].concat();
        append(&stores, log_of(9), &sent).await
    })
    .await;
    for at in 1..=10 {
        one_is_new(results.iter().map(|appended| appended[at]));
    }
    let own = results.iter().flat_map(|appended| [appended[0], appended[11]]);
    new_numbers(&own.collect::<Vec<_>>());
    assert_eq!(log(&stores, log_of(9)).await.len(), 95 + 10 + 2 * CALLERS);
}

/// Asserts that only one message was appended, and that all others were answered with its number.
fn one_is_new(results: impl Iterator<Item = Appended>) {
    let results: Vec<Appended> = results.collect();
    let (new, again): (Vec<_>, Vec<_>) =
        results.iter().copied().partition(|one| matches!(one, Appended::New(_)));
    let numbers = new_numbers(&new);
    assert_eq!(numbers.len(), 1, "{results:?}");
    assert!(again.iter().all(|one| *one == replayed(numbers[0])), "{results:?}");
}

pub async fn other_content_at_once_is_refused(stores: Stores) {
    fill(&stores, log_of(9), &batch("before", 99)).await;
    let results = each_at_once(&stores, 0..CALLERS, |stores, caller| async move {
        let body = format!("body {caller}");
        let sent = [with_body("a", body)];
        append(&stores, log_of(9), &sent).await[0]
    })
    .await;
    let refused = results.iter().filter(|one| **one == Appended::OtherContent).count();
    assert_eq!(refused, CALLERS - 1, "{results:?}");
    assert!(results.contains(&Appended::New(100)), "{results:?}");
    assert_eq!(log(&stores, log_of(9)).await.len(), 100);
}

pub async fn concurrent_logs_do_not_mix(stores: Stores) {
    let calls = (0..CALLERS).map(|caller| {
        let conversation = log_of(i64::try_from(caller % 4).unwrap() + 1);
        let stores = stores.clone();
        async move { (conversation, append_some(stores, conversation, caller).await) }
    });
    let mut sent: BTreeMap<ConversationId, Vec<Vec<Sent>>> = BTreeMap::new();
    for (conversation, caller) in at_once(calls).await {
        sent.entry(conversation).or_default().push(caller);
    }
    for (conversation, callers) in sent {
        assert_eq!(log(&stores, conversation).await, log_with(&callers));
    }
}

pub async fn concurrent_reader_sees_no_hole(stores: Stores) {
    let appending = {
        let stores = stores.clone();
        tokio::spawn(async move { append_at_once(&stores, log_of(9)).await })
    };
    let mut before = Vec::new();
    loop {
        let is_last = appending.is_finished();
        // Looks for holes itself.
        let found = log(&stores, log_of(9)).await;
        assert!(found.starts_with(&before), "a number was given to another message");
        before = found;
        if is_last {
            break;
        }
    }
    assert_eq!(before, log_with(&appending.await.unwrap()));
}
