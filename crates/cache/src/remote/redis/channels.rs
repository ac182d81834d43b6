//! The channels of a subscription. In a Redis Cluster each has a slot and is at the server of that slot: a
//! message is not sent to all servers. When a slot moves, its old server ends the subscription, and the
//! client says nothing about it: only the servers know what they send.

use std::collections::BTreeMap;

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, ClusterInterface, PubsubInterface},
    types::{ClusterHash, CustomCommand},
};

use super::names::key_slot;

/// The channels of one client.
#[derive(Clone, Debug)]
pub(super) enum Channels {
    /// The server has no slots: one connection for all channels.
    OfServer(Vec<String>),
    /// The server has slots: channels by slot, each over the connection to the slot's server.
    OfSlots(BTreeMap<u16, Vec<String>>),
}

impl Channels {
    pub(super) fn of(client: &Client, channels: Vec<String>) -> Self {
        if !client.is_clustered() {
            return Self::OfServer(channels);
        }
        let mut slots: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for channel in channels {
            slots.entry(key_slot(&channel)).or_default().push(channel);
        }
        Self::OfSlots(slots)
    }

    /// Sends the subscriptions. The client returns when they are sent, and drops an error answer that arrives
    /// before the next command is sent.
    pub(super) async fn subscribe(&self, client: &Client) -> Result<(), Error> {
        match self {
            Self::OfServer(channels) => client.subscribe(channels.clone()).await?,
            Self::OfSlots(slots) => {
                for channels in slots.values() {
                    client.ssubscribe(channels.clone()).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the connections have all subscriptions, as their servers report it.
    pub(super) async fn check(&self, client: &Client) -> Result<(), Error> {
        match self {
            Self::OfServer(channels) => {
                check_count(client, ClusterHash::Random, "sub=", channels.len()).await
            }
            Self::OfSlots(slots) => {
                for (slot, count) in by_server(client, slots)? {
                    check_count(client, ClusterHash::Custom(slot), "ssub=", count).await?;
                }
                Ok(())
            }
        }
    }
}

/// Returns for each server one of its slots, and how many channels it has.
fn by_server(client: &Client, slots: &BTreeMap<u16, Vec<String>>) -> Result<Vec<(u16, usize)>, Error> {
    let routing = client.cached_cluster_state().ok_or_else(closed)?;
    let mut servers = BTreeMap::new();
    for (slot, channels) in slots {
        let server = routing.get_server(*slot).ok_or_else(closed)?;
        servers.entry(server).or_insert((*slot, 0)).1 += channels.len();
    }
    Ok(servers.into_values().collect())
}

/// Whether the connection to a slot's server has so many subscriptions, as this field counts them.
async fn check_count(client: &Client, slot: ClusterHash, field: &str, wanted: usize) -> Result<(), Error> {
    let command = CustomCommand::new_static("CLIENT", slot, false);
    let info: Option<String> = client.custom(command, vec!["INFO"]).await?;
    if subscriptions(&info.ok_or_else(closed)?, field) == Some(wanted) {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Unknown, "NOPERM a subscription was refused"))
    }
}

/// How many channels a line of CLIENT INFO names.
fn subscriptions(info: &str, field: &str) -> Option<usize> {
    info.split_whitespace().find_map(|word| word.strip_prefix(field))?.parse().ok()
}

fn closed() -> Error {
    Error::new(ErrorKind::IO, "closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_of_each_kind_are_apart() {
        let info = "id=7 addr=127.0.0.1:6 sub=3 psub=1 ssub=12 multi=-1";
        assert_eq!(["sub=", "psub=", "ssub="].map(|field| subscriptions(info, field).unwrap()), [3, 1, 12]);
        assert_eq!(subscriptions("id=7 sub=3", "ssub="), None, "a server before 7.0.3");
    }
}
