//! A test's own Redis Cluster or single Redis.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The program; `redis-server` from the path if none is named.
const PROGRAM: &str = "KITH_TEST_REDIS_SERVER";
/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// The slots in a cluster.
const SLOTS: u32 = 16_384;
const NODES: u32 = 3;

/// Three primaries that share the slots; they end with this.
pub(crate) struct RedisCluster(Vec<Node>);

/// One server, which ends with this.
pub(crate) struct OneRedis(Node);

struct Node {
    port: u16,
    bus: u16,
    folder: PathBuf,
    process: Child,
}

impl RedisCluster {
    /// Starts it, and waits until each node has found the others.
    pub(crate) async fn start() -> Self {
        let nodes: Vec<Node> = (0..NODES).map(|_| Node::start(true)).collect();
        for (at, node) in (0..).zip(&nodes) {
            node.until("listen", || TcpStream::connect((Ipv4Addr::LOCALHOST, node.port)).is_ok()).await;
            let (first, last) = (SLOTS * at / NODES, SLOTS * (at + 1) / NODES - 1);
            node.ask(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            node.ask(&format!("CLUSTER MEET 127.0.0.1 {} {}", nodes[0].port, nodes[0].bus));
        }
        for node in &nodes {
            let in_order = || {
                let info = node.ask("CLUSTER INFO");
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            };
            node.until("find its cluster in order", in_order).await;
        }
        Self(nodes)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{}", self.0[0].port)
    }

    /// How many keys each node has.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let keys = |node: &Node| node.ask("DBSIZE").trim().trim_start_matches(':').parse().unwrap();
        self.0.iter().map(keys).collect()
    }
}

impl OneRedis {
    /// Starts it. `has_slots`: as a Redis Cluster with this server alone.
    pub(crate) async fn start(has_slots: bool) -> Self {
        let node = Node::start(has_slots);
        node.until("listen", || TcpStream::connect((Ipv4Addr::LOCALHOST, node.port)).is_ok()).await;
        if has_slots {
            node.ask(&format!("CLUSTER ADDSLOTSRANGE 0 {}", SLOTS - 1));
            let in_order = || node.ask("CLUSTER INFO").contains("cluster_state:ok");
            node.until("find its cluster in order", in_order).await;
        }
        Self(node)
    }

    /// A single server's address.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.0.port)
    }

    /// How many scripts it has run.
    pub(crate) fn scripts(&self) -> u64 {
        let stats = self.0.ask("INFO commandstats");
        let calls = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")?.split_once("calls="));
        calls.map(|(_, calls)| calls.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

impl Node {
    fn start(has_slots: bool) -> Self {
        let (port, bus) = (free_port(), free_port());
        let folder = std::env::temp_dir().join(format!("kith-delivery-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let named = std::env::vars().find(|(name, _)| name == PROGRAM);
        let process = Command::new(named.map_or_else(|| "redis-server".to_owned(), |(_, program)| program))
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string(), "--cluster-port", &bus.to_string()])
            .args(["--cluster-enabled", if has_slots { "yes" } else { "no" }])
            .args(["--cluster-node-timeout", "2000", "--dir"])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need redis-server on the path");
        Self { port, bus, folder, process }
    }

    /// Sends a line, as an operator types it, and returns the answer.
    fn ask(&self, line: &str) -> String {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        socket.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(!answer.starts_with('-'), "{line}: {answer}");
        answer.trim_end().trim_end_matches("+OK").to_owned()
    }

    async fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < PATIENCE, "a node does not {what}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
