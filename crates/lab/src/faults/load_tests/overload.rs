//! The store gets ten times the load that it bears: it continues at its pace, excess calls are refused at
//! once, and a moment later no effect is left.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::{imported::fill_up_to, proxy::Mode, usage};
use kith_proto::{
    r#type::v1::{Consistency, consistency},
    user::v1::{GetUserRequest, UpdateUserRequest, User},
};
use prost_types::FieldMask;

use super::{
    Sizes,
    callers::{Callers, GET_USER},
    tally::CallTally,
};
use crate::faults::{
    Better, Plan, Site,
    figure::{Figure, float},
};

const UPDATE_USER: &str = "/kith.user.v1.UserService/UpdateUser";
/// How many users are read or written.
const USERS: i64 = 2_000;
/// How long a store permit is to be held: with 64 permits, 500 calls a second.
const STORE_TAKES: Duration = Duration::from_millis(128);
/// How far the capacity may differ from its target, and how often it is tuned.
const NEAR: f64 = 0.05;
const TRIES: u32 = 5;
/// How many times the capacity is offered.
const TIMES: f64 = 10.0;
/// The load before and afterwards, as a share of the capacity.
const NORMAL: f64 = 0.5;
/// How long it may take until all is as before; measured in tenths.
const BACK_WITHIN: Duration = Duration::from_secs(5);
const PIECES: u32 = 10;
/// An answer that takes longer than this many times the store's time has waited behind others.
const PROMPT: f64 = 2.0;

/// Every read is strong, so that the store is asked each time; a node has no bound for one caller that would
/// be reached before.
pub(super) async fn reads(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let strong = Consistency { level: Some(consistency::Level::Strong(true)) };
    let asked: Vec<_> =
        users().map(|user_id| GetUserRequest { user_id, consistency: Some(strong.clone()) }).collect();
    let callers = async |address| Callers::connect(address, GET_USER, &asked).await;
    run(plan, "cache.loads_in_flight", sizes, callers).await
}

/// Writes that change one field.
pub(super) async fn writes(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let update_mask = Some(FieldMask { paths: vec!["age".to_owned()] });
    let changed = |user_id| User { user_id, age: 30, ..User::default() };
    let update =
        |user| UpdateUserRequest { user: Some(user), update_mask: update_mask.clone(), ..Default::default() };
    let asked: Vec<_> = users().map(changed).map(update).collect();
    let callers = async |address| Callers::connect(address, UPDATE_USER, &asked).await;
    run(plan, "limits.writes_in_flight", sizes, callers).await
}

fn users() -> impl Iterator<Item = i64> {
    1..=USERS
}

/// `setting` limits how many calls are with the store at one time.
async fn run(
    plan: &Plan,
    setting: &str,
    sizes: &Sizes,
    callers: impl AsyncFn(SocketAddr) -> Result<Callers>,
) -> Result<Vec<Figure>> {
    let mut plan = Plan { nodes: 1, ..plan.clone() };
    plan.settings.push(format!("{setting}={}", sizes.permits));
    let site = Site::start(&plan).await?;
    let node = &site.members.first().context("there is a node")?.node;
    fill_up_to(node.channel(), USERS).await?;
    let callers = &callers(node.address()).await?;
    OverloadRun { callers, site: &site, process: node.id()?, sizes }.measure().await
}

struct OverloadRun<'a> {
    callers: &'a Callers,
    site: &'a Site,
    process: u32,
    sizes: &'a Sizes,
}

impl OverloadRun<'_> {
    async fn measure(&self) -> Result<Vec<Figure>> {
        // Makes the connections, and measures how long a permit is held.
        self.closed().await?;
        let capacity = self.tuned().await?;
        let before = usage::resident_mib(self.process)?;
        usage::forget_peak(self.process)?;
        let tally = self.callers.open(capacity * TIMES, self.sizes.lasts).await?;
        let peak = usage::peak_mib(self.process)?;
        let back = self.back(capacity).await?;
        Ok(self.figures(capacity, &tally, peak / before, back))
    }

    /// Delays the store's answers so that a permit is held for the intended time, which includes the store's
    /// own time. Returns the capacity then.
    async fn tuned(&self) -> Result<f64> {
        let permits = f64::from(self.sizes.permits);
        let (mut late, mut capacity) = (STORE_TAKES, 0.0);
        for _ in 0..TRIES {
            self.site.mongodb_links(Mode::Late(late, late));
            capacity = self.capacity().await?;
            let takes = permits / capacity;
            if (takes / STORE_TAKES.as_secs_f64() - 1.0).abs() <= NEAR {
                break;
            }
            let off = STORE_TAKES.as_secs_f64() - takes;
            late = Duration::try_from_secs_f64(late.as_secs_f64() + off).unwrap_or_default();
        }
        Ok(capacity)
    }

    /// Runs one and a half times as many callers as permits, so that all permits are used.
    async fn closed(&self) -> Result<CallTally> {
        let callers = usize::try_from(self.sizes.permits)?;
        self.callers.closed(callers + callers / 2, self.sizes.measured).await
    }

    /// Measures how many calls a second the store bears.
    async fn capacity(&self) -> Result<f64> {
        let tally = self.closed().await?;
        ensure!(tally.failed() + tally.shed() == 0, "the store does not bear what it should: {tally:?}");
        Ok(float(tally.in_time) / self.sizes.measured.as_secs_f64())
    }

    /// The time after which every call is done promptly again; more than the limit if that does not happen.
    async fn back(&self, capacity: f64) -> Result<Duration> {
        let piece = BACK_WITHIN / PIECES;
        let mut back = Duration::ZERO;
        for number in 1..=PIECES + 1 {
            let tally = self.callers.open(capacity * NORMAL, piece).await?;
            let prompt = tally.done_p99() <= STORE_TAKES.as_secs_f64() * 1e3 * PROMPT;
            if !prompt || tally.shed() + tally.failed() + tally.held_back > 0 {
                back = piece * number;
            }
        }
        Ok(back)
    }

    fn figures(&self, capacity: f64, tally: &CallTally, memory: f64, back: Duration) -> Vec<Figure> {
        let seconds = self.sizes.lasts.as_secs_f64();
        let offered = float(tally.answered() + tally.held_back) / seconds;
        let sent = float(tally.answered()) / seconds;
        vec![
            Figure::without_target("capacity", "1/s", capacity, Better::Higher),
            Figure::without_target("offered", "1/s", offered, Better::Higher),
            Figure::at_least("sent of offered", "ratio", sent / offered, 0.99),
            Figure::at_least("offered of capacity", "ratio", offered / capacity, TIMES * 0.95),
            Figure::at_least("goodput", "ratio", float(tally.in_time) / seconds / capacity, 0.8),
            Figure::without_target("done p99", "ms", tally.done_p99(), Better::Lower),
            Figure::at_most("shed p99", "ms", tally.shed_p99(), 10.0),
            Figure::at_most("other errors", "count", float(tally.failed()), 0.0),
            Figure::at_most("memory", "ratio", memory, 1.5),
            Figure::within("back after", back, BACK_WITHIN),
        ]
    }
}
