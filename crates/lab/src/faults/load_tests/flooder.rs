//! One caller floods: the others are not affected.
//!
//! A node distinguishes the users on whose behalf services act, and limits searches by keyword for each of
//! them; it does not distinguish services yet.

use anyhow::{Result, bail};
use kith_proto::user::v1::SearchUsersRequest;
use tokio::time::Instant;

use super::{Sizes, callers::Callers, embedded_node::EmbeddedNode, tally::CallTally};
use crate::faults::{
    Better, Plan,
    figure::{Figure, float},
};

const SEARCH_USERS: &str = "/kith.user.v1.UserService/SearchUsers";
const USERS: i64 = 1_000;
/// Callers that stay below their bound.
const OTHERS: i64 = 8;
/// The share of its bound that each of them uses.
const MODEST: f64 = 0.5;
/// How many times its bound the other one sends.
const TIMES: f64 = 20.0;
/// Concurrent searches while the flooder spends its saved budget.
const AT_ONCE: usize = 32;
/// Turns that this may take.
const SPENT_WITHIN: u32 = 60;

/// Rounds with and without the flood by turns, so that both meet the same machine.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let searches = format!("limits.searches_per_minute={}", sizes.searches);
    let node =
        EmbeddedNode::start(&plan.kith, &["telemetry.log_filter=warn", &searches], USERS, false).await?;
    let asked: Vec<_> = (1..=USERS)
        .map(|user| SearchUsersRequest { keyword: format!("person.{user}"), ..SearchUsersRequest::default() })
        .collect();
    let callers = Callers::connect(node.address, SEARCH_USERS, &asked).await?;
    let others = callers.on_behalf_of(&(1..=OTHERS).collect::<Vec<_>>())?;
    let flooder = callers.on_behalf_of(&[OTHERS + 1])?;
    spend(&flooder, sizes).await?;
    let began = Instant::now();
    let bound = f64::from(sizes.searches) / 60.0;
    let rate = bound * MODEST * f64::from(i32::try_from(OTHERS)?);
    // First reads count for neither side.
    others.open(rate, sizes.round_lasts).await?;
    let (mut calm, mut flooded, mut flood) = (CallTally::new()?, CallTally::new()?, CallTally::new()?);
    for _ in 0..sizes.rounds {
        calm.add(&others.open(rate, sizes.round_lasts).await?)?;
        let both = tokio::join!(
            others.open(rate, sizes.round_lasts),
            flooder.open(bound * TIMES, sizes.round_lasts)
        );
        flooded.add(&both.0?)?;
        flood.add(&both.1?)?;
    }
    let allowed = bound * began.elapsed().as_secs_f64();
    Ok(figures(&calm, &flooded, &flood, allowed))
}

/// A caller may save up a minute's budget: the flood begins when that is spent.
async fn spend(flooder: &Callers, sizes: &Sizes) -> Result<()> {
    for _ in 0..SPENT_WITHIN {
        if flooder.closed(AT_ONCE, sizes.round_lasts).await?.shed() > 0 {
            return Ok(());
        }
    }
    bail!("the flooder was never refused")
}

/// The flooder may save up its bound while it is calm, so the whole time counts.
fn figures(calm: &CallTally, flooded: &CallTally, flood: &CallTally, allowed: f64) -> Vec<Figure> {
    vec![
        Figure::count("calls of others", flooded.answered()),
        Figure::count("calls of the flooder", flood.answered()),
        Figure::at_most("flood let through of its bound", "ratio", float(flood.done()) / allowed, 1.1),
        Figure::without_target("refused p99", "ms", flood.shed_p99(), Better::Lower),
        Figure::at_least("success of others", "ratio", flooded.success(), 0.999),
        Figure::without_target("p99 without the flood", "ms", calm.done_p99(), Better::Lower),
        Figure::without_target("p99 in the flood", "ms", flooded.done_p99(), Better::Lower),
        Figure::at_most("p99", "ratio", flooded.done_p99() / calm.done_p99(), 1.5),
    ]
}
