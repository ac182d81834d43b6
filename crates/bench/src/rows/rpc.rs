//! `GetUser` from memory over a bare tonic server that answers the same request with the same message.

use std::time::Duration;

use anyhow::Result;
use kith_lab_servers::people;

use super::loaded::{IN_FLIGHT, LoadedServer};
use crate::{
    claims::{GET_USER_CPU, GET_USER_P99, GET_USER_THROUGHPUT, Plan},
    ratio::{Pair, Side, count, each, interleave, median},
    results::Results,
    served::ServerProcess,
};

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&GET_USER_CPU, &GET_USER_THROUGHPUT, &GET_USER_P99]) {
        return Ok(());
    }
    let servers = Servers::start(plan.size(10_000, 200), plan).await?;
    let saturated = servers.saturate(plan).await?;
    let cpu = each(&saturated, |run| run.cpu_micros);
    let throughput = each(&saturated, |run| run.calls_a_second);
    results.add(&GET_USER_CPU, &cpu)?;
    results.add(&GET_USER_THROUGHPUT, &throughput)?;
    results.row(&GET_USER_P99, servers.p99_at_half(plan, &throughput)).await?;
    servers.kith.check_tier().await
}

#[derive(Debug)]
struct Servers {
    kith: LoadedServer,
    echo: LoadedServer,
}

/// One server's results under all the load that it can take.
#[derive(Clone, Copy, Debug)]
struct Saturated {
    cpu_micros: f64,
    calls_a_second: f64,
}

impl Servers {
    /// Starts both, fills the node with users, and has it load them all into memory.
    async fn start(users: i64, plan: &Plan) -> Result<Self> {
        let ids = people::shuffled(users, 1);
        let kith = LoadedServer::node(ServerProcess::kith(plan)?, None, &ids).await?;
        let echo = LoadedServer::echo(ServerProcess::echo(None)?, &kith, &ids).await?;
        kith.check_tier().await?;
        Ok(Self { kith, echo })
    }

    /// Gives each server the same number of calls, as many at a time as it takes.
    async fn saturate(&self, plan: &Plan) -> Result<Vec<Pair<Saturated>>> {
        self.echo.warm_up(plan).await?;
        self.kith.warm_up(plan).await?;
        let calls = plan.size(200_000_u32, 20_000);
        interleave(plan.rounds, async |side| {
            let LoadedServer { served, callers, .. } = self.of(side);
            let before = served.cpu_seconds()?;
            let time = callers.closed(calls.into(), IN_FLIGHT).await?;
            let cpu_seconds = served.cpu_seconds()? - before;
            Ok(Saturated {
                cpu_micros: cpu_seconds * 1e6 / f64::from(calls),
                calls_a_second: f64::from(calls) / time.as_secs_f64(),
            })
        })
        .await
    }

    /// Gives each server half the calls that it can do, at a fixed rate.
    async fn p99_at_half(&self, plan: &Plan, saturation: &[Pair<f64>]) -> Result<Vec<Pair<f64>>> {
        let half = |of: fn(&Pair<f64>) -> f64| median(saturation.iter().map(of).collect()) / 2.0;
        let (echo_rate, kith_rate) = (half(|pair| pair.baseline), half(|pair| pair.kith));
        let time = plan.size(Duration::from_secs(3), Duration::from_millis(200));
        interleave(plan.rounds, async |side| {
            let taken = self.of(side).callers.open(side.of(echo_rate, kith_rate), time).await?;
            Ok(count(usize::try_from(taken.value_at_quantile(0.99))?))
        })
        .await
    }

    fn of(&self, side: Side) -> &LoadedServer {
        side.of(&self.echo, &self.kith)
    }
}
