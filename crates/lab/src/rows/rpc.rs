//! `GetUser` from memory over a bare tonic server that answers the same request with the same message.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_proto::user::v1::{GetUserRequest, GetUserResponse, user_service_client::UserServiceClient};
use tonic::{
    body::Body,
    client::GrpcService,
    codegen::{Body as HttpBody, Bytes, StdError},
};

use super::imported::fill;
use crate::{
    bench::{GET_USER_CPU, GET_USER_P99, GET_USER_THROUGHPUT, Plan},
    echo,
    load::Callers,
    people,
    ratio::{Pair, Side, count, each, interleave, median},
    results::Results,
    served::Served,
};

pub(crate) const GET_USER: &str = "/kith.user.v1.UserService/GetUser";
pub(crate) const UPDATE_USER: &str = "/kith.user.v1.UserService/UpdateUser";
pub(super) const CONNECTIONS: usize = 4;
/// Calls at one time on each connection.
pub(super) const IN_FLIGHT: usize = 32;

/// Runs what is asked for.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let asked = [&GET_USER_CPU, &GET_USER_THROUGHPUT, &GET_USER_P99];
    if !asked.iter().any(|claim| plan.wants(claim)) {
        return Ok(());
    }
    let servers = Servers::start(plan.size(10_000, 200), plan).await?;
    let saturated = servers.saturate(plan).await?;
    let cpu = each(&saturated, |run| run.cpu_micros);
    let throughput = each(&saturated, |run| run.calls_a_second);
    results.add(&GET_USER_CPU, &cpu)?;
    results.add(&GET_USER_THROUGHPUT, &throughput)?;
    if plan.wants(&GET_USER_P99) {
        let p99 = servers.p99_at_half(plan, &throughput).await?;
        results.add(&GET_USER_P99, &p99)?;
    }
    servers.check_tier().await?;
    Ok(())
}

/// Both servers, with callers connected.
#[derive(Debug)]
struct Servers {
    kith: Served,
    echo: Served,
    ask_kith: Callers<GetUserRequest>,
    ask_echo: Callers<GetUserRequest>,
}

/// What one server did under all the load that it can take.
#[derive(Clone, Copy, Debug)]
struct Saturated {
    cpu_micros: f64,
    calls_a_second: f64,
}

impl Servers {
    /// Starts both, fills the node with users, and has it load them all into memory.
    async fn start(users: i64, plan: &Plan) -> Result<Self> {
        let (kith, echo) = (Served::kith(&plan.kith)?, Served::echo()?);
        let ids = people::shuffled(users, 1);
        let asked: Vec<_> = ids.iter().map(|id| GetUserRequest { user_id: *id, consistency: None }).collect();
        let ask_kith = Callers::connect(kith.address, CONNECTIONS, GET_USER, asked.clone()).await?;
        let mut client = UserServiceClient::connect(format!("http://{}", kith.address)).await?;
        fill(&mut client, &ids).await?;
        let answers = answers(&mut client, &ids).await?;
        let puts = u64::try_from(answers.len())?;
        let put: Callers<GetUserResponse> = Callers::connect(echo.address, 1, echo::PATH, answers).await?;
        put.closed(puts, IN_FLIGHT).await?;
        let ask_echo = Callers::connect(echo.address, CONNECTIONS, echo::GET_USER, asked).await?;
        let servers = Self { kith, echo, ask_kith, ask_echo };
        servers.check_tier().await?;
        Ok(servers)
    }

    /// Makes sure that the node answers from memory.
    async fn check_tier(&self) -> Result<()> {
        let metadata = self.ask_kith.call(0, 0).await?;
        let tier = metadata.get("kith-tier").context("the answer does not name its tier")?;
        ensure!(tier == "memory", "the answer comes from another tier: {tier:?}");
        Ok(())
    }

    /// Gives each server the same number of calls, as many at a time as it takes.
    async fn saturate(&self, plan: &Plan) -> Result<Vec<Pair<Saturated>>> {
        let warm_up = plan.size(100_000, 500);
        self.ask_echo.closed(warm_up, IN_FLIGHT).await?;
        self.ask_kith.closed(warm_up, IN_FLIGHT).await?;
        let calls = plan.size(200_000_u32, 20_000);
        interleave(plan.rounds, async |side| {
            let server = self.of(side);
            let before = server.cpu_seconds()?;
            let time = match side {
                Side::Baseline => self.ask_echo.closed(calls.into(), IN_FLIGHT).await?,
                Side::Kith => self.ask_kith.closed(calls.into(), IN_FLIGHT).await?,
            };
            let cpu_seconds = server.cpu_seconds()? - before;
            Ok(Saturated {
                cpu_micros: cpu_seconds * 1e6 / f64::from(calls),
                calls_a_second: f64::from(calls) / time.as_secs_f64(),
            })
        })
        .await
    }

    /// Gives each server half of what it can do, at a fixed rate.
    async fn p99_at_half(&self, plan: &Plan, saturation: &[Pair<f64>]) -> Result<Vec<Pair<f64>>> {
        let half = |of: fn(&Pair<f64>) -> f64| median(saturation.iter().map(of).collect()) / 2.0;
        let (echo_rate, kith_rate) = (half(|pair| pair.baseline), half(|pair| pair.kith));
        let time = plan.size(Duration::from_secs(3), Duration::from_millis(200));
        interleave(plan.rounds, async |side| {
            let taken = match side {
                Side::Baseline => self.ask_echo.open(echo_rate, time).await?,
                Side::Kith => self.ask_kith.open(kith_rate, time).await?,
            };
            Ok(count(usize::try_from(taken.value_at_quantile(0.99))?))
        })
        .await
    }

    const fn of(&self, side: Side) -> &Served {
        match side {
            Side::Baseline => &self.echo,
            Side::Kith => &self.kith,
        }
    }
}

/// What the node answers for each id, which is also what the echo is sent.
pub(super) async fn answers<T>(client: &mut UserServiceClient<T>, ids: &[i64]) -> Result<Vec<GetUserResponse>>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let request = GetUserRequest { user_id: *id, consistency: None };
        answers.push(client.get_user(request).await?.into_inner());
    }
    Ok(answers)
}
