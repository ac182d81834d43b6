//! Calls are repeated with their `request_id` while Cassandra stands still again and again: each has one
//! effect, and its first answer.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::{
    group::v1::{Group, JoinPolicy},
    member::v1::{JoinRequest, LeaveRequest, member_service_client::MemberServiceClient},
    relation::v1::{BlockRequest, UnblockRequest, relation_service_client::RelationServiceClient},
};
use tokio::task::JoinSet;
use tonic::{Request, Response, Status, transport::Channel};

use super::{
    Sizes,
    progress::disturb,
    site_fault::{FaultTurns, SiteFault},
    workload::Workload,
};
use crate::faults::{
    Cassandra, Figure, Plan, Site,
    answered::{call, make_group},
    cassandra::CassandraAccess,
};

const NODES: u32 = 2;
/// Each caller has its own group, and blocks another user.
const CALLERS: i64 = 32;
/// Creates the groups.
const OWNER: i64 = CALLERS + 1;
/// The goal is this many times fewer repeated calls than other rows have writes.
const FEWER: u64 = 100;
const STOPS: FaultTurns<'_> = FaultTurns {
    faults: &[SiteFault::CassandraPaused],
    node: None,
    lasts: &[Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(3)],
    healthy_for: Duration::from_secs(1),
};
/// A call that can only succeed is refused: its first attempt was applied, and is forgotten.
const REFUSED: &str = "refused although it was applied or could be";

const CALLS: &str = "calls";

/// Figures: calls, repeated calls, refusals, and Cassandra stops.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let cassandra = CassandraAccess::Exclusive(Cassandra::lasting().await?);
    let mut site = Site::start_over(&plan, 1, None, Some(cassandra)).await?;
    let nodes = site.channels();
    fill_up_to(nodes.first().context("there is a node")?.clone(), OWNER).await?;
    let state = Workload::new(nodes, plan.seed, "calls are repeated", sizes.writes.div_ceil(FEWER));
    let mut calling = JoinSet::new();
    for user in 1..=CALLERS {
        make_group(&state.nodes, group_of(user), Vec::new()).await?;
        calling.spawn(work(Arc::clone(&state), user));
    }
    let stopping = STOPS.inject(&mut site, &state.progress);
    let (stops, _, took) = disturb(&state.progress, calling, stopping).await?;
    let stops = Figure::at_least_count("stops", stops, 1);
    let mut figures = vec![state.done("repeated calls"), stops, Figure::took(took)];
    figures.extend(state.counts([CALLS]));
    figures.extend(state.violations([REFUSED]));
    Ok(figures)
}

fn group_of(user: i64) -> Group {
    Group {
        group_id: user,
        name: "repeated".to_owned(),
        creator_id: OWNER,
        join_policy: JoinPolicy::Open.into(),
        ..Group::default()
    }
}

/// Joins, leaves, blocks and unblocks by turns. No other program changes what this user does.
async fn work(state: Arc<Workload>, user_id: i64) -> Result<()> {
    let (group_id, target_id) = (user_id, user_id % CALLERS + 1);
    for round in 0_u64.. {
        if state.progress.is_ended() {
            break;
        }
        let id = |call: &str| format!("{call}-{user_id}-{round}");
        let request = JoinRequest { group_id, user_id, request_id: id("join"), ..JoinRequest::default() };
        call_again(&state, "Join", user_id, request, call!(MemberServiceClient::join)).await;
        let request = BlockRequest { user_id, target_id, request_id: id("block"), expected_version: 0 };
        call_again(&state, "Block", user_id, request, call!(RelationServiceClient::block)).await;
        let request = LeaveRequest { group_id, user_id, request_id: id("leave") };
        call_again(&state, "Leave", user_id, request, call!(MemberServiceClient::leave)).await;
        let request =
            UnblockRequest { user_id, target_id, request_id: id("unblock"), ..UnblockRequest::default() };
        call_again(&state, "Unblock", user_id, request, call!(RelationServiceClient::unblock)).await;
    }
    Ok(())
}

/// Sends a call until it is answered, first through its user's node, and judges the answer.
async fn call_again<Q: Clone, A, F>(
    state: &Workload,
    name: &str,
    user: i64,
    request: Q,
    send: impl Fn(Channel, Request<Q>) -> F,
) where
    F: Future<Output = Result<Response<A>, Status>>,
{
    let first = usize::try_from(user).unwrap_or(0) % state.nodes.len();
    let (answered, sent) = state.call(first, request, send).await;
    state.count(CALLS, 1);
    state.progress.add(u64::from(sent > 1));
    if let Err(status) = answered {
        state.add_violation(REFUSED, || format!("{name} of user {user}, sent {sent} times: {status}"));
    }
}
