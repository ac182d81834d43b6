//! A cluster with real processes: nodes, the servers that they share, and a link from each node to each
//! server.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use kith_lab_servers::{
    imported::fill_up_to,
    proxy::{Mode, Proxy, Tampering},
    redis_server::RedisServer,
};
use mongodb::bson::Document;
use tonic::transport::Channel;

use super::{
    cassandra::{Cassandra, CassandraAccess, keyspace},
    disk::SmallDisk,
    node::{Node, NodeConfig},
};
use crate::mongods::Mongods;

/// Database, and prefix in Redis.
pub(super) const NAME: &str = "kith_hunt";

/// A node and its links to the servers.
#[derive(Debug)]
pub struct Member {
    /// The node itself.
    pub node: Node,
    /// Its link to MongoDB, if that has a single member; otherwise the links belong to [`Mongods`].
    pub to_mongodb: Proxy,
    /// Its link to Redis, for data and subscriptions.
    pub to_redis: Proxy,
    /// Its link to Cassandra, if the cluster has a Cassandra.
    pub to_cassandra: Option<Proxy>,
}

/// All parts in a cluster that faults can affect.
#[derive(Debug)]
pub struct Site {
    /// The Redis that the nodes share.
    pub redis: RedisServer,
    /// The replica set that is the store.
    pub mongod: Mongods,
    /// The relation store, if the cluster has a relation store.
    pub(super) cassandra: Option<CassandraAccess>,
    /// The nodes with their links.
    pub members: Vec<Member>,
    /// The store's disk, if it can be filled up.
    pub(super) disk: Option<SmallDisk>,
}

/// The configuration of a cluster.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that runs a node.
    pub kith: PathBuf,
    /// How many nodes there are.
    pub nodes: u32,
    /// Additional settings, `key=value` each.
    pub settings: Vec<String>,
    /// Variables for test builds.
    pub environment: Vec<(String, String)>,
    /// The seed for the proxies' random behaviour.
    pub seed: u64,
}

impl Plan {
    /// A plan for `nodes` nodes that run a program, with the usual settings.
    #[must_use]
    pub const fn new(kith: PathBuf, nodes: u32, seed: u64) -> Self {
        Self { kith, nodes, settings: Vec::new(), environment: Vec::new(), seed }
    }
}

impl Site {
    /// Starts all, with a MongoDB that has `mongods` members, and waits until each node serves from its
    /// memory. `disk`: where the first member has its data. `cassandra`: holds the relations; without it
    /// there are no relations.
    ///
    /// # Errors
    /// If a program does not start, or a node does not serve in time.
    pub(super) async fn start_over(
        plan: &Plan,
        mongods: usize,
        disk: Option<SmallDisk>,
        cassandra: Option<CassandraAccess>,
    ) -> Result<Self> {
        let data = disk.as_ref().map(|disk| disk.path().to_owned());
        let (redis, mongod) = (RedisServer::start(&[]).await?, Mongods::start(mongods, data).await?);
        let config = NodeConfig {
            kith: plan.kith.clone(),
            name: NAME.to_owned(),
            keyspace: keyspace(),
            settings: plan.settings.clone(),
            environment: plan.environment.clone(),
        };
        let mut site = Self { redis, mongod, cassandra, members: Vec::new(), disk };
        for number in 0..plan.nodes {
            let member = site.member(&config, plan.seed + u64::from(number)).await?;
            site.members.push(member);
            if number == 0 {
                // The first node prepares the database; the others find it ready.
                site.until_trusted().await?;
            }
        }
        site.until_trusted().await?;
        Ok(site)
    }

    /// Like [`Self::start_over`], with one MongoDB, and without relations.
    ///
    /// # Errors
    /// Like [`Self::start_over`].
    pub(crate) async fn start(plan: &Plan) -> Result<Self> {
        Self::start_over(plan, 1, None, None).await
    }

    /// Like [`Self::start`], with a Cassandra that others use, too.
    ///
    /// # Errors
    /// When a part does not start.
    pub(crate) async fn with_cassandra(plan: &Plan) -> Result<Self> {
        let cassandra = CassandraAccess::Shared(Cassandra::shared().await?);
        Self::start_over(plan, 1, None, Some(cassandra)).await
    }

    /// Like [`Self::with_cassandra`], with `users` users, whose ids begin with 1.
    ///
    /// # Errors
    /// When a part does not start, or the first node does not take the users.
    pub(crate) async fn with_users(plan: &Plan, users: i64) -> Result<Self> {
        let site = Self::with_cassandra(plan).await?;
        let node = site.members.first().context("there is a node")?.node.channel();
        fill_up_to(node, users).await?;
        Ok(site)
    }

    /// A channel to each node.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        self.members.iter().map(|member| member.node.channel()).collect()
    }

    async fn member(&self, config: &NodeConfig, seed: u64) -> Result<Member> {
        let to_mongodb = Proxy::start(self.mongod.address()?, seed).await?;
        let to_redis = Proxy::for_pubsub(self.redis.address(), seed).await?;
        let mongodb = self.mongod.uri(to_mongodb.address(), self.members.len());
        let to_cassandra = match &self.cassandra {
            Some(cassandra) => Some(Proxy::start(cassandra.address(), seed).await?),
            None => None,
        };
        let cassandra = to_cassandra.as_ref().map(Proxy::address);
        let node = Node::start(config, mongodb, to_redis.address(), cassandra)?;
        Ok(Member { node, to_mongodb, to_redis, to_cassandra })
    }

    /// Waits until each node serves from its memory.
    ///
    /// # Errors
    /// If a node does not.
    pub async fn until_trusted(&mut self) -> Result<()> {
        let all = self.members.iter_mut().map(|member| member.node.until_trusted());
        try_join_all(all).await.map(drop)
    }

    /// Sets how all links to Redis behave.
    pub fn redis_links(&self, mode: Mode) {
        self.members.iter().for_each(|member| member.to_redis.set(mode));
    }

    /// Sets how all links to MongoDB behave.
    pub fn mongodb_links(&self, mode: Mode) {
        self.members.iter().for_each(|member| member.to_mongodb.set(mode));
    }

    /// Drops a collection that the nodes use.
    ///
    /// # Errors
    /// When MongoDB does not answer.
    pub(crate) async fn drop_collection(&self, name: &str) -> Result<()> {
        Ok(self.mongod.database(NAME).await?.collection::<Document>(name).drop().await?)
    }

    /// Sets how all links to Cassandra behave.
    pub(crate) fn cassandra_links(&self, mode: Mode) {
        self.to_cassandra().for_each(|link| link.set(mode));
    }

    /// All links to Cassandra.
    pub(super) fn to_cassandra(&self) -> impl Iterator<Item = &Proxy> {
        self.members.iter().filter_map(|member| member.to_cassandra.as_ref())
    }

    /// Sets how all publications are treated.
    pub fn tamper(&self, with: Tampering) {
        self.members.iter().for_each(|member| member.to_redis.tamper(with));
    }
}
