//! Answers out of memory over a bare tonic server that echoes them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::people;
use kith_proto::relation::v1::{
    BatchGetRelationsRequest, BatchGetRelationsResponse, CheckPermissionRequest, CheckPermissionResponse,
    ImportFollow, ImportFollowsRequest, SetPermissionsRequest,
    relation_service_client::RelationServiceClient,
};
use prost::Message;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use crate::{
    claims::{BATCH_RELATIONS_CPU, CHECK_PERMISSION_CPU, Plan},
    echo,
    load::{Answer, Callers},
    ratio::{Claim, Side, interleave},
    results::Results,
    rows::rpc::{CONNECTIONS, IN_FLIGHT},
    served::Served,
};

const CHECK: &str = "/kith.relation.v1.RelationService/CheckPermission";
const BATCH: &str = "/kith.relation.v1.RelationService/BatchGetRelations";
/// How long a node may take from its start on.
const SERVES_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
/// Targets of one batch.
const TARGETS: i64 = 50;
/// Likes.
const ASKED: u32 = 4;

/// Runs what is asked for.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants(&CHECK_PERMISSION_CPU) {
        permissions(plan, results).await?;
    }
    if plan.wants(&BATCH_RELATIONS_CPU) {
        relations(plan, results).await?;
    }
    Ok(())
}

/// Of pairs of users of whom one has said what the other may do.
async fn permissions(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let kith = Served::kith(&plan.kith)?;
    let users = people::shuffled(plan.size(10_000, 200), 1);
    let asked: Vec<CheckPermissionRequest> = users
        .iter()
        .map(|user| CheckPermissionRequest {
            user_id: *user,
            target_id: user + 1,
            permissions: ASKED,
            consistency: None,
        })
        .collect();
    let callers = Callers::connect(kith.address, CONNECTIONS, CHECK, asked.clone()).await?;
    let mut client = client(&kith).await?;
    for asked in &asked {
        let request = SetPermissionsRequest {
            user_id: asked.target_id,
            target_id: asked.user_id,
            permissions: Some(ASKED),
            ..SetPermissionsRequest::default()
        };
        client.set_permissions(request).await?;
        client.check_permission(asked.clone()).await?;
    }
    let answers = vec![CheckPermissionResponse { allowed: true, denied: 0 }];
    let compared = EchoComparison { kith: &kith, callers, path: echo::PERMISSION, answers };
    compared.measure(plan, &CHECK_PERMISSION_CPU, results).await
}

/// Of users who follow all whom they ask for.
async fn relations(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let kith = Served::kith(&plan.kith)?;
    // As many records as of the other row: four of each pair.
    let users: i64 = plan.size(50, 20);
    let asked: Vec<BatchGetRelationsRequest> = (0..users)
        .map(|user| BatchGetRelationsRequest {
            user_id: 1_000_000 + user,
            target_ids: (0..TARGETS).map(|target| 1 + user * TARGETS + target).collect(),
            consistency: None,
        })
        .collect();
    let callers = Callers::connect(kith.address, CONNECTIONS, BATCH, asked.clone()).await?;
    let mut client = client(&kith).await?;
    follow_all(&mut client, &asked).await?;
    let mut answers: Vec<BatchGetRelationsResponse> = Vec::with_capacity(asked.len());
    for asked in asked {
        // Twice, so that it is in memory.
        client.batch_get_relations(asked.clone()).await?;
        answers.push(client.batch_get_relations(asked).await?.into_inner());
    }
    let compared = EchoComparison { kith: &kith, callers, path: echo::RELATIONS, answers };
    compared.measure(plan, &BATCH_RELATIONS_CPU, results).await
}

/// A node and its callers, beside a bare server that echoes the same answers.
pub(in crate::rows) struct EchoComparison<'a, Q, A> {
    /// The node.
    pub(in crate::rows) kith: &'a Served,
    /// Its callers.
    pub(in crate::rows) callers: Callers<Q, A>,
    /// The method of the bare server.
    pub(in crate::rows) path: &'static str,
    /// What it is sent, and echoes.
    pub(in crate::rows) answers: Vec<A>,
}

impl<Q: Message + Clone + Default + 'static, A: Answer + Clone> EchoComparison<'_, Q, A> {
    /// Gives each server the same number of calls, as many at a time as it takes.
    pub(in crate::rows) async fn measure(
        self,
        plan: &Plan,
        claim: &Claim,
        results: &mut Results<'_>,
    ) -> Result<()> {
        let Self { kith, callers, path, answers } = self;
        let bare = Served::echo()?;
        let ask_bare = Callers::<A, A>::connect(bare.address, CONNECTIONS, path, answers).await?;
        let warm_up = plan.size(50_000, 200);
        ask_bare.closed(warm_up, IN_FLIGHT).await?;
        callers.closed(warm_up, IN_FLIGHT).await?;
        let calls = plan.size(100_000_u32, 20_000);
        let pairs = interleave(plan.rounds, async |side| match side {
            Side::Baseline => ask_bare.cpu_micros(&bare, calls, IN_FLIGHT).await,
            Side::Kith => callers.cpu_micros(kith, calls, IN_FLIGHT).await,
        });
        results.add(claim, &pairs.await?)
    }
}

async fn client(kith: &Served) -> Result<RelationServiceClient<Channel>> {
    let mut client = RelationServiceClient::connect(format!("http://{}", kith.address)).await?;
    let until = Instant::now() + SERVES_WITHIN;
    while let Err(error) = client
        .check_permission(CheckPermissionRequest { user_id: 1, target_id: 2, ..Default::default() })
        .await
    {
        ensure!(Instant::now() < until, "the node does not serve: {error}");
        sleep(PAUSE).await;
    }
    Ok(client)
}

/// Imports the follows that the batches will find.
async fn follow_all(
    client: &mut RelationServiceClient<Channel>,
    batches: &[BatchGetRelationsRequest],
) -> Result<()> {
    let records: Vec<ImportFollow> = batches
        .iter()
        .flat_map(|batch| {
            let follow = |target: &i64| ImportFollow {
                record: *target,
                user_id: batch.user_id,
                target_id: *target,
                follow_time: None,
            };
            batch.target_ids.iter().map(follow)
        })
        .collect();
    let messages: Vec<_> =
        records.chunks(500).map(|records| ImportFollowsRequest { records: records.to_vec() }).collect();
    let mut answers = client.import_follows(tokio_stream::iter(messages)).await?.into_inner();
    let mut taken = 0;
    while let Some(answer) = answers.message().await? {
        taken += answer.results.len();
    }
    ensure!(taken == records.len(), "not all follows were taken");
    let first = batches.first().context("there are no batches")?;
    let found = client.batch_get_relations(first.clone()).await?.into_inner();
    ensure!(found.results.len() == first.target_ids.len(), "an answer is short");
    Ok(())
}
