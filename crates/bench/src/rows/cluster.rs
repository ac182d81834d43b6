//! `GetUser` from the memory of a node of a cluster over the same of a node without peers.

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::{imported::fill, people};
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};

use super::rpc::{CONNECTIONS, GET_USER, IN_FLIGHT};
use crate::{
    claims::{CLUSTER_CPU, Plan},
    load::Callers,
    ratio::{Side, interleave},
    results::Results,
    served::Served,
};

/// Runs what is asked for; nothing where there is no MongoDB or no Redis.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let (Some(mongodb), Some(redis)) = (&plan.mongodb, &plan.redis) else { return Ok(()) };
    if !plan.wants(&CLUSTER_CPU) {
        return Ok(());
    }
    let ids = people::shuffled(plan.size(10_000, 200), 1);
    let alone = Node::start(Served::kith(&plan.kith)?, &ids).await?;
    let among = Node::start(Served::kith_of_cluster(&plan.kith, mongodb, redis)?, &ids).await?;
    let calls = plan.size(200_000_u32, 20_000);
    for node in [&alone, &among] {
        node.callers.closed(plan.size(100_000, 500), IN_FLIGHT).await?;
    }
    let rounds = interleave(plan.rounds, async |side| match side {
        Side::Baseline => alone.cpu_micros(calls).await,
        Side::Kith => among.cpu_micros(calls).await,
    });
    let rounds = rounds.await?;
    alone.check_tier().await?;
    among.check_tier().await?;
    results.add(&CLUSTER_CPU, &rounds)
}

/// A node that has all users in memory, and its callers.
#[derive(Debug)]
struct Node {
    served: Served,
    callers: Callers<GetUserRequest>,
}

impl Node {
    async fn start(served: Served, ids: &[i64]) -> Result<Self> {
        let asked = ids.iter().map(|id| GetUserRequest { user_id: *id, consistency: None }).collect();
        let callers = Callers::connect(served.address, CONNECTIONS, GET_USER, asked).await?;
        let mut client = UserServiceClient::connect(format!("http://{}", served.address)).await?;
        fill(&mut client, ids).await?;
        // A node of a cluster has them in memory once it follows; it may have begun to just now.
        for _ in 0..2 {
            for id in ids {
                client.get_user(GetUserRequest { user_id: *id, consistency: None }).await?;
            }
        }
        let node = Self { served, callers };
        node.check_tier().await?;
        Ok(node)
    }

    async fn cpu_micros(&self, calls: u32) -> Result<f64> {
        self.callers.cpu_micros(&self.served, calls, IN_FLIGHT).await
    }

    async fn check_tier(&self) -> Result<()> {
        let metadata = self.callers.call(0, 0).await?;
        let tier = metadata.get("kith-tier").context("the answer does not name its tier")?;
        ensure!(tier == "memory", "the answer comes from another tier: {tier:?}");
        Ok(())
    }
}
