//! The rules as Lua against the rules as functions, on a real Redis: every state, every operation, versions
//! older, equal, newer and none.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fred::{prelude::*, types::Expiration};
use kith_cache::{
    Version,
    remote::{Cell, Channel, Entry, Filled, Header, Kept, Kind, Next, Order, Scripts},
};

const OWN: u64 = 7;
const OTHER: u64 = u64::MAX - 1;

/// Versions around a border of the two halves in which Lua compares them.
const VERSIONS: [u64; 9] =
    [0, 1, 4, 5, 6, u32::MAX as u64 - 1, u32::MAX as u64, u32::MAX as u64 + 1, u32::MAX as u64 + 2];

fn cell(kind: Kind, version: u64, token: u64) -> Cell {
    let payload = if kind == Kind::Value { b"a payload \0\xff".to_vec() } else { Vec::new() };
    Cell { header: Header::bare(kind, Version::new(version), token), payload }
}

fn states() -> Vec<Option<Cell>> {
    let mut states = vec![None];
    for version in VERSIONS {
        for kind in [Kind::Value, Kind::Null, Kind::Tomb, Kind::Lease] {
            states.extend([OWN, OTHER].map(|token| Some(cell(kind, version, token))));
        }
    }
    states
}

struct Stage {
    client: Client,
    scripts: Scripts,
    folder: String,
}

