//! Starts what `docker compose up` starts, without Docker: the same commands with the same environments,
//! secrets, order and checks, as processes on this machine. Only names in that network and paths in those
//! containers are replaced.

mod container;
mod file;

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use kith_lab_servers::{child::free_port, redis_server::RedisServer};
use tempfile::TempDir;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Endpoint,
};

use self::{
    container::{Container, HostPaths},
    file::{File, Image},
};
use crate::mongods::Mongods;

/// The variable with the relation server's address.
const CQL: &str = "KITH_TEST_CQL";
/// The volume with the callers' key, and its file there.
const KEY: (&str, &str) = ("key", "kith.key");

/// A connection whose calls carry the key.
pub(crate) type Channel = InterceptedService<tonic::transport::Channel, Bearer>;

/// The key, as calls carry it.
#[derive(Clone, Debug)]
pub(crate) struct Bearer(MetadataValue<Ascii>);

/// All services in the file except Prometheus and Grafana, which only observe.
#[derive(Debug)]
pub(crate) struct Project {
    nodes: Vec<ComposeNode>,
    _key: TempDir,
    /// The servers end with the value, after the nodes.
    _servers: (Mongods, RedisServer),
}

/// A service `kith-1` and so on.
#[derive(Debug)]
pub(crate) struct ComposeNode {
    container: Container,
    channel: Channel,
}

impl Project {
    /// Starts the servers, makes the replica set, lets the job `migrate` run to its end, and starts the nodes
    /// at the same time. Returns when each is healthy.
    ///
    /// # Errors
    /// If a server, a job or a node fails to do so.
    pub(crate) async fn up(kith: &Path) -> Result<Self> {
        let (file, image) = (File::read()?, Image::read()?);
        let redis = RedisServer::start(&file.redis_options()?).await?;
        let mongod = Mongods::start(1, None).await?;
        let names = file.nodes();
        let ports: Vec<SocketAddr> = names.iter().map(|_| free_address()).collect::<Result<_>>()?;
        let servers = HostPaths::default()
            .with("mongodb:27017", &mongod.address()?)
            .with("scylladb:9042", &cql_address()?)
            .with("redis:6379", &redis.address());
        let (key, bearer) = make_key(&file, &image, kith).await?;
        let folder = file.service("key")?.mount(KEY.0).context("the key is in no volume")?;
        let servers = servers.with(folder, &key.path().display());
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
            nodes.push(ComposeNode { container, channel: Channel::new(channel, bearer.clone()) });
        }
        try_join_all(nodes.iter_mut().map(|node| node.container.until_healthy())).await?;
        Ok(Self { nodes, _key: key, _servers: (mongod, redis) })
    }

    /// The nodes, ordered by name.
    pub(crate) fn nodes(&mut self) -> &mut [ComposeNode] {
        &mut self.nodes
    }
}

impl ComposeNode {
    /// The way to call it; it outlives the process.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Stops it and starts it again, as `docker compose up --no-deps --force-recreate` does with one service.
    /// Returns when it is healthy.
    ///
    /// # Errors
    /// When it does not stop within its grace, or does not become healthy.
    pub(crate) async fn recreate(&mut self) -> Result<()> {
        self.container.stop().await?;
        self.container.start()?;
        self.container.until_healthy().await
    }
}

/// Lets the service that makes the key run to its end: the volume, and the key that is in it.
async fn make_key(file: &File, image: &Image, kith: &Path) -> Result<(TempDir, Bearer)> {
    let (service, volume) = (file.service("key")?, TempDir::new()?);
    let folder = service.mount(KEY.0).context("the key is in no volume")?;
    let places = HostPaths::default().with(folder, &volume.path().display());
    Container::of(service, image, kith, places)?.done().await?;
    let key = std::fs::read_to_string(volume.path().join(KEY.1)).context("no key was made")?;
    Ok((volume, Bearer::of(key.trim_end())?))
}

impl Bearer {
    /// # Errors
    /// When no header can hold the key.
    pub(crate) fn of(key: &str) -> Result<Self> {
        Ok(Self(MetadataValue::try_from(format!("Bearer {key}")).context("the key cannot be sent")?))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// The address of a relation server that others may use too: it keeps nothing from the project.
fn cql_address() -> Result<String> {
    let address = env::var_os(CQL).and_then(|address| address.into_string().ok());
    address.with_context(|| format!("{CQL} names no server of relations"))
}

fn free_address() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, free_port()?).into())
}
