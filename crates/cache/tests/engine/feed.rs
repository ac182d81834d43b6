//! The change feed of the store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::{
    Invalidation, Version,
    remote::{Changes, Feed, FeedError, FeedPosition},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    holds::{Call, Direction},
    store::StoreClient,
    truth::{Id, Kind},
};

/// The changes that every reader of the feed reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    state: Arc<Mutex<FeedState>>,
    grown: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct FeedState {
    /// `None`: a collection was dropped. Later changes cannot be read from a position before it.
    changes: Vec<Option<(Id, u64)>>,
    /// The feed does not go back further.
    from: usize,
    saved: usize,
    /// The node that reads, and until when.
    lead: Option<(u64, Instant)>,
    end_noted_until: Option<Instant>,
}

impl Stream {
    /// The record has this version now.
    pub(crate) fn push(&self, id: Id, version: u64) {
        self.add(Some((id, version)));
    }

    /// A collection is dropped.
    pub(crate) fn drop_collection(&self) {
        self.add(None);
    }

    fn add(&self, change: Option<(Id, u64)>) {
        let mut state = self.state.lock();
        state.changes.push(change);
        self.grown.send_replace(state.changes.len());
    }

    /// The changes so far cannot be read again.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.from = state.changes.len();
    }

    /// The node that reads.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.state.lock().lead.map(|(node, _)| node)
    }
}

#[async_trait]
impl Feed for StoreClient {
    fn name(&self) -> &'static str {
        "store"
    }

    async fn lead(&self, lasts: Duration) -> Result<bool, FeedError> {
        self.pass(Call::Feed, Direction::Request).await;
        let leads = {
            let mut state = self.store.stream.state.lock();
            let free = state.lead.is_none_or(|(node, until)| node == self.node || until <= Instant::now());
            if free {
                state.lead = Some((self.node, Instant::now() + lasts));
            }
            free
        };
        self.pass(Call::Feed, Direction::Response).await;
        Ok(leads)
    }

    async fn yield_lead(&self) {
        self.pass(Call::Feed, Direction::Request).await;
        self.store.stream.state.lock().lead.take_if(|(node, _)| *node == self.node);
    }

    async fn open(&self, at_end: bool) -> Result<Box<dyn Changes>, FeedError> {
        self.pass(Call::Feed, Direction::Request).await;
        let at = {
            let state = self.store.stream.state.lock();
            if !at_end && state.saved < state.from {
                return Err(FeedError::Lost);
            }
            if at_end { state.changes.len() } else { state.saved }
        };
        let grown = self.store.stream.grown.subscribe();
        Ok(Box::new(OpenFeed { client: self.clone(), at, grown }))
    }

    async fn note_end(&self, lasts: Duration) -> Result<(), FeedError> {
        self.pass(Call::Feed, Direction::Request).await;
        self.store.stream.state.lock().end_noted_until = Some(Instant::now() + lasts);
        Ok(())
    }

    async fn is_end_noted(&self) -> Result<bool, FeedError> {
        self.pass(Call::Feed, Direction::Request).await;
        Ok(self.store.stream.state.lock().end_noted_until.is_some_and(|until| until > Instant::now()))
    }
}

/// An open change feed.
#[derive(Debug)]
struct OpenFeed {
    client: StoreClient,
    at: usize,
    grown: watch::Receiver<usize>,
}

#[async_trait]
impl Changes for OpenFeed {
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError> {
        let at = self.at;
        // None in time is an answer.
        let _in_time = timeout(patience, self.grown.wait_for(|grown| *grown > at)).await.is_ok();
        self.client.pass(Call::Feed, Direction::Response).await;
        let state = self.client.store.stream.state.lock();
        let unread = &state.changes[self.at..];
        if unread.first() == Some(&None) {
            return Err(FeedError::Lost);
        }
        let unread = unread.iter().map_while(Option::as_ref);
        let changes = unread.map(|((kind, key), version)| Invalidation {
            namespace: kind.name(),
            key: key.to_string(),
            version: Some(Version::new(*version)).filter(|_| *kind != Kind::List),
            copy: None,
        });
        let changes: Vec<_> = changes.collect();
        self.at += changes.len();
        Ok(changes)
    }

    fn position(&self) -> FeedPosition {
        let is_at_end = self.at == self.client.store.stream.state.lock().changes.len();
        FeedPosition { mark: self.at.to_be_bytes().to_vec(), is_at_end, written: None }
    }

    async fn save(&mut self, mark: &[u8]) -> Result<bool, FeedError> {
        self.client.pass(Call::Feed, Direction::Request).await;
        let mut state = self.client.store.stream.state.lock();
        let leads = state.lead.is_some_and(|(node, _)| node == self.client.node);
        if leads {
            state.saved = usize::from_be_bytes(mark.try_into().unwrap());
        }
        Ok(leads)
    }
}
