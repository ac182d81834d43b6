//! An issuer's keys at an address: rotation, outages, and refused keys.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use kith_server::{Node, config::Config};
use parking_lot::Mutex;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tonic::Code;

use crate::{
    edge::until,
    secured_node::by_token,
    signing::{NAME, Signer},
};

const ANN: i64 = 7;

/// An issuer's HTTPS server, with its own certificate for `localhost`.
struct KeyServer {
    address: SocketAddr,
    folder: TempDir,
    answer: Arc<Mutex<String>>,
}

impl KeyServer {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
        let accepts = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
        let (address, answer) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(status(503))));
        let answers = Arc::clone(&answer);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (accepts, answers) = (accepts.clone(), Arc::clone(&answers));
                tokio::spawn(async move { answer_one(accepts, socket, answers).await });
            }
        });
        Self { address, folder, answer }
    }

    fn says(&self, answer: String) {
        *self.answer.lock() = answer;
    }

    fn publishes(&self, signer: &Signer) {
        self.says(content(&signer.jwks()));
    }

    /// Starts a node that asks it often.
    async fn node(&self) -> StartedNode {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: data.path().join("data"), ..Config::default() };
        config.listen.set_port(0);
        config.operations.listen.set_port(0);
        config.drain_wait = Duration::ZERO;
        config.auth.jwks_read_every = Duration::from_millis(50);
        let issuer = serde_json::json!({
            "issuer": NAME,
            "audience": ["kith"],
            "jwks_url": format!("https://localhost:{}/keys", self.address.port()),
            "jwks_ca_file": self.folder.path().join("ca.pem"),
        });
        config.auth.issuers.push(serde_json::from_value(issuer).unwrap());
        StartedNode { node: Node::start(config).await.unwrap(), _data: data }
    }
}

async fn answer_one(accepts: TlsAcceptor, socket: TcpStream, answers: Arc<Mutex<String>>) -> Option<()> {
    let mut stream = accepts.accept(socket).await.ok()?;
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(stream.read_u8().await.ok()?);
    }
    let asked = String::from_utf8(asked).unwrap();
    assert!(asked.starts_with("GET /keys HTTP/1.1\r\n"), "{asked}");
    let answer = answers.lock().clone();
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

fn content(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn status(code: u16) -> String {
    format!("HTTP/1.1 {code} Other\r\nlocation: https://localhost/keys\r\ncontent-length: 0\r\n\r\n")
}

struct StartedNode {
    node: Node,
    _data: TempDir,
}

impl StartedNode {
    /// Returns whether it accepts this signer's tokens.
    async fn takes(&self, signer: &Signer) -> bool {
        let address = format!("http://{}", self.node.addresses().grpc);
        let mut users = UserServiceClient::connect(address).await.unwrap();
        let get = GetUserRequest { user_id: ANN, consistency: None };
        let code = users.get_user(by_token(&signer.token(ANN), get)).await.unwrap_err().code();
        assert!([Code::Unauthenticated, Code::NotFound].contains(&code), "{code}");
        code == Code::NotFound
    }

    /// Returns the remark in `/readyz` about callers.
    fn remark(&self) -> String {
        let remarks = self.node.remarks();
        let remark = remarks.into_iter().find(|remark| remark.reason == "callers_not_reloaded");
        remark.map(|remark| remark.message).unwrap_or_default()
    }

    async fn until_remarked(&self, words: &str) {
        until(words, || self.remark().contains(words)).await;
    }

    async fn until_it_takes(&self, signer: &Signer) {
        let taken = async {
            while !self.takes(signer).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), taken).await.expect("it takes the tokens");
    }
}

#[tokio::test]
async fn keys_at_an_address_are_there_at_the_start() {
    let (server, signer) = (KeyServer::start().await, Signer::new(1));
    server.publishes(&signer);
    let started = server.node().await;
    assert!(started.takes(&signer).await, "from its first call on");
    assert!(!started.takes(&Signer::new(2)).await);
    assert_eq!(started.remark(), "");
}

#[tokio::test]
async fn rotation_at_an_address_ends_the_old_key() {
    let (server, old, new) = (KeyServer::start().await, Signer::new(1), Signer::new(2));
    server.publishes(&old);
    let started = server.node().await;
    server.publishes(&new);
    started.until_it_takes(&new).await;
    assert!(!started.takes(&old).await);
}

#[tokio::test]
async fn last_good_keys_stay_while_an_address_fails() {
    let (server, signer) = (KeyServer::start().await, Signer::new(1));
    server.publishes(&signer);
    let started = server.node().await;
    let place = format!("auth.issuers: jwks_url: https://localhost:{}/keys", server.address.port());
    for (answer, words) in [
        (status(500), " answers with status 500"),
        (status(302), " redirects (302); give the new address"),
        (content(&" ".repeat((64 << 10) + 1)), " answers with more than 64 KiB"),
        (content("{}"), ":1:2 is no set of keys"),
        (String::new(), " does not answer as HTTP"),
        (
            content(&Signer::new(2).jwks()).replace("content-length: ", "content-length: 9"),
            " breaks its answer off",
        ),
        (content(r#"{"keys": [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}]}"#), ": key 1 is a shared secret"),
    ] {
        server.says(answer);
        started.until_remarked(&format!("{place}{words}")).await;
        assert!(started.takes(&signer).await, "{words}");
        assert!(!started.remark().contains("c2VjcmV0"));
    }
    server.publishes(&signer);
    until("the remark ends", || started.remark().is_empty()).await;
}

#[tokio::test]
async fn a_node_starts_while_an_address_is_away() {
    let (server, signer) = (KeyServer::start().await, Signer::new(1));
    let started = server.node().await;
    assert!(!started.takes(&signer).await, "it has no key yet");
    started.until_remarked(" answers with status 503").await;
    server.publishes(&signer);
    started.until_it_takes(&signer).await;
    until("the remark ends", || started.remark().is_empty()).await;
}

#[tokio::test]
async fn keys_come_from_a_trusted_server_alone() {
    let (server, other, signer) = (KeyServer::start().await, KeyServer::start().await, Signer::new(1));
    server.publishes(&signer);
    fs::copy(other.folder.path().join("ca.pem"), server.folder.path().join("ca.pem")).unwrap();
    let started = server.node().await;
    started.until_remarked(" has a certificate that is not trusted").await;
    assert!(!started.takes(&signer).await);
    fs::write(server.folder.path().join("ca.pem"), "no certificate").unwrap();
    started.until_remarked(" has no certificate (PEM)").await;
}
