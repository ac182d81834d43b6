//! Answers out of memory over a bare tonic server that echoes them.

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::{imported::fill_up_to, people};
use kith_proto::relation::v1::{
    BatchGetRelationsRequest, BatchGetRelationsResponse, CheckPermissionRequest, CheckPermissionResponse,
    ImportFollow, ImportFollowsRequest, SetPermissionsRequest,
    relation_service_client::RelationServiceClient,
};
use prost::Message;
use tonic::transport::Channel;

use crate::{
    claims::{BATCH_RELATIONS_CPU, CHECK_PERMISSION_CPU, Plan},
    echo,
    load::{Callers, Method, compare_cpu},
    ratio::Pair,
    results::Results,
    rows::{
        loaded::{CONNECTIONS, IN_FLIGHT},
        methods::{BATCH_GET_RELATIONS, CHECK_PERMISSION},
        until_done::until_done,
    },
    served::ServerProcess,
};

/// Targets in one batch.
const TARGETS: i64 = 50;
/// The permission to like.
const ASKED: u32 = 4;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    results.row(&CHECK_PERMISSION_CPU, permissions(plan)).await?;
    results.row(&BATCH_RELATIONS_CPU, relations(plan)).await
}

/// Asks about pairs of users. In each pair, one user has set the other's permissions.
async fn permissions(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let kith = ServerProcess::kith(plan)?;
    let size: i64 = plan.size(10_000, 200);
    let users = people::shuffled(size, 1);
    let asked: Vec<CheckPermissionRequest> = users
        .iter()
        .map(|user| CheckPermissionRequest {
            user_id: *user,
            target_id: user + 1,
            permissions: ASKED,
            consistency: None,
        })
        .collect();
    let mut client = client(&kith).await?;
    // Creates each user, and the user after it.
    fill_up_to(kith.connect().await?, size + 1).await?;
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
    over_echo(plan, &kith, CHECK_PERMISSION, asked, EchoedAnswers { path: echo::PERMISSION, answers }).await
}

/// Asks about users who follow all targets that they ask for.
async fn relations(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let kith = ServerProcess::kith(plan)?;
    // There are as many records as in the other row: four for each pair.
    let users: i64 = plan.size(50, 20);
    let asked: Vec<BatchGetRelationsRequest> = (0..users)
        .map(|user| BatchGetRelationsRequest {
            user_id: 1_000_000 + user,
            target_ids: (0..TARGETS).map(|target| 1 + user * TARGETS + target).collect(),
            consistency: None,
        })
        .collect();
    let mut client = client(&kith).await?;
    follow_all(&mut client, &asked).await?;
    let mut answers: Vec<BatchGetRelationsResponse> = Vec::with_capacity(asked.len());
    for asked in &asked {
        // Twice, so that it is in memory.
        client.batch_get_relations(asked.clone()).await?;
        answers.push(client.batch_get_relations(asked.clone()).await?.into_inner());
    }
    over_echo(plan, &kith, BATCH_GET_RELATIONS, asked, EchoedAnswers { path: echo::RELATIONS, answers }).await
}

/// The requests that a bare server gets and the answers that it echoes.
pub(in crate::rows) struct EchoedAnswers<A> {
    /// The bare server's method.
    pub(in crate::rows) path: &'static str,
    pub(in crate::rows) answers: Vec<A>,
}

/// Compares a node's processor time for a call with that of a bare server that echoes the same answers.
pub(in crate::rows) async fn over_echo<Q, A>(
    plan: &Plan,
    kith: &ServerProcess,
    method: Method<Q, A>,
    asked: Vec<Q>,
    echoed: EchoedAnswers<A>,
) -> Result<Vec<Pair<f64>>>
where
    Q: Message + Clone + Default + 'static,
    A: Message + Clone + Default + 'static,
{
    let bare = ServerProcess::echo()?;
    let echo = Callers::<A, A>::connect(bare.address, CONNECTIONS, method.at(echoed.path), echoed.answers);
    let (echo, ask) = (echo.await?, Callers::connect(kith.address, CONNECTIONS, method, asked).await?);
    compare_cpu(
        plan.rounds,
        plan.size(50_000, 200),
        plan.size(100_000, 20_000),
        async |calls| echo.cpu_micros(&bare, calls, IN_FLIGHT).await,
        async |calls| ask.cpu_micros(kith, calls, IN_FLIGHT).await,
    )
    .await
}

/// A client for a node, once the node serves.
async fn client(kith: &ServerProcess) -> Result<RelationServiceClient<Channel>> {
    let client = RelationServiceClient::new(kith.connect().await?);
    let request = CheckPermissionRequest { user_id: 1, target_id: 2, ..Default::default() };
    until_done(async || client.clone().check_permission(request.clone()).await).await?;
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
