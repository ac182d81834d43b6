//! The final content in each place, key by key.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::admin::v1::{
    InspectKeyRequest, Presence, TierCopy, admin_service_client::AdminServiceClient,
};
use tonic::transport::Channel;

use super::calls::{UserCall, key_of, retried};
use crate::history::{CopyPlace, Event, Outcome, RecordEnd, Recorder};

/// Users that are inspected together. Each read from the store costs a write to its log, which many share.
const AT_ONCE: usize = 64;
/// Each node is asked about itself only: no other node is called, not even a killed node.
const SELF: &str = "self";

/// Records these users' data in the store, Redis and every memory.
pub(super) async fn dump(recorder: &Recorder, nodes: &[Channel], users: &[i64]) -> Result<()> {
    let read = async |user: i64| retried(async || read_copies(nodes, user).await).await;
    let reads = stream::iter(users.iter().map(|user| read(*user)));
    let mut reads = reads.buffer_unordered(AT_ONCE);
    while let Some(held) = reads.try_next().await? {
        for held in held {
            recorder.write(&Event::Held(held))?;
        }
    }
    Ok(())
}

async fn read_copies(nodes: &[Channel], user: i64) -> Result<Vec<RecordEnd>> {
    let mut held = Vec::new();
    for (number, node) in (0..).zip(nodes) {
        let asked = InspectKeyRequest {
            key: format!("user/{user}"),
            node_id: SELF.to_owned(),
            // The first node also reports what Redis holds.
            memory_only: number > 0,
        };
        let found = AdminServiceClient::new(node.clone()).inspect_key(asked).await?.into_inner();
        anyhow::ensure!(!found.copies.is_empty(), "a node does not say what it holds");
        held.extend(found.copies.iter().filter_map(|copy| record_end(user, copy, number)));
    }
    held.retain(|held| held.place != CopyPlace::Store);
    held.push(stored(&nodes[0], user).await?);
    Ok(held)
}

/// `None`: the place has nothing.
fn record_end(user: i64, copy: &TierCopy, node: u32) -> Option<RecordEnd> {
    let place = match copy.tier.as_str() {
        "memory" => CopyPlace::Memory(node),
        "redis" => CopyPlace::Redis,
        _ => CopyPlace::Store,
    };
    let version = u64::try_from(copy.version).ok()?;
    let gone = match copy.presence() {
        Presence::Value => false,
        Presence::Null => true,
        Presence::None | Presence::Unspecified => return None,
    };
    Some(RecordEnd { key: key_of(user), place, state: (!gone).then_some((version, None)), gone })
}

/// The record in the store.
async fn stored(node: &Channel, user: i64) -> Result<RecordEnd> {
    let state = match UserCall::strong(user).send(node.clone()).await.outcome {
        Outcome::Done { version, value, .. } => Some((version, Some(value))),
        Outcome::Gone => None,
        outcome => anyhow::bail!("the store does not answer: {outcome:?}"),
    };
    Ok(RecordEnd { key: key_of(user), place: CopyPlace::Store, gone: state.is_none(), state })
}
