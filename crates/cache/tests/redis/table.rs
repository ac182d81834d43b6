//! The rules as Lua against the rules as functions: every state, every operation, versions older, equal,
//! newer and none. States that no operation leads to are there too: Redis holds what others put there.

use std::{sync::Arc, time::Duration};

use fred::{prelude::*, types::Expiration};
use kith_cache::{
    Version,
    remote::{
        Acquired, Cell, CellKind, CellWrite, Cells as _, FillResult, Header, Log as _, LogEntry, NextState,
        Retention,
        redis::{RedisOptions, RedisShared},
    },
};

use crate::{
    server::{command, operator},
    stage::{SHORT, accepted, address, options},
};

const OWN: u64 = 7;
const OTHER: u64 = u64::MAX - 1;

/// Versions around a border of the two halves in which Lua compares them.
const VERSIONS: [u64; 9] =
    [0, 1, 4, 5, 6, u32::MAX as u64 - 1, u32::MAX as u64, u32::MAX as u64 + 1, u32::MAX as u64 + 2];
/// A lease's ages: just taken, and old enough to be taken over.
const AGES: [Duration; 2] = [Duration::ZERO, Duration::from_secs(2)];
/// The time is so long that no test is slower.
const RETENTION: Retention = Retention { takeover: Duration::from_secs(1), ..SHORT };

fn cell(kind: CellKind, version: u64, token: u64) -> Cell {
    let payload: &[u8] = if kind == CellKind::Value { b"a payload \0\xff" } else { b"" };
    Cell { header: Header::bare(kind, Version::new(version), token), payload: payload.into(), ttl_max: None }
}

fn states() -> Vec<Option<Cell>> {
    let mut states = vec![None];
    for version in VERSIONS {
        for kind in [CellKind::Value, CellKind::Null, CellKind::Tomb, CellKind::Lease] {
            for (token, waited) in [(OWN, false), (OTHER, false), (OTHER, true)] {
                let mut cell = cell(kind, version, token);
                cell.header.waited = waited;
                states.push(Some(cell));
            }
        }
    }
    states
}

struct Stage {
    shared: Arc<RedisShared>,
    operator: Client,
    prefix: String,
}

impl Stage {
    async fn new() -> Self {
        let options = RedisOptions { retention: RETENTION, ..options(&address()) };
        let prefix = options.tag();
        Self { shared: accepted(options).await, operator: operator(&address()).await, prefix }
    }

    fn key(&self, address: &str) -> String {
        format!("{{{}}}:{address}", self.prefix)
    }

    /// Stores a cell of this age.
    async fn store(&self, address: &str, state: Option<&Cell>, age: Duration) {
        let key = self.key(address);
        let _: i64 = self.operator.del(&key).await.unwrap();
        if let Some(cell) = state {
            let bytes = bytes::Bytes::from(cell.to_bytes());
            let left = i64::try_from((RETENTION.leases - age).as_millis()).unwrap();
            let _: () =
                self.operator.set(&key, bytes, Some(Expiration::PX(left)), None, false).await.unwrap();
        }
    }

    async fn stored(&self, address: &str) -> Option<Cell> {
        let bytes: Option<bytes::Bytes> = self.operator.get(self.key(address)).await.unwrap();
        bytes.map(|bytes| Cell::from_bytes(&bytes).unwrap())
    }

    /// The key holds what is expected of it, for as long as such a kind is kept.
    async fn assert_became(&self, address: &str, before: Option<&Cell>, next: &NextState, what: &str) {
        let expected = match next {
            NextState::Keep => before.cloned(),
            NextState::Await => before.cloned().map(|mut cell| {
                cell.header.waited = true;
                cell
            }),
            NextState::Set(cell) => Some(cell.clone()),
            NextState::Delete => None,
        };
        assert_eq!(self.stored(address).await, expected, "{what} on {before:?}");
        let Some(cell) = expected else { return };
        let left: i64 = self.operator.pttl(self.key(address)).await.unwrap();
        let (least, most) = match (next, cell.header.kind) {
            (NextState::Set(_), CellKind::Value) => (RETENTION.copies.mul_f64(0.9), RETENTION.copies),
            (NextState::Set(_), CellKind::Null) => (RETENTION.absences, RETENTION.absences),
            (NextState::Set(_), CellKind::Tomb) => (RETENTION.tombs, RETENTION.tombs),
            // A cell that stays keeps its expiry.
            _ => (Duration::from_secs(1), RETENTION.leases),
        };
        let left = Duration::from_millis(u64::try_from(left).unwrap());
        let least = least.saturating_sub(Duration::from_secs(1));
        assert!(left >= least && left <= most, "{what} on {before:?}: {left:?} left");
    }

    async fn change(&self, writes: &[(String, CellWrite)], nonce: u64) {
        let entry = LogEntry { nonce, message: b"message", strict: false };
        self.shared.change(1, writes, entry).await.unwrap();
    }
}

