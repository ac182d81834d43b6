//! What `docker compose up` starts, without Docker: the same commands with the same environments, secrets, order and
//! checks, as processes of this machine. Only names of that network and paths of those containers are written as they
//! are here.

mod container;
mod file;

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use tonic::transport::{Channel, Endpoint};

use self::{
    container::{Container, Places},
    file::{File, Image},
};
use crate::{child::free_port, hunt::Mongods, redis_server::RedisServer};

/// Where the server of relations is.
const CQL: &str = "KITH_TEST_CQL";

/// All that the file starts but for those that only look: Prometheus and Grafana.
#[derive(Debug)]
pub(crate) struct Project {
    nodes: Vec<Node>,
    /// They end with the value, after the nodes.
    _servers: (Mongods, RedisServer),
}

/// A service `kith-1` and so on.
#[derive(Debug)]
pub(crate) struct Node {
    container: Container,
    channel: Channel,
}

impl Project {
    /// Starts the servers, makes the replica set, lets the job `migrate` run to its end, and starts the nodes at one
    /// time. Returns when each is healthy.
    ///
    /// # Errors
    /// When one does not come to that.
    pub(crate) async fn up(kith: &Path) -> Result<Self> {
        let (file, image) = (File::read()?, Image::read()?);
        let redis = RedisServer::start(&file.redis_options()?).await?;
        let mongod = Mongods::start(1, None).await?;
        let names = file.nodes();
        let ports: Vec<SocketAddr> = names.iter().map(|_| free_address()).collect::<Result<_>>()?;
        let servers = Places::default()
            .with("mongodb:27017", &mongod.address()?)
            .with("scylladb:9042", &cql_address()?)
            .with("redis:6379", &redis.address());
        let places = names
            .iter()
            .zip(&ports)
            .fold(servers, |places, (name, address)| places.with(&format!("{name}:7600"), address));
        Container::of(file.service("migrate")?, &image, kith, places.clone())?.done().await?;
        let mut nodes = Vec::new();
        for (name, address) in names.iter().zip(ports) {
            let own = places.clone().with("0.0.0.0:7600", &address).with("0.0.0.0:7601", &free_address()?);
            let mut container = Container::of(file.service(name)?, &image, kith, own)?;
            container.answers_at(address);
            container.start()?;
            // Connects when it is called, again whenever that is necessary.
            let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
            nodes.push(Node { container, channel });
        }
        try_join_all(nodes.iter_mut().map(|node| node.container.until_healthy())).await?;
        Ok(Self { nodes, _servers: (mongod, redis) })
    }

    /// In the order of their names.
    pub(crate) fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }
}

impl Node {
    /// The way to call it; it outlives the process.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Stops it and starts it again, as `docker compose up --no-deps --force-recreate` does with one service. Returns
    /// when it is healthy.
    ///
    /// # Errors
    /// When it does not stop within its grace, or does not become healthy.
    pub(crate) async fn recreate(&mut self) -> Result<()> {
        self.container.stop().await?;
        self.container.start()?;
        self.container.until_healthy().await
    }
}

/// A server of relations that others may use too: nothing is left of the project in the others.
fn cql_address() -> Result<String> {
    let address = env::var_os(CQL).and_then(|address| address.into_string().ok());
    address.with_context(|| format!("{CQL} names no server of relations"))
}

fn free_address() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, free_port()?).into())
}
