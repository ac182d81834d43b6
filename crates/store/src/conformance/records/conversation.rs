//! Cases for conversation records.

use super::{
    dialog_sample::conversation,
    sample::{assert_fails, each_at_once, version},
};
use crate::{BATCH_MAX, Conversation, ConversationId, StoreError, Stores, Version};

async fn read(stores: &Stores, id: ConversationId) -> Vec<Conversation> {
    let found = stores.conversations.conversations(&[id]).await.unwrap();
    assert_eq!(found, stores.conversations.strong_conversations(&[id]).await.unwrap());
    found
}

async fn raise(stores: &Stores, id: ConversationId, min_seq: i64, trim: bool) -> Conversation {
    let raised = stores.conversations.raise_min_seq(id, min_seq, trim).await.unwrap();
    let stored = read(stores, id).await;
    assert_eq!(stored.first().copied().unwrap_or(Conversation::absent(id)), raised);
    raised
}

pub async fn absent_record_is_left_out(stores: Stores) {
    let id = conversation("g9");
    assert_eq!(read(&stores, id).await, []);
    assert_eq!(raise(&stores, id, 0, false).await, Conversation::absent(id));
    assert_eq!(read(&stores, id).await, [], "a raise that changes nothing makes none");
    assert_eq!(stores.conversations.conversations(&[]).await.unwrap(), []);
}

pub async fn first_raise_makes_the_record(stores: Stores) {
    let (id, other) = (conversation("d7-8"), conversation("g9"));
    let expected = Conversation { id, version: Version::FIRST, min_seq: 5, trim: false };
    assert_eq!(raise(&stores, id, 5, false).await, expected);
    let expected = Conversation { id: other, version: Version::FIRST, min_seq: 0, trim: true };
    assert_eq!(raise(&stores, other, 0, true).await, expected);
}

pub async fn min_seq_never_falls(stores: Stores) {
    let id = conversation("g9");
    for (asked, min_seq) in [(50, 50), (40, 50), (0, 50), (51, 51)] {
        assert_eq!(raise(&stores, id, asked, false).await.min_seq, min_seq);
    }
}

pub async fn version_rises_only_with_a_change(stores: Stores) {
    let id = conversation("g9");
    for (asked, trim, number) in [
        (50, false, 1),
        (50, false, 1),
        (7, false, 1),
        (50, true, 2),
        (50, true, 2),
        (60, true, 3),
        (0, false, 3),
    ] {
        assert_eq!(raise(&stores, id, asked, trim).await.version, version(number), "{asked} {trim}");
    }
}

pub async fn trim_is_set_and_stays(stores: Stores) {
    let id = conversation("g9");
    assert!(!raise(&stores, id, 5, false).await.trim);
    assert!(raise(&stores, id, 6, true).await.trim);
    assert!(raise(&stores, id, 7, false).await.trim);
}

pub async fn raises_at_once_keep_the_highest(stores: Stores) {
    let id = conversation("g9");
    each_at_once(&stores, (1..=24).rev(), |stores, min_seq| async move {
        let raised = stores.conversations.raise_min_seq(id, min_seq, false).await.unwrap();
        assert!(raised.min_seq >= min_seq);
    })
    .await;
    let after = read(&stores, id).await;
    assert_eq!(after.iter().map(|record| record.min_seq).collect::<Vec<_>>(), [24]);
}

pub async fn records_of_many_are_read(stores: Stores) {
    let ids: Vec<ConversationId> = (1..=30).map(|group| conversation(&format!("g{group}"))).collect();
    for id in &ids[..20] {
        raise(&stores, *id, 5, false).await;
    }
    let asked: Vec<ConversationId> = ids.iter().chain(&ids[..9]).copied().collect();
    let found = stores.conversations.conversations(&asked).await.unwrap();
    let mut found: Vec<ConversationId> = found.into_iter().map(|record| record.id).collect();
    found.sort_unstable();
    assert_eq!(found, ids[..20], "each once");
    let many = vec![ids[0]; BATCH_MAX + 1];
    assert_fails!(stores.conversations.conversations(&many).await, StoreError::Overloaded);
}

async fn untrimmed(stores: &Stores, after: Option<ConversationId>, limit: usize) -> Vec<String> {
    let found = stores.conversations.untrimmed_conversations(after, limit).await.unwrap();
    assert!(found.iter().all(|record| record.trim), "{found:?}");
    found.into_iter().map(|record| record.id.to_string()).collect()
}

pub async fn records_to_be_trimmed_are_listed(stores: Stores) {
    for (id, trim) in [("g9", true), ("g10", true), ("d7-8", true), ("g8", false)] {
        raise(&stores, conversation(id), 5, trim).await;
    }
    assert_eq!(untrimmed(&stores, None, 10).await, ["d7-8", "g10", "g9"]);
    assert_eq!(untrimmed(&stores, None, 2).await, ["d7-8", "g10"]);
    assert_eq!(untrimmed(&stores, Some(conversation("g10")), 2).await, ["g9"]);
    let listed = stores.conversations.untrimmed_conversations(None, 1).await.unwrap();
    assert_eq!(listed, read(&stores, conversation("d7-8")).await);
}

pub async fn trim_ends_if_nothing_changed_meanwhile(stores: Stores) {
    let id = conversation("g9");
    let seen = raise(&stores, id, 5, true).await;
    let raised = raise(&stores, id, 6, true).await;
    let end = async |version| stores.conversations.end_trim(id, version).await.unwrap();
    assert_eq!(end(seen.version).await, None, "it was raised meanwhile");
    assert_eq!(read(&stores, id).await, [raised]);
    let ended = Conversation { trim: false, version: raised.version.next(), ..raised };
    assert_eq!(end(raised.version).await, Some(ended));
    assert_eq!(read(&stores, id).await, [ended]);
    assert_eq!(end(ended.version).await, None, "it has ended");
    assert_eq!(untrimmed(&stores, None, 10).await, [""; 0]);
    let again = raise(&stores, id, 6, true).await;
    assert!(again.trim && again.version > ended.version);
    let absent = stores.conversations.end_trim(conversation("g8"), Version::NONE).await.unwrap();
    assert_eq!(absent, None);
}