impl Stage {
    async fn new(folder: &str) -> Self {
        let (_, address) = std::env::vars().find(|(name, _)| name == "KITH_TEST_REDIS").unwrap();
        let client = Builder::from_config(Config::from_url(&address).unwrap()).build().unwrap();
        client.init().await.unwrap();
        let folder = format!("kith-test-{folder}-{}", rand::random::<u64>());
        Self { client, scripts: Scripts::new(Kept::default()), folder }
    }

    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.folder)
    }

    async fn place(&self, key: &str, state: Option<&Cell>) {
        let _: i64 = self.client.del(key).await.unwrap();
        if let Some(cell) = state {
            let bytes = bytes::Bytes::from(cell.to_bytes());
            let _: () = self.client.set(key, bytes, Some(Expiration::EX(100)), None, false).await.unwrap();
        }
    }

    async fn found(&self, key: &str) -> Option<Cell> {
        let bytes: Option<bytes::Bytes> = self.client.get(key).await.unwrap();
        bytes.map(|bytes| {
            let (header, payload) = Header::decode(&bytes).unwrap();
            Cell { header, payload: payload.to_vec() }
        })
    }

    /// The key holds what is expected of it, for as long as such a kind is kept.
    async fn assert_became(&self, key: &str, before: Option<&Cell>, next: &Next, what: &str) {
        let expected = match next {
            Next::Keep => before.cloned(),
            Next::Set(cell) => Some(cell.clone()),
            Next::Delete => None,
        };
        assert_eq!(self.found(key).await, expected, "{what} on {before:?}");
        if let Next::Set(cell) = next {
            let left: i64 = self.client.ttl(key).await.unwrap();
            let most = match cell.header.kind {
                Kind::Value | Kind::Null => 600,
                Kind::Tomb => 30,
                Kind::Lease => 3,
            };
            assert!(left >= most - 1 && left <= most, "{what} on {before:?}: {left} s left");
        }
    }

    async fn change(&self, orders: &[(&str, Order)], nonce: u64) -> u64 {
        let (log, channel) = (self.key("log"), self.key("channel"));
        let told = Channel { log: &log, channel: &channel, entry: Entry { nonce, message: b"told" } };
        self.scripts.change(&self.client, orders, &told).await.unwrap()
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_lease_is_given_as_the_rules_say() {
    let stage = Stage::new("acquire").await;
    let key = stage.key("k");
    for state in states() {
        stage.place(&key, state.as_ref()).await;
        let (next, answer) = Cell::acquire(state.as_ref(), OWN);
        for again in [false, true] {
            let told = stage.scripts.acquire(&stage.client, &key, OWN).await.unwrap();
            assert_eq!(told, answer, "{state:?}, again {again}");
            stage.assert_became(&key, state.as_ref(), &next, "acquire").await;
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_load_fills_as_the_rules_say() {
    let stage = Stage::new("fill").await;
    let key = stage.key("k");
    for state in states() {
        for (version, kind) in
            VERSIONS.into_iter().flat_map(|version| [(version, Kind::Value), (version, Kind::Null)])
        {
            stage.place(&key, state.as_ref()).await;
            let filling = cell(kind, version, OWN);
            let (next, answer) = Cell::fill(state.as_ref(), filling.clone());
            let told = stage.scripts.fill(&stage.client, &key, &filling).await.unwrap();
            assert_eq!(told, answer, "{state:?}, {version}");
            stage.assert_became(&key, state.as_ref(), &next, "fill").await;
            if told == Filled::Stored {
                assert_eq!(stage.scripts.fill(&stage.client, &key, &filling).await.unwrap(), Filled::Stored);
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_lease_is_given_up_as_the_rules_say() {
    let stage = Stage::new("release").await;
    let key = stage.key("k");
    for state in states() {
        stage.place(&key, state.as_ref()).await;
        stage.scripts.release(&stage.client, &key, OWN).await.unwrap();
        stage.assert_became(&key, state.as_ref(), &Cell::release(state.as_ref(), OWN), "release").await;
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_write_changes_keys_as_the_rules_say() {
    let stage = Stage::new("change").await;
    let keys = [stage.key("i"), stage.key("p"), stage.key("d")];
    for state in states() {
        for version in VERSIONS {
            for key in &keys {
                stage.place(key, state.as_ref()).await;
            }
            let (putting, version) = (cell(Kind::Value, version, 0), Version::new(version));
            let orders = [
                (keys[0].as_str(), Order::Invalidate(Some(version))),
                (keys[1].as_str(), Order::Put(putting.clone())),
                (keys[2].as_str(), Order::Invalidate(None)),
            ];
            stage.change(&orders, 1).await;
            let invalidated = Cell::invalidate(state.as_ref(), Some(version));
            stage.assert_became(&keys[0], state.as_ref(), &invalidated, "invalidate").await;
            let put = Cell::put(state.as_ref(), putting);
            stage.assert_became(&keys[1], state.as_ref(), &put, "put").await;
            stage.assert_became(&keys[2], state.as_ref(), &Next::Delete, "delete").await;
        }
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn what_others_put_there_is_as_if_nothing_were_there() {
    let stage = Stage::new("garbage").await;
    let key = stage.key("k");
    let mut deep = cell(Kind::Value, 9, OWN).to_bytes();
    deep[1] = 9;
    for garbage in [Vec::new(), b"K".to_vec(), vec![b'x'; 10_000], deep] {
        let bytes = bytes::Bytes::from(garbage);
        let _: () = stage.client.set(&key, bytes, None, None, false).await.unwrap();
        let told = stage.scripts.acquire(&stage.client, &key, OWN).await.unwrap();
        assert_eq!(told, Cell::acquire(None, OWN).1);
    }
    let _: i64 = stage.client.del(&key).await.unwrap();
    let _: i64 = stage.client.rpush(&key, "a list").await.unwrap();
    let told = stage.scripts.acquire(&stage.client, &key, OWN).await.unwrap();
    assert_eq!(told, Cell::acquire(None, OWN).1, "a value of another type");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn changes_are_numbered_without_gaps_and_each_names_the_one_before() {
    let stage = Stage::new("log").await;
    for number in 1..=50 {
        assert_eq!(stage.change(&[], 1_000 + number).await, number);
    }
    let entries: Vec<(String, std::collections::HashMap<String, bytes::Bytes>)> =
        stage.client.xrange(stage.key("log"), "-", "+", None).await.unwrap();
    let mut before = 0_u64;
    for (at, (id, fields)) in entries.iter().enumerate() {
        assert_eq!(*id, format!("1-{at}"));
        let (nonce, rest) = fields["e"].split_first_chunk::<8>().unwrap();
        let (named, message) = rest.split_first_chunk::<8>().unwrap();
        assert_eq!((u64::from_be_bytes(*named), message), (before, b"told".as_slice()));
        before = u64::from_be_bytes(*nonce);
    }
    assert_eq!(entries.len(), 50);
}
