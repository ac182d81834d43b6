//! A node is killed while the clients of its streams have lost their network: another node names their users
//! for pushes, for everything that was sent since.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use kith_lab_servers::proxy::{Mode, Proxy};
use kith_proto::message::v1::{
    ReceiveRequest, ReceiveResponse, WatchOfflineRequest, WatchOfflineResponse, delivery::What,
    message_service_client::MessageServiceClient, send_message_request::To,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Request, Streaming,
    transport::{Channel, Endpoint},
};

use super::{Sizes, outcomes::Violations};
use crate::faults::{Figure, Plan, Site, answered::send_message};

const NODES: u32 = 3;
/// Users who receive. Each gets messages from another user.
const USERS: i64 = 32;
/// Pushes are for users without a receiver.
const OFFLINE: &str = "messages.offline=true";
/// Messages in a round that are sent to clients without a network.
const LOST_MESSAGES: usize = 3;
/// Time between two such messages.
const PAUSE: Duration = Duration::from_millis(500);
/// The bound: a node counts as dead after 15 s, and the other nodes take turns.
const NAMED_WITHIN: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(200);
/// No push names a lost client's user for a message that it was sent.
const UNNAMED: &str = "messages of lost clients that are not named";
/// A push would be sent twice.
const TWICE: &str = "messages named twice";

/// How often each user was named for each message.
type Named = Arc<Mutex<BTreeMap<(i64, i64), u64>>>;
type Deliveries = Streaming<ReceiveResponse>;

/// Figures: messages that are not named for their users, and when the last message was named.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, settings: vec![OFFLINE.to_owned()], ..plan.clone() };
    let mut site = Site::with_users(&plan, 2 * USERS).await?;
    let (mut violations, mut slowest, mut lost) = (Violations::default(), Duration::ZERO, 0);
    for round in 0..sizes.rounds.min(NODES) {
        let killed = usize::try_from(round)?;
        let named = Named::default();
        let watcher = (killed + 1) % site.members.len();
        let watching = tokio::spawn(watch(offline(&site.channels()[watcher]).await?, Arc::clone(&named)));
        let expected = lose(&mut site, killed, plan.seed).await?;
        lost += expected.len() as u64;
        slowest = slowest.max(judge(&expected, &named, &mut violations).await);
        watching.abort();
        site.members.get_mut(killed).context("there are three nodes")?.node.run()?;
        site.until_trusted().await?;
    }
    let mut figures = vec![Figure::at_least_count("messages to lost clients", lost, 1)];
    figures.extend(violations.figures([UNNAMED, TWICE]));
    figures.push(Figure::within("last one named after", slowest, NAMED_WITHIN));
    Ok(figures)
}

/// Lets the clients of a node lose their network, sends messages to them, and kills the node. Returns what
/// their users have to be named for: user and number.
async fn lose(site: &mut Site, killed: usize, seed: u64) -> Result<BTreeSet<(i64, i64)>> {
    let nodes = site.channels();
    let node = &mut site.members.get_mut(killed).context("there are three nodes")?.node;
    let link = Proxy::start(node.address(), seed).await?;
    let channel = Endpoint::from_shared(format!("http://{}", link.address()))?.connect_lazy();
    let mut streams = try_join_all((1..=USERS).map(|user| receive(&channel, user))).await?;
    let sender = (killed + 1) % nodes.len();
    try_join_all((1..=USERS).map(|user| send(&nodes, sender, user, 0))).await?;
    for stream in &mut streams {
        stream.message().await?.context("the stream has ended")?;
    }
    link.set(Mode::Freeze);
    let mut expected = BTreeSet::new();
    for number in 1..=LOST_MESSAGES {
        let sent = try_join_all((1..=USERS).map(|user| send(&nodes, sender, user, number))).await?;
        expected.extend((1..=USERS).zip(sent));
        sleep(PAUSE).await;
    }
    node.kill();
    Ok(expected)
}

/// A stream that has begun.
async fn receive(channel: &Channel, user: i64) -> Result<Deliveries> {
    let mut request = Request::new(ReceiveRequest { now: true, ..ReceiveRequest::default() });
    request.metadata_mut().insert("kith-acting-user", user.into());
    let mut stream = MessageServiceClient::new(channel.clone()).receive(request).await?.into_inner();
    let first = stream.message().await?.context("the stream has ended")?;
    let is_live = first.deliveries.iter().any(|one| matches!(one.what, Some(What::Live(_))));
    ensure!(is_live, "the stream of user {user} does not begin with the present");
    Ok(stream)
}

/// Sends a message to a user, the `number`-th through this node. Returns its number in the conversation.
async fn send(nodes: &[Channel], first: usize, user: i64, number: usize) -> Result<i64> {
    send_message(nodes, first, To::UserId(user), USERS + user, format!("{first}-{number}")).await
}

/// The stream with pushes from now on.
async fn offline(node: &Channel) -> Result<Streaming<WatchOfflineResponse>> {
    let request = WatchOfflineRequest::default();
    let mut pushes = MessageServiceClient::new(node.clone()).watch_offline(request).await?.into_inner();
    timeout(NAMED_WITHIN, pushes.message()).await??.context("the stream of pushes has ended")?;
    Ok(pushes)
}

async fn watch(mut pushes: Streaming<WatchOfflineResponse>, named: Named) -> Result<()> {
    while let Some(response) = pushes.message().await? {
        let mut named = named.lock();
        for message in response.messages {
            for user in message.user_ids {
                *named.entry((user, message.seq)).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// Waits until all are named. Returns how long that took.
async fn judge(expected: &BTreeSet<(i64, i64)>, named: &Named, violations: &mut Violations) -> Duration {
    let began = Instant::now();
    let is_named = || {
        let named = named.lock();
        expected.iter().all(|one| named.contains_key(one))
    };
    while !is_named() && began.elapsed() < NAMED_WITHIN {
        sleep(LOOK).await;
    }
    let took = began.elapsed().min(NAMED_WITHIN);
    let named = named.lock();
    for one in expected.iter().filter(|one| !named.contains_key(one)) {
        violations.add(UNNAMED, || format!("user and number {one:?}"));
    }
    for (one, times) in named.iter().filter(|(_, times)| **times > 1) {
        violations.add(TWICE, || format!("user and number {one:?}: {times} times"));
    }
    took
}
