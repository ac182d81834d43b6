//! The change feed of the store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::{
    Invalidation, Version,
    remote::{Changes, Feed, FeedError},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    holds::{Call, Way},
    store::StoreWay,
    truth::{Id, Kind},
};

/// What every reader of the feed reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    kept: Arc<Mutex<Kept>>,
    grown: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Kept {
    changes: Vec<(Id, u64)>,
    /// The feed does not go back further.
    from: usize,
    saved: usize,
    /// Who reads, and until when.
    lead: Option<(u64, Instant)>,
}

impl Stream {
    /// The record has this version now.
    pub(crate) fn push(&self, id: Id, version: u64) {
        let mut kept = self.kept.lock();
        kept.changes.push((id, version));
        self.grown.send_replace(kept.changes.len());
    }

    /// What changed so far cannot be read again.
    pub(crate) fn forget(&self) {
        let mut kept = self.kept.lock();
        kept.from = kept.changes.len();
    }

    /// The node that reads.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.kept.lock().lead.map(|(node, _)| node)
    }
}

#[async_trait]
impl Feed for StoreWay {
    async fn lead(&self, lasts: Duration) -> Result<bool, FeedError> {
        self.pass(Call::Feed, Way::There).await;
        let leads = {
            let mut kept = self.store.stream.kept.lock();
            let free = kept.lead.is_none_or(|(node, until)| node == self.node || until <= Instant::now());
            if free {
                kept.lead = Some((self.node, Instant::now() + lasts));
            }
            free
        };
        self.pass(Call::Feed, Way::Back).await;
        Ok(leads)
    }

    async fn yield_lead(&self) {
        self.pass(Call::Feed, Way::There).await;
        self.store.stream.kept.lock().lead.take_if(|(node, _)| *node == self.node);
    }

    async fn open(&self, at_end: bool) -> Result<Box<dyn Changes>, FeedError> {
        self.pass(Call::Feed, Way::There).await;
        let at = {
            let kept = self.store.stream.kept.lock();
            if !at_end && kept.saved < kept.from {
                return Err(FeedError::Lost);
            }
            if at_end { kept.changes.len() } else { kept.saved }
        };
        let grown = self.store.stream.grown.subscribe();
        Ok(Box::new(Opened { way: self.clone(), at, grown }))
    }
}

/// An open change feed.
#[derive(Debug)]
struct Opened {
    way: StoreWay,
    at: usize,
    grown: watch::Receiver<usize>,
}

#[async_trait]
impl Changes for Opened {
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError> {
        let at = self.at;
        // None in time is an answer.
        let _in_time = timeout(patience, self.grown.wait_for(|grown| *grown > at)).await.is_ok();
        self.way.pass(Call::Feed, Way::Back).await;
        let kept = self.way.store.stream.kept.lock();
        let changes = kept.changes[self.at..].iter().map(|((kind, key), version)| Invalidation {
            namespace: kind.name(),
            key: key.to_string(),
            version: Some(Version::new(*version)).filter(|_| *kind != Kind::List),
            copy: None,
        });
        let changes = changes.collect();
        self.at = kept.changes.len();
        Ok(changes)
    }

    async fn save(&mut self) -> Result<bool, FeedError> {
        self.way.pass(Call::Feed, Way::There).await;
        let mut kept = self.way.store.stream.kept.lock();
        let leads = kept.lead.is_some_and(|(node, _)| node == self.way.node);
        if leads {
            kept.saved = self.at;
        }
        Ok(leads)
    }
}
