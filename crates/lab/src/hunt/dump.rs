//! What each place holds in the end, key by key.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::admin::v1::{
    GetNodeRequest, InspectKeyRequest, ListNodesRequest, Presence, TierCopy,
    admin_service_client::AdminServiceClient,
};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::calls::{Asked, key_of};
use crate::history::{Event, Held, Level, Outcome, Place, Recorder, What};

/// Users that are looked at together.
const AT_ONCE: usize = 16;
/// Tries of a look that fails: it comes after a fault.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Each look asks every node that is listed, also those that were killed a while ago: of these, no more than so many.
const DEAD_MAX: usize = 16;
/// Who was killed is listed for a minute (`cluster.silent`).
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(90);

/// Writes down what the store, Redis and every memory hold of these users.
pub(super) async fn dump(recorder: &Recorder, nodes: &[Channel], users: &[i64]) -> Result<()> {
    let mut numbers = BTreeMap::new();
    for (number, node) in nodes.iter().enumerate() {
        let about = AdminServiceClient::new(node.clone()).get_node(GetNodeRequest {}).await?;
        numbers.insert(about.into_inner().node_id, u32::try_from(number)?);
    }
    until_dead_are_forgotten(&nodes[0], &numbers).await?;
    let looks = stream::iter(users.iter().map(|user| look(&nodes[0], &numbers, *user)));
    let mut looks = looks.buffer_unordered(AT_ONCE);
    while let Some(held) = looks.try_next().await? {
        for held in held {
            recorder.write(&Event::Held(held))?;
        }
    }
    Ok(())
}

/// Waits until this node lists the nodes of the run, and of those that were killed only few, or none: where some have to
/// be waited for, all are.
async fn until_dead_are_forgotten(node: &Channel, numbers: &BTreeMap<String, u32>) -> Result<()> {
    let until = Instant::now() + FORGOTTEN_WITHIN;
    let mut most = DEAD_MAX;
    loop {
        let found = AdminServiceClient::new(node.clone()).list_nodes(ListNodesRequest {}).await?.into_inner();
        let (run, dead): (Vec<_>, Vec<_>) =
            found.nodes.iter().partition(|listed| numbers.contains_key(&listed.node_id));
        if found.complete && run.len() == numbers.len() && dead.len() <= most {
            return Ok(());
        }
        if dead.len() > most {
            most = 0;
        }
        let (run, dead) = (run.len(), dead.len());
        anyhow::ensure!(
            Instant::now() < until,
            "{run} nodes of the run are listed, and {dead} that were killed"
        );
        sleep(PAUSE).await;
    }
}

async fn look(node: &Channel, numbers: &BTreeMap<String, u32>, user: i64) -> Result<Vec<Held>> {
    let mut tried = 0;
    loop {
        tried += 1;
        match try_look(node, numbers, user).await {
            Ok(held) => return Ok(held),
            Err(error) if tried == TRIES => return Err(error),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn try_look(node: &Channel, numbers: &BTreeMap<String, u32>, user: i64) -> Result<Vec<Held>> {
    let mut admin = AdminServiceClient::new(node.clone());
    let asked = InspectKeyRequest { key: format!("user/{user}"), node_id: String::new(), memory_only: false };
    let found = admin.inspect_key(asked).await?.into_inner();
    anyhow::ensure!(found.complete, "the nodes are not known");
    let number = |id: &str| numbers.get(id).copied().context("a node that is not of the run");
    let own = number(&found.node_id)?;
    let mut held: Vec<Held> = found.copies.iter().filter_map(|copy| copied(user, copy, own)).collect();
    // Who was killed is known to the others for a while.
    for other in found.others.iter().filter(|other| numbers.contains_key(&other.node_id)) {
        anyhow::ensure!(other.unanswered.is_empty(), "a node does not answer");
        let memory = other.copies.iter().filter(|copy| copy.tier == "memory");
        let number = number(&other.node_id)?;
        held.extend(memory.filter_map(|copy| copied(user, copy, number)));
    }
    held.retain(|held| held.place != Place::Store);
    held.push(truth(node, user).await?);
    Ok(held)
}

/// `None`: the place has nothing.
fn copied(user: i64, copy: &TierCopy, node: u32) -> Option<Held> {
    let place = match copy.tier.as_str() {
        "memory" => Place::Memory(node),
        "redis" => Place::Redis,
        _ => Place::Store,
    };
    let version = u64::try_from(copy.version).ok()?;
    let gone = match copy.presence() {
        Presence::Value => false,
        Presence::Null => true,
        Presence::None | Presence::Unspecified => return None,
    };
    Some(Held { key: key_of(user), place, state: (!gone).then_some((version, None)), gone })
}

/// What the store says.
async fn truth(node: &Channel, user: i64) -> Result<Held> {
    let what = What::Read(Level::Strong);
    let asked = Asked { user_id: user, what, token: String::new(), request_id: String::new() };
    let state = match asked.send(node.clone()).await.outcome {
        Outcome::Done { version, value, .. } => Some((version, Some(value))),
        Outcome::Gone => None,
        outcome => anyhow::bail!("the store does not answer: {outcome:?}"),
    };
    Ok(Held { key: key_of(user), place: Place::Store, gone: state.is_none(), state })
}
