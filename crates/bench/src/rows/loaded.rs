//! A server that has users in memory, and callers that ask it for them.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::imported::fill;
use kith_proto::user::v1::{GetUserRequest, GetUserResponse, user_service_client::UserServiceClient};
use tonic::{
    Request,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use super::methods::GET_USER;
use crate::{
    claims::Plan,
    echo,
    load::{Callers, Method, compare_cpu},
    ratio::Pair,
    served::ServerProcess,
};

/// The key is as long as a key that `kith keys generate` makes.
pub(super) const KEY: &str = "a-key-of-the-bench-as-long-as-one-that-kith-keys-generate-makes";

pub(super) const CONNECTIONS: usize = 4;
/// Calls at one time on each connection.
pub(super) const IN_FLIGHT: usize = 32;

/// A server that has users in memory, and its callers.
#[derive(Clone, Debug)]
pub(super) struct LoadedServer {
    pub(super) served: Arc<ServerProcess>,
    pub(super) callers: Callers<GetUserRequest, GetUserResponse>,
    /// The key without which the server refuses calls.
    key: Option<&'static str>,
}

impl LoadedServer {
    /// Imports these users into a node, and reads all of them into its memory.
    ///
    /// # Errors
    /// Fails, too, if the node takes calls without its key.
    pub(super) async fn node(served: ServerProcess, key: Option<&'static str>, ids: &[i64]) -> Result<Self> {
        let loaded = Self::connect(served, GET_USER, key, ids).await?;
        fill(&mut loaded.client()?, ids).await?;
        loaded.answers(ids).await?;
        loaded.with_its_key().await
    }

    /// A bare server with this node's users.
    pub(super) async fn echo(served: ServerProcess, node: &Self, ids: &[i64]) -> Result<Self> {
        let answers = node.answers(ids).await?;
        let puts = u64::try_from(answers.len())?;
        let put_user: Method<GetUserResponse, GetUserResponse> = GET_USER.at(echo::PUT_USER);
        let put = Callers::connect(served.address, 1, put_user, answers).await?;
        put.closed(puts, IN_FLIGHT).await?;
        Self::connect(served, GET_USER.at(echo::GET_USER), None, ids).await
    }

    /// Returns this server, for callers with this credential.
    pub(super) fn with_credential(&self, credential: &str) -> Result<Self> {
        Ok(Self { callers: self.callers.clone().with_key(credential)?, ..self.clone() })
    }

    /// Makes sure that the node answers from memory.
    pub(super) async fn check_tier(&self) -> Result<()> {
        let metadata = self.callers.call(0, 0).await?;
        let tier = metadata.get("kith-tier").context("the answer does not name its tier")?;
        ensure!(tier == "memory", "the answer comes from another tier: {tier:?}");
        Ok(())
    }

    pub(super) async fn warm_up(&self, plan: &Plan) -> Result<()> {
        self.callers.closed(plan.size(100_000, 500), IN_FLIGHT).await.map(drop)
    }

    async fn connect(
        served: ServerProcess,
        method: Method<GetUserRequest, GetUserResponse>,
        key: Option<&'static str>,
        ids: &[i64],
    ) -> Result<Self> {
        let asked = ids.iter().map(|id| GetUserRequest { user_id: *id, consistency: None }).collect();
        let callers = Callers::connect(served.address, CONNECTIONS, method, asked).await?;
        Ok(Self { served: Arc::new(served), callers, key })
    }

    /// Makes the callers send the key. Without the key they have to be refused.
    async fn with_its_key(self) -> Result<Self> {
        let Some(key) = self.key else { return Ok(self) };
        ensure!(self.callers.call(0, 0).await.is_err(), "the server takes calls without its key");
        self.with_credential(key)
    }

    /// The node's answer for each id.
    pub(super) async fn answers(&self, ids: &[i64]) -> Result<Vec<GetUserResponse>> {
        let mut client = self.client()?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let request = GetUserRequest { user_id: *id, consistency: None };
            answers.push(client.get_user(request).await?.into_inner());
        }
        Ok(answers)
    }

    fn client(&self) -> Result<UserServiceClient<InterceptedService<Channel, impl Interceptor>>> {
        let channel = Endpoint::from_shared(format!("http://{}", self.served.address))?.connect_lazy();
        let key = self.key.map(|key| AsciiMetadataValue::try_from(format!("Bearer {key}"))).transpose();
        let key = key.context("the key cannot be sent")?;
        let send_key = move |mut request: Request<()>| {
            if let Some(key) = &key {
                request.metadata_mut().insert("authorization", key.clone());
            }
            Ok(request)
        };
        Ok(UserServiceClient::with_interceptor(channel, send_key))
    }
}

/// Processor time for a call. Gives each server the same number of calls, as many at a time as it takes.
pub(super) async fn cpu_micros(
    plan: &Plan,
    baseline: &LoadedServer,
    kith: &LoadedServer,
) -> Result<Vec<Pair<f64>>> {
    compare_cpu(
        plan.rounds,
        plan.size(100_000, 500),
        plan.size(200_000, 20_000),
        async |calls| baseline.callers.cpu_micros(&baseline.served, calls, IN_FLIGHT).await,
        async |calls| kith.callers.cpu_micros(&kith.served, calls, IN_FLIGHT).await,
    )
    .await
}
