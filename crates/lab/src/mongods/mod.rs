//! MongoDB as nodes know it: a replica set with one member or several.

mod member_proxy;
mod mongod;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::wait;
use mongodb::{
    Database,
    bson::{Document, doc},
};
use tokio::time::{Instant, sleep, timeout};

pub use self::mongod::Mongod;
use self::{
    member_proxy::{Dialer, MemberProxy},
    mongod::SET,
};

/// How long the set may take to start, or to have a primary and followers again.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// How long a member may take to report its role.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A member that receives nothing from the primary for this long begins an election, and a primary that
/// receives nothing from a majority steps down. The default is ten seconds.
const ELECTION_MS: i32 = 2_000;

/// A replica set. If there are several members, each is behind a proxy by whose address all others know it,
/// members and nodes. A single member is called directly.
#[derive(Debug)]
pub struct Mongods {
    members: Vec<Mongod>,
    /// The proxies in the members' order; empty for a single member.
    proxies: Vec<MemberProxy>,
}

/// The role that a member reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Primary,
    Follower,
    Neither,
}

impl Mongods {
    /// Starts `count` members, and waits until one is primary and all others follow it. `data`: the first
    /// member's data folder, if it does not get a temporary folder.
    ///
    /// # Errors
    /// If there is no such program, or the set does not become complete in time.
    pub async fn start(count: usize, mut data: Option<PathBuf>) -> Result<Self> {
        let members = (0..count).map(|_| Mongod::start(data.take())).collect::<Result<Vec<_>>>()?;
        let mut proxies = Vec::new();
        for member in members.iter().filter(|_| count > 1) {
            proxies.push(MemberProxy::start(member.address()).await?);
        }
        let mut set = Self { members, proxies };
        set.until_all_answer().await?;
        set.first()?.ask(doc! { "replSetInitiate": set.config()? }).await?;
        set.until_complete().await?;
        Ok(set)
    }

