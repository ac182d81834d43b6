//! Swaps keys all the time: each is added to the caller file, used by clients once it must be valid, and
//! removed again, while other clients try removed keys.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kith_proto::{
    admin::v1::{WatchNodeRequest, admin_service_client::AdminServiceClient},
    message::v1::{WatchOfflineRequest, message_service_client::MessageServiceClient},
    user::v1::{GetUserRequest, user_service_client::UserServiceClient},
};
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, JoinSet};
use tonic::{Code, Request, Streaming, transport::Channel};

use crate::spawned::Started;

const CLIENTS: usize = 4;
/// The pause between a client's calls: the machine has other work.
const BETWEEN_CALLS: Duration = Duration::from_millis(2);
/// The time between two swaps.
const EVERY: Duration = Duration::from_secs(1);
/// How many keys have open streams when they are removed.
const STREAMED: usize = 3;
/// No step in these tests takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How fast a node is configured to follow.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) read_again_every: &'static str,
    /// How often a key is added and the oldest one removed.
    pub(crate) swaps: usize,
    /// How many keys the file has.
    pub(crate) kept: usize,
    /// The time after which an added key is valid on every node, so that clients begin to use it.
    pub(crate) added: Duration,
    /// The time after which a removed key is refused.
    pub(crate) removed: Duration,
    /// How soon after a key is refused its streams must have ended.
    pub(crate) streams: Duration,
}

/// A key, and the times when it was added to the file and removed.
struct Key {
    text: String,
    added: Instant,
    removed: Option<Instant>,
}

/// The current keys, and the clients' observations.
struct Rotation {
    pace: Pace,
    file: PathBuf,
    keys: Mutex<Vec<Key>>,
    ended: AtomicBool,
    valid: AtomicU64,
    revoked: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Rotation {
    /// Begins with the first keys in the file, for a node that has not started.
    fn new(pace: Pace, folder: &Path) -> Arc<Self> {
        let long_ago = Instant::now().checked_sub(pace.added).unwrap();
        let keys = (0..pace.kept).map(|number| Key { added: long_ago, ..Key::new(number) }).collect();
        let rotation = Self {
            pace,
            file: folder.join("callers.toml"),
            keys: Mutex::new(keys),
            ended: AtomicBool::new(false),
            valid: AtomicU64::new(0),
            revoked: AtomicU64::new(0),
            wrong: Mutex::default(),
        };
        rotation.write();
        Arc::new(rotation)
    }

    /// Replaces the file with the keys that are not removed.
    fn write(&self) {
        let keys = self.keys.lock().unwrap();
        let text: String = keys.iter().filter(|key| key.removed.is_none()).map(Key::toml).collect();
        drop(keys);
        let new = self.file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Adds a key and removes the oldest key.
    fn swap(&self) {
        {
            let mut keys = self.keys.lock().unwrap();
            let number = keys.len();
            keys.iter_mut().find(|key| key.removed.is_none()).unwrap().removed = Some(Instant::now());
            keys.push(Key::new(number));
        }
        self.write();
    }

    /// Returns the numbers and texts of the keys for which `holds` is true.
    fn those(&self, holds: impl Fn(&Key) -> bool) -> Vec<(usize, String)> {
        let keys = self.keys.lock().unwrap();
        let found = keys.iter().enumerate().filter(|(_, key)| holds(key));
        found.map(|(number, key)| (number, key.text.clone())).collect()
    }

    fn is_removed(&self, number: usize) -> bool {
        self.keys.lock().unwrap()[number].removed.is_some()
    }

    /// Makes calls with keys that must be accepted, and with keys that must not.
    async fn load(self: Arc<Self>, channel: Channel, client: usize) {
        for round in client.. {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(BETWEEN_CALLS).await;
            let valid = self.those(|key| key.removed.is_none() && key.added.elapsed() >= self.pace.added);
            let (number, key) = &valid[round % valid.len()];
            let code = called(&channel, key).await;
            // A key that was removed meanwhile may have been refused.
            if !self.is_removed(*number) {
                self.note(&self.valid, code == Code::NotFound, || format!("valid key {number}: {code:?}"));
            }
            let revoked =
                self.those(|key| key.removed.is_some_and(|removed| removed.elapsed() >= self.pace.removed));
            if let Some((number, key)) = revoked.get(round % revoked.len().max(1)) {
                let code = called(&channel, key).await;
                self.note(&self.revoked, code == Code::Unauthenticated, || {
                    format!("revoked key {number}: {code:?}")
                });
            }
        }
    }

    fn note(&self, count: &AtomicU64, right: bool, wrong: impl Fn() -> String) {
        count.fetch_add(1, Ordering::Relaxed);
        if !right {
            self.wrong.lock().unwrap().push(wrong());
        }
    }
}

impl Key {
    fn new(number: usize) -> Self {
        let text = format!("correct-horse-battery-staple-key-{number}");
        Self { text, added: Instant::now(), removed: None }
    }

    /// Formats the key with its own caller.
    fn toml(&self) -> String {
        let name = self.text.rsplit('-').next().unwrap();
        let digest: String = Sha256::digest(&self.text).iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "[[caller]]\nname = \"key-{name}\"\nscopes = [\"all\"]\nkeys = [{{ sha256 = \"{digest}\" }}]\n"
        )
    }
}

/// Makes a request with this key.
pub(crate) fn with<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

/// Returns the code that a call with this key gets: NOT_FOUND for a valid key.
pub(crate) async fn called(channel: &Channel, key: &str) -> Code {
    let request = with(key, GetUserRequest { user_id: 1, consistency: None });
    let answer = UserServiceClient::new(channel.clone()).get_user(request).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// Reads a stream to its end. Returns when and with which code it ends.
fn end<T: Send + 'static>(mut stream: Streaming<T>) -> JoinHandle<(Instant, Code)> {
    tokio::spawn(async move {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return (Instant::now(), Code::Ok),
                Err(status) => return (Instant::now(), status.code()),
            }
        }
    })
}

