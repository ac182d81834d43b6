//! Cases of the dialog store: settings, lists, and dialogs that are made.

use super::{
    dialog_sample::{DAY, conversation, dialog, draft, every_setting, key, make, set, up_to},
    sample::{
        SentRequest, applied, assert_stale, each_at_once, expecting, one_effect, one_wins, requested,
        user_id, version, write,
    },
};
use crate::{
    BATCH_MAX, Dialog, DialogKey, DialogList, DialogPatch, DialogPosition, MinSeq, StoreError, Stores,
    Timestamp, Version,
};

pub async fn absent_dialog_is_left_out(stores: Stores) {
    set(&stores, key(7, "d7-8"), draft("a")).await;
    let keys = [key(8, "d7-8"), key(7, "g7"), key(7, "d7-9")];
    assert_eq!(stores.dialogs.dialogs(&keys).await.unwrap(), []);
    assert_eq!(stores.dialogs.dialogs(&[]).await.unwrap(), []);
}

pub async fn first_change_makes_the_dialog(stores: Stores) {
    let before = Dialog::absent(key(7, "g9"));
    let write = write();
    let changed = stores.dialogs.change_dialog(before.key, draft("a"), write.clone()).await.unwrap();
    let expected = Dialog {
        version: Version::FIRST,
        settings_version: Version::FIRST,
        ext: b"a".to_vec(),
        day: Dialog::day_of(write.now),
        ..before
    };
    assert_eq!(applied(changed), expected);
    assert_eq!(dialog(&stores, before.key).await, expected);
}

pub async fn every_setting_is_kept(stores: Stores) {
    let key = key(7, "g9");
    set(&stores, key, draft("old")).await;
    let (write, patch) = (write(), every_setting());
    let changed = applied(stores.dialogs.change_dialog(key, patch.clone(), write.clone()).await.unwrap());
    let expected = Dialog {
        version: version(2),
        settings_version: version(2),
        min_seq: Some(3),
        max_seq: Some(90),
        pinned: Some(Timestamp(5_000)),
        hidden_seq: Some(7),
        do_not_disturb: true,
        marked_unread: true,
        ext: patch.ext.unwrap(),
        day: Dialog::day_of(write.now),
        ..Dialog::absent(key)
    };
    assert_eq!(changed, expected);
    assert_eq!(dialog(&stores, key).await, expected);
    let ext = vec![7; crate::DIALOG_EXT_BYTES_MAX];
    set(&stores, key, DialogPatch { ext: Some(ext.clone()), ..DialogPatch::default() }).await;
    assert_eq!(dialog(&stores, key).await.ext, ext);
}

pub async fn patch_leaves_other_settings(stores: Stores) {
    let key = key(7, "g9");
    let before = set(&stores, key, every_setting()).await;
    let changed = set(&stores, key, DialogPatch::default()).await;
    let expected = Dialog { version: version(2), settings_version: version(2), ..before.clone() };
    assert_eq!(changed, expected, "the versions rise with each change");
    let patch = DialogPatch { do_not_disturb: Some(false), ext: Some(Vec::new()), ..DialogPatch::default() };
    let changed = set(&stores, key, patch).await;
    let expected = Dialog {
        version: version(3),
        settings_version: version(3),
        do_not_disturb: false,
        ext: Vec::new(),
        ..before
    };
    assert_eq!((&changed, dialog(&stores, key).await), (&expected, expected.clone()));
}

pub async fn absent_bound_is_unset(stores: Stores) {
    let key = key(7, "g9");
    let bounds = |dialog: &Dialog| (dialog.min_seq, dialog.max_seq, dialog.hidden_seq, dialog.pinned);
    make(&stores, &[up_to(key, 5)]).await;
    assert_eq!(bounds(&dialog(&stores, key).await), (None, None, None, None));
    let of = |min, other: Option<i64>| DialogPatch {
        min_seq: Some(MinSeq::Set(min)),
        max_seq: Some(other),
        hidden_seq: Some(other),
        pinned: Some(other.map(Timestamp)),
        ..DialogPatch::default()
    };
    set(&stores, key, of(Some(0), Some(0))).await;
    let zero = (Some(0), Some(0), Some(0), Some(Timestamp(0)));
    assert_eq!(bounds(&dialog(&stores, key).await), zero, "0 is a value");
    set(&stores, key, of(None, None)).await;
    assert_eq!(bounds(&dialog(&stores, key).await), (None, None, None, None));
}

