//! The windows in Redis, with a gate before each call; and the epoch that a node follows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use kith_cache::remote::SharedError;
use kith_delivery::{
    Append, Confirm, EpochSource, Fill, FillOutcome, HeadLookup, HoldToken, LeaseToken, RedisWindows, Span,
    WindowKeeper, WindowLookup,
};
use kith_store::{ConversationId, Epoch, NodeName, Seq};

use super::stage::{CallOutcome, Stage};

/// How long a window may be unchecked.
const CHECKED: Duration = Duration::from_secs(10);

/// The world's epoch, and where each node is.
#[derive(Debug)]
pub(crate) struct Epochs {
    pub(crate) server: String,
    pub(crate) present: AtomicU64,
    pub(crate) nodes: Vec<NodeEpoch>,
    /// Keys do not carry the epoch, and every server is taken for the right server.
    pub(crate) ignored: bool,
    /// An epoch settles before all nodes follow it.
    pub(crate) is_always_settled: bool,
}

#[derive(Debug)]
pub(crate) struct NodeEpoch {
    pub(crate) number: AtomicU64,
    /// Its server is gone.
    pub(crate) is_cut: AtomicBool,
}

/// The epoch as one node knows it.
#[derive(Debug)]
pub(crate) struct EpochOf {
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) node: usize,
}

impl Epochs {
    pub(crate) fn new(server: String, nodes: usize, ignored: bool) -> Self {
        let node = |_| NodeEpoch { number: AtomicU64::new(1), is_cut: AtomicBool::new(false) };
        let (present, nodes) = (AtomicU64::new(1), (0..nodes).map(node).collect());
        Self { server, present, nodes, ignored, is_always_settled: false }
    }

    pub(crate) fn of(&self, node: usize) -> u64 {
        self.nodes[node].number.load(Ordering::Acquire)
    }

    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::Acquire)
    }

    /// Whether every node follows the present epoch.
    pub(crate) fn are_one(&self) -> bool {
        (0..self.nodes.len()).all(|node| self.of(node) == self.present())
    }

    /// A new epoch begins. No node follows it yet.
    pub(crate) fn raise(&self, cuts_nodes: bool) {
        self.present.fetch_add(1, Ordering::AcqRel);
        self.nodes.iter().for_each(|node| node.is_cut.store(cuts_nodes, Ordering::Release));
    }

    /// The node follows the present epoch.
    pub(crate) fn move_node(&self, node: usize) {
        self.nodes[node].number.store(self.present(), Ordering::Release);
        self.nodes[node].is_cut.store(false, Ordering::Release);
    }
}

#[async_trait]
impl EpochSource for EpochOf {
    fn followed_epoch(&self) -> Option<Epoch> {
        let is_cut = self.epochs.nodes[self.node].is_cut.load(Ordering::Acquire);
        let server = if is_cut && !self.epochs.ignored { "gone" } else { &self.epochs.server };
        let number = if self.epochs.ignored { 1 } else { self.epochs.of(self.node) };
        Some(Epoch { number, server: server.to_owned() })
    }

    async fn settled_epoch(&self) -> Option<u64> {
        let number = if self.epochs.ignored { 1 } else { self.epochs.present() };
        (self.epochs.are_one() || self.epochs.is_always_settled).then_some(number)
    }
}

/// One node's keeper.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) keeper: Arc<RedisWindows>,
    pub(super) stage: Arc<Stage>,
}

impl Stepped {
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(Arc<RedisWindows>) -> BoxFuture<'static, Result<T, SharedError>> + Send,
    ) -> Result<T, SharedError> {
        let outcome = self.stage.gate().await;
        let call = call(Arc::clone(&self.keeper));
        match outcome {
            CallOutcome::Made => self.stage.command(call).await,
            CallOutcome::Failed => Err(SharedError::Unavailable),
            CallOutcome::Late => {
                self.stage.delay(call.map(drop).boxed());
                Err(SharedError::Timeout)
            }
            CallOutcome::Unanswered => {
                drop(self.stage.command(call).await);
                Err(SharedError::Timeout)
            }
        }
    }
}

fn each<T>(
    count: usize,
    answers: Result<Vec<Result<T, SharedError>>, SharedError>,
) -> Vec<Result<T, SharedError>> {
    answers.unwrap_or_else(|error| (0..count).map(|_| Err(error)).collect())
}

#[async_trait]
impl WindowKeeper for Stepped {
    async fn look_up(
        &self,
        log: ConversationId,
        asked: Span,
        token: LeaseToken,
    ) -> Result<WindowLookup, SharedError> {
        let lookup =
            self.call(move |keeper| async move { keeper.look_up(log, asked, token).await }.boxed()).await;
        self.stage.count(match &lookup {
            Ok(WindowLookup::Hit { window, .. }) if window.age.is_some_and(|age| age <= CHECKED) => "hit",
            Ok(WindowLookup::Hit { .. }) => "old",
            Ok(WindowLookup::Miss { .. }) => "miss",
            Ok(WindowLookup::Busy) => "busy",
            Ok(WindowLookup::Held) => "held",
            Err(_) => "away",
        });
        lookup
    }

    async fn fill(&self, fills: &[Fill]) -> Vec<Result<FillOutcome, SharedError>> {
        let (count, fills) = (fills.len(), fills.to_vec());
        let has_headers = fills.iter().any(|fill| fill.has_headers);
        let filled = self.call(move |keeper| async move { Ok(keeper.fill(&fills).await) }.boxed()).await;
        let filled = each(count, filled);
        for outcome in &filled {
            self.stage.count(match outcome {
                Ok(FillOutcome::Stored) if has_headers => "stored headers",
                Ok(FillOutcome::Stored) => "stored",
                Ok(FillOutcome::Lost) => "lost",
                Ok(FillOutcome::Below) => "below",
                Err(_) => "unfilled",
            });
        }
        filled
    }

    async fn append(&self, log: ConversationId, append: &Append) -> Result<Vec<NodeName>, SharedError> {
        let append = append.clone();
        self.call(move |keeper| async move { keeper.append(log, &append).await }.boxed()).await
    }

    async fn hold(&self, log: ConversationId, token: HoldToken, time: Duration) -> Result<(), SharedError> {
        self.call(move |keeper| async move { keeper.hold(log, token, time).await }.boxed()).await
    }

    async fn release(&self, log: ConversationId, token: HoldToken) -> Result<(), SharedError> {
        self.call(move |keeper| async move { keeper.release(log, token).await }.boxed()).await
    }

    async fn confirm(&self, known: &[Confirm]) -> Vec<Result<(), SharedError>> {
        let (count, known) = (known.len(), known.to_vec());
        each(count, self.call(move |keeper| async move { Ok(keeper.confirm(&known).await) }.boxed()).await)
    }

    async fn heads(
        &self,
        asked: &[(ConversationId, Seq)],
        token: LeaseToken,
    ) -> Vec<Result<HeadLookup, SharedError>> {
        let (count, asked) = (asked.len(), asked.to_vec());
        let heads = self.call(move |keeper| async move { Ok(keeper.heads(&asked, token).await) }.boxed());
        let heads = each(count, heads.await);
        for head in &heads {
            self.stage.count(match head {
                Ok(HeadLookup::Hit { .. }) => "head",
                Ok(HeadLookup::Miss { lease: Some(_) }) => "head leased",
                _ => "no head",
            });
        }
        heads
    }

    async fn require_check(&self, log: ConversationId) -> Result<(), SharedError> {
        self.call(move |keeper| async move { keeper.require_check(log).await }.boxed()).await
    }
}