/// Opens a stream that has nothing to send and a stream that sends five times a second; yields the statuses
/// with which they end.
async fn streams(channel: &Channel, key: &str) -> [JoinHandle<(Instant, Code)>; 2] {
    let mut messages = MessageServiceClient::new(channel.clone());
    let idle = messages.watch_offline(with(key, WatchOfflineRequest::default())).await.unwrap();
    let interval = Some(prost_types::Duration { seconds: 0, nanos: 200_000_000 });
    let mut admin = AdminServiceClient::new(channel.clone());
    let sending = admin.watch_node(with(key, WatchNodeRequest { interval })).await.unwrap();
    [end(idle.into_inner()), end(sending.into_inner())]
}

/// Waits until the key is refused, and checks that its streams end then.
async fn ends_with_its_key(rotation: Arc<Rotation>, channel: Channel, number: usize, key: String) {
    let streams = streams(&channel, &key).await;
    while !rotation.is_removed(number) || called(&channel, &key).await != Code::Unauthenticated {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = Instant::now();
    for stream in streams {
        let (ended, code) = tokio::time::timeout(PATIENCE, stream).await.expect("it ends").unwrap();
        assert_eq!(code, Code::Unauthenticated, "key {number}");
        let after = ended.saturating_duration_since(refused);
        assert!(after <= rotation.pace.streams, "a stream of key {number} ended {after:?} after its key");
    }
}

/// Swaps a node's keys under load. No call with a valid key fails, no call with a removed key is accepted,
/// and streams end with their key.
pub(crate) async fn keys_are_swapped_under_load(pace: Pace) {
    let folder = tempfile::tempdir().unwrap();
    let rotation = Rotation::new(pace, folder.path());
    let again = format!("auth.read_again_every={}", pace.read_again_every);
    let settings = ["auth.callers_file=callers.toml", &again, "messages.offline=true"];
    let node = Started::new(folder.path(), &settings.map(|setting| ["--set", setting]).concat());
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        tasks.spawn(Arc::clone(&rotation).load(node.channel().await, client));
    }
    for (number, key) in rotation.those(|_| true).into_iter().take(STREAMED) {
        tasks.spawn(ends_with_its_key(Arc::clone(&rotation), node.channel().await, number, key));
    }
    let mut swaps = tokio::time::interval(EVERY);
    for _ in 0..pace.swaps {
        swaps.tick().await;
        rotation.swap();
    }
    swaps.tick().await;
    rotation.ended.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let wrong = rotation.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} calls: {:?}\n{}", wrong.len(), wrong.first(), node.logged());
    let (valid, revoked) = (&rotation.valid, &rotation.revoked);
    assert!(
        valid.load(Ordering::Relaxed) > 100 && revoked.load(Ordering::Relaxed) > 100,
        "{valid:?} {revoked:?}"
    );
}
