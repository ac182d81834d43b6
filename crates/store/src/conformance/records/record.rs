//! Cases for users and groups alike: one record at a time, and many.

use std::collections::BTreeSet;

use super::{
    record_sample::both,
    sample::{applied, assert_fails, assert_stale, expecting, params, params_of, setting, version, write},
};
use crate::{
    BATCH_MAX, PARAMS_BYTES_MAX, PARAMS_MAX, Params, ParamsPatch, StoreError, Stored, Stores, Timestamp,
    Write,
};

pub async fn times_are_those_of_the_writes(stores: Stores) {
    for records in both(&stores) {
        let made = write();
        let changed = Write { now: Timestamp(made.now.0 + 12_345), ..expecting(1) };
        records.create(1, "ann", made.clone()).await.unwrap();
        assert_eq!(records.live(1).await.times(), (made.now, made.now));
        records.set(1, "v", changed.clone()).await.unwrap();
        assert_eq!(records.live(1).await.times(), (made.now, changed.now));
    }
}

pub async fn existing_id_is_taken(stores: Stores) {
    for records in both(&stores) {
        let before = applied(records.create_full(1, write()).await.unwrap());
        assert_fails!(records.create(1, "other", write()).await, StoreError::IdTaken);
        assert_eq!(records.live(1).await, before);
    }
}

pub async fn versions_count_from_one(stores: Stores) {
    for records in both(&stores) {
        assert_eq!(records.made(1).await.version(), version(1));
        for number in 2..5 {
            let write = if number == 3 { expecting(2) } else { write() };
            let updated = applied(records.set(1, &number.to_string(), write).await.unwrap());
            assert_eq!(updated.version(), version(number));
            assert_eq!(records.live(1).await, updated);
        }
        assert_eq!(applied(records.end(1, expecting(4)).await.unwrap()), version(5));
        assert_eq!(records.state(1).await, Stored::Deleted(version(5)));
    }
}

pub async fn stale_write_conflicts(stores: Stores) {
    for records in both(&stores) {
        applied(records.create_full(1, write()).await.unwrap());
        let now = applied(records.set(1, "a", expecting(1)).await.unwrap());
        for stale in [1, 3, 0] {
            assert_stale(records.set(1, "b", expecting(stale)).await, 2);
            assert_stale(records.end(1, expecting(stale)).await, 2);
        }
        assert_eq!(records.live(1).await, now);
    }
}

pub async fn write_to_missing_record_is_not_found(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        records.end(1, write()).await.unwrap();
        for id in [1, 2] {
            for expected in [None, Some(0), Some(1), Some(2)] {
                let write = || expected.map_or_else(write, expecting);
                assert_fails!(records.set(id, "v", write()).await, StoreError::NotFound);
                assert_fails!(records.end(id, write()).await, StoreError::NotFound);
            }
        }
        assert_eq!(records.state(1).await, Stored::Deleted(version(2)));
        assert_eq!(records.state(2).await, Stored::Never);
    }
}

pub async fn parameters_are_set_unset_and_replaced(stores: Stores) {
    for records in both(&stores) {
        let first = params(&[("theme", "dark"), ("level", "3"), ("empty", "")]);
        records.create_with(1, "ann", first, write()).await.unwrap();
        let change = async |patch| {
            let updated = records.change_params(1, patch, write()).await.unwrap().record;
            assert_eq!(records.live(1).await, updated);
            updated.params().clone()
        };
        let unset = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
        let set = setting(&[("lang", "cs"), ("theme", "light")]);
        let after = change(ParamsPatch { unset: unset(&["level", "absent"]), ..set }).await;
        assert_eq!(after, params(&[("theme", "light"), ("empty", ""), ("lang", "cs")]));
        let unset = unset(&["theme", "empty", "lang"]);
        assert_eq!(change(ParamsPatch { unset, ..ParamsPatch::default() }).await, Params::default());
        change(setting(&[("a", "1"), ("b", "2")])).await;
        let after = change(ParamsPatch { replace: true, ..setting(&[("only", "\"$set\"")]) }).await;
        assert_eq!(after, params(&[("only", "\"$set\"")]));
        let none = ParamsPatch { replace: true, ..ParamsPatch::default() };
        assert_eq!(change(none).await, Params::default());
    }
}

