//! All messages by a user are erased, and the node that erases them is killed midway: another node continues.
//! When the erasure has finished, no content is in the store, in Redis, or read through any node; before
//! that, no content is read together with its event.

mod content;
mod watcher;

use std::{sync::Arc, time::Duration};

use anyhow::{Result, bail, ensure};
use kith_proto::message::v1::{
    BatchSendRequest, EraseUserMessagesRequest, EraseUserMessagesResponse, ErasureState, SendMessageRequest,
    message_service_client::MessageServiceClient, send_message_request::To, send_result,
};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use self::{
    content::{contents_in_redis, contents_in_store, holder},
    watcher::{Found, Watcher},
};
use super::Sizes;
use crate::faults::{
    Figure, Plan, Site,
    answered::{call, until_answered},
    calls::with_deadline,
    figure::float,
    site::NAME,
};

const NODES: u32 = 3;
/// The user whose messages are erased.
const ERASED: i64 = 1;
/// There is one conversation for this many writes in other rows, and not fewer than the second number.
const FEWER: u64 = 100;
const CONVERSATIONS_MIN: u64 = 30;
/// One conversation in this many has more messages than a document.
const LONG_EVERY: u64 = 10;
/// Messages in a conversation, and in a long conversation.
const SHORT: usize = 4;
const LONG: usize = 120;
/// Messages in one BatchSend.
const BATCH: usize = 100;
/// How long the erasure would take with one live node, about.
const TAKES: u64 = 12;
/// Longer than it takes until another node goes on, and to the end.
const LONGEST: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);
/// A text that every message by the user has, and no other message.
const SECRET: &str = "secret-of-user-1";

/// The state that a run's tasks share.
#[derive(Debug)]
struct ErasureTest {
    nodes: Vec<Channel>,
    conversations: u64,
    found: Mutex<Found>,
}

/// Figures: the remaining contents, where they are, and what was read meanwhile.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let conversations = sizes.writes.div_ceil(FEWER).max(CONVERSATIONS_MIN);
    // Each conversation is two steps: a search and a document.
    let rate = format!("messages.erase_rate={}", (2 * conversations).div_ceil(TAKES));
    let plan = Plan { nodes: NODES, settings: vec![rate], ..plan.clone() };
    let mut site = Site::with_users(&plan, i64::try_from(conversations)? + 1).await?;
    let state = Arc::new(ErasureTest { nodes: site.channels(), conversations, found: Mutex::default() });
    let sent = send_all(&state).await?;
    let watcher = Watcher::new(&state);
    // Every node and Redis have copies.
    watcher.read_all().await?;
    let before = contents_in_redis(&site).await?;

    let mut watching = JoinSet::new();
    watching.spawn(watcher.clone().work());
    let (erased, took) = erase_and_kill(&mut site, &state).await?;
    watching.shutdown().await;
    site.until_trusted().await?;
    *state.found.lock() = Found::default();
    watcher.read_all().await?;
    let mut figures = figures(&state, &erased, sent);
    figures.extend([
        Figure::at_least_count("contents in Redis before", before, 1),
        Figure::none("contents in Redis", contents_in_redis(&site).await?),
        Figure::none("contents in the store", contents_in_store(&site).await?),
        Figure::took(took),
    ]);
    Ok(figures)
}

fn figures(state: &ErasureTest, erased: &EraseUserMessagesResponse, sent: u64) -> Vec<Figure> {
    let found = state.found.lock();
    let done = erased.conversations_done.unsigned_abs();
    // Messages in the step in which the node was killed may not be counted.
    let most = sent.saturating_sub(u64::try_from(LONG).unwrap_or(u64::MAX));
    let events = state.conversations * u64::from(NODES);
    vec![
        Figure::at_least_count("conversations done", done, state.conversations),
        Figure::at_least_count("messages erased", erased.messages.unsigned_abs(), most),
        Figure::none("contents that were read", found.contents),
        Figure::none("contents that were read beside the event", found.with_events),
        Figure::at_least_count("events", found.events, events),
        Figure::at_most("events at most", "count", float(found.events), float(events)),
    ]
}

/// The user sends messages to all others, and they send to the user. Returns how many messages the user sent.
async fn send_all(state: &ErasureTest) -> Result<u64> {
    let (mut all, mut of_user) = (Vec::new(), 0);
    for number in 0..state.conversations {
        let other = i64::try_from(number)? + 2;
        let count = if number.is_multiple_of(LONG_EVERY) { LONG } else { SHORT };
        for index in 0..count {
            let is_theirs = index % 2 == 1;
            of_user += u64::from(!is_theirs);
            all.push(SendMessageRequest {
                to: Some(To::ConversationId(format!("d{ERASED}-{other}"))),
                sender_id: if is_theirs { other } else { ERASED },
                client_message_id: format!("m{number}-{index}"),
                body: if is_theirs { "kept".into() } else { format!("{SECRET}-{index}").into() },
                ..SendMessageRequest::default()
            });
        }
    }
    let mut client = MessageServiceClient::new(state.nodes[0].clone());
    for some in all.chunks(BATCH) {
        let request = with_deadline(BatchSendRequest { messages: some.to_vec() });
        let results = client.batch_send(request).await?.into_inner().results;
        let is_sent = |result: &kith_proto::message::v1::SendResult| {
            matches!(result.result, Some(send_result::Result::Sent(_)))
        };
        ensure!(results.iter().all(is_sent), "a message is not sent: {results:?}");
    }
    Ok(of_user)
}

/// Starts the erasure, kills the node that does it when a third is done, and starts it again. Returns the end
/// of it, and how long it took.
async fn erase_and_kill(
    site: &mut Site,
    state: &ErasureTest,
) -> Result<(EraseUserMessagesResponse, Duration)> {
    let (began, mut killed) = (Instant::now(), false);
    while began.elapsed() < LONGEST {
        let erasure = erasure(state).await?;
        if erasure.state() == ErasureState::Finished {
            ensure!(killed, "it was finished before a node was killed");
            return Ok((erasure, began.elapsed()));
        }
        let third = i64::try_from(state.conversations.div_ceil(3))?;
        if !killed && erasure.conversations_done >= third {
            kill(site).await?;
            killed = true;
        }
        sleep(LOOK).await;
    }
    bail!("the erasure does not finish within {LONGEST:?}")
}

async fn erasure(state: &ErasureTest) -> Result<EraseUserMessagesResponse> {
    let request = EraseUserMessagesRequest { user_id: ERASED, again: false };
    let answered = until_answered(&state.nodes, 0, request, call!(MessageServiceClient::erase_user_messages));
    Ok(answered.await?)
}

/// Kills the node that has the erasure lease, and starts it again.
async fn kill(site: &mut Site) -> Result<()> {
    let holder = holder(&site.mongod.database(NAME).await?).await?;
    for member in &mut site.members {
        if member.node.about().await?.node_id == holder {
            member.node.kill();
            return member.node.run();
        }
    }
    bail!("no node has the lease of erasures: {holder}")
}
