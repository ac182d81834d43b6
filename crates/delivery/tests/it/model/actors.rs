//! The programs that run on the nodes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kith_cache::{Clock as _, Moment, fake::ManualClock};
use kith_delivery::{HeadOf, Span, Windows};
use kith_store::{ConversationId, Message, Seq};
use parking_lot::Mutex;

use super::{stage::Stage, stepped::Epochs, truth::Truth};

/// How long a hold lasts, in milliseconds.
const HOLD_MS: u64 = 15_000;

/// The parts that one node's programs work with.
#[derive(Clone)]
pub(super) struct NodeView {
    pub(super) number: usize,
    pub(super) windows: Windows,
    pub(super) log: ConversationId,
    pub(super) truth: Arc<Mutex<Truth>>,
    pub(super) stage: Arc<Stage>,
    pub(super) epochs: Arc<Epochs>,
    pub(super) clock: ManualClock,
    pub(super) holds: Arc<Holds>,
}

/// The holds that were begun, each with whether Redis still has it.
#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<Vec<Arc<AtomicBool>>>);

impl Holds {
    /// Redis has lost them, or nodes follow an epoch in which they were not begun.
    pub(super) fn lose(&self) {
        self.0.lock().drain(..).for_each(|hold| hold.store(false, Ordering::Release));
    }

    fn begin(&self) -> Arc<AtomicBool> {
        let hold = Arc::new(AtomicBool::new(true));
        self.0.lock().push(Arc::clone(&hold));
        hold
    }
}

impl NodeView {
    fn epoch(&self) -> u64 {
        self.epochs.of(self.number)
    }

    fn now(&self) -> u64 {
        self.clock.now().get()
    }
}

pub(super) async fn read(node: NodeView, asked: Span, at_least: Seq) -> Result<(), String> {
    let floor = node.truth.lock().floor(node.epoch(), node.now());
    let read = node.windows.read(node.log, asked, at_least).await;
    let recent = read.map_err(|error| error.to_string())?;
    node.truth.lock().check(&floor, node.epoch(), asked, at_least, &recent)
}

pub(super) async fn read_head(node: NodeView, after: Seq, at_least: Seq) -> Result<(), String> {
    let floor = node.truth.lock().floor(node.epoch(), node.now());
    let asked = HeadOf { conversation: node.log, after, at_least };
    let heads = node.windows.heads(&[asked]).await.map_err(|error| error.to_string())?;
    match &heads[..] {
        [head] => node.truth.lock().check_head(&floor, node.epoch(), after, at_least, head),
        _ => Err(format!("{} heads", heads.len())),
    }
}

/// Where a writer's node dies, as far as the conversation is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeathPoint {
    Never,
    /// Right after the message or the change was committed.
    AtCommit,
    /// After a hold was released.
    AfterRelease,
}

pub(super) async fn write(node: NodeView, count: usize, death: DeathPoint) -> Result<(), String> {
    let began = node.windows.now();
    node.stage.gate().await;
    let messages = node.truth.lock().append(count, node.now());
    node.stage.gate().await;
    match death {
        DeathPoint::AtCommit => {}
        DeathPoint::AfterRelease => {
            // If it fails, the window is compared when its time ends.
            node.windows.require_check(node.log).await.ok();
        }
        DeathPoint::Never => append(&node, &messages, false, Some(began)).await,
    }
    Ok(())
}

/// `oversleeps`: the hold ends before the change is committed.
pub(super) async fn change(
    node: NodeView,
    seq: Seq,
    death: DeathPoint,
    oversleeps: bool,
) -> Result<(), String> {
    let (began, until) = (node.windows.now(), node.now() + HOLD_MS);
    let held = node.holds.begin();
    let Ok(hold) = node.windows.hold(node.log).await else { return Ok(()) };
    if oversleeps {
        node.stage.oversleep();
        node.stage.gate().await;
    }
    node.stage.gate().await;
    let is_held = held.load(Ordering::Acquire) && node.epochs.are_one() && node.now() < until;
    let (change, event) = node.truth.lock().change(seq, node.now(), is_held);
    node.stage.gate().await;
    if death == DeathPoint::AtCommit {
        return Ok(());
    }
    if node.windows.release(hold).await.is_ok() {
        node.truth.lock().acknowledge_change(change);
    }
    if death == DeathPoint::Never {
        append(&node, &[event], true, Some(began)).await;
    }
    Ok(())
}

/// Appends a change's event to the window again, as a resent change does.
pub(super) async fn replay(node: NodeView, event: Seq) -> Result<(), String> {
    let event = node.truth.lock().message(event);
    append(&node, &[event], true, None).await;
    Ok(())
}

async fn append(node: &NodeView, messages: &[Message], changes: bool, began: Option<Moment>) {
    let (epoch, last) = (node.epoch(), messages.last().map_or(0, |message| message.seq));
    let is_made = node.windows.append(node.log, messages, changes, began).await.is_ok();
    if is_made && epoch == node.epoch() {
        node.truth.lock().acknowledge(last, epoch);
    }
}
