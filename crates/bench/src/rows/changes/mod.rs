//! Kept changes: what they cost writers, how soon they are read, and what readers cost that wait for nothing.

mod delays;
mod waiting;

use std::time::Duration;

use anyhow::Result;
use kith_lab_servers::imported::fill_up_to;
use kith_proto::change::v1::{GetCursorRequest, change_service_client::ChangeServiceClient};
use tonic::transport::Channel;

use crate::{
    claims::{CHANGES_SEND_CPU, CHANGES_WRITE_CPU, Plan},
    load::{Callers, Method, compare_cpu},
    ratio::Pair,
    results::Results,
    rows::{
        groups::make_group,
        messages::{GROUP, USER, quiet, text},
        methods::{SEND_MESSAGE, SET_DO_NOT_DISTURB},
        until_done::retry,
    },
    served::ServerProcess,
};

/// A node keeps changes by it.
const KEPT: &str = "changes.kept=1h";
/// How long a cluster may take until it keeps them.
const KEPT_WITHIN: Duration = Duration::from_secs(30);
/// Writes at the same time.
const WRITERS: usize = 50;
const USERS: i64 = 50;

/// Runs the requested rows. Without servers, no cluster row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants_any(&[&CHANGES_WRITE_CPU, &CHANGES_SEND_CPU]) {
        Box::pin(writes(plan, results)).await?;
    }
    let plan = keeping(plan);
    Box::pin(delays::rows(&plan, results)).await?;
    Box::pin(waiting::rows(&plan, results)).await
}

/// Compares a node in single-node mode that keeps changes with one that does not.
async fn writes(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let (without, with) = (ServerProcess::kith(plan)?, ServerProcess::kith(&keeping(plan))?);
    for node in [&without, &with] {
        let channel = node.connect().await?;
        fill_up_to(channel.clone(), USERS).await?;
        make_group(&channel, 1, &[USER]).await?;
    }
    let settings = compare(plan, [&without, &with], SET_DO_NOT_DISTURB, quiet(USERS));
    results.row(&CHANGES_WRITE_CPU, settings).await?;
    let sends = compare(plan, [&without, &with], SEND_MESSAGE, vec![text(GROUP)]);
    results.row(&CHANGES_SEND_CPU, sends).await
}

async fn compare<Q, A>(
    plan: &Plan,
    [without, with]: [&ServerProcess; 2],
    method: Method<Q, A>,
    messages: Vec<Q>,
) -> Result<Vec<Pair<f64>>>
where
    Q: prost::Message + Clone + Default + 'static,
    A: prost::Message + Clone + Default + 'static,
{
    let to_with = Callers::connect(with.address, 1, method.same(), messages.clone()).await?;
    let to_without = Callers::connect(without.address, 1, method, messages).await?;
    let calls = plan.size(20_000, 1_000);
    compare_cpu(
        plan.rounds,
        calls,
        calls,
        async |calls| to_without.cpu_micros(without, calls, WRITERS).await,
        async |calls| to_with.cpu_micros(with, calls, WRITERS).await,
    )
    .await
}

/// The present end. A cluster begins to keep changes some time after its start.
async fn end(channel: &Channel) -> Result<String> {
    let client = ChangeServiceClient::new(channel.clone());
    let ask = async || Ok(client.clone().get_cursor(GetCursorRequest {}).await?);
    let answer = retry(KEPT_WITHIN, Duration::from_millis(50), ask).await?;
    Ok(answer.into_inner().cursor)
}

fn keeping(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.settings.push(KEPT.to_owned());
    plan
}
