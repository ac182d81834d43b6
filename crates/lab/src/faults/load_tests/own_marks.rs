//! Users answer each other, and MongoDB stops while their own marks are to be stored: a message that a user
//! has answered is marked as read, whatever fails after the answer.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use kith_proto::message::v1::{
    GetReadSeqsRequest, message_service_client::MessageServiceClient, read_seq_result,
    send_message_request::To,
};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{Sizes, outcomes::Violations, site_fault::SiteFault};
use crate::{
    faults::{
        Figure, Plan, Site,
        answered::{call, send_message, until_answered},
        calls::consistency,
    },
    history::Level,
};

const NODES: u32 = 3;
/// Direct conversations. In each round one user writes, and the other one answers.
const PAIRS: u32 = 32;
/// How long MongoDB is stopped.
const STOPPED_FOR: Duration = Duration::from_secs(4);
/// When MongoDB stops, after the round's begin: most pairs have begun, and nodes gather own marks for a
/// second.
const STOPPED_AT: Duration = Duration::from_millis(1_000);
/// The time between the beginnings of two pairs.
const STEP: Duration = Duration::from_millis(40);
/// Each mark is stored this long after the round's last answer, or after the stop's end.
const STORED_WITHIN: Duration = Duration::from_secs(10);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// A mark is not stored in time.
const LOST: &str = "own marks lost";

/// The fault that interrupts a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    MongodbStopped,
    /// The nodes are stopped as an operator stops them, and started again.
    NodesEnded,
}

/// A message that answers another message.
#[derive(Clone, Copy, Debug)]
struct AnswerSent {
    pair: u32,
    seq: i64,
}

/// Figures: answers, and marks that are not stored in time.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut site = Site::with_users(&Plan { nodes: NODES, ..plan.clone() }, 2 * i64::from(PAIRS)).await?;
    let (mut violations, mut answers, mut slowest) = (Violations::default(), 0, Duration::ZERO);
    for round in 0..=sizes.rounds {
        let last = round == sizes.rounds;
        let interruption = if last { Interruption::NodesEnded } else { Interruption::MongodbStopped };
        let answered = interrupted(&mut site, round, interruption).await?;
        answers += answered.len() as u64;
        slowest = slowest.max(judge(&site.channels(), &answered, &mut violations).await);
    }
    let mut figures = vec![Figure::at_least_count("answers", answers, u64::from(PAIRS * (sizes.rounds + 1)))];
    figures.extend(violations.figures([LOST]));
    figures.push(Figure::within("marks stored after", slowest, STORED_WITHIN));
    Ok(figures)
}

/// Runs a round with answers and its interruption.
async fn interrupted(site: &mut Site, round: u32, interruption: Interruption) -> Result<Vec<AnswerSent>> {
    let nodes = site.channels();
    let answering = try_join_all((0..PAIRS).map(|pair| answer(&nodes, pair, round)));
    let answered = match interruption {
        Interruption::MongodbStopped => {
            let stopping = async {
                sleep(STOPPED_AT).await;
                SiteFault::MongodbPaused.inject(site, 0, STOPPED_FOR).await
            };
            tokio::try_join!(answering, stopping)?.0
        }
        Interruption::NodesEnded => {
            let answered = answering.await?;
            for member in &mut site.members {
                member.node.end().await?;
                member.node.run()?;
            }
            answered
        }
    };
    site.until_trusted().await?;
    Ok(answered)
}

async fn answer(nodes: &[Channel], pair: u32, round: u32) -> Result<AnswerSent> {
    sleep(STEP * pair).await;
    send(nodes, pair, asker(pair), round).await?;
    let seq = send(nodes, pair, answerer(pair), round).await?;
    Ok(AnswerSent { pair, seq })
}

/// Sends a user's message until a node answers.
async fn send(nodes: &[Channel], pair: u32, sender_id: i64, round: u32) -> Result<i64> {
    let (first, id) = (usize::try_from(pair)? % nodes.len(), format!("{sender_id}-{round}"));
    send_message(nodes, first, To::ConversationId(conversation(pair)), sender_id, id).await
}

/// Waits until the marks for all answers are stored. Returns how long that took.
async fn judge(nodes: &[Channel], answered: &[AnswerSent], violations: &mut Violations) -> Duration {
    let began = Instant::now();
    for answer in answered {
        loop {
            let read = read_seq(nodes, answer.pair).await;
            if read.is_ok_and(|read| read >= answer.seq) {
                break;
            }
            if began.elapsed() > STORED_WITHIN {
                violations.add(LOST, || format!("{answer:?}: a strong read returns another mark"));
                break;
            }
            sleep(LOOK).await;
        }
    }
    began.elapsed().min(STORED_WITHIN)
}

/// The answering user's mark, by a strong read.
async fn read_seq(nodes: &[Channel], pair: u32) -> Result<i64> {
    let request = GetReadSeqsRequest {
        user_id: answerer(pair),
        conversation_ids: vec![conversation(pair)],
        consistency: consistency(Level::Strong, ""),
    };
    let answer = until_answered(nodes, 0, request, call!(MessageServiceClient::get_read_seqs));
    match answer.await?.results.into_iter().next().and_then(|result| result.result) {
        Some(read_seq_result::Result::Read(read)) => Ok(read.read_seq),
        other => anyhow::bail!("the mark is answered with {other:?}"),
    }
}

fn asker(pair: u32) -> i64 {
    i64::from(2 * pair + 1)
}

fn answerer(pair: u32) -> i64 {
    i64::from(2 * pair + 2)
}

fn conversation(pair: u32) -> String {
    format!("d{}-{}", asker(pair), answerer(pair))
}
