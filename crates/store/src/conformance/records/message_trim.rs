//! Cases that remove messages.

use std::{collections::BTreeSet, time::Duration};

use super::{
    message_sample::{append, at, batch, end, fill, log_of, message, new_numbers, page, stored_from},
    sample::each_at_once,
};
use crate::{
    AgedDocument, Appended, ConversationId, NewMessage, SUCCESSOR_AGE, Seq, Stores, TRIMMED_AT_ONCE,
    Timestamp, TrimRemainder, TrimResult,
};

/// When every document in the cases can be removed.
fn later() -> Timestamp {
    Timestamp::now().after(2 * SUCCESSOR_AGE)
}

async fn trim(stores: &Stores, below: Seq, now: Timestamp) -> TrimResult {
    stores.message_upkeep.trim(log_of(9), below, now).await.unwrap()
}

fn trimmed(messages: u64, left: TrimRemainder) -> TrimResult {
    TrimResult { messages, left }
}

/// The stored numbers in the log, up to the document at its end.
async fn numbers(stores: &Stores, conversation: ConversationId) -> Vec<Seq> {
    let (end, mut found) = (end(stores, conversation).await, Vec::new());
    for first in (1..=end).step_by(100) {
        let some = page(stores, conversation, first, first + 99).await;
        found.extend(some.iter().map(|message| message.seq));
    }
    found
}

fn sent_at(ids: &str, count: usize, sent: Timestamp) -> Vec<NewMessage> {
    let sent = |new| NewMessage { sent, ..new };
    batch(ids, count).into_iter().map(sent).collect()
}

pub async fn whole_documents_are_removed(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 350)).await;
    for below in [-1, 0, 1, 100] {
        assert_eq!(trim(&stores, below, later()).await, trimmed(0, TrimRemainder::Nothing), "{below}");
    }
    assert_eq!(trim(&stores, 299, later()).await, trimmed(200, TrimRemainder::Nothing));
    assert_eq!(numbers(&stores, log_of(9)).await, (201..=350).collect::<Vec<_>>());
    assert_eq!(trim(&stores, 299, later()).await, trimmed(0, TrimRemainder::Nothing), "again");
    assert_eq!(trim(&stores, 301, later()).await, trimmed(100, TrimRemainder::Nothing));
}

pub async fn end_survives_trim(stores: Stores) {
    let sent = batch("m", 250);
    fill(&stores, log_of(9), &sent).await;
    assert_eq!(trim(&stores, 251, later()).await, trimmed(200, TrimRemainder::Nothing));
    assert_eq!(end(&stores, log_of(9)).await, 250);
    assert_eq!(stores.messages.strong_end(log_of(9)).await.unwrap(), 250);
    assert_eq!(page(&stores, log_of(9), 201, 300).await, stored_from(201, &sent[200..]));
    assert_eq!(append(&stores, log_of(9), &batch("n", 1)).await, [Appended::New(251)]);
}

pub async fn last_document_is_never_removed(stores: Stores) {
    assert_eq!(trim(&stores, Seq::MAX, later()).await, trimmed(0, TrimRemainder::Nothing), "an empty log");
    fill(&stores, log_of(9), &batch("m", 100)).await;
    assert_eq!(
        trim(&stores, Seq::MAX, later()).await,
        trimmed(0, TrimRemainder::Nothing),
        "full, and the last"
    );
    fill(&stores, log_of(9), &batch("n", 1)).await;
    assert_eq!(trim(&stores, Seq::MAX, later()).await, trimmed(100, TrimRemainder::Nothing));
    assert_eq!(numbers(&stores, log_of(9)).await, [101]);
}