pub async fn allowed_params_are_read_back_unchanged(stores: Stores) {
    let long = "K".repeat(64);
    let pairs = [
        ("constructor", "$set"),
        ("proto-", "{\"$ne\": null}"),
        ("Case", "upper"),
        ("case", "lower"),
        ("n0-_", "'; DROP TABLE users;--"),
        ("quote", "\"\\u0041\" \\ \n\t\u{1}\u{10FFFF}"),
        ("unset", "\u{FEFF}e\u{301}"),
        (long.as_str(), " "),
    ];
    for records in both(&stores) {
        records.made(1).await;
        records.change_params(1, setting(&pairs), write()).await.unwrap();
        assert_eq!(*records.live(1).await.params(), params(&pairs));
    }
}

pub async fn parameters_have_a_limit_in_bytes(stores: Stores) {
    for records in both(&stores) {
        records.create_with(1, "ann", params_of(PARAMS_BYTES_MAX - 10), write()).await.unwrap();
        let before = records.live(1).await;
        assert_fails!(
            records.change_params(1, setting(&[("longer", "12345")]), write()).await,
            StoreError::ParamsTooLarge
        );
        assert_eq!(records.live(1).await, before);
        records.change_params(1, setting(&[("longer", "1234")]), write()).await.unwrap();
        assert_eq!(records.live(1).await.params().bytes(), PARAMS_BYTES_MAX);
        let all = ParamsPatch { replace: true, set: params_of(PARAMS_BYTES_MAX), ..ParamsPatch::default() };
        records.change_params(1, all, write()).await.unwrap();
        assert_eq!(*records.live(1).await.params(), params_of(PARAMS_BYTES_MAX));
    }
}

pub async fn parameters_have_a_limit_in_number(stores: Stores) {
    let full = (0..PARAMS_MAX).map(|at| (format!("k{at}"), String::new())).collect();
    let full = Params::new(full).unwrap();
    for records in both(&stores) {
        records.create_with(1, "ann", full.clone(), write()).await.unwrap();
        let before = records.live(1).await;
        assert_fails!(
            records.change_params(1, setting(&[("one-more", "")]), write()).await,
            StoreError::ParamsTooLarge
        );
        assert_eq!(records.live(1).await, before);
        let swap = ParamsPatch { unset: BTreeSet::from(["k7".to_owned()]), ..setting(&[("one-more", "")]) };
        records.change_params(1, swap, write()).await.unwrap();
        assert_eq!(records.live(1).await.params().len(), PARAMS_MAX);
    }
}

pub async fn recreated_record_continues_the_version(stores: Stores) {
    for records in both(&stores) {
        for round in 0..3 {
            assert_eq!(records.made(1).await.version(), version(2 * round + 1));
            let deletion = write();
            records.end(1, deletion.clone()).await.unwrap();
            assert_eq!(records.state(1).await, Stored::Deleted(version(2 * round + 2)));
            records.release(1, deletion.now).await;
        }
    }
}

pub async fn batch_returns_live_and_ended_records_once(stores: Stores) {
    for records in both(&stores) {
        let first = applied(records.create_full(1, write()).await.unwrap());
        let third = records.made(3).await;
        records.made(2).await;
        records.end(2, write()).await.unwrap();
        records.made(5).await;
        let expected = [
            (1, Stored::Live(first.into())),
            (2, Stored::Deleted(version(2))),
            (3, Stored::Live(third.into())),
        ];
        assert_eq!(records.batch(&[3, 1, 2, 4, 1, 3, 2, 4]).await.unwrap(), expected);
        assert_eq!(records.batch(&[]).await.unwrap(), []);
    }
}

pub async fn batch_has_a_limit(stores: Stores) {
    for records in both(&stores) {
        for id in [1, 250, 500] {
            records.made(id).await;
        }
        let ids: Vec<i64> = (1..).take(BATCH_MAX + 1).collect();
        let read = records.batch(&ids[..BATCH_MAX]).await.unwrap();
        assert_eq!(read.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 250, 500]);
        assert_fails!(records.batch(&ids).await, StoreError::Overloaded);
    }
}

pub async fn scan_pages_live_records_by_id(stores: Stores) {
    for records in both(&stores) {
        for id in [9, 2, 30, 4, i64::MAX] {
            let made = records.made(id).await;
            assert_eq!(records.live(id).await, made);
        }
        records.end(9, write()).await.unwrap();
        assert_eq!(records.scan(None, 10).await, [2, 4, 30, i64::MAX]);
        assert_eq!(records.scan(None, 2).await, [2, 4]);
        assert_eq!(records.scan(Some(4), 2).await, [30, i64::MAX]);
        assert_eq!(records.scan(Some(5), 1).await, [30]);
        assert_eq!(records.scan(Some(i64::MAX - 1), 5).await, [i64::MAX]);
        assert_eq!(records.scan(Some(i64::MAX), 2).await, [0_i64; 0]);
    }
}
