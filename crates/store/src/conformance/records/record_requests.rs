//! Cases for users and groups alike: a write with a request id has one effect and one answer.

use std::time::Duration;

use super::{
    record_sample::both,
    sample::{
        SentRequest, applied, assert_fails, assert_mismatch, expecting, one_effect, replay, version, write,
    },
};
use crate::{REQUEST_KEPT, StoreError, Stored, Stores, Timestamp, Version, Write};

pub async fn a_creation_has_one_effect(stores: Stores) {
    for records in both(&stores) {
        let request = SentRequest::send(
            |body| records.requested("r", body),
            async |write| records.create_full(1, write).await,
            async || records.state(1).await,
        )
        .await;
        assert_eq!(records.live(1).await, request.answer);
        records.set(1, "later", write()).await.unwrap();
        request.assert_kept().await;
        records.end(1, write()).await.unwrap();
        request.assert_kept().await;
    }
}

pub async fn a_creation_replays_under_a_new_id(stores: Stores) {
    for records in both(&stores) {
        let write = || records.requested("r", 1);
        let first = applied(records.create(1, "ann", write()).await.unwrap());
        assert_eq!(replay(records.create(2, "ann", write()).await), first);
        assert_eq!(records.state(2).await, Stored::Never);
    }
}

pub async fn an_update_has_one_effect(stores: Stores) {
    for records in both(&stores) {
        applied(records.create_full(1, write()).await.unwrap());
        let request = SentRequest::send(
            |body| Write { expected: expecting(1).expected, ..records.requested("r", body) },
            async |write| records.set(1, "a", write).await,
            async || records.state(1).await,
        )
        .await;
        assert_eq!((records.live(1).await, request.answer.version()), (request.answer.clone(), version(2)));
        let later = records.set(1, "b", records.requested("s", 2)).await.unwrap();
        assert_eq!(applied(later).version(), version(3));
        request.assert_kept().await;
        records.end(1, write()).await.unwrap();
        request.assert_kept().await;
    }
}

pub async fn an_end_has_one_effect(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let ended = write().now;
        let request = SentRequest::send(
            |body| Write { now: ended, ..records.requested("r", body) },
            async |write| records.end(1, write).await,
            async || records.state(1).await,
        )
        .await;
        assert_eq!((request.answer, records.state(1).await), (version(2), Stored::Deleted(version(2))));
        records.release(1, ended).await;
        records.made(1).await;
        request.assert_kept().await;
    }
}

pub async fn another_call_or_record_is_refused(stores: Stores) {
    for records in both(&stores) {
        let request = |id, body| records.requested(id, body);
        let first = applied(records.create(1, "a", request("r", 1)).await.unwrap());
        let second = records.made(2).await;
        for id in [1, 2] {
            assert_mismatch(records.set(id, "v", request("r", 2)).await);
            assert_mismatch(records.end(id, request("r", 3)).await);
        }
        assert_mismatch(records.create(3, "c", request("r", 4)).await);
        assert_eq!(records.state(3).await, Stored::Never);
        assert_eq!([records.live(1).await, records.live(2).await], [first, second]);
        records.end(1, request("s", 5)).await.unwrap();
        assert_mismatch(records.create(1, "a", request("s", 6)).await);
        assert_eq!(records.state(1).await, Stored::Deleted(version(2)));
    }
}

pub async fn a_failed_write_keeps_no_request(stores: Stores) {
    for records in both(&stores) {
        let request = |id| records.requested(id, 1);
        for id in ["r", "s"] {
            assert_fails!(records.set(1, "v", request(id)).await, StoreError::NotFound);
        }
        assert_fails!(records.end(1, request("t")).await, StoreError::NotFound);
        applied(records.create(1, "ann", request("s")).await.unwrap());
        let stale = Write { expected: Some(version(9)), ..request("r") };
        assert_fails!(records.set(1, "v", stale).await, StoreError::Conflict { .. });
        let updated = applied(records.set(1, "v", request("r")).await.unwrap());
        assert_eq!((records.live(1).await, updated.version()), (updated.clone(), version(2)));
        assert_fails!(records.create(1, "bea", request("u")).await, StoreError::IdTaken);
        let ended = write().now;
        let end = Write { now: ended, ..request("t") };
        assert_eq!(applied(records.end(1, end).await.unwrap()), version(3));
        records.release(1, ended).await;
        assert_eq!(applied(records.create(1, "bea", request("u")).await.unwrap()).version(), version(4));
    }
}

