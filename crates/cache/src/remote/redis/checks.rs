//! Checks the configured server when a node starts.

use std::{fmt, time::Duration};

use fred::{
    interfaces::{ClientLike, PubsubInterface},
    types::Value,
};
use tokio::time::{Instant, timeout};

use super::{
    RedisShared,
    frames::Subscription,
    link::{field, infos},
    values,
};

/// Maximum time until the message is received.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Oldest server that numbers the entries of a log itself.
const VERSION_MIN: u32 = 7;

/// The result of a broadcast test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastTest {
    /// The message was received after this time.
    Received(Duration),
    /// The message was published, and was not received within a second: something in between holds messages
    /// back.
    NotReceived,
    /// There was no server to publish it.
    Unavailable,
}

/// Whether the server is suitable, as far as it reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fitness {
    /// Its version, as it reports it; empty if it does not.
    pub version: String,
    /// Its eviction policy; empty if it does not report its policy.
    pub eviction: String,
}

impl Fitness {
    /// `Some(false)`: it is too old, or evicts the log when it is full. `None`: unknown.
    #[must_use]
    pub fn is_fit(&self) -> Option<bool> {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major < VERSION_MIN) || self.eviction.starts_with("allkeys") {
            return Some(false);
        }
        (major.is_some() && !self.eviction.is_empty()).then_some(true)
    }
}

impl fmt::Display for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        let (version, eviction) = (or_unknown(&self.version), or_unknown(&self.eviction));
        write!(f, "Redis {version} (needed: {VERSION_MIN} or later), maxmemory-policy {eviction}")?;
        if self.eviction.starts_with("allkeys") {
            f.write_str(" (drops the log: use volatile-* or noeviction)")
        } else {
            Ok(())
        }
    }
}

impl RedisShared {
    /// Publishes a message and waits until it receives the message itself. Takes at most a second, plus the
    /// time to connect.
    pub async fn self_test(&self) -> BroadcastTest {
        let token: u64 = rand::random();
        let channel = self.names.self_test(token);
        // It receives one message, and needs no larger buffer.
        let client = self.options.one_connection(self.config.clone());
        let bound = self.options.connect_timeout + self.options.unresponsive;
        let Ok(mut subscription) = Subscription::begin(client, bound, vec![channel.clone()]).await else {
            return BroadcastTest::Unavailable;
        };
        let sent = Instant::now();
        let (client, message) = (&self.control.client, values::number(token));
        let published: Result<Value, _> = if client.is_clustered() {
            client.spublish(channel, message).await
        } else {
            client.publish(channel, message).await
        };
        if published.is_err() {
            return BroadcastTest::Unavailable;
        }
        let receive = async {
            while let Some(message) = subscription.next().await {
                if values::read_number(&message.value) == Some(token) {
                    return true;
                }
            }
            false
        };
        match timeout(RECEIVE_TIMEOUT, receive).await {
            Ok(true) => BroadcastTest::Received(sent.elapsed()),
            Ok(false) | Err(_) => BroadcastTest::NotReceived,
        }
    }

    /// Asks the server for version and policy; for a cluster, the worst of its primaries. A value that it
    /// does not report, because it is unavailable or because that is forbidden, is unknown.
    pub async fn fitness(&self) -> Fitness {
        let infos = infos(&self.control.client, &["server", "memory"]).await.unwrap_or_default();
        let reported = |info: &String| Fitness {
            version: field(info, "redis_version").unwrap_or_default().to_owned(),
            eviction: field(info, "maxmemory_policy").unwrap_or_default().to_owned(),
        };
        let worst = |fitness: &Fitness| match fitness.is_fit() {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        };
        infos.iter().map(reported).min_by_key(worst).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_is_old_or_evicts_log_is_unfit() {
        let fit = |version: &str, eviction: &str| {
            Fitness { version: version.to_owned(), eviction: eviction.to_owned() }.is_fit()
        };
        assert_eq!(fit("7.0.15", "noeviction"), Some(true));
        assert_eq!(fit("8.2.1", "volatile-lru"), Some(true));
        assert_eq!(fit("6.2.7", "noeviction"), Some(false));
        assert_eq!(fit("7.0.15", "allkeys-lru"), Some(false));
        assert_eq!(fit("7.0.15", ""), None);
        assert_eq!(fit("", "allkeys-lfu"), Some(false));
        assert_eq!(fit("", ""), None);
    }
}
