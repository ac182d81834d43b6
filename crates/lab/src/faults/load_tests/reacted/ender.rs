//! Ends messages: recalls some, and erases those of a user.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use kith_proto::message::v1::{
    EraseUserMessagesRequest, ErasureState, RecallMessageRequest,
    message_service_client::MessageServiceClient,
};
use tokio::time::{Instant, sleep};

use super::{ReactedGroup, ReactionRow, Workload};
use crate::faults::answered::call;

/// One message in this many is recalled.
const RECALL_EVERY: usize = 3;
/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than another node needs to go on with an erasure.
const ERASED_WITHIN: Duration = Duration::from_secs(120);

/// Recalls messages of a group, evenly while reactions change.
pub(super) async fn recall_messages(
    state: Arc<Workload>,
    group: ReactedGroup,
) -> Result<BTreeSet<ReactionRow>> {
    let recalled: Vec<i64> = group.messages.iter().step_by(RECALL_EVERY).map(|message| message.seq).collect();
    for (at, seq) in (0_u64..).zip(&recalled) {
        let due = state.progress.goal() * at / recalled.len() as u64;
        while state.progress.done() < due && !state.progress.is_ended() {
            sleep(LOOK).await;
        }
        if state.progress.is_ended() {
            break;
        }
        recall(&state, &group, *seq).await?;
    }
    Ok(BTreeSet::new())
}

async fn recall(state: &Workload, group: &ReactedGroup, seq: i64) -> Result<()> {
    let conversation_id = group.conversation.clone();
    group.ending.lock().insert(seq);
    let request = RecallMessageRequest { conversation_id, seq, ..RecallMessageRequest::default() };
    let first = usize::try_from(seq)?;
    let recalled = state.call(first, request, call!(MessageServiceClient::recall_message)).await.0;
    recalled.map(drop).with_context(|| format!("message {seq} of {} is not recalled", group.conversation))
}

/// Begins to erase the messages of a group's first member.
pub(super) async fn erase(state: &Workload, group: &ReactedGroup) -> Result<()> {
    let erased = group.messages.iter().filter(|message| message.sender == group.erased_user());
    group.ending.lock().extend(erased.map(|message| message.seq));
    erasure(state, group).await.map(drop)
}

/// Waits until they are erased.
pub(super) async fn until_erased(state: &Workload, group: &ReactedGroup) -> Result<()> {
    let began = Instant::now();
    while erasure(state, group).await? != ErasureState::Finished {
        if began.elapsed() > ERASED_WITHIN {
            bail!("an erasure does not finish within {ERASED_WITHIN:?}");
        }
        sleep(LOOK).await;
    }
    Ok(())
}

async fn erasure(state: &Workload, group: &ReactedGroup) -> Result<ErasureState> {
    let request = EraseUserMessagesRequest { user_id: group.erased_user(), again: false };
    let answered = state.call(0, request, call!(MessageServiceClient::erase_user_messages)).await.0;
    Ok(answered?.state())
}
