//! What a key costs a call: `GetUser` from the memory of a node that needs a key, over a bare server that checks one, and over a node
//! that is open.

use anyhow::{Context as _, Result, ensure};
use kith_proto::user::v1::{GetUserRequest, GetUserResponse, user_service_client::UserServiceClient};
use tonic::{
    Request, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use super::{
    imported::fill,
    rpc::{CONNECTIONS, GET_USER, IN_FLIGHT, answers},
};
use crate::{
    bench::{GET_USER_KEY_CPU, KEY_COST_CPU, Plan},
    echo,
    load::Callers,
    people,
    ratio::{Pair, Side, interleave},
    results::Results,
    served::Served,
};

/// As long as one that `kith keys generate` makes.
const KEY: &str = "a-key-of-the-bench-as-long-as-one-that-kith-keys-generate-makes";

/// Runs what is asked for.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if ![&GET_USER_KEY_CPU, &KEY_COST_CPU].iter().any(|claim| plan.wants(claim)) {
        return Ok(());
    }
    let ids = people::shuffled(plan.size(10_000, 200), 1);
    let keyed = Loaded::node(Served::kith_with_key(&plan.kith, KEY)?, Some(KEY), &ids).await?;
    if plan.wants(&GET_USER_KEY_CPU) {
        let bare = Loaded::echo(&keyed, &ids).await?;
        results.add(&GET_USER_KEY_CPU, &cpu_micros(plan, &bare, &keyed).await?)?;
    }
    if plan.wants(&KEY_COST_CPU) {
        let open = Loaded::node(Served::kith(&plan.kith)?, None, &ids).await?;
        results.add(&KEY_COST_CPU, &cpu_micros(plan, &open, &keyed).await?)?;
    }
    keyed.check_tier().await
}

/// Gives each server the same number of calls, as many at a time as it takes.
async fn cpu_micros(plan: &Plan, baseline: &Loaded, kith: &Loaded) -> Result<Vec<Pair<f64>>> {
    for side in [baseline, kith] {
        side.callers.closed(plan.size(100_000, 500), IN_FLIGHT).await?;
    }
    let calls = plan.size(200_000_u32, 20_000);
    interleave(plan.rounds, async |side| {
        let loaded = match side {
            Side::Baseline => baseline,
            Side::Kith => kith,
        };
        loaded.callers.cpu_micros(&loaded.served, calls, IN_FLIGHT).await
    })
    .await
}

/// A server that has all users in memory, and its callers.
#[derive(Debug)]
struct Loaded {
    served: Served,
    callers: Callers<GetUserRequest>,
}

impl Loaded {
    async fn node(served: Served, key: Option<&str>, ids: &[i64]) -> Result<Self> {
        let callers = Callers::connect(served.address, CONNECTIONS, GET_USER, requests(ids)).await?;
        let mut client = client(&served)?;
        fill(&mut client, ids).await?;
        // Into memory.
        answers(&mut client, ids).await?;
        let loaded = Self { served, callers: callers_with(callers, key).await? };
        loaded.check_tier().await?;
        Ok(loaded)
    }

    /// A bare server with the same users, which checks the key too.
    async fn echo(node: &Self, ids: &[i64]) -> Result<Self> {
        let served = Served::echo_with_key(KEY)?;
        let answers = answers(&mut client(&node.served)?, ids).await?;
        let puts = u64::try_from(answers.len())?;
        let put: Callers<GetUserResponse> = Callers::connect(served.address, 1, echo::PATH, answers).await?;
        put.with_key(KEY)?.closed(puts, IN_FLIGHT).await?;
        let callers = Callers::connect(served.address, CONNECTIONS, echo::GET_USER, requests(ids)).await?;
        Ok(Self { served, callers: callers_with(callers, Some(KEY)).await? })
    }

    /// Makes sure that the node answers from memory.
    async fn check_tier(&self) -> Result<()> {
        let metadata = self.callers.call(0, 0).await?;
        let tier = metadata.get("kith-tier").context("the answer does not name its tier")?;
        ensure!(tier == "memory", "the answer comes from another tier: {tier:?}");
        Ok(())
    }
}

fn requests(ids: &[i64]) -> Vec<GetUserRequest> {
    ids.iter().map(|id| GetUserRequest { user_id: *id, consistency: None }).collect()
}

/// Sends the key; an open node does not look at it.
fn client(served: &Served) -> Result<UserServiceClient<InterceptedService<Channel, SendKey>>> {
    let channel = Endpoint::from_shared(format!("http://{}", served.address))?.connect_lazy();
    let key = AsciiMetadataValue::try_from(format!("Bearer {KEY}")).context("the key cannot be sent")?;
    Ok(UserServiceClient::with_interceptor(channel, SendKey(key)))
}

/// The callers with their key, without which the server must refuse them.
async fn callers_with(
    callers: Callers<GetUserRequest>,
    key: Option<&str>,
) -> Result<Callers<GetUserRequest>> {
    let Some(key) = key else { return Ok(callers) };
    ensure!(callers.call(0, 0).await.is_err(), "the server takes calls without its key");
    callers.with_key(key)
}

#[derive(Clone)]
struct SendKey(AsciiMetadataValue);

impl Interceptor for SendKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}
