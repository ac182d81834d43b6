//! Measures what a call costs all servers in a cluster, by their processor time, and how many calls a cluster
//! does a second; over bare inserts into the same MongoDB.

mod feed;
mod idle;
mod inserts;
mod joins;
mod lists;
pub(super) mod load;
mod marks;
mod overload;
pub(super) mod processes;
mod scripts;
mod sends;
mod sequences;
mod sockets;
pub(super) mod stage;

use anyhow::Result;

use self::stage::ClusterStage;
use crate::{
    claims::{
        FEED_RATE, JOIN_CHANGES, JOIN_TIME, LIST_20_UNREAD_SERVERS, LIST_200_UNREAD_SERVERS, MARKS_RATE,
        OVERLOAD_GET_USER, OVERLOAD_SENDS, Plan, SCRIPTS_OFFLINE, SCRIPTS_ONLINE, SEND_DIRECT_RATE,
        SEND_DIRECT_SERVERS, SEND_MANY_RATE, SEND_MANY_SERVERS, SEND_ONE_RATE, SEND_ONE_SERVERS, SEND_REST,
        SEND_REST_NET, SOCKET_DELIVERY_CPU, SOCKET_MEMORY, SOCKETS_OPENED,
    },
    ratio::Claim,
    results::Results,
};

/// Rows that need one node with users and conversations.
const OF_ONE_NODE: &[&Claim] = &[
    &SEND_MANY_SERVERS,
    &SEND_MANY_RATE,
    &SEND_ONE_SERVERS,
    &SEND_ONE_RATE,
    &SEND_DIRECT_SERVERS,
    &SEND_DIRECT_RATE,
    &SEND_REST,
    &SEND_REST_NET,
    &SCRIPTS_OFFLINE,
    &SCRIPTS_ONLINE,
    &LIST_20_UNREAD_SERVERS,
    &LIST_200_UNREAD_SERVERS,
    &MARKS_RATE,
    &JOIN_CHANGES,
    &JOIN_TIME,
    &FEED_RATE,
    &OVERLOAD_SENDS,
    &OVERLOAD_GET_USER,
    &SOCKETS_OPENED,
    &SOCKET_MEMORY,
    &SOCKET_DELIVERY_CPU,
];
/// Members in all groups, and users that the feed sees changed.
const USERS: i64 = 10_000;
const CHANGED_USERS: i64 = 60_000;

/// Runs the requested rows. Without servers, no cluster row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    lists::embedded(plan, results).await?;
    if plan.wants_any(OF_ONE_NODE) {
        Box::pin(of_one_node(plan, results)).await?;
    }
    Box::pin(sequences::rows(plan, results)).await?;
    Box::pin(idle::rows(plan, results)).await
}

async fn of_one_node(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let users = plan.size(if plan.wants(&FEED_RATE) { CHANGED_USERS } else { USERS }, 400);
    let Some(stage) = ClusterStage::start(plan, "servers", 1, users).await? else { return Ok(()) };
    Box::pin(sends::rows(plan, &stage, results)).await?;
    Box::pin(scripts::rows(plan, &stage, results)).await?;
    Box::pin(lists::of_cluster(plan, &stage, results)).await?;
    Box::pin(marks::rows(plan, &stage, results)).await?;
    Box::pin(joins::rows(plan, &stage, results)).await?;
    Box::pin(feed::rows(plan, &stage, users, results)).await?;
    Box::pin(sockets::rows(plan, &stage, results)).await?;
    Box::pin(overload::rows(plan, &stage, results)).await?;
    stage.remove(plan).await
}
