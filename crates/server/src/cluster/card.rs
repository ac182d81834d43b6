use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use kith_store::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::Config;

/// Most bytes of a card; the registry takes no longer ones.
const BYTES_MAX: usize = 1024;
/// A documentation address (RFC 5737), by which the machine is asked which of its own it has towards others;
/// nothing is sent there.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// What a node says of itself to the others, and they to operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Card {
    /// Made again at every start.
    pub(crate) id: String,
    /// Where it is reached: `http://10.0.0.7:7600`.
    pub(crate) address: String,
    /// Of the program.
    pub(crate) version: String,
    /// When it started.
    pub(crate) started: Timestamp,
    /// The newest migration that its program knows; 0: of a program from before this was said.
    pub(crate) schema: u32,
}

impl Card {
    /// Of a node that starts now, listens there, and knows this schema.
    pub(crate) fn new(config: &Config, listens: SocketAddr, schema: u32) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            address: config.cluster.advertise.clone().unwrap_or_else(|| reached_at(config, listens)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: Timestamp::now(),
            schema,
        }
    }

    /// Whether it is that of a node with an older schema. A card that cannot be read is of a later version.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        !self.id.is_empty() && self.schema < other.schema
    }

    /// Its number in the registry.
    pub(crate) fn number(&self) -> u64 {
        Uuid::parse_str(&self.id).map_or(0, |id| id.as_u64_pair().0)
    }

    /// As text of at most 1 KiB.
    pub(crate) fn encode(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() <= BYTES_MAX { text } else { String::new() }
    }

    /// Out of such a text. One that cannot be read, as of a much later version, is an empty card.
    pub(crate) fn decode(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

fn reached_at(config: &Config, listens: SocketAddr) -> String {
    let scheme = if config.tls.cert_file.is_some() { "https" } else { "http" };
    let ip = if listens.ip().is_unspecified() { own_address() } else { listens.ip() };
    format!("{scheme}://{}", SocketAddr::new(ip, listens.port()))
}

/// The address that this machine has towards others; of the loopback device, where it has none.
fn own_address() -> IpAddr {
    let asked = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(ELSEWHERE)?;
        socket.local_addr()
    };
    asked().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back_and_what_is_none_is_empty() {
        let card = Card::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 7600)), 10);
        assert_eq!(Card::decode(&card.encode()), card);
        assert_eq!(card.address, "http://127.0.0.1:7600");
        for text in ["", "{", "[1]", "{\"id\": 7}", "\u{0}"] {
            assert_eq!(Card::decode(text), Card::default(), "{text:?}");
        }
        let later = r#"{"id":"6f1f54ae-3ac0-4b06-b5b2-f0b8be3f9a25","address":"http://a:1","colour":"red"}"#;
        assert_eq!(Card::decode(later).address, "http://a:1", "a later version may say more");
    }

    #[test]
    fn card_without_a_schema_is_of_an_older_node() {
        let card = Card::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 7600)), 10);
        let of = |schema| Card { schema, ..card.clone() };
        assert!(of(9).is_older_than(&card) && !of(10).is_older_than(&card) && !of(11).is_older_than(&card));
        let before = r#"{"id":"6f1f54ae-3ac0-4b06-b5b2-f0b8be3f9a25","address":"http://a:1"}"#;
        assert!(Card::decode(before).is_older_than(&card));
        assert!(!Card::decode("{").is_older_than(&card), "of a much later version");
    }

    #[test]
    fn who_listens_everywhere_is_reached_somewhere() {
        let card = Card::new(&Config::default(), SocketAddr::from(([0, 0, 0, 0], 7600)), 10);
        assert!(!card.address.contains("0.0.0.0:") && card.address.ends_with(":7600"), "{}", card.address);
        let mut config = Config::default();
        config.cluster.advertise = Some("http://node-1:9".to_owned());
        let card = Card::new(&config, SocketAddr::from(([0, 0, 0, 0], 7600)), 10);
        assert_eq!(card.address, "http://node-1:9");
    }
}
