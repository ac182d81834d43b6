//! Pages of messages through a node over finds of the same documents.

use anyhow::{Result, ensure};
use kith_proto::message::v1::PullMessagesRequest;

use super::{
    raw::DOCUMENT,
    stage::{GROUP, MessageStage, USER},
};
use crate::{
    claims::{PULL_1000, PULL_RECENT, Plan},
    ratio::{Pair, Side, compare_micros},
    results::Results,
};

/// Messages in the log that is read. The last document has 30 messages.
const MESSAGES: i64 = 1_530;

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&PULL_RECENT, &PULL_1000]) {
        return Ok(());
    }
    let Some(stage) = MessageStage::start(plan, "reads", USER).await? else { return Ok(()) };
    stage.fill(GROUP, MESSAGES).await?;
    for (claim, pages) in [(&PULL_RECENT, [MESSAGES - 49, MESSAGES]), (&PULL_1000, [501, 1_500])] {
        results.row(claim, pulls(plan, &stage, pages)).await?;
    }
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
    let (pieces, reads) = plan.size((20, 20), (2, 3));
    compare_micros(plan.rounds, pieces, reads, async |side| {
        if side == Side::Baseline {
            return stage.raw.documents(GROUP, documents, stored).await;
        }
        let page = stage.client().pull_messages(request.clone()).await?.into_inner();
        ensure!(page.messages.len() == wanted, "a page has {} messages of {wanted}", page.messages.len());
        Ok(())
    })
    .await
}
