//! Cases about reactions to messages.

use super::{
    message_sample::{append, assert_overloaded, batch, fill, log_of, message},
    sample::user_id,
};
use crate::{
    BATCH_MAX, ContentChange, ContentHash, ConversationId, DocumentKey, MessageChange, MessageKey,
    MessageKind, NewMessage, Reaction, ReactionChange, ReactionKey, ReactionKind, ReactionList,
    ReactionPosition, ReactionRefusal, ReactionSummary, Recalled, RecalledBy, SUCCESSOR_AGE, Seq, Stores,
    Timestamp, Version, document_of,
};

fn kind(text: &str) -> ReactionKind {
    text.parse().unwrap()
}

fn key(seq: Seq, user: i64, text: &str) -> ReactionKey {
    ReactionKey { seq, user: user_id(user), kind: kind(text) }
}

/// A reaction that was made at a time which is the user's number.
fn add(seq: Seq, user: i64, text: &str) -> ReactionChange {
    ReactionChange::Add(Reaction { key: key(seq, user, text), at: Timestamp(user) })
}

fn remove(seq: Seq, user: i64, text: &str) -> ReactionChange {
    ReactionChange::Remove(key(seq, user, text))
}

fn document(number: i64) -> DocumentKey {
    DocumentKey { conversation: log_of(9), document: number }
}

async fn change(stores: &Stores, changes: &[ReactionChange]) -> Vec<Result<bool, ReactionRefusal>> {
    let key = document(document_of(changes[0].key().seq));
    let changed = stores.reactions.change_reactions(key, changes).await.unwrap();
    let stored = summary(stores, key).await;
    if changed.summary.version > Version::NONE {
        assert_eq!(changed.summary, stored, "what the change returned");
    }
    changed.results
}

async fn summary(stores: &Stores, key: DocumentKey) -> ReactionSummary {
    let mut found = stores.reactions.reaction_summaries(&[key]).await.unwrap();
    found.pop().unwrap_or(ReactionSummary::absent(key))
}

/// The counts of a message, which are those of its rows.
async fn counts(stores: &Stores, seq: Seq) -> Vec<(String, u32)> {
    let summary = summary(stores, document(document_of(seq))).await;
    for of in summary.of(seq) {
        let rows = listed(stores, seq, of.kind.as_str()).await;
        assert_eq!(u32::try_from(rows.len()).unwrap(), of.count, "{}", of.kind);
    }
    summary.of(seq).iter().map(|of| (of.kind.to_string(), of.count)).collect()
}

async fn listed(stores: &Stores, seq: Seq, text: &str) -> Vec<Reaction> {
    let list = ReactionList { conversation: log_of(9), seq, kind: kind(text) };
    stores.reactions.reactions(&list, None, 1_000).await.unwrap()
}

/// All rows of a user.
async fn rows_of(stores: &Stores, user: i64) -> Vec<(ConversationId, Seq, String)> {
    let rows = stores.reactions.reactions_of(user_id(user), 1_000).await.unwrap();
    rows.into_iter().map(|row| (row.conversation, row.key.seq, row.key.kind.to_string())).collect()
}

fn counted(kinds: &[(&str, u32)]) -> Vec<(String, u32)> {
    kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

fn recall(seq: Seq) -> MessageChange {
    let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(5) };
    let event = NewMessage {
        key: MessageKey::of_recall(seq),
        hash: ContentHash::of("", b"event"),
        kind: MessageKind::Event,
        ..message("event")
    };
    MessageChange { seq, content: ContentChange::Recall(recalled), event }
}

pub async fn reactions_are_counted(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 102)).await;
    assert_eq!(summary(&stores, document(0)).await.version, Version::NONE);
    let made = change(&stores, &[add(3, 7, "👍"), add(3, 8, "👍"), add(3, 8, "ok"), add(4, 7, "ok")]).await;
    assert_eq!(made, [Ok(true); 4]);
    change(&stores, &[add(102, 7, "👍")]).await;
    assert_eq!(counts(&stores, 3).await, counted(&[("👍", 2), ("ok", 1)]));
    assert_eq!(counts(&stores, 4).await, counted(&[("ok", 1)]));
    assert_eq!(counts(&stores, 5).await, []);
    assert_eq!(counts(&stores, 102).await, counted(&[("👍", 1)]));
    assert_eq!(change(&stores, &[remove(3, 8, "👍")]).await, [Ok(true)]);
    assert_eq!(counts(&stores, 3).await, counted(&[("👍", 1), ("ok", 1)]));
    let both = stores.reactions.reaction_summaries(&[document(1), document(0), document(7)]).await.unwrap();
    assert_eq!(both.len(), 2);
    assert_overloaded(stores.reactions.reaction_summaries(&vec![document(0); BATCH_MAX + 1]).await);
}

