//! Waits for a node that is starting.

use std::{net::IpAddr, time::Duration};

use anyhow::Result;
use kith_server::health::{STATE_KEY, State};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Endpoint, Error};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{super::output::note, Channel, Credential, Target};

/// How long to wait for a node on this machine that does not listen yet, or has no store yet.
const STARTING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// The time after which a command reports that it waits.
const ANNOUNCED: Duration = Duration::from_secs(1);
/// The time limit for a node to report whether it is starting.
const STATE_LIMIT: Duration = Duration::from_secs(1);

/// Returns the default time to wait: nodes on other machines were started long before.
pub(super) fn default_wait(endpoint: &Endpoint) -> Duration {
    if is_loopback(endpoint) { STARTING } else { Duration::ZERO }
}

/// Connects as soon as a node listens, and waits until it has its store, for at most `limit` in all. A node
/// that still starts then answers calls with the reason. Fails if no node listens.
pub(super) async fn wait_for(
    target: &Target,
    endpoint: &Endpoint,
    credential: Credential,
    limit: Duration,
) -> Result<Channel> {
    let (begun, mut announced) = (Instant::now(), false);
    loop {
        let waits = begun.elapsed() < limit;
        let connected = endpoint.connect().await;
        match connected.map(|channel| Channel::new(channel, credential.clone())) {
            Ok(channel) if !waits || !is_starting(target, &channel).await => return Ok(channel),
            Err(why) if !waits || !is_refused(&why) => return Err(unreachable_error(target, &why)),
            Ok(_) | Err(_) => {}
        }
        if !announced && begun.elapsed() >= ANNOUNCED {
            announced = true;
            let limit = humantime::format_duration(limit);
            note(&format!("kith: waits up to {limit} for a node at {}; --wait sets how long", target.addr));
        }
        sleep(PAUSE).await;
    }
}

/// Returns whether a node listens that has no store yet. Asks for its health, which every caller may do: a
/// call without the right to make it would be a security event.
async fn is_starting(target: &Target, channel: &Channel) -> bool {
    let mut client = HealthClient::new(channel.clone());
    let check = client.check(target.request(HealthCheckRequest::default()));
    let Ok(Ok(answer)) = timeout(STATE_LIMIT, target.answer(check)).await else { return false };
    let state = answer.metadata().get(STATE_KEY).and_then(|state| state.to_str().ok());
    [State::Starting, State::MigrationPending].iter().any(|starting| state == Some(starting.name()))
}

/// Returns whether nothing listens at the address, as before a node has started.
fn is_refused(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        cause = error.source();
    }
    false
}

pub(super) fn is_loopback(endpoint: &Endpoint) -> bool {
    let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn unreachable_error(target: &Target, why: &Error) -> anyhow::Error {
    let cause = root_cause(why);
    anyhow::anyhow!(
        "no node answers at {} ({cause}); start one with kith serve, or name another with --addr",
        target.addr
    )
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn node_that_listens_late_is_waited_for() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let target = Target::at(free.to_string(), Duration::from_secs(5));
        target.connect_now().await.unwrap_err();
        let (_, health) = tonic_health::server::health_reporter();
        let serve = tonic::transport::Server::builder().add_service(health).serve(free);
        tokio::select! {
            biased;
            connected = target.connect() => assert!(connected.is_ok(), "{connected:?}"),
            ended = serve => panic!("{ended:?}"),
        }
    }

    #[tokio::test]
    async fn node_is_waited_for_no_longer_than_asked() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut target = Target::at(free.to_string(), Duration::from_secs(5));
        target.options.wait = Some(Duration::from_millis(120));
        let begun = Instant::now();
        assert!(target.connect().await.unwrap_err().to_string().starts_with("no node answers at"));
        assert!(begun.elapsed() >= Duration::from_millis(120));
    }

    #[test]
    fn only_nodes_of_this_machine_are_waited_for() {
        for (addr, here) in [
            ("127.0.0.1:7600", true),
            ("http://[::1]:7600", true),
            ("localhost:7600", true),
            ("10.0.0.1:7600", false),
            ("node.example:7600", false),
        ] {
            assert_eq!(is_loopback(&Target::at(addr.to_owned(), PAUSE).endpoint().unwrap()), here, "{addr}");
        }
    }
}
