//! Measures how callers are affected by peers that hold as many resources as a node allows: `GetUser` by
//! others meanwhile, over the same without.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::people;
use kith_proto::user::v1::{BatchGetUsersRequest, BatchGetUsersResponse};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};
use tonic_prost::ProstCodec;

use super::{
    loaded::{IN_FLIGHT, LoadedServer},
    until_done::until_done,
};
use crate::{
    claims::{Plan, UNREAD_HELD_P99, WATCHES_HELD_P99},
    ratio::{Pair, Side, count, interleave},
    results::Results,
    served::ServerProcess,
};

const BATCH: &str = "/kith.user.v1.UserService/BatchGetUsers";
/// By default, the most health watches on a connection, and the number of connections that hold all possible
/// watches.
const WATCHES_OF_ONE: usize = 4;
const WATCHERS: usize = 250;
/// The most calls on a connection, by default.
const UNREAD: usize = 200;
/// Users in an answer that is not read: some tens of KiB.
const BATCHED: usize = 100;

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&WATCHES_HELD_P99, &UNREAD_HELD_P99]) {
        return Ok(());
    }
    let node = BusyNode::start(plan).await?;
    results.row(&WATCHES_HELD_P99, node.compare(plan, async || node.watches().await)).await?;
    results.row(&UNREAD_HELD_P99, node.compare(plan, async || node.unread().await)).await
}

/// A node with users in memory, and half the calls a second that it can take.
#[derive(Debug)]
struct BusyNode {
    loaded: LoadedServer,
    ids: Vec<i64>,
    rate: f64,
}

impl BusyNode {
    async fn start(plan: &Plan) -> Result<Self> {
        let ids = people::shuffled(plan.size(10_000, 200), 1);
        let loaded = LoadedServer::node(ServerProcess::kith(plan)?, None, &ids).await?;
        loaded.warm_up(plan).await?;
        let calls = plan.size(200_000, 2_000);
        let took = loaded.callers.closed(calls, IN_FLIGHT).await?;
        let rate = count(usize::try_from(calls)?) / took.as_secs_f64() / 2.0;
        Ok(Self { loaded, ids, rate })
    }

    /// Measures calls without and with what `hold` holds until it is dropped.
    async fn compare<T>(&self, plan: &Plan, hold: impl AsyncFn() -> Result<T>) -> Result<Vec<Pair<f64>>> {
        interleave(plan.rounds, async |side| {
            let _held = if side == Side::Kith { Some(hold().await?) } else { None };
            self.p99(plan).await
        })
        .await
    }

    async fn p99(&self, plan: &Plan) -> Result<f64> {
        let time = plan.size(Duration::from_secs(3), Duration::from_millis(200));
        let taken = self.loaded.callers.open(self.rate, time).await?;
        Ok(count(usize::try_from(taken.value_at_quantile(0.99))?))
    }

    fn endpoint(&self) -> Result<Endpoint> {
        Ok(Endpoint::from_shared(format!("http://{}", self.loaded.served.address))?)
    }

    /// Opens as many health watches as a node has places for. Above four fifths, each watch takes an older
    /// watch's place.
    async fn watches(&self) -> Result<Vec<Streaming<HealthCheckResponse>>> {
        let mut watches = Vec::with_capacity(WATCHERS * WATCHES_OF_ONE);
        for _ in 0..WATCHERS {
            let channel = self.endpoint()?.connect().await?;
            for _ in 0..WATCHES_OF_ONE {
                // Watches from the previous round may be there for another moment.
                watches.push(until_done(async || watch(&channel).await).await?);
            }
        }
        Ok(watches)
    }

    /// Answers that have begun, on a connection that has given no window.
    async fn unread(&self) -> Result<Vec<Streaming<BatchGetUsersResponse>>> {
        let channel = self.endpoint()?.initial_stream_window_size(0_u32).connect().await?;
        let user_ids: Vec<i64> = self.ids.iter().copied().take(BATCHED).collect();
        let mut unread = Vec::with_capacity(UNREAD);
        for _ in 0..UNREAD {
            let request =
                BatchGetUsersRequest { user_ids: user_ids.clone(), ..BatchGetUsersRequest::default() };
            let mut client = Grpc::new(channel.clone());
            client.ready().await?;
            let path = PathAndQuery::from_static(BATCH);
            let codec = ProstCodec::<BatchGetUsersRequest, BatchGetUsersResponse>::default();
            // A stream yields its answer with the head, and only the head is read.
            let answer = client.server_streaming(Request::new(request), path, codec).await;
            unread.push(answer.context("a call is refused")?.into_inner());
        }
        Ok(unread)
    }
}

async fn watch(channel: &Channel) -> Result<Streaming<HealthCheckResponse>, Status> {
    let answer = HealthClient::new(channel.clone()).watch(HealthCheckRequest::default()).await?;
    let mut watch = answer.into_inner();
    watch.message().await?;
    Ok(watch)
}
