//! Sends messages in a cluster over bare inserts: processor time in all servers, and how many a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::message::v1::SendMessageRequest;
use tonic::transport::Channel;

use super::{
    load::{Load, Measured, at_rest, measure},
    processes::Processes,
    stage::ClusterStage,
};
use crate::{
    claims::{
        Plan, SEND_DIRECT_RATE, SEND_DIRECT_SERVERS, SEND_MANY_RATE, SEND_MANY_SERVERS, SEND_ONE_RATE,
        SEND_ONE_SERVERS, SEND_REST, SEND_REST_NET,
    },
    ratio::{Claim, Pair, Side, count, each, interleave},
    results::Results,
    rows::{
        messages::{MessageClient, text},
        until_done::until_done,
    },
};

/// Messages under way.
const IN_FLIGHT: usize = 50;
/// Messages a second in a cluster that is nearly at rest.
const AT_REST: u32 = 200;
/// How long servers are looked at without messages.
const REST: Duration = Duration::from_secs(10);
/// Members in a small group.
const TEN: i64 = 10;
/// Members in the large group.
const MEMBERS: i64 = 200;
/// The messages in each conversation before it is measured: each user in a small group has sent once, as in a
/// group that is in use.
const EARLIER: u64 = 10;

/// Conversations and their senders, taken in turn.
#[derive(Clone, Debug)]
pub(super) struct Sends {
    channels: Arc<[Channel]>,
    messages: Arc<[SendMessageRequest]>,
    numbers: Arc<AtomicU64>,
    name: &'static str,
}

impl Sends {
    /// Takes each user in each conversation in turn.
    pub(super) async fn new(
        stage: &ClusterStage,
        name: &'static str,
        conversations: &[(String, Vec<i64>)],
    ) -> Result<Self> {
        let turns = conversations.iter().map(|(_, users)| users.len()).max().unwrap_or_default();
        let sent = |turn: usize| {
            conversations.iter().map(move |(conversation, users)| SendMessageRequest {
                sender_id: users[turn % users.len()],
                ..text(conversation)
            })
        };
        Ok(Self {
            channels: stage.channels().await?.into(),
            messages: (0..turns).flat_map(sent).collect(),
            numbers: Arc::default(),
            name,
        })
    }

    /// Sends the next message.
    pub(super) async fn send(self) -> Result<()> {
        let (mut client, message) = self.next();
        client.send_message(message).await?;
        Ok(())
    }

    /// Messages so far.
    pub(super) fn sent(&self) -> f64 {
        count(usize::try_from(self.numbers.load(Ordering::Relaxed)).unwrap_or_default())
    }

    fn next(&self) -> (MessageClient, SendMessageRequest) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let at = usize::try_from(number).unwrap_or_default();
        let message = SendMessageRequest {
            client_message_id: format!("{}{number}", self.name),
            ..self.messages[at % self.messages.len()].clone()
        };
        (MessageClient::new(self.channels[at % self.channels.len()].clone()), message)
    }

    /// Sends some messages to each conversation, so that it is like a conversation in use.
    async fn warm_up(&self, conversations: usize) -> Result<()> {
        let sends = 0..EARLIER * u64::try_from(conversations)?;
        let sending = stream::iter(sends).map(async |_| {
            let (client, message) = self.next();
            until_done(async || client.clone().send_message(message.clone()).await.map(drop)).await
        });
        sending.buffer_unordered(IN_FLIGHT).try_collect().await
    }
}

/// A kind of conversation.
pub(super) struct ConversationKind {
    cost: &'static Claim,
    rate: &'static Claim,
    name: &'static str,
    conversations: Vec<(String, Vec<i64>)>,
}

/// Groups with ten users each; no user is in two groups. `name`: the prefix for message ids, which are to be
/// new.
pub(super) fn many(plan: &Plan, name: &'static str) -> ConversationKind {
    let groups = 1..=plan.size(1_000, 10);
    let of_ten = |group: i64| (format!("g{group}"), ((group - 1) * TEN + 1..=group * TEN).collect());
    ConversationKind {
        cost: &SEND_MANY_SERVERS,
        rate: &SEND_MANY_RATE,
        name,
        conversations: groups.map(of_ten).collect(),
    }
}

