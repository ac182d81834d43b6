//! Calls to one unary method.

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
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tonic::{
    Request, Response,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{AsciiMetadataValue, MetadataMap},
    transport::Channel,
};
use tonic_prost::ProstCodec;

use crate::{
    ratio::{Pair, Side, interleave},
    served::{ServerProcess, connect},
};

/// Calls that may be under way while calls arrive at a fixed rate.
const UNDER_WAY_MAX: usize = 20_000;

/// A unary method, which is asked `Q` and answers `A`.
#[derive(Debug)]
pub(crate) struct Method<Q, A> {
    path: &'static str,
    /// Whether an answer holds the requested data.
    is_whole: fn(&A) -> bool,
    asked: PhantomData<fn(Q)>,
}

impl<Q, A> Method<Q, A> {
    pub(crate) const fn new(path: &'static str, is_whole: fn(&A) -> bool) -> Self {
        Self { path, is_whole, asked: PhantomData }
    }

    /// This method, for other callers.
    pub(crate) const fn same(&self) -> Self {
        Self::new(self.path, self.is_whole)
    }

    /// A method on another server with the same answers.
    pub(crate) const fn at<R>(&self, path: &'static str) -> Method<R, A> {
        Method::new(path, self.is_whole)
    }
}

/// Callers on some connections, each with its own messages to send.
#[derive(Clone, Debug)]
pub(crate) struct Callers<Q, A> {
    channels: Vec<Channel>,
    path: PathAndQuery,
    messages: Arc<[Q]>,
    /// The value that they send as `authorization`.
    authorization: Option<AsciiMetadataValue>,
    is_whole: fn(&A) -> bool,
}

impl<Q, A> Callers<Q, A>
where
    Q: prost::Message + Clone + Default + 'static,
    A: prost::Message + Clone + Default + 'static,
{
    /// Connects, and waits for the server to be there.
    pub(crate) async fn connect(
        address: SocketAddr,
        connections: usize,
        method: Method<Q, A>,
        messages: Vec<Q>,
    ) -> Result<Self> {
        ensure!(!messages.is_empty(), "there is nothing to send");
        let mut channels = Vec::with_capacity(connections);
        for _ in 0..connections {
            channels.push(connect(address).await?);
        }
        Ok(Self {
            channels,
            path: PathAndQuery::from_static(method.path),
            messages: messages.into(),
            authorization: None,
            is_whole: method.is_whole,
        })
    }

    /// Makes the callers send this key with every call.
    ///
    /// # Errors
    /// When no header can hold the key.
    pub(crate) fn with_key(mut self, key: &str) -> Result<Self> {
        let value = AsciiMetadataValue::try_from(format!("Bearer {key}"));
        self.authorization = Some(value.context("the key cannot be sent")?);
        Ok(self)
    }

    /// Sends `calls` messages, `in_flight` at a time on each connection, and a new message with every answer.
    /// Returns how long that took.
    pub(crate) async fn closed(&self, calls: u64, in_flight: usize) -> Result<Duration> {
        let sent = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        at_once(self.channels.len() * in_flight, |at| {
            let (this, sent) = (self.clone(), Arc::clone(&sent));
            async move {
                loop {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    if number >= calls {
                        return Ok(());
                    }
                    this.call(at, usize::try_from(number)?).await?;
                }
            }
        })
        .await?;
        Ok(begun.elapsed())
    }

    /// Microseconds of processor time that their server takes for each of `calls` calls, `in_flight` at a
    /// time on each connection.
    pub(crate) async fn cpu_micros(
        &self,
        server: &ServerProcess,
        calls: u32,
        in_flight: usize,
    ) -> Result<f64> {
        let before = server.cpu_seconds()?;
        self.closed(calls.into(), in_flight).await?;
        Ok((server.cpu_seconds()? - before) * 1e6 / f64::from(calls))
    }

    /// Sends `rate` messages a second for a `time`, whether or not answers come: every millisecond, the
    /// messages that are due. Returns how long each took from the moment when it was due, in microseconds. A
    /// call that fails, or is not sent since too many are under way, counts as having taken all of `time`.
    pub(crate) async fn open(&self, rate: f64, time: Duration) -> Result<Histogram<u64>> {
        let mut taken = Histogram::<u64>::new(3)?;
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
                    taken.record(u64::try_from(time.as_micros())?)?;
                    continue;
                }
                let (this, under_way) = (self.clone(), Arc::clone(&under_way));
                under_way.fetch_add(1, Ordering::Relaxed);
                calls.spawn(async move {
                    let answered = this.call(number, number).await;
                    under_way.fetch_sub(1, Ordering::Relaxed);
                    if answered.is_ok() { due.elapsed() } else { time }
                });
            }
        }
        while let Some(call) = calls.join_next().await {
            taken.record(u64::try_from(call?.as_micros())?)?;
        }
        Ok(taken)
    }

    /// Sends one message and returns the answer's metadata.
    pub(crate) async fn call(&self, connection: usize, message: usize) -> Result<MetadataMap> {
        let mut client = Grpc::new(self.channels[connection % self.channels.len()].clone());
        client.ready().await?;
        let mut request = Request::new(self.messages[message % self.messages.len()].clone());
        if let Some(key) = &self.authorization {
            request.metadata_mut().insert("authorization", key.clone());
        }
        let codec = ProstCodec::<Q, A>::default();
        let response: Response<A> = client.unary(request, self.path.clone(), codec).await?;
        ensure!((self.is_whole)(response.get_ref()), "an answer does not hold what was asked for");
        Ok(response.into_parts().0)
    }
}

/// Compares the processor time that a call takes, in microseconds. Each side gets the number of calls to
/// make: `warm_up` before the first round, and `calls` in each round.
pub(crate) async fn compare_cpu(
    rounds: usize,
    warm_up: u32,
    calls: u32,
    baseline: impl AsyncFn(u32) -> Result<f64>,
    kith: impl AsyncFn(u32) -> Result<f64>,
) -> Result<Vec<Pair<f64>>> {
    baseline(warm_up).await?;
    kith(warm_up).await?;
    interleave(rounds, async |side| match side {
        Side::Baseline => baseline(calls).await,
        Side::Kith => kith(calls).await,
    })
    .await
}

/// Lets so many callers run at the same time, each in its own task. Returns their results, or the first
/// error.
pub(crate) async fn at_once<T, F>(callers: usize, call: impl Fn(usize) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut running: JoinSet<Result<T>> = (0..callers).map(call).collect();
    let mut done = Vec::with_capacity(callers);
    while let Some(ended) = running.join_next().await {
        done.push(ended??);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use kith_proto::user::v1::{GetUserResponse, User};

    use super::*;
    use crate::echo;

    async fn callers() -> Callers<GetUserResponse, GetUserResponse> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        tokio::spawn(echo::serve(address));
        let message = GetUserResponse::of(User { user_id: 7, ..User::default() });
        let put_user = Method::new(echo::PUT_USER, |answer: &GetUserResponse| answer.user.is_some());
        Callers::connect(address, 2, put_user, vec![message]).await.unwrap()
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
