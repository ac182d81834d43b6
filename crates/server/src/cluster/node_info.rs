//! The record that a node publishes about itself in the registry. Data in Redis are untrusted: a node is
//! called only if its record has a valid proof.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use http::Uri;
use kith_cache::remote::{About, Peer};
use kith_store::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{CallersDigest, Proofs};
use crate::{build_info, config::Config, telemetry::instance};

/// Most bytes in a node info with its proof. The registry takes no longer text.
const BYTES_MAX: usize = 1024;
const PROOF_BYTES: usize = 64;
/// A documentation address (RFC 5737). It serves to find this machine's outgoing address; nothing is sent
/// there.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The information about a node that it publishes to the others, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeInfo {
    /// New at every start.
    pub(crate) id: String,
    /// The node's address: `http://10.0.0.7:7600`.
    pub(crate) address: String,
    /// The program version.
    pub(crate) version: String,
    /// When it started.
    pub(crate) started: Timestamp,
    /// The newest migration that its program knows; 0: the program is older than this field.
    pub(crate) schema: u32,
    /// A digest over its present callers, see [`super::CallersDigest`]. Empty if it has none, or its program
    /// is older than this field.
    pub(crate) callers: String,
}

impl NodeInfo {
    /// Creates the node info for a node that starts now, with this address and schema.
    pub(crate) fn new(config: &Config, listens: SocketAddr, schema: u32) -> Self {
        Self {
            id: instance::node_id(),
            address: config.cluster.advertise.clone().unwrap_or_else(|| reachable_address(config, listens)),
            version: build_info::FULL.to_owned(),
            started: Timestamp::now(),
            schema,
            callers: String::new(),
        }
    }

    /// Whether the node has an older schema. A node info that cannot be decoded comes from a later version.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        !self.id.is_empty() && self.schema < other.schema
    }

    /// The node's number in the registry.
    pub(crate) fn number(&self) -> u64 {
        Uuid::parse_str(&self.id).map_or(0, |id| id.as_u64_pair().0)
    }

    /// Encodes it as text with at most 1 KiB.
    pub(crate) fn encode(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() <= BYTES_MAX - PROOF_BYTES { text } else { String::new() }
    }

    /// Whether its address is valid: scheme, host and port, and nothing else.
    fn has_address(&self) -> bool {
        let Ok(uri) = self.address.parse::<Uri>() else { return false };
        let Some(authority) = uri.authority() else { return false };
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        is_http
            && authority.port_u16().is_some_and(|port| port > 0)
            && !authority.host().is_empty()
            && !authority.as_str().contains('@')
            && uri.path_and_query().is_none_or(|path| path.as_str() == "/")
    }

    /// Parses such a text. A text that cannot be decoded, as from a much later version, is an empty node
    /// info.
    pub(crate) fn decode(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// The data that this node publishes about itself in the registry.
#[derive(Debug)]
pub(crate) struct PublishedNode {
    pub(crate) node_info: NodeInfo,
    /// The callers that it knows.
    pub(crate) callers: CallersDigest,
}

/// A node info with a proof that a node in the epoch wrote it.
#[derive(Debug)]
pub(super) struct ProvenNodeInfo {
    pub(super) node_info: NodeInfo,
    pub(super) callers: CallersDigest,
    pub(super) proofs: Proofs,
}

impl About for ProvenNodeInfo {
    fn text(&self, epoch: u64) -> String {
        let node_info = NodeInfo { callers: self.callers.now(), ..self.node_info.clone() };
        self.proofs.with_proof(&node_info.encode(), epoch)
    }
}

/// Another node, as Redis lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedNode {
    pub(crate) node_info: NodeInfo,
    /// Whether a node wrote it, and it can be called. Any program that can write to Redis can add records.
    /// Unverified nodes are not called, because the listener would get proofs.
    pub(crate) is_proven: bool,
}

impl ListedNode {
    pub(super) fn of(peer: &Peer, epoch: u64, proofs: &Proofs) -> Self {
        let node_info = NodeInfo::decode(&peer.about);
        let is_its_own = node_info.number() == peer.node;
        let is_proven = is_its_own && node_info.has_address() && proofs.is_proven(&peer.about, epoch);
        Self { node_info, is_proven }
    }
}

/// Leaves out each node whose address belongs to a node that was heard later: its process was killed, and the
/// node that runs there now refuses calls to it. The time it was heard counts, not its start: node clocks
/// differ. Only a proven node takes the place of another node.
pub(super) fn without_replaced(nodes: impl Iterator<Item = (Peer, ListedNode)>) -> Vec<(Peer, ListedNode)> {
    let nodes: Vec<_> = nodes.collect();
    let mut heard: HashMap<String, Duration> = HashMap::new();
    for (peer, listed) in nodes.iter().filter(|(_, listed)| listed.is_proven) {
        let last = heard.entry(listed.node_info.address.clone()).or_insert(peer.silent);
        *last = peer.silent.min(*last);
    }
    let is_last = |peer: &Peer, listed: &ListedNode| {
        !listed.is_proven || heard.get(&listed.node_info.address).is_none_or(|last| peer.silent <= *last)
    };
    nodes.into_iter().filter(|(peer, listed)| is_last(peer, listed)).collect()
}