    /// The address of a set with a single member.
    ///
    /// # Errors
    /// When there is no member.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.first()?.address())
    }

    /// How the node with this number reaches the set: a single member by this link, ignoring what it reports
    /// about itself; several members by the proxies.
    #[must_use]
    pub fn uri(&self, link: SocketAddr, node: usize) -> String {
        if self.proxies.is_empty() {
            return format!("mongodb://{link}/?directConnection=true");
        }
        let hosts: Vec<String> = self.proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        format!("mongodb://{}/?replicaSet={SET}&appName={}", hosts.join(","), name(node))
    }

    /// Whether a member has ended, by itself or otherwise.
    ///
    /// # Errors
    /// If that is not known.
    pub fn has_lost_one(&mut self) -> Result<bool> {
        self.members.iter_mut().try_fold(false, |lost, member| Ok(member.ended()? || lost))
    }

    /// Ends all members at once, as `kill -9` does; journalled writes stay.
    pub fn kill(&mut self) {
        self.members.iter_mut().for_each(Mongod::kill);
    }

    /// Starts those that were killed, or ended by themselves, over their data.
    ///
    /// # Errors
    /// If the set gets no primary that all others follow.
    pub async fn restart(&mut self) -> Result<()> {
        for member in &mut self.members {
            if member.ended()? {
                member.run()?;
            }
        }
        self.until_complete().await
    }

    /// The primary's answer to one command on `admin`.
    ///
    /// # Errors
    /// When there is no primary or no answer, or it is an error.
    pub async fn ask(&self, command: Document) -> Result<Document> {
        self.members[self.primary().await?].ask(command).await
    }

    /// The database with this name, as the primary has it.
    ///
    /// # Errors
    /// When there is no primary.
    pub async fn database(&self, name: &str) -> Result<Database> {
        self.members[self.primary().await?].database(name).await
    }

    /// The primary's place among the members.
    ///
    /// # Errors
    /// When no member is, at this moment.
    pub async fn primary(&self) -> Result<usize> {
        let roles = self.roles().await;
        roles.iter().position(|role| *role == Role::Primary).context("no member is primary")
    }

    /// Waits until another member than this is primary.
    ///
    /// # Errors
    /// When none is.
    pub async fn until_replaced(&self, primary: usize) -> Result<()> {
        wait::until("no other member is primary", READY_WITHIN, async || {
            let roles = self.roles().await;
            Ok(roles.iter().enumerate().any(|(at, role)| at != primary && *role == Role::Primary))
        })
        .await
    }

    /// The member at this place; the places are 0 to one below their number.
    pub fn member(&mut self, at: usize) -> Option<&mut Mongod> {
        self.members.get_mut(at)
    }

    /// The network is partitioned until [`Self::heal_partition`]: this member and these nodes on one side,
    /// all other members and nodes on the other. Data across it are held back, and connections stay open.
    /// Nodes reach each other and Redis.
    pub fn partition(&self, member: usize, nodes: &[usize], all_nodes: usize) {
        let apart = |at: usize| at == member;
        for (other, proxy) in self.proxies.iter().enumerate() {
            let members = self.members.iter().enumerate();
            let members = members.filter(|(at, _)| apart(*at) != apart(other));
            let members = members.map(|(_, member)| Dialer::Member(member.address().port()));
            let nodes = (0..all_nodes).filter(|node| nodes.contains(node) != apart(other));
            proxy.block(members.chain(nodes.map(|node| Dialer::Named(name(node)))).collect());
        }
    }

    /// Ends the partition; held data arrives.
    pub fn heal_partition(&self) {
        self.proxies.iter().for_each(|proxy| proxy.block(Vec::new()));
    }

    /// Waits until one member is primary and all others follow it.
    ///
    /// # Errors
    /// If the set does not become complete in time, or a member has ended by itself.
    pub async fn until_complete(&mut self) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        loop {
            self.members.iter_mut().try_for_each(Mongod::ensure_alive)?;
            let roles = self.roles().await;
            let count = |of: Role| roles.iter().filter(|role| **role == of).count();
            if count(Role::Primary) == 1 && count(Role::Follower) + 1 == self.members.len() {
                return Ok(());
            }
            ensure!(
                Instant::now() < until,
                "the replica set is not whole within {READY_WITHIN:?}: {roles:?}"
            );
            sleep(POLL).await;
        }
    }

    async fn until_all_answer(&mut self) -> Result<()> {
        for member in &mut self.members {
            wait::until("mongod does not answer", READY_WITHIN, async || {
                member.ensure_alive()?;
                Ok(member.ask(doc! { "ping": 1 }).await.is_ok())
            })
            .await?;
        }
        Ok(())
    }

    async fn roles(&self) -> Vec<Role> {
        futures::future::join_all(self.members.iter().map(role)).await
    }

    fn first(&self) -> Result<&Mongod> {
        self.members.first().context("there is a member")
    }

    fn config(&self) -> Result<Document> {
        let proxies = self.proxies.iter().map(MemberProxy::address);
        let hosts: Vec<SocketAddr> =
            if self.proxies.is_empty() { vec![self.first()?.address()] } else { proxies.collect() };
        let member = |(number, host): (i32, SocketAddr)| doc! { "_id": number, "host": host.to_string() };
        let members: Vec<Document> = (0..).zip(hosts).map(member).collect();
        Ok(doc! { "_id": SET, "members": members, "settings": { "electionTimeoutMillis": ELECTION_MS } })
    }
}

/// The name by which proxies know a node.
fn name(node: usize) -> String {
    format!("node-{node}")
}

async fn role(member: &Mongod) -> Role {
    let asked = member.runs().then(|| timeout(ANSWER_WITHIN, member.ask(doc! { "hello": 1 })));
    let Some(Ok(Ok(hello))) = futures::future::OptionFuture::from(asked).await else { return Role::Neither };
    let is = |field: &str| hello.get_bool(field).unwrap_or_default();
    match (is("isWritablePrimary"), is("secondary")) {
        (true, _) => Role::Primary,
        (false, true) => Role::Follower,
        (false, false) => Role::Neither,
    }
}