pub async fn requests_of_different_ids_have_an_effect_each(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        for (number, id) in (2..).zip(["r", "s", "r-1", "r_1", "0", "abc", "ABC", "Abc"]) {
            let updated = records.set(1, "v", records.requested(id, 1)).await.unwrap();
            assert_eq!(applied(updated).version(), version(number));
        }
    }
}

pub async fn a_creation_sent_at_once_has_one_effect(stores: Stores) {
    for records in both(&stores) {
        for round in 0..5_i64 {
            // Two callers have each id.
            let ids: Vec<i64> = (0..16).map(|at| 100 * round + 1 + at % 8).collect();
            let calls = records.each_at_once(ids.clone(), |records, id| async move {
                let write = records.requested(&format!("r{round}"), 1);
                records.create(id, &format!("ann-{round}"), write).await
            });
            let record = one_effect(calls.await);
            assert_eq!(record.version(), Version::FIRST);
            let stored = records.batch(&ids).await.unwrap();
            assert_eq!(
                stored.iter().map(|(_, stored)| stored).collect::<Vec<_>>(),
                [&Stored::Live(record.into())]
            );
        }
    }
}

pub async fn an_update_sent_at_once_has_one_effect(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        for round in 2..=6_i64 {
            let calls = records.each_at_once(0..16, |records, _| async move {
                let write = records.requested(&format!("r{round}"), 1);
                records.set(1, "v", write).await
            });
            let record = one_effect(calls.await);
            assert_eq!(record.version(), version(round));
            assert_eq!(records.live(1).await, record);
        }
    }
}

pub async fn an_end_sent_at_once_has_one_effect(stores: Stores) {
    for records in both(&stores) {
        for id in 1..=5 {
            records.made(id).await;
            let calls = records.each_at_once(0..16, |records, _| async move {
                let write = records.requested(&format!("r{id}"), 1);
                records.end(id, write).await
            });
            assert_eq!(one_effect(calls.await), version(2));
            assert_eq!(records.state(id).await, Stored::Deleted(version(2)));
        }
    }
}

pub async fn two_bodies_at_once_have_one_effect(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let results = records.each_at_once(0..16_u8, |records, at| async move {
            let body = 1 + at % 2;
            let value = body.to_string();
            (value.clone(), records.set(1, &value, records.requested("r", body)).await)
        });
        let results = results.await;
        let record = records.live(1).await;
        assert_eq!(record.version(), version(2));
        let has_won = |value: &str| record.params().iter().any(|(_, found)| found == value);
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|(value, _)| has_won(value));
        assert_eq!(one_effect(won.into_iter().map(|(_, result)| result).collect()), record);
        lost.into_iter().for_each(|(_, result)| assert_mismatch(result));
    }
}

pub async fn the_answers_of_many_requests_are_kept(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let mut answers = Vec::new();
        let set = async |at: u8| {
            let write = records.requested(&format!("r{at}"), at);
            records.set(1, &at.to_string(), write).await
        };
        for at in 0..100 {
            answers.push(applied(set(at).await.unwrap()));
        }
        for (at, answer) in (0..100).zip(answers) {
            assert_eq!(replay(set(at).await), answer);
        }
        assert_eq!(records.live(1).await.version(), version(101));
    }
}

pub async fn young_requests_are_not_forgotten(stores: Stores) {
    for records in both(&stores) {
        let create = async || records.create(1, "ann", records.requested("r", 1)).await;
        let first = applied(create().await.unwrap());
        let (created, _) = first.times();
        let last = Timestamp(created.after(REQUEST_KEPT).0 - 30_000);
        for now in [Timestamp(0), created, last] {
            assert_eq!(records.stores().node.forget_requests(now).await.unwrap(), 0);
            assert_eq!(replay(create().await), first);
        }
    }
}

/// A store that deletes expired requests by itself returns 0 here, because it uses its own clock.
pub async fn forgotten_request_has_effect_again(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let set = async |write| records.set(1, "v", write).await;
        for id in ["r", "s", "t"] {
            set(records.requested(id, 1)).await.unwrap();
        }
        let later = write().now.after(REQUEST_KEPT + Duration::from_secs(3600));
        let young = Write { now: later, ..records.requested("young", 1) };
        set(young.clone()).await.unwrap();
        let forgotten = records.stores().node.forget_requests(later).await.unwrap();
        assert!(forgotten == 0 || forgotten == 3, "{forgotten} forgotten");
        replay(set(young).await);
        if forgotten > 0 {
            let updated = set(Write { now: later, ..records.requested("r", 2) }).await.unwrap();
            assert_eq!(applied(updated).version(), version(6));
        }
    }
}