fn reachable_address(config: &Config, listens: SocketAddr) -> String {
    let scheme = if config.tls.cert_file.is_some() { "https" } else { "http" };
    let ip = if listens.ip().is_unspecified() { own_address() } else { listens.ip() };
    format!("{scheme}://{}", SocketAddr::new(ip, listens.port()))
}

/// This machine's outgoing address; the loopback address if it has none.
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
    use std::sync::Arc;

    use super::{super::NodeKeys, *};
    use crate::auth::Callers;

    #[test]
    fn node_info_is_decoded_and_garbage_is_empty() {
        let node_info = NodeInfo::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 7600)), 10);
        assert_eq!(NodeInfo::decode(&node_info.encode()), node_info);
        assert_eq!(node_info.address, "http://127.0.0.1:7600");
        for text in ["", "{", "[1]", "{\"id\": 7}", "\u{0}"] {
            assert_eq!(NodeInfo::decode(text), NodeInfo::default(), "{text:?}");
        }
        let later = r#"{"id":"6f1f54ae-3ac0-4b06-b5b2-f0b8be3f9a25","address":"http://a:1","colour":"red"}"#;
        assert_eq!(NodeInfo::decode(later).address, "http://a:1", "a later version may say more");
    }

    #[test]
    fn node_info_without_schema_is_of_older_node() {
        let node_info = NodeInfo::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 7600)), 10);
        let of = |schema| NodeInfo { schema, ..node_info.clone() };
        assert!(
            of(9).is_older_than(&node_info)
                && !of(10).is_older_than(&node_info)
                && !of(11).is_older_than(&node_info)
        );
        let before = r#"{"id":"6f1f54ae-3ac0-4b06-b5b2-f0b8be3f9a25","address":"http://a:1"}"#;
        assert!(NodeInfo::decode(before).is_older_than(&node_info));
        assert!(!NodeInfo::decode("{").is_older_than(&node_info), "of a much later version");
    }

    #[test]
    fn node_info_is_proven_by_node_and_epoch() {
        let node_info = NodeInfo::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 7600)), 10);
        let proofs = Proofs::of_test(1);
        let open = CallersDigest::new(&NodeKeys::of_test(1), Arc::new(Callers::open()));
        let by_node = ProvenNodeInfo { node_info: node_info.clone(), callers: open, proofs: proofs.clone() };
        let about = by_node.text(7);
        let listed = |about: &str, node| {
            let peer = Peer { node, about: about.to_owned(), ..Peer::default() };
            ListedNode::of(&peer, 7, &proofs)
        };
        let own = listed(&about, node_info.number());
        assert!(own.is_proven && own.node_info == node_info, "{own:?}");
        assert!(about.len() <= BYTES_MAX);
        assert!(!listed(&about, node_info.number() + 1).is_proven, "under the number of another node");
        assert!(
            !listed(&node_info.encode(), node_info.number()).is_proven,
            "of an older version, or by another program"
        );
        let moved = about.replace("127.0.0.1", "127.0.0.9");
        assert!(!listed(&moved, node_info.number()).is_proven, "changed");
        let earlier = by_node.text(6);
        assert!(!listed(&earlier, node_info.number()).is_proven, "of an earlier epoch");
    }

    #[test]
    fn killed_node_gives_way_at_its_address() {
        let node = |number: u64, address: &str, silent: u64, is_proven: bool| {
            let node_info = NodeInfo { address: address.to_owned(), ..NodeInfo::default() };
            let silent = Duration::from_secs(silent);
            (Peer { node: number, silent, ..Peer::default() }, ListedNode { node_info, is_proven })
        };
        let nodes = [
            node(1, "http://a:1", 40, true),
            node(2, "http://a:1", 1, true),
            node(3, "http://b:1", 50, true),
            node(4, "http://a:1", 0, false),
            node(5, "http://b:1", 0, false),
            node(6, "http://c:1", 1, true),
        ];
        let left = without_replaced(nodes.into_iter()).into_iter().map(|(peer, _)| peer.node);
        assert_eq!(left.collect::<Vec<_>>(), [2, 3, 4, 5, 6], "an unproven one takes no place");
    }

    #[test]
    fn addresses_are_scheme_host_and_port() {
        let has =
            |address: &str| NodeInfo { address: address.to_owned(), ..NodeInfo::default() }.has_address();
        assert!(has("http://127.0.0.1:7600") && has("https://node-1:7600") && has("http://[::1]:7600/"));
        for wrong in [
            "",
            "node-1:7600",
            "http://node-1",
            "http://node-1:0",
            "http://:7600",
            "unix:///run/kith.sock",
            "ftp://node-1:7600",
            "http://a@node-1:7600",
            "http://node-1:7600/path",
            "http://node-1:7600/?query",
        ] {
            assert!(!has(wrong), "{wrong}");
        }
    }

    #[test]
    fn wildcard_listener_has_a_reachable_address() {
        let node_info = NodeInfo::new(&Config::default(), SocketAddr::from(([0, 0, 0, 0], 7600)), 10);
        assert!(
            !node_info.address.contains("0.0.0.0:") && node_info.address.ends_with(":7600"),
            "{}",
            node_info.address
        );
        let mut config = Config::default();
        config.cluster.advertise = Some("http://node-1:9".to_owned());
        let node_info = NodeInfo::new(&config, SocketAddr::from(([0, 0, 0, 0], 7600)), 10);
        assert_eq!(node_info.address, "http://node-1:9");
    }
}
