//! Callers of one unary method.

use std::{
    marker::PhantomData,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use kith_proto::{
    message::v1::{GetMaxSeqsResponse, ListConversationsResponse, PullMessagesResponse, SendMessageResponse},
    notice::v1::CountNoticesResponse,
    receipt::v1::GetReceiptResponse,
    relation::v1::{BatchGetRelationsResponse, CheckPermissionResponse, SetDoNotDisturbResponse},
    user::v1::GetUserResponse,
};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tonic::{
    Request, Response,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{AsciiMetadataValue, MetadataMap},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::served::Served;

/// How long a server may take until it accepts connections.
const START: Duration = Duration::from_secs(20);
/// Calls that may be under way while calls arrive at a fixed rate.
const UNDER_WAY_MAX: usize = 20_000;

/// Callers on some connections, each with messages of its own to send.
#[derive(Debug)]
pub(crate) struct Callers<Q, A = GetUserResponse> {
    channels: Vec<Channel>,
    path: PathAndQuery,
    messages: Arc<[Q]>,
    /// What they send as `authorization`.
    authorization: Option<AsciiMetadataValue>,
    answers: PhantomData<fn() -> A>,
}

impl<Q, A> Clone for Callers<Q, A> {
    fn clone(&self) -> Self {
        let Self { channels, path, messages, authorization, answers } = self;
        Self {
            channels: channels.clone(),
            path: path.clone(),
            messages: Arc::clone(messages),
            authorization: authorization.clone(),
            answers: *answers,
        }
    }
}

/// What is answered.
pub(crate) trait Answer: prost::Message + Default + 'static {
    /// Whether it holds what was asked for.
    fn is_whole(&self) -> bool;
}

impl Answer for GetUserResponse {
    fn is_whole(&self) -> bool {
        self.user.is_some()
    }
}

impl Answer for CheckPermissionResponse {
    fn is_whole(&self) -> bool {
        self.allowed
    }
}

impl Answer for BatchGetRelationsResponse {
    fn is_whole(&self) -> bool {
        !self.results.is_empty()
    }
}

impl Answer for SendMessageResponse {
    fn is_whole(&self) -> bool {
        self.seq > 0
    }
}

impl Answer for SetDoNotDisturbResponse {
    fn is_whole(&self) -> bool {
        self.settings.is_some()
    }
}

impl Answer for CountNoticesResponse {
    fn is_whole(&self) -> bool {
        self.totals.is_some()
    }
}

impl Answer for GetReceiptResponse {
    fn is_whole(&self) -> bool {
        self.receipt.is_some()
    }
}

impl Answer for ListConversationsResponse {
    fn is_whole(&self) -> bool {
        !self.conversations.is_empty()
    }
}

impl Answer for PullMessagesResponse {
    fn is_whole(&self) -> bool {
        !self.messages.is_empty()
    }
}

impl Answer for GetMaxSeqsResponse {
    fn is_whole(&self) -> bool {
        !self.results.is_empty()
    }
}

impl<Q: prost::Message + Clone + Default + 'static, A: Answer> Callers<Q, A> {
    /// Connects, and waits for the server to be there.
    pub(crate) async fn connect(
        address: SocketAddr,
        connections: usize,
        path: &'static str,
        messages: Vec<Q>,
    ) -> Result<Self> {
        ensure!(!messages.is_empty(), "there is nothing to send");
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let mut channels = Vec::with_capacity(connections);
        for _ in 0..connections {
            channels.push(timeout(START, reach(&endpoint)).await.context("the server does not start")?);
        }
        Ok(Self {
            channels,
            path: PathAndQuery::from_static(path),
            messages: messages.into(),
            authorization: None,
            answers: PhantomData,
        })
    }

    /// The same callers, who send this key with every call.
    ///
    /// # Errors
    /// When no header can hold the key.
    pub(crate) fn with_key(mut self, key: &str) -> Result<Self> {
        let value = AsciiMetadataValue::try_from(format!("Bearer {key}"));
        self.authorization = Some(value.context("the key cannot be sent")?);
        Ok(self)
    }

    /// Sends `calls` messages, `in_flight` at a time on each connection, a new one with every answer. Returns
    /// the time that took.
    pub(crate) async fn closed(&self, calls: u64, in_flight: usize) -> Result<Duration> {
        let sent = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        let begun = Instant::now();
        for at in 0..self.channels.len() * in_flight {
            let (this, sent) = (self.clone(), Arc::clone(&sent));
            callers.spawn(async move {
                loop {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    if number >= calls {
                        return anyhow::Ok(());
                    }
                    this.call(at, usize::try_from(number)?).await?;
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended??;
        }
        Ok(begun.elapsed())
    }

    /// Microseconds of processor time that their server takes for each of so many calls, `in_flight` at a time on each connection.
    pub(crate) async fn cpu_micros(&self, server: &Served, calls: u32, in_flight: usize) -> Result<f64> {
        let before = server.cpu_seconds()?;
        self.closed(calls.into(), in_flight).await?;
        Ok((server.cpu_seconds()? - before) * 1e6 / f64::from(calls))
    }

    /// Sends `rate` messages a second for a `time`, whether or not answers come: every millisecond those that
    /// are due. Returns how long each took from the moment when it was due, in microseconds; a call that fails,
    /// or is not sent since too many are under way, counts as one that took all of `time`.
    pub(crate) async fn open(&self, rate: f64, time: Duration) -> Result<Histogram<u64>> {
        let taken = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
        let (mut calls, mut sent) = (JoinSet::new(), 0_usize);
        let under_way = Arc::new(AtomicUsize::new(0));
        let begun = Instant::now();
        let mut ticks = interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            let due = ticks.tick().await;
            if due >= begun + time {
                break;
            }
            while crate::ratio::count(sent) < rate * (due - begun.min(due)).as_secs_f64() {
                let number = sent;
                sent += 1;
                if under_way.load(Ordering::Relaxed) >= UNDER_WAY_MAX {
                    taken.lock().await.record(u64::try_from(time.as_micros())?)?;
                    continue;
                }
                let (this, taken, under_way) = (self.clone(), Arc::clone(&taken), Arc::clone(&under_way));
                under_way.fetch_add(1, Ordering::Relaxed);
                calls.spawn(async move {
                    let answered = this.call(number, number).await;
                    under_way.fetch_sub(1, Ordering::Relaxed);
                    let micros = if answered.is_ok() { due.elapsed() } else { time }.as_micros();
                    taken.lock().await.record(u64::try_from(micros)?)?;
                    anyhow::Ok(())
                });
            }
        }
        while let Some(ended) = calls.join_next().await {
            ended??;
        }
        Ok(Arc::into_inner(taken).context("a call is still under way")?.into_inner())
    }

    /// Sends one message and returns the metadata of the answer.
    pub(crate) async fn call(&self, connection: usize, message: usize) -> Result<MetadataMap> {
        let mut client = Grpc::new(self.channels[connection % self.channels.len()].clone());
        client.ready().await?;
        let mut request = Request::new(self.messages[message % self.messages.len()].clone());
        if let Some(key) = &self.authorization {
            request.metadata_mut().insert("authorization", key.clone());
        }
        let codec = ProstCodec::<Q, A>::default();
        let response: Response<A> = client.unary(request, self.path.clone(), codec).await?;
        ensure!(response.get_ref().is_whole(), "an answer does not hold what was asked for");
        Ok(response.into_parts().0)
    }
}

async fn reach(endpoint: &Endpoint) -> Channel {
    loop {
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use kith_proto::user::v1::User;

    use super::*;
    use crate::echo;

    async fn callers() -> Callers<GetUserResponse> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        tokio::spawn(echo::serve(address, None));
        let message = GetUserResponse::of(User { user_id: 7, ..User::default() });
        Callers::connect(address, 2, echo::PATH, vec![message]).await.unwrap()
    }

    #[tokio::test]
    async fn the_echo_answers_as_many_calls_as_are_sent() {
        let callers = callers().await;
        assert!(callers.closed(100, 4).await.unwrap() > Duration::ZERO);
        assert!(callers.call(0, 0).await.is_ok());
    }

    #[tokio::test]
    async fn calls_at_a_fixed_rate_are_all_counted() {
        let taken = callers().await.open(1000.0, Duration::from_millis(100)).await.unwrap();
        assert!((90..=101).contains(&taken.len()), "{}", taken.len());
    }

    #[tokio::test]
    async fn an_answer_without_a_user_is_an_error() {
        let callers = callers().await;
        let empty = Callers { messages: vec![GetUserResponse::default()].into(), ..callers };
        assert!(empty.closed(1, 1).await.is_err());
    }
}
