//! A node in its own process. A test cuts its connection to Redis at a command, so that it can be killed
//! between two steps.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kith_proto::admin::v1::{GetNodeRequest, admin_service_client::AdminServiceClient};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tonic::transport::Channel;

use crate::{
    cluster::site::{Site, command_with_relations},
    polls::until,
    spawned::{FREE, Started},
};

const PATIENCE: Duration = Duration::from_secs(30);
/// How many bytes may precede the end of a text that is searched for.
const OVERLAP: usize = 64;

/// A node's connections to Redis. Once it is armed, the proxy stops at the first command that has a text.
#[derive(Clone, Default)]
pub(super) struct RedisProxy(Arc<State>);

#[derive(Default)]
struct State {
    text: std::sync::Mutex<Option<String>>,
    is_cut: AtomicBool,
    cut: Notify,
}

impl RedisProxy {
    /// Forwards to this server. Returns the proxy's address.
    pub(super) async fn open(&self, redis: &str) -> String {
        let server = redis.strip_prefix("redis://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((node, _)) = listener.accept().await {
                let (proxy, server) = (proxy.clone(), TcpStream::connect(&server).await.unwrap());
                tokio::spawn(async move {
                    let ((from_node, to_node), (from_server, to_server)) =
                        (node.into_split(), server.into_split());
                    tokio::join!(proxy.pass(from_node, to_server), proxy.pass(from_server, to_node));
                });
            }
        });
        address
    }

    /// Holds back the first command with this text, and everything after it.
    pub(super) fn arm(&self, text: String) {
        *self.0.text.lock().unwrap() = Some(text);
    }

    /// Lets nothing pass from now on.
    pub(super) fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Release);
    }

    pub(super) async fn until_cut(&self) {
        while !self.0.is_cut.load(Ordering::Acquire) {
            self.0.cut.notified().await;
        }
    }

    async fn pass(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let (mut part, mut seen) = (vec![0; 16 << 10], Vec::new());
        while let Ok(read @ 1..) = from.read(&mut part).await {
            seen.extend_from_slice(&part[..read]);
            self.look_at(&seen);
            if self.0.is_cut.load(Ordering::Acquire) {
                // Neither side sees an end: the connection hangs.
                return std::future::pending().await;
            }
            seen.drain(..seen.len().saturating_sub(OVERLAP));
            if to.write_all(&part[..read]).await.is_err() {
                return;
            }
        }
    }

    fn look_at(&self, seen: &[u8]) {
        let text = self.0.text.lock().unwrap();
        let Some(text) = text.as_ref() else { return };
        if seen.windows(text.len()).any(|part| part == text.as_bytes()) {
            self.0.is_cut.store(true, Ordering::Release);
            self.0.cut.notify_one();
        }
    }
}

/// Starts a site's node in its own process, with Redis at this address. It accepts sockets.
pub(super) fn serve(dir: &Path, site: &Site, redis: &str) -> Started {
    let mut command = command_with_relations(site, dir, &FREE);
    command.env("KITH_REDIS__URL", redis);
    for setting in ["messages.offline=true", "ws.enabled=true", "ws.trusted=true"] {
        command.args(["--set", setting]);
    }
    Started::of(command)
}

/// Connects to a node, once it follows.
pub(crate) async fn following(node: &Started) -> Channel {
    let channel = node.channel().await;
    let admin = AdminServiceClient::new(channel.clone());
    until(PATIENCE, async || {
        let answer = admin.clone().get_node(GetNodeRequest {}).await;
        answer.is_ok_and(|answer| answer.into_inner().redis == "follows")
    })
    .await;
    channel
}