pub async fn raised_bound_never_falls(stores: Stores) {
    let key = key(7, "g9");
    let min = async |min_seq| {
        let patch = DialogPatch { min_seq: Some(min_seq), ..DialogPatch::default() };
        set(&stores, key, patch).await.min_seq
    };
    assert_eq!(min(MinSeq::Raise(50)).await, Some(50));
    assert_eq!(min(MinSeq::Raise(40)).await, Some(50));
    assert_eq!(min(MinSeq::Raise(60)).await, Some(60));
    assert_eq!(min(MinSeq::Set(Some(10))).await, Some(10), "a service sets it as it likes");
    assert_eq!(dialog(&stores, key).await.min_seq, Some(10));
}

pub async fn dialogs_of_many_are_read(stores: Stores) {
    let keys: Vec<DialogKey> = (1..=400).map(|group| key(7, &format!("g{group}"))).collect();
    stores.dialogs.make_dialogs(&keys, Timestamp::now()).await.unwrap();
    let asked: Vec<DialogKey> = keys.iter().chain(&keys[..100]).copied().collect();
    let mut found: Vec<DialogKey> =
        stores.dialogs.dialogs(&asked).await.unwrap().iter().map(|dialog| dialog.key).collect();
    found.sort_unstable();
    assert_eq!(found, keys, "each once");
}

pub async fn both_dialogs_are_made(stores: Stores) {
    let now = Timestamp::now();
    let both = DialogKey::of_direct(conversation("d7-8"));
    stores.dialogs.make_dialogs(&both, now).await.unwrap();
    for key in [key(7, "d7-8"), key(8, "d7-8")] {
        assert_eq!(dialog(&stores, key).await, Dialog::new(key, now));
    }
}

pub async fn made_dialog_is_left_as_it_is(stores: Stores) {
    let (ann, bea) = (key(7, "d7-8"), key(8, "d7-8"));
    make(&stores, &[up_to(ann, 90)]).await;
    let before = set(&stores, ann, every_setting()).await;
    let later = Timestamp(Timestamp::now().0 + 3 * DAY);
    for _ in 0..2 {
        stores.dialogs.make_dialogs(&[ann, bea], later).await.unwrap();
        assert_eq!(dialog(&stores, ann).await, before);
        assert_eq!(dialog(&stores, bea).await, Dialog::new(bea, later));
    }
}

pub async fn makers_at_once_make_one_dialog(stores: Stores) {
    let both = [key(7, "d7-8"), key(8, "d7-8")];
    each_at_once(&stores, 0..16, |stores, at| async move {
        if at % 2 == 0 {
            stores.dialogs.make_dialogs(&both, Timestamp::now()).await.unwrap();
        } else {
            let made = stores.dialogs.mark_dialogs(&[up_to(both[0], at)], Timestamp::now()).await.unwrap();
            assert!(made.iter().all(Result::is_ok));
        }
    })
    .await;
    assert_eq!(dialog(&stores, both[0]).await.read.read_seq(), 15);
    assert_eq!(dialog(&stores, both[1]).await.version, Version::FIRST);
}

fn names(dialogs: &[Dialog]) -> Vec<String> {
    dialogs.iter().map(|dialog| dialog.key.conversation.to_string()).collect()
}