pub async fn repeated_reaction_changes_nothing(stores: Stores) {
    append(&stores, log_of(9), &[message("a")]).await;
    assert_eq!(change(&stores, &[add(1, 7, "a")]).await, [Ok(true)]);
    let before = summary(&stores, document(0)).await;
    let later = ReactionChange::Add(Reaction { key: key(1, 7, "a"), at: Timestamp(99) });
    assert_eq!(change(&stores, &[later, remove(1, 7, "b"), remove(1, 8, "a")]).await, [Ok(false); 3]);
    assert_eq!(summary(&stores, document(0)).await, before);
    assert_eq!(listed(&stores, 1, "a").await[0].at, Timestamp(7), "the first time stays");
    assert_eq!(change(&stores, &[remove(1, 7, "a")]).await, [Ok(true)]);
    assert_eq!(change(&stores, &[remove(1, 7, "a")]).await, [Ok(false)]);
    assert!(summary(&stores, document(0)).await.version > before.version);
}

pub async fn reaction_needs_its_message(stores: Stores) {
    append(&stores, log_of(9), &[message("a")]).await;
    let refused = change(&stores, &[add(2, 7, "a"), add(1, 7, "a")]).await;
    assert_eq!(refused, [Err(ReactionRefusal::NoMessage), Ok(true)]);
    assert_eq!(change(&stores, &[add(201, 7, "a")]).await, [Err(ReactionRefusal::NoMessage)]);
    assert_eq!(rows_of(&stores, 7).await.len(), 1);
}

pub async fn kinds_are_limited(stores: Stores) {
    append(&stores, log_of(9), &[message("a")]).await;
    let of_one: Vec<_> = (0..20).map(|number| add(1, 7, &format!("k{number}"))).collect();
    assert!(change(&stores, &of_one).await.iter().all(|made| *made == Ok(true)));
    assert_eq!(change(&stores, &[add(1, 7, "more")]).await, [Err(ReactionRefusal::TooManyOfUser)]);
    let others: Vec<_> = (20..64).map(|number| add(1, number, &format!("k{number}"))).collect();
    assert!(change(&stores, &others).await.iter().all(|made| *made == Ok(true)));
    let refused = change(&stores, &[add(1, 8, "more"), add(1, 8, "k1")]).await;
    assert_eq!(refused, [Err(ReactionRefusal::TooManyKinds), Ok(true)]);
    assert_overloaded(stores.reactions.change_reactions(document(0), &vec![add(1, 7, "a"); 101]).await);
}

pub async fn list_is_paged_by_time_and_user(stores: Stores) {
    append(&stores, log_of(9), &[message("a"), message("b")]).await;
    let at = |user, at| ReactionChange::Add(Reaction { key: key(1, user, "a"), at: Timestamp(at) });
    let noise = [add(1, 7, "b"), add(2, 7, "a")];
    change(&stores, &[&[at(5, 30), at(6, 10), at(8, 20), at(7, 20)][..], &noise].concat()).await;
    let list = ReactionList { conversation: log_of(9), seq: 1, kind: kind("a") };
    let (mut after, mut users) = (None, Vec::new());
    loop {
        let page = stores.reactions.reactions(&list, after, 2).await.unwrap();
        users.extend(page.iter().map(|row| row.key.user.get()));
        let Some(last) = page.last() else { break };
        after = Some(ReactionPosition { at: last.at, user: last.key.user });
    }
    assert_eq!(users, [6, 7, 8, 5]);
}

pub async fn own_reactions_are_found(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 150)).await;
    change(&stores, &[add(1, 7, "a"), add(1, 7, "b"), add(2, 7, "a"), add(1, 8, "c")]).await;
    change(&stores, &[add(120, 7, "d")]).await;
    let own = stores.reactions.own_reactions(log_of(9), user_id(7), &[1, 120, 120, 3]).await.unwrap();
    let mut own: Vec<_> = own.into_iter().map(|key| (key.seq, key.kind.to_string())).collect();
    own.sort();
    assert_eq!(own, [(1, "a".to_owned()), (1, "b".to_owned()), (120, "d".to_owned())]);
    assert_overloaded(stores.reactions.own_reactions(log_of(9), user_id(7), &[1; 101]).await);
    let some = stores.reactions.reactions_of(user_id(7), 2).await.unwrap();
    assert_eq!((some.len(), rows_of(&stores, 7).await.len()), (2, 4));
}