pub async fn trim_leaves_young_successors(stores: Stores) {
    let second = Timestamp::now().after(3 * SUCCESSOR_AGE);
    fill(&stores, log_of(9), &[batch("m", 100), sent_at("n", 101, second)].concat()).await;
    let old = |begun: Timestamp| begun.after(SUCCESSOR_AGE);
    let young = |begun| Timestamp(old(begun).0 - 1);
    assert_eq!(trim(&stores, 201, old(at(0))).await, trimmed(0, TrimRemainder::TooYoung));
    assert_eq!(trim(&stores, 201, young(second)).await, trimmed(0, TrimRemainder::TooYoung));
    assert_eq!(numbers(&stores, log_of(9)).await.len(), 201);
    assert_eq!(trim(&stores, 101, old(second)).await, trimmed(100, TrimRemainder::Nothing));
    assert_eq!(trim(&stores, 201, old(second)).await, trimmed(100, TrimRemainder::Nothing));
}

pub async fn one_trim_is_bounded(stores: Stores) {
    let documents = TRIMMED_AT_ONCE + 3;
    fill(&stores, log_of(9), &batch("m", documents * 100)).await;
    let most = u64::try_from(TRIMMED_AT_ONCE * 100).unwrap();
    assert_eq!(trim(&stores, Seq::MAX, later()).await, trimmed(most, TrimRemainder::Some));
    assert_eq!(trim(&stores, Seq::MAX, later()).await, trimmed(200, TrimRemainder::Nothing));
    assert_eq!(numbers(&stores, log_of(9)).await.len(), 100);
}

pub async fn trim_of_one_log_leaves_others(stores: Stores) {
    for group in [8, 9, 90] {
        fill(&stores, log_of(group), &batch("m", 150)).await;
    }
    trim(&stores, Seq::MAX, later()).await;
    for (group, count) in [(8, 150), (9, 50), (90, 150)] {
        assert_eq!(numbers(&stores, log_of(group)).await.len(), count, "{group}");
    }
}

/// The next append makes a document after others were removed, with what the stores know about the log from
/// before.
pub async fn late_maker_after_trim_loses_nothing(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 399)).await;
    trim(&stores, Seq::MAX, later()).await;
    let late = batch("late", 100);
    let numbers = new_numbers(&append(&stores, log_of(9), &late).await);
    assert_eq!(numbers, (400..=499).collect::<Vec<_>>());
    assert_eq!(page(&stores, log_of(9), 401, 500).await, stored_from(401, &late[1..]));
    assert_eq!(trim(&stores, Seq::MAX, later()).await, trimmed(100, TrimRemainder::Nothing));
    assert_eq!(page(&stores, log_of(9), 401, 500).await, stored_from(401, &late[1..]));
}

pub async fn trim_during_appends_loses_nothing(stores: Stores) {
    // Removed documents were begun long before; documents that are appended meanwhile are young.
    fill(&stores, log_of(9), &batch("old", 450)).await;
    let begun = Timestamp::now();
    let (young, now) = (begun.after(Duration::from_secs(7_200)), begun.after(Duration::from_secs(7_260)));
    let appends = each_at_once(&stores, 0..6, |stores, caller| async move {
        let mut numbers = Vec::new();
        for step in 0..5 {
            let sent = sent_at(&format!("{caller}-{step}"), 17, young);
            numbers.extend(new_numbers(&append(&stores, log_of(9), &sent).await));
            trim(&stores, Seq::MAX, now).await;
        }
        numbers
    });
    let acknowledged: BTreeSet<Seq> = appends.await.into_iter().flatten().collect();
    assert_eq!(acknowledged, (451..=450 + 6 * 5 * 17).collect(), "a number twice, or a hole");
    let stored: BTreeSet<Seq> = numbers(&stores, log_of(9)).await.into_iter().collect();
    assert!(acknowledged.is_subset(&stored), "an acknowledged message was removed");
    assert!(!stored.contains(&300), "what was old is removed");
}

pub async fn removed_id_is_a_new_message(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 150)).await;
    trim(&stores, 101, later()).await;
    let again = [message("m-1"), message("m-101")];
    let appended = append(&stores, log_of(9), &again).await;
    assert_eq!(appended, [Appended::New(151), Appended::Replayed { seq: 101, sent: at(0) }]);
}