pub async fn direct_dialogs_by_user(stores: Stores) {
    let keys =
        [key(7, "d7-8"), key(7, "d7-7"), key(7, "g9"), key(7, "d5-7"), key(8, "d7-8"), key(77, "d77-78")];
    stores.dialogs.make_dialogs(&keys, Timestamp(10 * DAY)).await.unwrap();
    let list = async |list| names(&stores.dialogs.dialog_list(user_id(7), list, None, 10).await.unwrap());
    assert_eq!(list(DialogList::Direct).await, ["d7-8", "d7-7", "d5-7"]);
    assert_eq!(list(DialogList::All).await, ["g9", "d7-8", "d7-7", "d5-7"]);
    let of_none = stores.dialogs.dialog_list(user_id(6), DialogList::All, None, 10).await.unwrap();
    assert_eq!(of_none, []);
}

/// All of a list of user 7, in pages.
async fn pages(stores: &Stores, list: DialogList, limit: usize) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None::<DialogPosition>);
    loop {
        let page = stores.dialogs.dialog_list(user_id(7), list, after, limit).await.unwrap();
        after = page.last().map(Dialog::position);
        all.extend(names(&page));
        if page.len() < limit {
            return all;
        }
    }
}

pub async fn list_is_paged_by_falling_day(stores: Stores) {
    let days =
        [(3, "g1"), (1, "d7-8"), (3, "d7-9"), (2, "g2"), (3, "d6-7"), (2, "d7-10"), (3, "g3"), (1, "g4")];
    for (day, id) in days {
        stores.dialogs.make_dialogs(&[key(7, id)], Timestamp(day * DAY)).await.unwrap();
    }
    // A mark moves its dialog to the front; one that changes nothing does not.
    for seq in [5, 4] {
        let later = Timestamp((if seq == 5 { 4 } else { 9 }) * DAY);
        stores.dialogs.mark_dialogs(&[up_to(key(7, "d7-8"), seq)], later).await.unwrap();
    }
    let all = ["d7-8", "g3", "g1", "d7-9", "d6-7", "g2", "d7-10", "g4"];
    let direct = ["d7-8", "d7-9", "d6-7", "d7-10"];
    for limit in [1, 2, 3, 4, 5, 100] {
        assert_eq!(pages(&stores, DialogList::All, limit).await, all, "{limit}");
        assert_eq!(pages(&stores, DialogList::Direct, limit).await, direct, "{limit}");
    }
    assert_eq!(dialog(&stores, key(7, "d7-8")).await.day, 4);
    let none = stores.dialogs.dialog_list(user_id(7), DialogList::All, None, 0).await.unwrap();
    assert_eq!(none, []);
}

pub async fn conversations_are_paged_by_text(stores: Stores) {
    let keys = ["d5-7", "d7-10", "d7-9", "g1", "g10", "g2"].map(|id| key(7, id));
    stores.dialogs.make_dialogs(&keys, Timestamp::now()).await.unwrap();
    stores.dialogs.make_dialogs(&[key(6, "g1"), key(8, "d7-8")], Timestamp::now()).await.unwrap();
    for limit in [1, 2, 4, 6, 100] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = stores.dialogs.dialog_conversations(user_id(7), after, limit).await.unwrap();
            after = page.last().copied();
            all.extend(page.iter().copied());
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(all, keys.map(|key| key.conversation), "{limit}");
    }
    assert_eq!(stores.dialogs.dialog_conversations(user_id(7), None, 0).await.unwrap(), []);
}

pub async fn stale_settings_version_is_refused(stores: Stores) {
    let key = key(7, "g9");
    set(&stores, key, draft("a")).await;
    let before = set(&stores, key, draft("b")).await;
    for stale in [0, 1, 3] {
        assert_stale(stores.dialogs.change_dialog(key, draft("c"), expecting(stale)).await, 2);
    }
    assert_eq!(dialog(&stores, key).await, before);
    let changed = applied(stores.dialogs.change_dialog(key, draft("c"), expecting(2)).await.unwrap());
    assert_eq!((changed.settings_version, changed.ext), (version(3), b"c".to_vec()));
}

