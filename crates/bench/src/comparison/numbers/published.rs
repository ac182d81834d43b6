//! The published allocator of sequence numbers: a lock and a block in one Redis hash, changed by two Lua
//! scripts. A flag selects the variant: as described in the source, or as implemented in the program.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use fred::{prelude::*, types::scripts::Script};
use tokio::time::sleep;

use super::{NumberNode, store::OneSequenceStore};
use crate::comparison::server::builder;

const KEY: &str = "comparison:numbers";
/// How many numbers are taken ahead, besides those for the call.
const AHEAD: i64 = 100;
/// How long a caller waits for the lock, and how often.
const WAIT: Duration = Duration::from_millis(250);
const TRIES: u32 = 10;
/// How long the program's lock lasts, in seconds. The described lock has no end.
const LOCK_SECONDS: i64 = 3;

/// ARGV: how many, the lock's seconds (0: no end). Returns a state, the lock, the last number that was given
/// out, and the block's end: 0 given out, 1 nothing is known and locked, 2 locked by another caller, 3 used
/// up and locked.
const TAKE: &str = "
    local key, count = KEYS[1], tonumber(ARGV[1])
    local function locked(state, at, last)
        local owner = math.random(0, 999999999)
        redis.call('HSET', key, 'lock', owner)
        if ARGV[2] ~= '0' then redis.call('EXPIRE', key, ARGV[2]) end
        return { state, owner, at, last }
    end
    if redis.call('EXISTS', key) == 0 then return locked(1, 0, 0) end
    if redis.call('HEXISTS', key, 'lock') == 1 then return { 2, 0, 0, 0 } end
    local at, last = tonumber(redis.call('HGET', key, 'at')), tonumber(redis.call('HGET', key, 'last'))
    if at + count > last then
        redis.call('HSET', key, 'at', last)
        return locked(3, at, last)
    end
    redis.call('HSET', key, 'at', at + count)
    return { 0, 0, at, last }";
/// ARGV: the lock (empty: any), the last number that was given out, the block's end.
const PUT: &str = "
    local key, owner = KEYS[1], ARGV[1]
    if owner ~= '' and redis.call('EXISTS', key) == 1 and redis.call('HGET', key, 'lock') ~= owner then return 2 end
    redis.call('HDEL', key, 'lock')
    redis.call('HSET', key, 'at', ARGV[2], 'last', ARGV[3])
    redis.call('PERSIST', key)
    return 0";

/// Numbers come in blocks from the store and are given out by a hash in Redis. A caller that finds the hash
/// absent or used up locks it, takes a block from the store and puts it there; others wait 250 ms and try
/// again, ten times.
///
/// Source: 'Analysis of the sequence numbers of OpenIM', which describes it in pseudo-code; and the program
/// that it describes, <https://github.com/openimsdk/open-im-server>,
/// `pkg/common/storage/cache/redis/seq_conversation.go`. They differ: the description reads the end in the
/// store and writes it in another step, does not count the numbers of the call that fetched a block, and has
/// a lock without an end.
pub(super) struct PublishedAllocator {
    client: Client,
    take: Script,
    put: Script,
    ends: OneSequenceStore,
    as_described: bool,
}

impl PublishedAllocator {
    pub(super) async fn start(url: &str, ends: &OneSequenceStore, as_described: bool) -> Result<Self> {
        let client = builder(url)?.build()?;
        client.init().await?;
        let (take, put) = (Script::from_lua(TAKE), Script::from_lua(PUT));
        Ok(Self { client, take, put, ends: ends.clone(), as_described })
    }

    async fn take(&self) -> Result<[i64; 4]> {
        let lock = if self.as_described { 0 } else { LOCK_SECONDS };
        let words = vec!["1".to_owned(), lock.to_string()];
        let answer: Vec<i64> = self.take.evalsha_with_reload(&self.client, vec![KEY], words).await?;
        answer.try_into().ok().context("the answer has four numbers")
    }

    async fn put(&self, owner: i64, at: i64, last: i64) -> Result<()> {
        let owner = if self.as_described { String::new() } else { owner.to_string() };
        let words = vec![owner, at.to_string(), last.to_string()];
        let _state: i64 = self.put.evalsha_with_reload(&self.client, vec![KEY], words).await?;
        Ok(())
    }

    /// A block for a caller that has locked. Returns the number before its own.
    async fn described(&self, owner: i64, known: Option<(i64, i64)>) -> Result<i64> {
        let (at, before) = match known {
            Some(known) => known,
            None => {
                let last = self.ends.read().await;
                (last, last)
            }
        };
        let last = before + AHEAD + 1;
        self.ends.write(last).await;
        self.put(owner, at, last).await?;
        Ok(at)
    }

    async fn programmed(&self, owner: i64, known: Option<(i64, i64)>) -> Result<i64> {
        let before = self.ends.add(AHEAD + 1).await;
        let at = match known {
            Some((at, last)) if last == before => at,
            _ => before,
        };
        // The program goes on when Redis does not take it.
        drop(self.put(owner, at + 1, before + AHEAD + 1).await);
        Ok(at)
    }
}

#[async_trait]
impl NumberNode for PublishedAllocator {
    async fn next(&self) -> Result<i64> {
        for _ in 0..TRIES {
            let known = match self.take().await? {
                [0, _, at, _] => return Ok(at + 1),
                [1, owner, ..] => (owner, None),
                [3, owner, at, last] => (owner, Some((at, last))),
                _ => {
                    sleep(WAIT).await;
                    continue;
                }
            };
            let (owner, known) = known;
            let before = if self.as_described {
                self.described(owner, known).await?
            } else {
                self.programmed(owner, known).await?
            };
            return Ok(before + 1);
        }
        bail!("the lock was not free in time")
    }
}
