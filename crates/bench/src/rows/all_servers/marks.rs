//! Measures marks a second in a cluster over bare inserts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Result;
use kith_proto::message::v1::MarkReadRequest;

use super::{
    load::{Load, Measured, measure},
    sends::insert,
    stage::ClusterStage,
};
use crate::{
    claims::{MARKS_RATE, Plan},
    ratio::{Side, each, interleave},
    results::Results,
    rows::messages::{MessageClient, fill_from},
};

const CALLERS: usize = 50;
/// The group is separate, because senders do not mark.
const GROUP: i64 = 1002;
const SENDER: i64 = 201;
const MEMBERS: i64 = 200;

/// Runs the row if it is requested. Every mark raises its user's mark.
pub(super) async fn rows(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&MARKS_RATE) {
        return Ok(());
    }
    let members: Vec<i64> = (SENDER..SENDER + plan.size(MEMBERS, 10)).collect();
    let readers: Arc<[i64]> = members[1..].into();
    stage.make_groups(&[(GROUP, members)]).await?;
    let conversation = format!("g{GROUP}");
    let messages = plan.size(3_000, 1_000);
    fill_from(&stage.channel(), &[(SENDER, conversation.clone())], messages).await?;
    let (all, bare, channels) = (stage.all()?, stage.bare(), Arc::new(stage.channels().await?));
    let marks = Arc::new(AtomicU64::new(0));
    let mark = move |_| {
        let number = marks.fetch_add(1, Ordering::Relaxed);
        let at = usize::try_from(number).unwrap_or_default();
        let request = MarkReadRequest {
            user_id: readers[at % readers.len()],
            conversation_id: conversation.clone(),
            up_to: i64::try_from(at / readers.len()).unwrap_or_default() + 1,
            ..MarkReadRequest::default()
        };
        let mut client = MessageClient::new(channels[at % channels.len()].clone());
        async move {
            client.mark_read(request).await?;
            Ok(())
        }
    };
    let load = Load::Callers(CALLERS);
    let pairs = interleave(plan.rounds, async |side| match side {
        Side::Baseline => insert(stage, load, &bare).await,
        Side::Kith => measure(stage.times, load, &all, mark.clone()).await,
    });
    results.add(&MARKS_RATE, &each(&pairs.await?, Measured::per_second))
}
