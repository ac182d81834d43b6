use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use kith_cache::{
    SystemClock,
    remote::redis::{RedisOptions, ScriptRunner},
};
use kith_delivery::{EpochSource, RedisSequences, SequenceLimits, Sequences};
use kith_service::sequence::Spawned;
use kith_store::{Epoch, SequenceName};

use super::{NumberNode, store::Ends};
use crate::peers::{PREFIX, Peer, Shape, Store, shared_by};

/// How long a node may take to trust its memory.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A node as the program puts it together: it follows the epoch.
#[derive(Debug)]
pub(super) struct KithNumbers {
    sequences: Sequences,
    name: SequenceName,
}

#[derive(Debug)]
struct Followed(Peer);

#[async_trait]
impl EpochSource for Followed {
    fn followed(&self) -> Option<Epoch> {
        self.0.followed()
    }

    async fn settled(&self) -> Option<u64> {
        None
    }
}

impl KithNumbers {
    pub(super) async fn start(id: u64, url: &str, epochs: &Store, ends: &Ends) -> Result<Self> {
        let peer = Peer::start(id, &shared_by(url, PREFIX).await?, epochs, &Shape::default());
        ensure!(peer.until_trusted(READY_WITHIN).await, "a node does not trust its memory");
        let (url, prefix) = (url.to_owned(), PREFIX.to_owned());
        let runner = ScriptRunner::connect(RedisOptions { url, prefix, ..RedisOptions::default() }).await?;
        let keeper = RedisSequences::over(Arc::new(runner), Arc::new(Followed(peer)));
        let (clock, background) = (Arc::new(SystemClock::new()), Arc::new(Spawned));
        let limits = SequenceLimits::default();
        let sequences = Sequences::new(Arc::new(ends.clone()), Arc::new(keeper), clock, background, limits);
        Ok(Self { sequences, name: "numbers".parse()? })
    }
}

#[async_trait]
impl NumberNode for KithNumbers {
    async fn next(&self) -> Result<i64> {
        let ranges = self.sequences.reserve(&self.name, 1, 0).await?;
        Ok(ranges.first().context("no number was reserved")?.first)
    }
}
