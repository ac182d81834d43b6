//! Callers that call one method on one node: in a closed loop, or at a fixed rate.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tonic::{
    Code, Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{MetadataMap, MetadataValue},
    transport::{Channel, Endpoint},
};

use super::{raw::Raw, tally::CallTally};

/// A method that reads.
pub(super) const GET_USER: &str = "/kith.user.v1.UserService/GetUser";
/// Connections: a node takes 200 calls at a time on each.
const CONNECTIONS: usize = 16;
/// The most calls that may be under way. Above it, no more calls are sent, and the loop is not open any more.
const UNDER_WAY_MAX: usize = 3_000;
/// The deadline for a call, which is sent to nodes.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long a node may take until it accepts connections.
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// Callers for one method. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    channels: Arc<[Channel]>,
    path: PathAndQuery,
    messages: Arc<[Bytes]>,
    /// The callers' identities, in turn.
    heads: Arc<[MetadataMap]>,
}

impl Callers {
    /// Connects, and waits for the node to be there. Messages are sent by turns.
    pub(super) async fn connect(
        address: SocketAddr,
        path: &'static str,
        messages: &[impl prost::Message],
    ) -> Result<Self> {
        ensure!(!messages.is_empty(), "there is nothing to send");
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let mut channels = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            channels.push(reach(&endpoint).await?);
        }
        let messages = messages.iter().map(|message| Bytes::from(message.encode_to_vec())).collect();
        let heads = [head(None)?].into();
        Ok(Self { channels: channels.into(), path: PathAndQuery::from_static(path), messages, heads })
    }

    /// Returns these callers, on behalf of the users by turns.
    pub(super) fn on_behalf_of(&self, users: &[i64]) -> Result<Self> {
        let heads: Vec<_> = users.iter().map(|user| head(Some(*user))).collect::<Result<_>>()?;
        ensure!(!heads.is_empty(), "there is no user to act for");
        Ok(Self { heads: heads.into(), ..self.clone() })
    }

    /// A closed loop: this many callers for this time.
    pub(super) async fn closed(&self, callers: usize, time: Duration) -> Result<CallTally> {
        let tally = Arc::new(Mutex::new(CallTally::new()?));
        let (over, mut calling) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for first in 0..callers {
            let (this, tally, over) = (self.clone(), Arc::clone(&tally), Arc::clone(&over));
            calling.spawn(async move {
                let mut number = first;
                while !over.load(Ordering::Relaxed) {
                    let (code, took) = this.call(number).await;
                    tally.lock().count(code, took, !over.load(Ordering::Relaxed));
                    number += callers;
                }
            });
        }
        sleep(time).await;
        over.store(true, Ordering::Relaxed);
        ended(calling, tally).await
    }

    /// An open loop: this many calls a second for this time, sent every millisecond as they become due.
    /// Returns when all are answered.
    pub(super) async fn open(&self, rate: f64, time: Duration) -> Result<CallTally> {
        let tally = Arc::new(Mutex::new(CallTally::new()?));
        let (under_way, mut calls) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        let (begun, mut due) = (Instant::now(), 0_u32);
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            let now = ticks.tick().await;
            if now >= begun + time {
                break;
            }
            while f64::from(due) < rate * (now - begun.min(now)).as_secs_f64() {
                due += 1;
                if under_way.fetch_add(1, Ordering::Relaxed) >= UNDER_WAY_MAX {
                    under_way.fetch_sub(1, Ordering::Relaxed);
                    tally.lock().held_back += 1;
                    continue;
                }
                let (this, tally, under_way) = (self.clone(), Arc::clone(&tally), Arc::clone(&under_way));
                calls.spawn(async move {
                    let (code, took) = this.call(due as usize).await;
                    tally.lock().count(code, took, begun.elapsed() <= time);
                    under_way.fetch_sub(1, Ordering::Relaxed);
                });
            }
            // Ended calls are freed at once, not kept until the end.
            while calls.try_join_next().transpose()?.is_some() {}
        }
        ended(calls, tally).await
    }

    /// Makes one call. Returns the answer's code, and the time since the call was sent.
    async fn call(&self, number: usize) -> (Code, Duration) {
        let mut client = Grpc::new(self.channels[number % self.channels.len()].clone());
        let mut request = Request::new(self.messages[number % self.messages.len()].clone());
        request.metadata_mut().clone_from(&self.heads[number % self.heads.len()]);
        if client.ready().await.is_err() {
            return (Code::Unavailable, Duration::ZERO);
        }
        let sent = Instant::now();
        let answer = client.unary(request, self.path.clone(), Raw).await;
        (answer.map_or_else(|status| status.code(), |_| Code::Ok), sent.elapsed())
    }
}

async fn ended(calls: JoinSet<()>, tally: Arc<Mutex<CallTally>>) -> Result<CallTally> {
    calls.join_all().await;
    Ok(Arc::into_inner(tally).context("a call is still under way")?.into_inner())
}

fn head(user: Option<i64>) -> Result<MetadataMap> {
    let mut head = Request::new(());
    head.set_timeout(DEADLINE);
    if let Some(user) = user {
        head.metadata_mut().insert("kith-acting-user", MetadataValue::try_from(user.to_string())?);
    }
    Ok(head.into_parts().0)
}

async fn reach(endpoint: &Endpoint) -> Result<Channel> {
    let until = Instant::now() + START;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(_) if Instant::now() < until => sleep(POLL).await,
            Err(error) => return Err(error).context("the node does not start"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use kith_lab_servers::child::free_port;
    use tonic::transport::Server;
    use tonic_health::{pb::HealthCheckRequest, server::health_reporter};

    use super::*;

    async fn callers() -> Callers {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        tokio::spawn(Server::builder().add_service(health_reporter().1).serve(address));
        let check = HealthCheckRequest::default();
        Callers::connect(address, "/grpc.health.v1.Health/Check", &[check]).await.unwrap()
    }

    #[tokio::test]
    async fn calls_at_a_rate_are_all_counted() {
        let tally = callers().await.open(500.0, Duration::from_millis(200)).await.unwrap();
        assert!((90..=101).contains(&tally.done()), "{}", tally.done());
        assert_eq!((tally.shed(), tally.failed(), tally.held_back), (0, 0, 0));
    }

    #[tokio::test]
    async fn missing_method_is_counted_as_failed() {
        let callers = Callers { path: PathAndQuery::from_static("/a.B/C"), ..callers().await };
        let tally = callers.closed(1, Duration::from_millis(50)).await.unwrap();
        assert!(tally.failed() > 0 && tally.done() == 0);
    }
}
