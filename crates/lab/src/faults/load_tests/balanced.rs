//! A client as the published service configuration makes it: it takes the nodes in turn, and retries on the
//! next node what may be retried (gRFC A6, without its throttling).

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rand::Rng as _;
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Status, transport::Channel};

use crate::faults::calls::code_of;

/// The configuration as clients get it.
const PUBLISHED: &str = include_str!("../../../../../proto/kith_grpc_service_config.json");

pub(super) struct Balanced {
    nodes: Vec<Channel>,
    next: AtomicUsize,
    /// The policies by `service/method`.
    policies: HashMap<String, Policy>,
    again: AtomicU64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceConfig {
    method_config: Vec<MethodConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MethodConfig {
    name: Vec<Name>,
    timeout: String,
    retry_policy: Option<RetryPolicy>,
}

#[derive(Deserialize)]
struct Name {
    service: String,
    method: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryPolicy {
    max_attempts: u32,
    initial_backoff: String,
    max_backoff: String,
    backoff_multiplier: f64,
    retryable_status_codes: Vec<String>,
}

/// The policy for one method.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Policy {
    timeout: Duration,
    attempts: u32,
    /// The pause before the second attempt, and the longest pause.
    pause: (Duration, Duration),
    factor: f64,
}

impl Balanced {
    /// # Errors
    /// When the published configuration cannot be read.
    pub(super) fn new(nodes: Vec<Channel>) -> Result<Self> {
        ensure!(!nodes.is_empty(), "there are no nodes");
        let policies = policies(PUBLISHED)?;
        Ok(Self { nodes, next: AtomicUsize::new(0), policies, again: AtomicU64::new(0) })
    }

    /// Attempts beyond each call's first, so far.
    pub(super) fn again(&self) -> u64 {
        self.again.load(Ordering::Relaxed)
    }

    /// Sends the message by this method, on the next node and on further nodes. Yields the last answer.
    pub(super) async fn call<M, A, F>(
        &self,
        method: &str,
        message: &M,
        send: impl Fn(Channel, Request<M>) -> F,
    ) -> Result<A, Status>
    where
        M: Clone,
        F: Future<Output = Result<A, Status>>,
    {
        let policy =
            self.policies.get(method).ok_or_else(|| Status::internal("a method without a policy"))?;
        let attempts = async {
            let (mut attempt, mut pause) = (1, policy.pause.0);
            let mut nodes = self.nodes_in_turn();
            loop {
                let mut request = Request::new(message.clone());
                request.set_timeout(policy.timeout);
                let status = match send(nodes.next().ok_or_else(no_node)?.clone(), request).await {
                    Err(status) if attempt < policy.attempts && may_repeat(&status) => status,
                    answer => return answer,
                };
                self.again.fetch_add(1, Ordering::Relaxed);
                let jitter = rand::rng().random_range(0.8..1.2);
                sleep(pushback(&status).unwrap_or_else(|| pause.mul_f64(jitter))).await;
                (attempt, pause) = (attempt + 1, pause.mul_f64(policy.factor).min(policy.pause.1));
            }
        };
        let too_long = || Err(Status::deadline_exceeded("the call took too long"));
        timeout(policy.timeout, attempts).await.unwrap_or_else(|_elapsed| too_long())
    }

    /// Starts with the next node: a balancer passes by a node that has just failed.
    fn nodes_in_turn(&self) -> impl Iterator<Item = &Channel> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.nodes.len();
        self.nodes.iter().cycle().skip(first)
    }
}

/// Whether a client library repeats a call: by its code, unless the node forbids it.
fn may_repeat(status: &Status) -> bool {
    match code_of(status) {
        Code::Unavailable => true,
        Code::ResourceExhausted => pushback(status).is_some(),
        _ => false,
    }
}

/// How long the node asks to wait; `None`: it does not ask, or the call must not be repeated.
fn pushback(status: &Status) -> Option<Duration> {
    let text = status.metadata().get("grpc-retry-pushback-ms")?.to_str().ok()?;
    text.parse().ok().map(Duration::from_millis)
}

fn no_node() -> Status {
    Status::unavailable("there is no node")
}

fn policies(text: &str) -> Result<HashMap<String, Policy>> {
    let config: ServiceConfig = serde_json::from_str(text).context("the service configuration")?;
    let mut policies = HashMap::new();
    for method in config.method_config {
        let policy = policy(&method)?;
        for Name { service, method } in method.name {
            let twice = policies.insert(format!("{service}/{method}"), policy);
            ensure!(twice.is_none(), "{service}/{method} stands twice in the service configuration");
        }
    }
    Ok(policies)
}

fn policy(method: &MethodConfig) -> Result<Policy> {
    let timeout = seconds(&method.timeout)?;
    let Some(retry) = &method.retry_policy else {
        return Ok(Policy { timeout, attempts: 1, pause: (Duration::ZERO, Duration::ZERO), factor: 1.0 });
    };
    let codes = ["UNAVAILABLE", "RESOURCE_EXHAUSTED"];
    ensure!(retry.retryable_status_codes == codes, "other codes are not tried again here");
    let pause = (seconds(&retry.initial_backoff)?, seconds(&retry.max_backoff)?);
    Ok(Policy { timeout, attempts: retry.max_attempts, pause, factor: retry.backoff_multiplier })
}

/// Parses a time, such as `0.05s`.
fn seconds(text: &str) -> Result<Duration> {
    let number = text.strip_suffix('s').and_then(|number| number.parse().ok());
    let time = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    time.with_context(|| format!("{text} is no time"))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn the_published_configuration_is_understood() {
        let policies = policies(PUBLISHED).unwrap();
        let (read, write) =
            (policies["kith.user.v1.UserService/GetUser"], policies["kith.user.v1.UserService/UpdateUser"]);
        let pause = (Duration::from_millis(50), Duration::from_secs(1));
        assert_eq!(read, Policy { timeout: Duration::from_secs(3), attempts: 4, pause, factor: 2.0 });
        assert_eq!(write.timeout, Duration::from_secs(5));
        assert_eq!(policies["kith.user.v1.UserService/VerifySecret"].attempts, 1);
    }

    #[tokio::test]
    async fn only_what_may_be_repeated_is_retried() {
        let node = || Channel::from_static("http://127.0.0.1:1").connect_lazy();
        let client = Balanced::new(vec![node(), node()]).unwrap();
        let method = "kith.user.v1.UserService/GetUser";
        let answer = client.call(method, &(), |_, _| ready(Err::<(), _>(Status::unavailable("away")))).await;
        assert_eq!((answer.unwrap_err().code(), client.again()), (Code::Unavailable, 3));
        let answer = client.call(method, &(), |_, _| ready(Err::<(), _>(Status::not_found("no")))).await;
        assert_eq!((answer.unwrap_err().code(), client.again()), (Code::NotFound, 3));
        for (pushback, again) in [("-1", 3), ("1", 6)] {
            let mut refused = Status::resource_exhausted("later");
            refused.metadata_mut().insert("grpc-retry-pushback-ms", pushback.parse().unwrap());
            let answer = client.call(method, &(), |_, _| ready(Err::<(), _>(refused.clone()))).await;
            assert_eq!((answer.unwrap_err().code(), client.again()), (Code::ResourceExhausted, again));
        }
    }
}
