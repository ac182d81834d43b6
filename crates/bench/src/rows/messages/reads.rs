//! Reads through a node over finds of the same documents: pages with messages, and a list with conversations.

use anyhow::{Result, ensure};
use kith_proto::message::v1::{ListConversationsRequest, PullMessagesRequest};

use super::{
    raw::DOCUMENT,
    stage::{GROUP, MessageStage, USER},
};
use crate::{
    claims::{LIST_200, PULL_1000, PULL_RECENT, Plan},
    ratio::{Pair, Side, compare_micros},
    results::Results,
};

/// Messages in the log that is read. The last document has 30 messages.
const MESSAGES: i64 = 1_530;
/// Messages in each listed conversation.
const OF_LIST: i64 = 120;

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&PULL_RECENT, &PULL_1000, &LIST_200]) {
        return Ok(());
    }
    let conversations = plan.size(200, 10);
    // Each listed conversation is with another user.
    let Some(stage) = MessageStage::start(plan, "reads", 1, conversations + USER).await? else {
        return Ok(());
    };
    stage.fill(&[GROUP.to_owned()], usize::try_from(MESSAGES)?).await?;
    for (claim, pages) in [(&PULL_RECENT, [MESSAGES - 49, MESSAGES]), (&PULL_1000, [501, 1_500])] {
        results.row(claim, pulls(plan, &stage, pages)).await?;
    }
    results.row(&LIST_200, lists(plan, &stage, conversations)).await?;
    stage.remove(plan).await
}

/// Microseconds for a page with these messages.
async fn pulls(plan: &Plan, stage: &MessageStage, [from_seq, to_seq]: [i64; 2]) -> Result<Vec<Pair<f64>>> {
    let documents = [from_seq, to_seq].map(|seq| (seq - 1) / DOCUMENT);
    let stored =
        (documents[0]..=documents[1]).map(|at| (MESSAGES - at * DOCUMENT).min(DOCUMENT)).sum::<i64>();
    let (stored, wanted) = (usize::try_from(stored)?, usize::try_from(to_seq - from_seq + 1)?);
    let (conversation_id, limit) = (GROUP.to_owned(), i32::try_from(wanted)?);
    let request = PullMessagesRequest { conversation_id, from_seq, to_seq, limit, ..Default::default() };
    timed(plan, async |side| {
        if side == Side::Baseline {
            return stage.raw.documents(GROUP, documents, stored).await;
        }
        let page = stage.client(0).pull_messages(request.clone()).await?.into_inner();
        ensure!(page.messages.len() == wanted, "a page has {} messages of {wanted}", page.messages.len());
        Ok(())
    })
    .await
}

/// Microseconds for a list with `conversations` conversations.
async fn lists(plan: &Plan, stage: &MessageStage, conversations: i64) -> Result<Vec<Pair<f64>>> {
    let logs: Vec<String> = (0..conversations).map(|other| format!("d{USER}-{}", other + 2)).collect();
    stage.fill(&logs, usize::try_from(OF_LIST)?).await?;
    let last = (OF_LIST - 1) / DOCUMENT;
    let documents: Vec<(String, i64)> = logs.iter().map(|log| (log.clone(), last)).collect();
    let request = ListConversationsRequest { user_id: USER, page_size: 200, ..Default::default() };
    let wanted = logs.len();
    timed(plan, async |side| {
        if side == Side::Baseline {
            return stage.raw.sizes(&documents).await;
        }
        let list = stage.client(0).list_conversations(request.clone()).await?.into_inner();
        // The group is listed, too, where there is room.
        ensure!(list.conversations.len() >= wanted, "{} are listed of {wanted}", list.conversations.len());
        Ok(())
    })
    .await
}

async fn timed(plan: &Plan, read: impl AsyncFn(Side) -> Result<()>) -> Result<Vec<Pair<f64>>> {
    let (pieces, reads) = plan.size((20, 20), (2, 3));
    compare_micros(plan.rounds, pieces, reads, read).await
}
