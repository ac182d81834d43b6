//! Sends a message to a group with a hundred thousand members on two nodes, a tenth of whom receive; over
//! bare servers that send the same to as many streams.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use kith_proto::message::v1::{ReceiveRequest, ReceiveResponse, delivery::What};
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::Instant};
use tonic::{Status, Streaming, transport::Channel};

use super::{
    stage::{BareServers, ReceiveStage},
    stream::{deliver_bare, of_user, receive, until},
};
use crate::{
    claims::{GROUP_100K, GROUP_100K_CPU, Plan},
    ratio::{Side, count, each, interleave, median},
    results::Results,
    rows::{groups::make_group, messages::text},
    served::ServerProcess,
};

const GROUP: &str = "g1";
const POLL: Duration = Duration::from_millis(1);

/// Runs both rows; nothing where there are no servers.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let (members, receivers) = (plan.size(100_000, 1_200), plan.size(10_000, 60));
    let Some(stage) = ReceiveStage::start(plan, "group", members).await? else { return Ok(()) };
    let users: Vec<i64> = (1..=members).collect();
    make_group(&stage.nodes[0].channel, 1, &users).await?;
    let of_nodes = Arc::new(StreamReaders::default());
    of_nodes.read_all(open(&stage, receivers).await?);
    of_nodes.until_live().await?;
    send(&stage).await?;
    of_nodes.until(of_nodes.streams()).await?;
    let (bare, of_bare) = (BareServers::start(2)?, Arc::new(StreamReaders::default()));
    of_bare.read_all(bare.open(receivers).await?);
    let response = of_nodes.last.lock().clone().context("a message came")?;
    let pairs = interleave(plan.rounds, async |side| match side {
        Side::Baseline => {
            let deliver = async || deliver_all(&bare, &response).await;
            measure(plan, &[&bare.servers[0], &bare.servers[1]], &of_bare, deliver).await
        }
        Side::Kith => {
            let servers = [&stage.nodes[0].served, &stage.nodes[1].served];
            measure(plan, &servers, &of_nodes, async || send(&stage).await).await
        }
    });
    let pairs = pairs.await?;
    results.add(&GROUP_100K, &each(&pairs, |delivered| delivered.seconds))?;
    results.add(&GROUP_100K_CPU, &each(&pairs, |delivered| delivered.cpu_micros))?;
    of_nodes.ensure_open()?;
    of_bare.ensure_open()?;
    stage.remove(plan).await
}

/// The cost of delivering some messages.
#[derive(Clone, Copy, Debug)]
struct DeliveryCost {
    /// Median time until the last stream has received a message.
    seconds: f64,
    /// The servers' processor time for one delivery.
    cpu_micros: f64,
}

/// Sends some messages, each after the previous message has reached all streams.
async fn measure(
    plan: &Plan,
    servers: &[&ServerProcess; 2],
    arrived: &StreamReaders,
    send: impl AsyncFn() -> Result<()>,
) -> Result<DeliveryCost> {
    let all = arrived.streams();
    let taken = || anyhow::Ok(servers[0].cpu_seconds()? + servers[1].cpu_seconds()?);
    let (messages, mut times, before) = (plan.size(10, 2), Vec::new(), taken()?);
    for _ in 0..messages {
        let (begun, wanted) = (Instant::now(), arrived.count() + all);
        send().await?;
        arrived.until(wanted).await?;
        times.push(begun.elapsed().as_secs_f64());
    }
    // Clock ticks are long.
    let cpu = (taken()? - before).max(0.01);
    Ok(DeliveryCost { seconds: median(times), cpu_micros: cpu * 1e6 / count(messages * all) })
}

async fn send(stage: &ReceiveStage) -> Result<()> {
    stage.client(0).send_message(text(GROUP)).await?;
    Ok(())
}

async fn deliver_all(bare: &BareServers, response: &ReceiveResponse) -> Result<()> {
    for server in &bare.servers {
        deliver_bare(server.connect().await?, response.clone()).await?;
    }
    Ok(())
}

/// Opens half the streams on each node.
async fn open(stage: &ReceiveStage, receivers: i64) -> Result<Vec<Streaming<ReceiveResponse>>> {
    let mut streams = Vec::new();
    let channels: [Vec<Channel>; 2] =
        [stage.connections(0, receivers / 2).await?, stage.connections(1, receivers / 2).await?];
    for user_id in 1..=receivers {
        let channels = &channels[usize::from(user_id > receivers / 2)];
        let request = ReceiveRequest { user_id, now: true, ..ReceiveRequest::default() };
        streams.push(receive(of_user(channels, user_id), request).await?);
    }
    Ok(streams)
}

/// Counts the messages on many streams.
#[derive(Debug, Default)]
struct StreamReaders {
    messages: AtomicUsize,
    /// Streams that are live.
    live: AtomicUsize,
    last: Mutex<Option<ReceiveResponse>>,
    streams: Mutex<JoinSet<StreamEnd>>,
}

/// How a stream ended.
type StreamEnd = Result<Option<ReceiveResponse>, Status>;

impl StreamReaders {
    /// Counts messages on these streams.
    fn read_all(self: &Arc<Self>, streams: Vec<Streaming<ReceiveResponse>>) {
        for mut stream in streams {
            let this = Arc::clone(self);
            self.streams.lock().spawn(async move {
                let mut last = None;
                while let Some(response) = stream.message().await? {
                    let is_message = |what: &Option<What>| matches!(what, Some(What::Message(_)));
                    let is_live = |what: &Option<What>| matches!(what, Some(What::Live(_)));
                    if response.deliveries.iter().any(|delivery| is_live(&delivery.what)) {
                        this.live.fetch_add(1, Ordering::SeqCst);
                    }
                    if response.deliveries.iter().any(|delivery| is_message(&delivery.what)) {
                        // One response is enough: the baseline sends the same.
                        if this.messages.fetch_add(1, Ordering::SeqCst) == 0 {
                            *this.last.lock() = Some(response.clone());
                        }
                    }
                    last = Some(response);
                }
                Ok(last)
            });
        }
    }

    fn streams(&self) -> usize {
        self.streams.lock().len()
    }

    /// Waits until all streams are live.
    async fn until_live(&self) -> Result<()> {
        let (streams, live) = (self.streams(), || self.live.load(Ordering::SeqCst));
        let check = || {
            ensure!(live() >= streams, "{} of {streams} streams are live", live());
            Ok(())
        };
        until(POLL, || self.ensure_open(), check).await
    }

    fn count(&self) -> usize {
        self.messages.load(Ordering::SeqCst)
    }

    async fn until(&self, messages: usize) -> Result<()> {
        let check = || {
            ensure!(self.count() >= messages, "{} of {messages} messages came", self.count());
            Ok(())
        };
        until(POLL, || self.ensure_open(), check).await?;
        ensure!(self.count() == messages, "{} messages came, not {messages}", self.count());
        Ok(())
    }

    fn ensure_open(&self) -> Result<()> {
        match self.streams.lock().try_join_next() {
            Some(ended) => bail!("a stream has ended: {:?}", ended?),
            None => Ok(()),
        }
    }
}
