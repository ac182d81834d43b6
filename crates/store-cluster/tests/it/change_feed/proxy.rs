//! A proxy in front of MongoDB, whose connections can be cut and frozen.

use std::{sync::Arc, time::Duration};

use kith_store::{ChangeFeed, Stores};
use kith_store_cluster::{MongoOptions, connect};
use mongodb::options::{ClientOptions, ServerAddress};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How the proxy treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They pass through.
    Pass,
    /// They are open, and nothing passes, as when the server's process is stopped.
    Freeze,
    /// They are closed, and new ones too, as when no server runs.
    Cut,
}

/// Listens on a separate port as long as the test runs.
#[derive(Debug)]
pub(super) struct Proxy {
    mode: watch::Sender<Mode>,
    port: u16,
}

impl Proxy {
    pub(super) async fn start(options: &MongoOptions) -> Self {
        let hosts = ClientOptions::parse(&options.uri).await.unwrap().hosts;
        let ServerAddress::Tcp { host, port } = hosts[0].clone() else { panic!("not TCP: {hosts:?}") };
        let target = (host, port.unwrap_or(27017));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(Mode::Pass);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, target.clone(), modes.clone()));
            }
        });
        Self { mode, port }
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// The database's stores through this proxy alone, and its change feed.
    pub(super) async fn stores(&self, options: &MongoOptions) -> (Stores, Arc<dyn ChangeFeed>) {
        let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", self.port);
        let limit = Duration::from_secs(1);
        let options = MongoOptions { uri, command: limit, server_selection: limit, ..options.clone() };
        let stores = connect(options).await.unwrap().stores();
        let feed = Arc::clone(&stores.feeds[0].feed);
        (stores, feed)
    }
}

async fn pass(client: TcpStream, target: (String, u16), mut modes: watch::Receiver<Mode>) {
    let mut cuts = modes.clone();
    let both = async {
        if modes.wait_for(|mode| *mode == Mode::Pass).await.is_err() {
            return;
        }
        let Ok(server) = TcpStream::connect(target).await else { return };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(copy(from_client, to_server, modes.clone()), copy(from_server, to_client, modes));
    };
    tokio::select! {
        () = both => {}
        _ = cuts.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if modes.wait_for(|mode| *mode == Mode::Pass).await.is_err()
            || to.write_all(&buffer[..count]).await.is_err()
        {
            return;
        }
    }
}