pub async fn recall_removes_reactions(stores: Stores) {
    append(&stores, log_of(9), &[message("a"), message("b")]).await;
    change(&stores, &[add(1, 7, "a"), add(1, 8, "b"), add(2, 8, "b")]).await;
    stores.messages.change(log_of(9), &recall(1)).await.unwrap();
    assert_eq!(counts(&stores, 1).await, []);
    assert_eq!((rows_of(&stores, 7).await, rows_of(&stores, 8).await.len()), (vec![], 1));
    assert_eq!(change(&stores, &[add(1, 7, "a")]).await, [Err(ReactionRefusal::NoMessage)]);
    assert_eq!(change(&stores, &[remove(1, 7, "a")]).await, [Ok(false)]);
    assert_eq!(counts(&stores, 2).await, counted(&[("b", 1)]));
}

pub async fn erasure_removes_reactions(stores: Stores) {
    let other = NewMessage { sender: Some(user_id(8)), ..message("b") };
    append(&stores, log_of(9), &[message("a"), other]).await;
    change(&stores, &[add(1, 7, "a"), add(1, 8, "a"), add(2, 7, "a")]).await;
    let erased = stores.message_upkeep.erase_document(log_of(9), 1, user_id(7), Timestamp(9)).await.unwrap();
    assert_eq!((erased, counts(&stores, 1).await), (1, vec![]));
    assert_eq!(counts(&stores, 2).await, counted(&[("a", 1)]));
    assert_eq!(rows_of(&stores, 8).await, []);
    assert_eq!(change(&stores, &[add(1, 8, "a")]).await, [Err(ReactionRefusal::NoMessage)]);
}

pub async fn trim_removes_reactions(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 250)).await;
    for seq in [1, 150, 201] {
        change(&stores, &[add(seq, 7, "a")]).await;
    }
    let now = Timestamp::now().after(2 * SUCCESSOR_AGE);
    let trimmed = stores.message_upkeep.trim(log_of(9), 201, now).await.unwrap();
    assert_eq!(trimmed.messages, 200);
    assert_eq!(rows_of(&stores, 7).await, [(log_of(9), 201, "a".to_owned())]);
    assert_eq!(summary(&stores, document(1)).await.version, Version::NONE);
    assert_eq!(change(&stores, &[add(150, 7, "a")]).await, [Err(ReactionRefusal::NoMessage)]);
    assert_eq!(counts(&stores, 201).await, counted(&[("a", 1)]));
}

pub async fn concurrent_reactions_are_all_counted(stores: Stores) {
    append(&stores, log_of(9), &[message("a"), message("b")]).await;
    let tasks: Vec<_> = (1..=20)
        .map(|user| {
            let stores = stores.clone();
            tokio::spawn(async move {
                change_at_once(&stores, &[add(1, user, "a"), add(2, user, "b")]).await;
                change_at_once(&stores, &[remove(2, user, "b")]).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counts(&stores, 1).await, counted(&[("a", 20)]));
    assert_eq!(counts(&stores, 2).await, []);
}

async fn change_at_once(stores: &Stores, changes: &[ReactionChange]) {
    let changed = stores.reactions.change_reactions(document(0), changes).await.unwrap();
    assert!(changed.results.iter().all(|made| *made == Ok(true)), "{:?}", changed.results);
}

pub async fn no_reaction_outlives_a_recall(stores: Stores) {
    for round in 0..10 {
        append(&stores, log_of(9), &[message(&format!("m{round}"))]).await;
        let seq = super::message_sample::end(&stores, log_of(9)).await;
        let reacting = {
            let stores = stores.clone();
            let key = document(document_of(seq));
            tokio::spawn(async move {
                for user in 1..=5 {
                    drop(stores.reactions.change_reactions(key, &[add(seq, user, "a")]).await.unwrap());
                }
            })
        };
        stores.messages.change(log_of(9), &recall(seq)).await.unwrap();
        reacting.await.unwrap();
        assert_eq!((counts(&stores, seq).await, listed(&stores, seq, "a").await), (vec![], vec![]));
    }
}
