//! The scheme with leases: a deletion voids the lease that a load in progress holds, so that the load cannot
//! fill a stale value into Redis. The memory tier in front of it has no such protection.

use std::time::Duration;

use anyhow::Result;
use fred::types::scripts::Script;
use tokio::time::sleep;

use super::{SchemeNode, tiers::Tiers};
use crate::cache_node::Store;

/// Returns the copy, a new lease with that token and time, or the fact that another caller has a lease.
const GET: &str = "local copy = redis.call('GET', KEYS[1]) \
    if copy then return 'copy ' .. copy end \
    if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'lease' end return 'wait'";
/// Fills under a lease that still holds.
const FILL: &str = "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 'void' end \
    redis.call('DEL', KEYS[2]) redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 'filled'";
/// Deletes the copy, and its lease: a value that was read before cannot be filled any more.
const DELETE: &str = "redis.call('DEL', KEYS[1], KEYS[2]) return 'deleted'";

/// A key gives one lease in this time, in milliseconds, as in the paper.
const LEASE_MS: u32 = 10_000;
/// Pause before a read asks again while another has the lease, and how often it does before it loads by
/// itself.
const WAIT: Duration = Duration::from_millis(10);
const WAITS: usize = 20;

/// The leases of Facebook's memcache, by scripts in Redis: a reader that misses gets a token, a deletion
/// voids the token, and a copy is put only with a valid token. A reader that finds a lease waits and asks
/// again. In front is a memory tier as services add it: filled with what was read, dropped when a published
/// message says so.
///
/// Source: "Scaling Memcache at Facebook", section 3.2.1,
/// <https://www.usenix.org/conference/nsdi13/technical-sessions/presentation/nishtala>. There, deletions come
/// out of the database's commit log (section 4.1), which is left out here as it is for all schemes but Kith.
pub(super) struct Leases {
    tiers: Tiers,
    get: Script,
    fill: Script,
    delete: Script,
}

/// Redis' answer to a read.
enum LeaseAnswer {
    Copy(u64),
    Lease,
    Wait,
    /// Redis does not answer.
    Away,
}

impl Leases {
    /// A node over the Redis at this address, which has to answer.
    pub(super) async fn start(url: &str, store: &Store) -> Result<Self> {
        let [get, fill, delete] = [GET, FILL, DELETE].map(Script::from_lua);
        let tiers = Tiers::connect(url, store).await?;
        // The scripts are loaded now, before the first timed command.
        tiers.server.load([&get, &fill, &delete]).await?;
        Ok(Self { tiers, get, fill, delete })
    }

    async fn ask(&self, key: u64, token: &str) -> LeaseAnswer {
        let words = [token.to_owned(), LEASE_MS.to_string()];
        let Ok(answer) = self.tiers.server.run(&self.get, key, words).await else { return LeaseAnswer::Away };
        match answer.as_str() {
            "lease" => LeaseAnswer::Lease,
            "wait" => LeaseAnswer::Wait,
            copy => {
                let version = copy.strip_prefix("copy ").and_then(|version| version.parse().ok());
                version.map_or(LeaseAnswer::Away, LeaseAnswer::Copy)
            }
        }
    }

    async fn below(&self, key: u64) -> Result<u64> {
        let token = rand::random::<u64>().to_string();
        for _ in 0..WAITS {
            match self.ask(key, &token).await {
                LeaseAnswer::Copy(version) => return Ok(version),
                LeaseAnswer::Lease => {
                    let version = self.tiers.stored(key).await?;
                    let words = [token, version.to_string()];
                    // A lease that is void, or Redis that is away, fails no read.
                    drop(self.tiers.server.run(&self.fill, key, words).await);
                    return Ok(version);
                }
                LeaseAnswer::Wait => sleep(WAIT).await,
                LeaseAnswer::Away => break,
            }
        }
        self.tiers.stored(key).await
    }
}

#[async_trait::async_trait]
impl SchemeNode for Leases {
    async fn read(&self, key: u64) -> Result<u64> {
        if let Some(version) = self.tiers.memory.get(&key) {
            return Ok(version);
        }
        let version = self.below(key).await?;
        self.tiers.memory.insert(key, version);
        Ok(version)
    }

    async fn write(&self, key: u64) -> Result<u64> {
        let version = self.tiers.store.commit(key);
        let words = [String::new(), String::new()];
        // A deletion that fails in Redis is lost.
        drop(self.tiers.server.run(&self.delete, key, words).await);
        self.tiers.publish(key, version).await;
        Ok(version)
    }
}
