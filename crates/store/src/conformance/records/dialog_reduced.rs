//! Cases of the dialog store: what is left of the dialogs of a deleted user.

use super::{
    dialog_sample::{conversation, dialog, draft, every_setting, key, make, mark, range, set, up_to},
    sample::{expecting, user_id, version},
};
use crate::{Dialog, DialogKey, MarkKind, StoreError, Stores, Timestamp};

async fn reduce(stores: &Stores, ends: &[(&str, i64)]) {
    let ends: Vec<_> = ends.iter().map(|(id, end)| (conversation(id), *end)).collect();
    stores.dialogs.reduce_dialogs(user_id(7), &ends, Timestamp::now()).await.unwrap();
}

pub async fn reduced_dialog_keeps_its_read_marks(stores: Stores) {
    let key = key(7, "g9");
    let marks =
        [up_to(key, 10), mark(key, MarkKind::Ranges(vec![range(20, 30)])), mark(key, MarkKind::Hidden(40))];
    make(&stores, &marks).await;
    let before = set(&stores, key, every_setting()).await;
    assert_eq!(before.read.unread(), [range(11, 19), range(31, 40)]);
    reduce(&stores, &[("g9", 100)]).await;
    let expected = Dialog {
        version: before.version.next(),
        settings_version: before.settings_version.next(),
        read: before.read,
        min_seq: Some(101),
        hidden_seq: Some(100),
        day: before.day,
        ..Dialog::absent(key)
    };
    assert_eq!(dialog(&stores, key).await, expected);
}

pub async fn reduction_is_resumable_and_repeatable(stores: Stores) {
    let keys: Vec<DialogKey> = (1..=25).map(|group| key(7, &format!("g{group}"))).collect();
    for key in &keys {
        make(&stores, &[up_to(*key, 5)]).await;
        set(&stores, *key, draft("a")).await;
    }
    let step = async |after| {
        let page = stores.dialogs.dialog_conversations(user_id(7), after, 10).await.unwrap();
        let ends: Vec<_> = page.iter().map(|conversation| (*conversation, 9)).collect();
        stores.dialogs.reduce_dialogs(user_id(7), &ends, Timestamp::now()).await.unwrap();
        page.last().copied()
    };
    // Begun, begun again, and continued to the end.
    step(None).await;
    let mut after = step(None).await;
    while after.is_some() {
        after = step(after).await;
    }
    for key in keys {
        let reduced = dialog(&stores, key).await;
        assert_eq!((reduced.version, reduced.settings_version), (version(3), version(2)), "{key}: once each");
        assert_eq!((reduced.read.read_seq(), reduced.min_seq, reduced.ext), (5, Some(10), Vec::new()));
    }
}

pub async fn reduction_never_lowers_a_bound(stores: Stores) {
    let key = key(7, "g9");
    make(&stores, &[up_to(key, 5)]).await;
    reduce(&stores, &[("g9", 100)]).await;
    let before = dialog(&stores, key).await;
    reduce(&stores, &[("g9", 50)]).await;
    assert_eq!(dialog(&stores, key).await, before);
    reduce(&stores, &[("g9", 120)]).await;
    let after = dialog(&stores, key).await;
    assert_eq!((after.min_seq, after.hidden_seq), (Some(121), Some(120)));
}

pub async fn reduction_makes_no_dialog(stores: Stores) {
    reduce(&stores, &[("g9", 100)]).await;
    assert_eq!(stores.dialogs.dialog_conversations(user_id(7), None, 10).await.unwrap(), []);
    reduce(&stores, &[]).await;
}

pub async fn reduction_leaves_dialogs_of_others(stores: Stores) {
    for user in [7, 8] {
        set(&stores, key(user, "d7-8"), every_setting()).await;
    }
    let before = dialog(&stores, key(8, "d7-8")).await;
    reduce(&stores, &[("d7-8", 100)]).await;
    assert_eq!(dialog(&stores, key(8, "d7-8")).await, before);
    assert_eq!(dialog(&stores, key(7, "d7-8")).await.min_seq, Some(101));
}

pub async fn settings_version_before_a_reduction_is_stale(stores: Stores) {
    let key = key(7, "g9");
    set(&stores, key, draft("a")).await;
    reduce(&stores, &[("g9", 100)]).await;
    let stale = stores.dialogs.change_dialog(key, draft("b"), expecting(1)).await;
    assert!(matches!(stale, Err(StoreError::Conflict { current }) if current == version(2)), "{stale:?}");
}
