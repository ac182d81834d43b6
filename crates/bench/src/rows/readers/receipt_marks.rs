//! Marks messages through a node, over what a service would do by hand; and over bits that are stored with
//! each message.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::message::v1::{MarkReadRequest, message_service_client::MessageServiceClient};
use tonic::transport::Channel;

use super::stage::ReaderStage;
use crate::{
    claims::{Plan, RECEIPT_MARK_500, RECEIPT_MARK_500_BITS, RECEIPT_MARKS},
    ratio::{Side, interleave, per_second},
    results::Results,
    rows::{
        groups::make_group,
        latency::compare_medians,
        messages::{fill_through, text},
        until_done::until_done,
    },
};

/// Callers that mark at the same time.
const CALLERS: usize = 64;
/// Marks in one command on the bare side.
const TOGETHER: usize = 250;

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants_any(&[&RECEIPT_MARK_500, &RECEIPT_MARK_500_BITS]) {
        Box::pin(opened(plan, results)).await?;
    }
    if plan.wants(&RECEIPT_MARKS) {
        Box::pin(at_once(plan, results)).await?;
    }
    Ok(())
}

/// Users who open a chat with 500 unread messages.
async fn opened(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(stage) = ReaderStage::start(plan, "receipt_opened").await? else { return Ok(()) };
    let (members, messages, calls): (i64, usize, usize) = plan.size((200, 500, 60), (10, 20, 3));
    // Each member but the owner marks each group once, in one row or the other.
    let groups = (2 * plan.rounds * calls).div_ceil(usize::try_from(members - 1)?);
    let (groups, channel) = (i64::try_from(groups)?, stage.channel());
    fill_up_to(channel.clone(), members).await?;
    let mut ends = Vec::new();
    for group in 1..=groups {
        let users: Vec<i64> = (1..=members).collect();
        make_group(&channel, group, &users).await?;
        ends.push(fill_group(&channel, group, messages).await?);
    }
    let mut unread =
        (1..=groups).zip(ends).flat_map(|(group, end)| (2..=members).map(move |user| (user, group, end)));
    let mut bare = 1..;
    for (claim, bits) in [(&RECEIPT_MARK_500, false), (&RECEIPT_MARK_500_BITS, true)] {
        let pairs = compare_medians(plan.rounds, calls, async |side| {
            if side == Side::Kith {
                let (user, group, end) = unread.next().unwrap_or_default();
                return mark(&channel, user, group, end).await;
            }
            let user = bare.next().unwrap_or_default();
            if bits {
                stage.raw.mark_bits(user, "g1", i64::try_from(messages)?).await
            } else {
                stage.raw.mark_dialog(user, "g1", i64::try_from(messages)?).await
            }
        });
        results.row(claim, pairs).await?;
    }
    stage.remove(plan).await
}

/// Marks a second by many callers in many groups.
async fn at_once(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(stage) = ReaderStage::start(plan, "receipt_marks").await? else { return Ok(()) };
    let (groups, steps): (i64, i64) = plan.size((200, 20), (10, 2));
    let channel = stage.channel();
    fill_up_to(channel.clone(), groups).await?;
    let messages = usize::try_from(steps * i64::try_from(plan.rounds)?)?;
    for group in 1..=groups {
        // User 1 talks in all groups.
        let users = if group == 1 { vec![1] } else { vec![group, 1] };
        make_group(&channel, group, &users).await?;
    }
    let logs: Vec<String> = (1..=groups).map(|group| format!("g{group}")).collect();
    fill_through(channel.clone(), &logs, messages).await?;
    let (mut kith, mut bare) = (0, 0);
    let pairs = interleave(plan.rounds, async |side| {
        let last = if side == Side::Kith { &mut kith } else { &mut bare };
        let seqs = *last + 1..=*last + steps;
        *last += steps;
        let work = async {
            if side == Side::Kith {
                let marks = seqs.flat_map(|seq| (1..=groups).map(move |group| (group, seq)));
                let calls =
                    stream::iter(marks).map(async |(group, seq)| mark(&channel, group, group, seq).await);
                return calls.buffer_unordered(CALLERS).try_collect::<()>().await;
            }
            let users: Vec<(i64, String)> = (1..=groups).zip(logs.iter().cloned()).collect();
            for seq in seqs {
                for some in users.chunks(TOGETHER) {
                    stage.raw.mark_together(some, seq).await?;
                }
            }
            Ok(())
        };
        per_second(usize::try_from(groups * steps)?, work).await
    });
    results.add(&RECEIPT_MARKS, &pairs.await?)?;
    stage.remove(plan).await
}

/// Sends so many messages to a group. Returns the last message's number.
async fn fill_group(channel: &Channel, group: i64, messages: usize) -> Result<i64> {
    let log = format!("g{group}");
    fill_through(channel.clone(), std::slice::from_ref(&log), messages - 1).await?;
    let client = MessageServiceClient::new(channel.clone());
    let last = until_done(async || client.clone().send_message(text(&log)).await).await?;
    Ok(last.into_inner().seq)
}

async fn mark(channel: &Channel, user_id: i64, group: i64, up_to: i64) -> Result<()> {
    let conversation_id = format!("g{group}");
    let request = MarkReadRequest { user_id, conversation_id, up_to, ..MarkReadRequest::default() };
    let answer = MessageServiceClient::new(channel.clone()).mark_read(request).await?.into_inner();
    // Another mark by the user, or its own message, may have gone further.
    anyhow::ensure!(answer.read_seq >= up_to, "user {user_id} has read up to {}", answer.read_seq);
    Ok(())
}
