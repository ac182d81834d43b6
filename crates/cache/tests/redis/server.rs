//! Servers of a test's own, which it may kill, freeze and fill.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    ops::Range,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use fred::prelude::*;
use futures::future::join_all;

/// The slots that each server has when a cluster starts.
const RANGES: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];
/// Longest time for a server to begin.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Below the ports that the kernel gives to connections: no connection takes the port of a server that is
/// down.
const PORTS: Range<u16> = 15_000..22_000;
/// Members of a cluster connect to each other at the client port plus this.
const BUS_PORT_OFFSET: u16 = 10_000;

/// A redis-server with a folder of its own; ends with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Without persistence, and with these words of its configuration.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let port = free_port();
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Self::of(port, arguments, vec!["--port".to_owned(), port.to_string()])
    }

    /// `listens`: the words by which it listens at this port.
    fn of(port: u16, arguments: Vec<String>, listens: Vec<String>) -> Self {
        let folder = std::env::temp_dir().join(format!("kith-cache-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let arguments = listens.into_iter().chain(arguments).collect();
        let mut server = Self { port, folder, arguments, child: None };
        server.restart();
        server
    }

    /// Restarts it on the same port, with the data in its folder.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        command.arg(&self.folder).args(&self.arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("these tests need redis-server on the path"));
        let give_up = Instant::now() + READY_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < give_up, "redis-server does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the server like a machine that is lost.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// It neither answers nor closes anything until it is thawed.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts a server that speaks only TLS, with a self-signed certificate for this machine. Returns the
    /// server and its certificate file.
    pub(crate) fn start_with_tls() -> (Self, PathBuf) {
        let folder = std::env::temp_dir().join(format!("kith-cache-tls-{:x}", rand::random::<u64>()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let (cert_text, key) = (cert.to_str().unwrap().to_owned(), key.to_str().unwrap().to_owned());
        let words = ["--tls-auth-clients", "no", "--tls-cert-file", &cert_text, "--tls-key-file", &key];
        let port = free_port();
        let tls_port = ["--tls-port".to_owned(), port.to_string()];
        let words = words.into_iter().map(str::to_owned).chain(tls_port).collect();
        (Self::of(port, words, ["--port", "0"].map(str::to_owned).to_vec()), cert)
    }

    /// A client that speaks to it as an operator does.
    pub(crate) async fn operator(&self) -> Client {
        operator(&self.url()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.thaw();
        }
        self.kill();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Three primaries that share the slots.
pub(crate) struct Cluster(Vec<Server>);

impl Cluster {
    pub(crate) async fn start() -> Self {
        let node = || Server::start(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
        let servers = vec![node(), node(), node()];
        let mut operators = Vec::new();
        for server in &servers {
            operators.push(server.operator().await);
        }
        for (operator, (first, last)) in operators.iter().zip(RANGES) {
            command(operator, "CLUSTER", &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            command(operator, "CLUSTER", &["MEET", "127.0.0.1", &servers[0].port.to_string()]).await;
        }
        let give_up = Instant::now() + READY_WITHIN;
        for operator in &operators {
            let known = async || command(operator, "CLUSTER", &["INFO"]).await.as_string().unwrap();
            let mut info = known().await;
            while !(info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")) {
                assert!(Instant::now() < give_up, "the cluster does not come together: {info}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                info = known().await;
            }
        }
        Self(servers)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{}", self.0[0].port)
    }

    /// A client for each server.
    pub(crate) async fn operators(&self) -> Vec<Client> {
        join_all(self.0.iter().map(Server::operator)).await
    }

    /// Gives a slot, which no test has moved yet, to another server, with its keys.
    pub(crate) async fn move_slot(&self, slot: u16) {
        let operators = self.operators().await;
        let from = RANGES.iter().position(|(_, last)| slot <= *last).unwrap();
        let to = (from + 1) % operators.len();
        let ids = join_all(operators.iter().map(|operator| command(operator, "CLUSTER", &["MYID"]))).await;
        let id = |at: usize| ids[at].as_string().unwrap();
        let slot = slot.to_string();
        command(&operators[to], "CLUSTER", &["SETSLOT", &slot, "IMPORTING", &id(from)]).await;
        command(&operators[from], "CLUSTER", &["SETSLOT", &slot, "MIGRATING", &id(to)]).await;
        loop {
            let keys = command(&operators[from], "CLUSTER", &["GETKEYSINSLOT", &slot, "100"]).await;
            let keys: Vec<String> = keys.convert().unwrap();
            if keys.is_empty() {
                break;
            }
            let port = self.0[to].port.to_string();
            let mut words = vec!["127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            command(&operators[from], "MIGRATE", &words).await;
        }
        for at in [to, from, 3 - to - from] {
            command(&operators[at], "CLUSTER", &["SETSLOT", &slot, "NODE", &id(to)]).await;
        }
    }
}

/// A client without any care, of a test.
pub(crate) async fn operator(url: &str) -> Client {
    let client = Builder::from_config(Config::from_url(url).unwrap()).build().unwrap();
    client.init().await.unwrap();
    client
}

/// The server's answer to these words.
pub(crate) async fn command(client: &Client, name: &'static str, words: &[&str]) -> Value {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let command = fred::types::CustomCommand::new_static(name, fred::types::ClusterHash::FirstKey, false);
    client.custom(command, words).await.unwrap()
}

fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    std::iter::repeat_with(|| rand::random_range(PORTS))
        .find(|port| is_free(*port) && is_free(*port + BUS_PORT_OFFSET))
        .unwrap()
}