fn left(age: Duration) -> Duration {
    RETENTION.takeover.saturating_sub(age)
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_lease_is_given_as_the_rules_say() {
    let (stage, keys) = (Stage::new().await, ["1:a:k".to_owned()]);
    for (state, age) in states().into_iter().flat_map(|state| AGES.map(|age| (state.clone(), age))) {
        let (next, answer) = Cell::acquire(state.as_ref(), OWN, left(age));
        for (believed_absent, again) in [(false, false), (false, true), (true, false), (true, true)] {
            if !again {
                stage.store(&keys[0], state.as_ref(), age).await;
            }
            let acquired = if believed_absent {
                stage.shared.acquire_absent(&keys, OWN).await.unwrap()
            } else {
                stage.shared.acquire(&keys, OWN).await.unwrap()
            };
            match (&acquired[0], &answer) {
                (Acquired::Wait(wait), Acquired::Wait(most)) => assert!(wait <= most && !wait.is_zero()),
                (acquired, answer) => assert_eq!(acquired, answer, "{state:?}, again {again}"),
            }
            stage.assert_became(&keys[0], state.as_ref(), &next, "acquire").await;
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_load_fills_as_the_rules_say() {
    let (stage, key) = (Stage::new().await, "1:a:k".to_owned());
    for state in states() {
        for (version, kind) in
            VERSIONS.into_iter().flat_map(|version| [(version, CellKind::Value), (version, CellKind::Null)])
        {
            stage.store(&key, state.as_ref(), AGES[0]).await;
            let filling = [(key.clone(), cell(kind, version, OWN))];
            let (next, answer) = Cell::fill(state.as_ref(), filling[0].1.clone());
            assert_eq!(stage.shared.fill(&filling).await.unwrap(), [answer], "{state:?}, {version}");
            stage.assert_became(&key, state.as_ref(), &next, "fill").await;
            if answer == FillResult::Stored {
                assert_eq!(
                    stage.shared.fill(&filling).await.unwrap(),
                    [FillResult::Stored],
                    "the same again"
                );
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_lease_is_given_up_as_the_rules_say() {
    let (stage, keys) = (Stage::new().await, ["1:a:k".to_owned()]);
    for state in states() {
        stage.store(&keys[0], state.as_ref(), AGES[0]).await;
        for _again in [false, true] {
            stage.shared.release(&keys, OWN).await.unwrap();
            stage
                .assert_became(&keys[0], state.as_ref(), &Cell::release(state.as_ref(), OWN), "release")
                .await;
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_write_changes_keys_as_the_rules_say() {
    let stage = Stage::new().await;
    let keys = ["1:a:i", "1:a:p", "1:a:d"];
    for state in states() {
        for version in VERSIONS {
            for key in keys {
                stage.store(key, state.as_ref(), AGES[0]).await;
            }
            let (putting, version) = (cell(CellKind::Value, version, 0), Version::new(version));
            let writes = [
                CellWrite::Invalidate(Some(version)),
                CellWrite::Put(putting.clone()),
                CellWrite::Invalidate(None),
            ];
            let writes: Vec<_> = keys.map(str::to_owned).into_iter().zip(writes).collect();
            let invalidated = Cell::invalidate(state.as_ref(), Some(version));
            let put = Cell::put(state.as_ref(), putting.clone());
            for again in [false, true] {
                // A put that comes again is a different case: then its own value is stored.
                let writes = if again { vec![writes[0].clone(), writes[2].clone()] } else { writes.clone() };
                stage.change(&writes, 1).await;
                stage.assert_became(keys[0], state.as_ref(), &invalidated, "invalidate").await;
                stage.assert_became(keys[1], state.as_ref(), &put, "put").await;
                stage.assert_became(keys[2], state.as_ref(), &NextState::Delete, "delete").await;
            }
            let before = stage.stored(keys[1]).await;
            stage.change(&writes[1..2], 1).await;
            let put = Cell::put(before.as_ref(), putting);
            stage.assert_became_again(keys[1], before.as_ref(), &put).await;
        }
    }
}

impl Stage {
    /// A write that is repeated leaves the same state as the first time, unless that was a delete.
    async fn assert_became_again(&self, address: &str, before: Option<&Cell>, next: &NextState) {
        if before.is_some_and(|before| before.header.version.is_versioned()) {
            assert_eq!(next, &NextState::Keep, "a put is idempotent");
        }
        let found = self.stored(address).await;
        match next {
            NextState::Keep | NextState::Await => assert_eq!(found.as_ref(), before),
            NextState::Set(cell) => assert_eq!(found.as_ref(), Some(cell)),
            NextState::Delete => assert_eq!(found, None),
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn forgotten_scripts_are_loaded_again() {
    let server = crate::server::Server::start(&[]);
    let shared = accepted(options(&server.url())).await;
    let operator = server.operator().await;
    let keys: Vec<String> = (0..20).map(|key| format!("1:a:{key}")).collect();
    for round in 1..=3 {
        command(&operator, "SCRIPT", &["FLUSH"]).await;
        assert_eq!(shared.acquire(&keys, round).await.unwrap().len(), 20);
        command(&operator, "SCRIPT", &["FLUSH"]).await;
        let entry = LogEntry { nonce: round, message: b"", strict: true };
        assert_eq!(shared.change(1, &[], entry).await.unwrap().number, round);
        command(&operator, "SCRIPT", &["FLUSH"]).await;
        shared.release(&keys, round).await.unwrap();
    }
    assert_eq!(shared.read(&keys).await.unwrap(), vec![None; 20]);
}