/// One large group.
fn one() -> ConversationKind {
    let conversations = vec![("g1001".to_owned(), (1..=MEMBERS).collect())];
    ConversationKind { cost: &SEND_ONE_SERVERS, rate: &SEND_ONE_RATE, name: "o", conversations }
}

/// Pairs of users.
fn direct(plan: &Plan) -> ConversationKind {
    let pairs = 1..=plan.size(1_000, 10);
    let of_two = |pair: i64| (format!("d{}-{}", 2 * pair - 1, 2 * pair), vec![2 * pair - 1, 2 * pair]);
    ConversationKind {
        cost: &SEND_DIRECT_SERVERS,
        rate: &SEND_DIRECT_RATE,
        name: "d",
        conversations: pairs.map(of_two).collect(),
    }
}

impl ConversationKind {
    /// Makes the groups, and sends some messages.
    pub(super) async fn prepare(&self, stage: &ClusterStage) -> Result<Sends> {
        let group =
            |(name, users): &(String, Vec<i64>)| Some((name.strip_prefix('g')?.parse().ok()?, users.clone()));
        stage.make_groups(&self.conversations.iter().filter_map(group).collect::<Vec<_>>()).await?;
        let sends = Sends::new(stage, self.name, &self.conversations).await?;
        sends.warm_up(self.conversations.len()).await?;
        Ok(sends)
    }

    pub(super) fn conversations(&self) -> &[(String, Vec<i64>)] {
        &self.conversations
    }
}

/// Runs the requested rows about sends.
pub(super) async fn rows(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    for kind in [many(plan, "m"), one(), direct(plan)] {
        let rest: &[&Claim] = if kind.name == "o" { &[&SEND_REST, &SEND_REST_NET] } else { &[] };
        if !plan.wants_any(&[kind.cost, kind.rate]) && !plan.wants_any(rest) {
            continue;
        }
        let sends = kind.prepare(stage).await?;
        if plan.wants_any(&[kind.cost, kind.rate]) {
            let pairs = compare(plan, stage, &sends, Load::Callers(IN_FLIGHT)).await?;
            results.add(kind.cost, &each(&pairs, Measured::cpu_micros))?;
            results.add(kind.rate, &each(&pairs, Measured::per_second))?;
        }
        if plan.wants_any(rest) {
            nearly_at_rest(plan, stage, &sends, results).await?;
        }
    }
    Ok(())
}

async fn compare(
    plan: &Plan,
    stage: &ClusterStage,
    sends: &Sends,
    load: Load,
) -> Result<Vec<Pair<Measured>>> {
    let (all, bare) = (stage.all()?, stage.bare());
    interleave(plan.rounds, async |side| match side {
        Side::Baseline => insert(stage, load, &bare).await,
        Side::Kith => {
            let sends = sends.clone();
            measure(stage.times, load, &all, move |_| sends.clone().send()).await
        }
    })
    .await
}

/// Inserts bare documents.
pub(super) async fn insert(stage: &ClusterStage, load: Load, bare: &Processes) -> Result<Measured> {
    let inserts = stage.inserts.clone();
    measure(stage.times, load, bare, move |_| inserts.clone().insert()).await
}

async fn nearly_at_rest(
    plan: &Plan,
    stage: &ClusterStage,
    sends: &Sends,
    results: &mut Results<'_>,
) -> Result<()> {
    let pairs = compare(plan, stage, sends, Load::Rate(AT_REST)).await?;
    results.add(&SEND_REST, &each(&pairs, Measured::cpu_micros))?;
    // A quick run's servers may be used by others, so it subtracts nothing.
    let rest = async |servers: &Processes| match plan.quick {
        true => Ok(0.0),
        false => at_rest(REST, servers).await,
    };
    let (all, bare) = (rest(&stage.all()?).await?, rest(&stage.bare()).await?);
    let net = |pair: &Pair<Measured>| Pair {
        baseline: pair.baseline.cpu_micros_over(bare),
        kith: pair.kith.cpu_micros_over(all),
    };
    results.add(&SEND_REST_NET, &pairs.iter().map(net).collect::<Vec<_>>())
}
