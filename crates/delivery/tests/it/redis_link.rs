//! A link to the tests' Redis that can be cut.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kith_cache::remote::redis::{RedisOptions, ScriptRunner};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::model::url;

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct RedisLink {
    /// The address that leads over the link.
    url: String,
    connections: Arc<Mutex<JoinSet<()>>>,
    _listening: JoinSet<()>,
}

impl RedisLink {
    pub(crate) async fn to_redis() -> Self {
        let url = url();
        let address = url.rsplit("//").next().unwrap().rsplit('@').next().unwrap();
        let server = address.split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = url.replace(&server, &listener.local_addr().unwrap().to_string());
        let (connections, mut listening) = (Arc::<Mutex<JoinSet<()>>>::default(), JoinSet::new());
        listening.spawn(listen(listener, server, Arc::clone(&connections)));
        Self { url, connections, _listening: listening }
    }

    /// A runner over the link, with keys that begin with this tag.
    pub(crate) async fn runner(&self, tag: &str) -> Arc<ScriptRunner> {
        let prefix = tag.split(':').next().unwrap().to_owned();
        let options = RedisOptions { url: self.url.clone(), prefix, ..RedisOptions::default() };
        let options = RedisOptions { connect_timeout: PATIENCE, command_timeout: PATIENCE, ..options };
        let runner = ScriptRunner::connect(options).await.unwrap();
        assert_eq!(runner.tag(), tag);
        Arc::new(runner)
    }

    /// Ends every connection.
    pub(crate) fn cut(&self) {
        self.connections.lock().unwrap().abort_all();
    }
}

async fn listen(listener: TcpListener, server: String, connections: Arc<Mutex<JoinSet<()>>>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let server = server.clone();
        connections.lock().unwrap().spawn(async move {
            if let Ok(mut server) = TcpStream::connect(server).await {
                copy_bidirectional(&mut client, &mut server).await.ok();
            }
        });
    }
}
