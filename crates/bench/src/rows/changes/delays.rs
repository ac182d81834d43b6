//! How soon an acknowledged write is read in a cluster, by a reader that asks again at once.

use std::{collections::HashMap, ops::Range, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use kith_proto::{
    change::v1::{ChangeKind, ReadChangesRequest, change_service_client::ChangeServiceClient},
    relation::v1::{FollowRequest, relation_service_client::RelationServiceClient},
    user::v1::{UpdateUserRequest, User, user_service_client::UserServiceClient},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use crate::{
    claims::{
        CHANGES_DELAY_MEDIAN, CHANGES_DELAY_P99, CHANGES_FOLLOW_DELAY_MEDIAN, CHANGES_FOLLOW_DELAY_P99, Plan,
    },
    ratio::{Claim, Pair},
    results::Results,
    rows::{all_servers::stage::ClusterStage, latency::Latency},
};

/// Time between two writes.
const WRITE_EVERY: Duration = Duration::from_millis(10);
/// Time between two reads.
const READ_EVERY: Duration = Duration::from_millis(5);
/// The delay of a write that is read before its answer: a round of zeros would count as not measured.
const SHORTEST: Duration = Duration::from_micros(1);
/// How long after the last write all are read.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// The users whose writes were acknowledged and not read yet.
type Waiting = Arc<Mutex<HashMap<i64, Instant>>>;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let documents = [&CHANGES_DELAY_MEDIAN, &CHANGES_DELAY_P99];
    let follows = [&CHANGES_FOLLOW_DELAY_MEDIAN, &CHANGES_FOLLOW_DELAY_P99];
    if !plan.wants_any(&documents) && !plan.wants_any(&follows) {
        return Ok(());
    }
    let writes = plan.size(500, 5);
    let rounds = i64::try_from(plan.rounds)?;
    let Some(stage) = ClusterStage::start(plan, "delays", 1, 1 + rounds * writes).await? else {
        return Ok(());
    };
    for (claims, kind) in [(documents, ChangeKind::User), (follows, ChangeKind::Follow)] {
        let mut of_rounds = Vec::new();
        for round in 0..rounds {
            of_rounds.push(Latency::of(delays(&stage.channel(), kind, 2 + round * writes, writes).await?));
        }
        add(results, claims, &of_rounds, plan)?;
    }
    stage.remove(plan).await
}

fn add(
    results: &mut Results<'_>,
    [median, p99]: [&'static Claim; 2],
    rounds: &[Latency],
    plan: &Plan,
) -> Result<()> {
    let pairs = |of: fn(&Latency) -> f64| -> Vec<_> {
        rounds.iter().map(|round| Pair { baseline: 1.0, kith: of(round) }).collect()
    };
    if plan.wants(median) {
        results.add(median, &pairs(|round| round.p50))?;
    }
    if plan.wants(p99) {
        results.add(p99, &pairs(|round| round.p99))?;
    }
    Ok(())
}

/// Writes to so many users, and returns after how many milliseconds each write was read.
async fn delays(channel: &Channel, kind: ChangeKind, first: i64, writes: i64) -> Result<Vec<f64>> {
    let mut changes = ChangeServiceClient::new(channel.clone());
    let mut cursor = super::end(channel).await?;
    let waiting = Waiting::default();
    let writing = tokio::spawn(write_all(channel.clone(), kind, first..first + writes, Arc::clone(&waiting)));
    let (mut delays, began) = (Vec::new(), Instant::now());
    let expected = usize::try_from(writes)?;
    while delays.len() < expected {
        ensure!(began.elapsed() < READ_WITHIN, "{} of {writes} writes were read", delays.len());
        let request = ReadChangesRequest { cursor, kinds: vec![kind.into()], limit: 0 };
        let page = changes.read_changes(request).await?.into_inner();
        let read = Instant::now();
        cursor = page.cursor;
        for user_id in page.changes.iter().map(|change| change.user_id) {
            let acknowledged = waiting.lock().remove(&user_id).unwrap_or(read);
            delays.push((read - acknowledged).max(SHORTEST).as_secs_f64() * 1e3);
        }
        sleep(READ_EVERY).await;
    }
    writing.await??;
    Ok(delays)
}

async fn write_all(channel: Channel, kind: ChangeKind, users: Range<i64>, waiting: Waiting) -> Result<()> {
    for user_id in users {
        if kind == ChangeKind::Follow {
            let request = FollowRequest { user_id, target_id: 1, ..FollowRequest::default() };
            RelationServiceClient::new(channel.clone()).follow(request).await?;
        } else {
            let user = User { user_id, nick_name: "changed".to_owned(), ..User::default() };
            let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
            let request = UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
            UserServiceClient::new(channel.clone()).update_user(request).await?;
        }
        waiting.lock().insert(user_id, Instant::now());
        sleep(WRITE_EVERY).await;
    }
    Ok(())
}
