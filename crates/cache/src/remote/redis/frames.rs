//! Messages that a node receives. Each subscription has a connection of its own and ends with it: the client
//! does not subscribe again by itself.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fred::{clients::Client, interfaces::EventInterface, types::Message};
use tokio::{
    sync::broadcast::Receiver,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{RedisShared, channels::Channels, failures::meaning, link::Connection, names::Names};
use crate::{
    metrics::counters::Counter,
    remote::shared::{Confirmation, Frames, MessageMac, News, SharedError},
};

/// Pause between two checks whether the other end still answers: nothing else would show that a silent
/// connection is dead.
const PING_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Subscription {
    messages: Receiver<Message>,
    /// Ends when the connection does.
    alive: JoinHandle<()>,
    ended: bool,
}

/// The subscription of a node to its epoch.
#[derive(Debug)]
pub(super) struct EpochSubscription {
    subscription: Subscription,
    names: Arc<Names>,
    entries: String,
    /// Epoch and number of this node.
    to: (u64, u64),
    mac: Option<MessageMac>,
    garbled: Arc<Counter>,
}

impl Subscription {
    /// Subscribes on this client, which is not connected yet; within this time. When it returns, whatever is
    /// published on the channels from then on is received.
    pub(super) async fn begin(
        client: Client,
        bound: Duration,
        channels: Vec<String>,
    ) -> Result<Self, SharedError> {
        let (messages, channels) = (client.message_rx(), Channels::of(&client, channels));
        let mut connection = Connection::begin(&client);
        let subscribe = async {
            channels.subscribe(&client).await?;
            channels.check(&client).await
        };
        tokio::select! {
            done = timeout(bound, subscribe) => {
                done.map_err(|_| SharedError::Timeout)?.map_err(|error| meaning(&error))?;
            }
            why = connection.ended() => return Err(why.map_or(SharedError::Unavailable, |error| meaning(&error))),
        }
        let alive = tokio::spawn(hold(client, connection, channels));
        Ok(Self { messages, alive, ended: false })
    }

    /// `None`: some may be lost, and the subscription has ended.
    pub(super) async fn next(&mut self) -> Option<Message> {
        if self.ended {
            return None;
        }
        let message = tokio::select! {
            biased;
            // A receiver that lags has lost some.
            message = self.messages.recv() => message.ok(),
            _ended = &mut self.alive => None,
        };
        self.ended = message.is_none();
        message
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.alive.abort();
    }
}

/// Returns when the connection has ended, its other end does not answer, or it has lost a subscription; then
/// it is closed.
async fn hold(client: Client, mut connection: Connection, channels: Channels) {
    let answers = async {
        loop {
            sleep(PING_EVERY).await;
            if channels.check(&client).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        _why = connection.ended() => {}
    }
}

impl EpochSubscription {
    pub(super) async fn begin(shared: &RedisShared, epoch: u64, node: u64) -> Result<Self, SharedError> {
        let names = Arc::clone(&shared.names);
        let (entries, mine) = (names.entries(epoch), names.confirmations(epoch, node));
        let client = shared.options.subscriber(shared.config.clone());
        let bound = shared.options.connect_timeout + shared.options.unresponsive;
        let channels = vec![entries.clone(), names.wakes.clone(), mine];
        let subscription = Subscription::begin(client, bound, channels).await?;
        let (mac, garbled) = (shared.options.mac.clone(), Arc::clone(&shared.garbled));
        Ok(Self { subscription, names, entries, to: (epoch, node), mac, garbled })
    }

    fn news(&self, message: Message) -> Option<News> {
        let bytes: Bytes = message.value.convert().ok()?;
        if *message.channel == *self.entries {
            return Some(News::Entry(bytes.into()));
        }
        if *message.channel == *self.names.wakes {
            return self.names.address(&bytes).map(|address| News::LeaseEnded(address.to_owned()));
        }
        confirmed(self.mac.as_ref(), self.to, &bytes).map(News::Confirmed)
    }
}

#[async_trait::async_trait]
impl Frames for EpochSubscription {
    async fn next(&mut self) -> Option<News> {
        loop {
            let message = self.subscription.next().await?;
            match self.news(message) {
                Some(news) => return Some(news),
                None => self.garbled.add(1),
            }
        }
    }
}

/// A confirmation for the node `to` of an epoch. It is valid only for that node in that epoch, authenticated
/// or not.
pub(super) fn confirmation(mac: Option<&MessageMac>, to: (u64, u64), confirmed: Confirmation) -> Vec<u8> {
    let numbers = [to.0, to.1, confirmed.node, confirmed.number];
    let message: Vec<u8> = numbers.into_iter().flat_map(u64::to_be_bytes).collect();
    match mac {
        Some(mac) => mac.sign(confirmed.number, &message),
        None => message,
    }
}

fn confirmed(mac: Option<&MessageMac>, to: (u64, u64), bytes: &[u8]) -> Option<Confirmation> {
    let number = u64::from_be_bytes(*bytes.last_chunk::<8>()?);
    let message = match mac {
        Some(mac) => mac.verify(number, bytes)?,
        None => bytes,
    };
    let (numbers, rest) = message.as_chunks::<8>();
    let [epoch, node, from, _] = *numbers else { return None };
    let confirmed = Confirmation { node: u64::from_be_bytes(from), number };
    let meant = (u64::from_be_bytes(epoch), u64::from_be_bytes(node)) == to && rest.is_empty();
    meant.then_some(confirmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmation_holds_for_its_receiver_only() {
        let (mac, other) = (MessageMac::new(&[1; 32]), MessageMac::new(&[2; 32]));
        let sent = Confirmation { node: 7, number: 9 };
        for mac in [None, Some(&mac)] {
            let message = confirmation(mac, (3, 1), sent);
            assert_eq!(confirmed(mac, (3, 1), &message), Some(sent));
            assert_eq!(confirmed(mac, (3, 2), &message), None);
            assert_eq!(confirmed(mac, (4, 1), &message), None);
            assert_eq!(confirmed(Some(&other), (3, 1), &message), None);
            for cut in 0..message.len() {
                assert_eq!(confirmed(mac, (3, 1), &message[..cut]), None);
            }
        }
    }
}
