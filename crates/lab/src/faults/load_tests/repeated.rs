//! Calls are repeated with their `request_id` while Cassandra stands still again and again: each has one
//! effect, and its first answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::{
    group::v1::{Group, JoinPolicy},
    member::v1::{JoinRequest, LeaveRequest, member_service_client::MemberServiceClient},
    relation::v1::{BlockRequest, UnblockRequest, relation_service_client::RelationServiceClient},
};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status, transport::Channel};

use super::{
    Sizes,
    outcomes::Violations,
    progress::{Progress, disturb},
    site_fault::{FaultTurns, SiteFault},
};
use crate::faults::{
    Cassandra, Figure, Plan, Site,
    answered::{call, make_group, until_answered},
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

/// The state that callers share.
#[derive(Debug)]
struct RepeatState {
    nodes: Vec<Channel>,
    /// Calls that were sent more than once.
    progress: Progress,
    calls: AtomicU64,
    violations: Mutex<Violations>,
}

/// Figures: calls, repeated calls, refusals, and Cassandra stops.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let cassandra = CassandraAccess::Exclusive(Cassandra::lasting().await?);
    let mut site = Site::start_over(&plan, 1, None, Some(cassandra)).await?;
    let nodes = site.channels();
    let first = nodes.first().context("there is a node")?.clone();
    fill_up_to(first, OWNER).await?;
    let state = Arc::new(RepeatState {
        nodes,
        progress: Progress::new("calls are repeated", sizes.writes.div_ceil(FEWER)),
        calls: AtomicU64::new(0),
        violations: Mutex::default(),
    });
    let mut calling = JoinSet::new();
    for user in 1..=CALLERS {
        make_group(&state.nodes, group_of(user), Vec::new()).await?;
        calling.spawn(work(Arc::clone(&state), user));
    }
    let stopping = STOPS.inject(&mut site, &state.progress);
    let (stops, _, took) = disturb(&state.progress, calling, stopping).await?;
    let mut figures = vec![
        Figure::at_least_count("repeated calls", state.progress.done(), state.progress.goal()),
        Figure::count("calls", state.calls.load(Ordering::Relaxed)),
        Figure::at_least_count("stops", stops, 1),
    ];
    figures.extend(state.violations.lock().figures([REFUSED]));
    figures.push(Figure::took(took));
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
async fn work(state: Arc<RepeatState>, user_id: i64) -> Result<()> {
    let (group_id, target_id) = (user_id, user_id % CALLERS + 1);
    for round in 0_u64.. {
        if state.progress.is_ended() {
            break;
        }
        let id = |call: &str| format!("{call}-{user_id}-{round}");
        let request = JoinRequest { group_id, user_id, request_id: id("join"), ..JoinRequest::default() };
        state.call("Join", user_id, request, call!(MemberServiceClient::join)).await;
        let request = BlockRequest { user_id, target_id, request_id: id("block"), expected_version: 0 };
        state.call("Block", user_id, request, call!(RelationServiceClient::block)).await;
        let request = LeaveRequest { group_id, user_id, request_id: id("leave") };
        state.call("Leave", user_id, request, call!(MemberServiceClient::leave)).await;
        let request =
            UnblockRequest { user_id, target_id, request_id: id("unblock"), ..UnblockRequest::default() };
        state.call("Unblock", user_id, request, call!(RelationServiceClient::unblock)).await;
    }
    Ok(())
}

impl RepeatState {
    /// Sends a call until it is answered, first through its user's node, and judges the answer.
    async fn call<Q: Clone, A>(
        &self,
        name: &str,
        user: i64,
        request: Q,
        send: impl AsyncFn(Channel, Request<Q>) -> Result<Response<A>, Status>,
    ) {
        let sent = AtomicU64::new(0);
        let first = usize::try_from(user).unwrap_or(0) % self.nodes.len();
        let answered = until_answered(&self.nodes, first, request, |node, request| {
            sent.fetch_add(1, Ordering::Relaxed);
            send(node, request)
        });
        let answered = answered.await;
        let sent = sent.into_inner();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.progress.add(u64::from(sent > 1));
        if let Err(status) = answered {
            self.violations
                .lock()
                .add(REFUSED, || format!("{name} of user {user}, sent {sent} times: {status}"));
        }
    }
}