pub async fn expected_absence_makes_the_dialog(stores: Stores) {
    let (made, marked) = (key(7, "g9"), key(7, "g10"));
    assert_stale(stores.dialogs.change_dialog(made, draft("a"), expecting(1)).await, 0);
    assert_eq!(dialog(&stores, made).await, Dialog::absent(made), "a refused change makes nothing");
    make(&stores, &[up_to(marked, 5)]).await;
    for (key, number) in [(made, 1), (marked, 2)] {
        let changed = applied(stores.dialogs.change_dialog(key, draft("a"), expecting(0)).await.unwrap());
        assert_eq!((changed.version, changed.settings_version), (version(number), version(1)));
        assert_stale(stores.dialogs.change_dialog(key, draft("b"), expecting(0)).await, 1);
    }
}

pub async fn one_dialog_change_per_expected_version_wins(stores: Stores) {
    let key = key(7, "g9");
    for expected in [0, 1] {
        let changes = each_at_once(&stores, 0..16, |stores, _| async move {
            stores.dialogs.change_dialog(key, draft("a"), expecting(expected)).await
        });
        one_wins(changes.await, |lost| assert_stale::<()>(Err(lost), expected + 1));
    }
}

pub async fn changes_at_once_lose_none(stores: Stores) {
    let key = key(7, "g9");
    let changes = each_at_once(&stores, 1..=24, |stores, at| async move {
        let patch = DialogPatch { min_seq: Some(MinSeq::Raise(at)), ..DialogPatch::default() };
        applied(stores.dialogs.change_dialog(key, patch, write()).await.unwrap())
    });
    let mut versions: Vec<i64> = changes.await.iter().map(|dialog| dialog.settings_version.get()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=24).collect::<Vec<_>>());
    let after = dialog(&stores, key).await;
    assert_eq!((after.version, after.min_seq), (version(24), Some(24)));
}

pub async fn change_has_one_effect(stores: Stores) {
    let key = key(7, "g9");
    let request = SentRequest::send(
        |body| crate::Write { expected: Some(Version::NONE), ..requested("r", body) },
        async |write| stores.dialogs.change_dialog(key, every_setting(), write).await,
        async || dialog(&stores, key).await,
    )
    .await;
    assert_eq!(dialog(&stores, key).await, request.answer);
    set(&stores, key, draft("later")).await;
    make(&stores, &[up_to(key, 5)]).await;
    request.assert_kept().await;
}

pub async fn replays_at_once_have_one_effect(stores: Stores) {
    let key = key(7, "g9");
    let changes = each_at_once(&stores, 0..16, |stores, _| async move {
        stores.dialogs.change_dialog(key, draft("a"), requested("r", 1)).await
    });
    let answer = one_effect(changes.await);
    assert_eq!((answer.version, dialog(&stores, key).await), (version(1), answer.clone()));
}

pub async fn refused_change_keeps_no_request_id(stores: Stores) {
    let key = key(7, "g9");
    let stale = crate::Write { expected: Some(version(4)), ..requested("r", 1) };
    assert_stale(stores.dialogs.change_dialog(key, draft("a"), stale).await, 0);
    let changed = stores.dialogs.change_dialog(key, draft("a"), requested("r", 2)).await;
    assert_eq!(applied(changed.unwrap()).version, Version::FIRST);
}

pub async fn too_many_keys_are_refused(stores: Stores) {
    let count = i64::try_from(BATCH_MAX).unwrap() + 1;
    let keys: Vec<DialogKey> = (1..=count).map(|group| key(7, &format!("g{group}"))).collect();
    let refused = |result: Result<(), StoreError>| assert!(matches!(result, Err(StoreError::Overloaded)));
    refused(stores.dialogs.dialogs(&keys).await.map(drop));
    refused(stores.dialogs.make_dialogs(&keys, Timestamp::now()).await);
    let ends: Vec<_> = keys.iter().map(|key| (key.conversation, 5)).collect();
    refused(stores.dialogs.reduce_dialogs(user_id(7), &ends, Timestamp::now()).await);
    assert_eq!(stores.dialogs.dialog_conversations(user_id(7), None, 10).await.unwrap(), []);
}
