//! The clock on one of three nodes is 60 days ahead, and old messages are removed: no node hides or removes a
//! new message.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use kith_proto::message::v1::{
    PullMessagesRequest, message_service_client::MessageServiceClient, send_message_request::To,
};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{Sizes, outcomes::Violations};
use crate::faults::{
    Figure, Plan, Site,
    answered::{call, send_message, until_answered},
};

const NODES: u32 = 3;
/// A test build's clock is 60 days ahead by it.
const AHEAD: (&str, &str) = ("KITH_MUTANT", "clock_right");
/// Messages are kept for half of that.
const KEPT: &str = "messages.kept=30d";
/// How many messages there are: more than three documents with 100 messages.
const MESSAGES: i64 = 350;
const CONVERSATION: &str = "d1-2";
/// Nodes look for old messages each minute, at the latest.
const WATCHED_FOR: Duration = Duration::from_secs(150);
/// The fast node is alone for longer than a lease lasts, so that it does the removals.
const ALONE_FOR: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(86_400);
const LOOK: Duration = Duration::from_secs(5);
/// A new message is hidden or removed.
const HIDDEN: &str = "new messages hidden or removed";
/// The node's send time differs from the store's.
const WRONG_TIME: &str = "send times of another day";

/// Figures: messages that a node hides or has removed, and wrong times.
pub(super) async fn run(plan: &Plan, _sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, settings: vec![KEPT.to_owned()], ..plan.clone() };
    let mut site = Site::with_users(&plan, 2).await?;
    let nodes = site.channels();
    let began_at = SystemTime::now();
    for number in 0..MESSAGES / 2 {
        send(&nodes, number).await?;
    }
    lead(&mut site).await?;
    for number in MESSAGES / 2..MESSAGES {
        send(&nodes, number).await?;
    }
    let mut violations = Violations::default();
    let (began, mut reads) = (Instant::now(), 0);
    while began.elapsed() < WATCHED_FOR {
        for at in 0..nodes.len() {
            look(&nodes, at, began_at, &mut violations).await?;
            reads += 1;
        }
        sleep(LOOK).await;
    }
    let mut figures = vec![Figure::at_least_count("reads of all messages", reads, 1)];
    figures.extend(violations.figures([HIDDEN, WRONG_TIME]));
    Ok(figures)
}

/// Makes the last node's clock wrong, and lets it take over all that one node does for all.
async fn lead(site: &mut Site) -> Result<()> {
    let (fast, others) = site.members.split_last_mut().context("there are three nodes")?;
    fast.node.end().await?;
    fast.node.run_with_variables(&[AHEAD])?;
    fast.node.until_trusted().await?;
    for other in &mut *others {
        other.node.end().await?;
    }
    sleep(ALONE_FOR).await;
    for other in others {
        other.node.run()?;
        other.node.until_trusted().await?;
    }
    Ok(())
}

/// Sends a message, by turns through each node.
async fn send(nodes: &[Channel], number: i64) -> Result<i64> {
    let first = usize::try_from(number)? % nodes.len();
    send_message(nodes, first, To::ConversationId(CONVERSATION.to_owned()), 1, number.to_string()).await
}

/// Reads all messages through a node.
async fn look(
    nodes: &[Channel],
    at: usize,
    sent_from: SystemTime,
    violations: &mut Violations,
) -> Result<()> {
    let request = PullMessagesRequest {
        user_id: 2,
        conversation_id: CONVERSATION.to_owned(),
        from_seq: 1,
        to_seq: MESSAGES,
        limit: i32::try_from(MESSAGES)?,
        ..PullMessagesRequest::default()
    };
    let nodes = &nodes[at..=at];
    let read = until_answered(nodes, 0, request, call!(MessageServiceClient::pull_messages));
    let read = read.await.with_context(|| format!("node {at} does not read"))?;
    let seqs: Vec<i64> = read.messages.iter().map(|message| message.seq).collect();
    if !seqs.iter().copied().eq(1..=MESSAGES) {
        violations.add(HIDDEN, || format!("node {at} has {} of {MESSAGES} messages", seqs.len()));
    }
    let earliest = sent_from.checked_sub(DAY).context("it is long after 1970")?;
    let latest = sent_from + DAY;
    for message in &read.messages {
        let sent = message.send_time.and_then(|time| SystemTime::try_from(time).ok());
        if !sent.is_some_and(|sent| (earliest..=latest).contains(&sent)) {
            violations.add(WRONG_TIME, || format!("message {}: {:?}", message.seq, message.send_time));
        }
    }
    Ok(())
}