pub async fn reads_of_a_trimmed_log_begin_later(stores: Stores) {
    fill(&stores, log_of(9), &[batch("m", 100), sent_at("n", 50, at(10))].concat()).await;
    trim(&stores, 101, later()).await;
    assert_eq!(page(&stores, log_of(9), 1, 100).await, []);
    assert_eq!(stores.messages.headers(log_of(9), 1, 100).await.unwrap(), []);
    let recent = stores.messages.last_documents(log_of(9)).await.unwrap();
    assert_eq!(recent.iter().map(|message| message.seq).collect::<Vec<_>>(), (101..=150).collect::<Vec<_>>());
    assert_eq!(stores.messages.seq_at(log_of(9), at(-1)).await.unwrap(), 101);
    let heads = stores.messages.heads(&[(log_of(9), 0)]).await.unwrap();
    assert_eq!(heads[0].headers.len(), 50);
}

fn aged(group: i64, highest: Timestamp, first: Seq) -> AgedDocument {
    AgedDocument { highest, conversation: log_of(group), first }
}

async fn aged_before(stores: &Stores, before: i64, limit: usize) -> Vec<AgedDocument> {
    stores.message_upkeep.aged(Timestamp(i64::MIN)..at(before), limit).await.unwrap()
}

pub async fn aged_documents_are_found(stores: Stores) {
    let sent = [sent_at("a", 100, at(1)), sent_at("b", 100, at(5)), sent_at("c", 1, at(9))].concat();
    fill(&stores, log_of(9), &sent).await;
    fill(&stores, log_of(8), &sent_at("a", 7, at(3))).await;
    let all = [aged(9, at(1), 1), aged(8, at(3), 1), aged(9, at(5), 101), aged(9, at(9), 201)];
    assert_eq!(aged_before(&stores, 10, 10).await, all);
    assert_eq!(aged_before(&stores, 9, 10).await, all[..3], "before, and not at");
    assert_eq!(aged_before(&stores, 10, 2).await, all[..2]);
    assert_eq!(aged_before(&stores, 1, 10).await, []);
    let later = stores.message_upkeep.aged(at(3)..at(9), 10).await.unwrap();
    assert_eq!(later, all[1..3], "from the begin of the range on");
}

pub async fn settled_documents_are_not_found_again(stores: Stores) {
    fill(&stores, log_of(9), &sent_at("a", 150, at(1))).await;
    let found = aged_before(&stores, 9, 10).await;
    assert_eq!(found.len(), 2);
    for _ in 0..2 {
        stores.message_upkeep.settle_aged(&found[..1]).await.unwrap();
        assert_eq!(aged_before(&stores, 9, 10).await, found[1..]);
    }
    stores.message_upkeep.settle_aged(&found).await.unwrap();
    // Messages imported from long ago come after them.
    fill(&stores, log_of(8), &sent_at("b", 150, at(-1_000_000))).await;
    let imported = [aged(8, at(-1_000_000), 1), aged(8, at(-1_000_000), 101)];
    let mut found = aged_before(&stores, 9, 10).await;
    found.sort_unstable();
    assert_eq!(found, imported);
}

/// Old messages after new ones do not make these old.
pub async fn highest_time_never_falls(stores: Stores) {
    let parts = [(130, 500), (120, -9_000), (1, 700), (99, 3), (51, 4)];
    for (count, time) in parts {
        fill(&stores, log_of(9), &sent_at(&time.to_string(), count, at(time))).await;
    }
    let firsts = [(500, 1), (500, 101), (500, 201), (700, 301), (700, 401)];
    assert_eq!(aged_before(&stores, 500, 10).await, []);
    let mut found = aged_before(&stores, 701, 10).await;
    found.sort_unstable();
    assert_eq!(found, firsts.map(|(time, first)| aged(9, at(time), first)));
    trim(&stores, 301, later()).await;
    fill(&stores, log_of(9), &sent_at("last", 100, at(5))).await;
    let found = aged_before(&stores, 701, 10).await;
    assert!(found.contains(&aged(9, at(700), 501)), "{found:?}");
}
