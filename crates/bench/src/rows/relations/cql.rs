//! A cluster's relation store, and the statements that a service would send by hand with its driver.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::{
    admin::v1::{FlushMemoryRequest, admin_service_client::AdminServiceClient},
    relation::v1::{ListFriendsRequest, relation_service_client::RelationServiceClient},
};
use kith_store::{Edge, FollowList, ImportedFollow, Stores};
use kith_store_cluster::{ClusterHandle, CqlOptions, MongoOptions, connect};
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    serialize::batch::BatchValues,
    statement::{
        Consistency,
        batch::{Batch, BatchType},
        prepared::PreparedStatement,
    },
};
use tonic::transport::Channel;

use crate::{
    claims::Plan,
    ratio::{Claim, Pair},
    results::Results,
    rows::until_done::retry,
    served::ServerProcess,
};

/// Shards in the table of changes.
const SHARDS: usize = 4;
/// Batches that are sent at the same time.
const AT_ONCE: usize = 64;
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// A separate keyspace and database.
pub(in crate::rows) struct Keyspace {
    pub(in crate::rows) stores: Stores,
    pub(in crate::rows) raw: RawFollows,
    handle: ClusterHandle,
    name: String,
}

impl Keyspace {
    /// Empty; `None` where the plan names no servers.
    pub(in crate::rows) async fn open(plan: &Plan, name: &str) -> Result<Option<Self>> {
        let (Some(mongodb), Some(cql)) = (&plan.mongodb, &plan.cql) else { return Ok(None) };
        let name = format!("kith_bench_{}_{name}", std::process::id());
        let options = CqlOptions::new([cql], &name);
        let handle = connect(MongoOptions::new(mongodb, &name)).await?.with_relations(options)?;
        let stores = handle.stores();
        // The client may still be connecting.
        retry(CONNECTED_WITHIN, PAUSE, async || Ok(stores.migrations.migrate().await?)).await?;
        let raw = RawFollows::connect(cql, &name).await?;
        Ok(Some(Self { stores, raw, handle, name }))
    }

    /// The name that both have.
    pub(in crate::rows) fn name(&self) -> &str {
        &self.name
    }

    /// A node over them, with a Redis if there is one.
    pub(in crate::rows) async fn served(&self, plan: &Plan, redis: Option<&str>) -> Result<NodeProcess> {
        let served = ServerProcess::kith_over(plan, &self.name, plan.cql.as_deref(), redis)?;
        let node = NodeProcess { channel: served.connect().await?, served };
        let serves = retry(CONNECTED_WITHIN, PAUSE, async || node.friends(i64::MAX).await).await;
        serves.context("the node does not serve")?;
        Ok(node)
    }

    /// Removes the keyspace and the database.
    pub(in crate::rows) async fn remove(self, plan: &Plan) -> Result<()> {
        self.handle.close().await;
        self.raw.session.query_unpaged(format!("DROP KEYSPACE {}", self.name), ()).await?;
        let mongodb = plan.mongodb.as_deref().context("there was a MongoDB")?;
        mongodb::Client::with_uri_str(mongodb).await?.database(&self.name).drop().await?;
        Ok(())
    }
}

/// Measures a row over a separate keyspace, which is removed afterwards, if the plan wants the row and names
/// servers.
pub(in crate::rows) async fn over_keyspace(
    plan: &Plan,
    results: &mut Results<'_>,
    claim: &Claim,
    measure: impl AsyncFnOnce(&Keyspace) -> Result<Vec<Pair<f64>>>,
) -> Result<()> {
    if !plan.wants(claim) {
        return Ok(());
    }
    let Some(keyspace) = Keyspace::open(plan, claim.name).await? else { return Ok(()) };
    let pairs = measure(&keyspace).await?;
    keyspace.remove(plan).await?;
    results.add(claim, &pairs)
}

/// A node in a separate process.
pub(in crate::rows) struct NodeProcess {
    pub(in crate::rows) channel: Channel,
    pub(in crate::rows) served: ServerProcess,
}

impl NodeProcess {
    /// Empties its memory.
    pub(in crate::rows) async fn forget(&self) -> Result<()> {
        let mut admin = AdminServiceClient::new(self.channel.clone());
        admin.flush_memory(FlushMemoryRequest::default()).await?;
        Ok(())
    }

    /// Reads all of a user's friends in the largest pages; returns how many there are.
    pub(in crate::rows) async fn friends(&self, user_id: i64) -> Result<usize> {
        let client = RelationServiceClient::new(self.channel.clone());
        all_pages(async |page_token| {
            let request = ListFriendsRequest { user_id, page_size: 1_000, page_token, consistency: None };
            let page = client.clone().list_friends(request).await?.into_inner();
            Ok((page.user_ids.len(), page.next_page_token))
        })
        .await
    }
}

/// Reads page after page, each by the previous page's token; returns how many entries they have in all.
pub(in crate::rows) async fn all_pages(
    ask: impl AsyncFn(String) -> Result<(usize, String)>,
) -> Result<usize> {
    let (mut found, mut token) = (0, String::new());
    loop {
        let (entries, next) = ask(token).await?;
        found += entries;
        if next.is_empty() {
            return Ok(found);
        }
        token = next;
    }
}

const BLOCKED: &str =
    "SELECT live, blocked FROM blocks WHERE owner = ? AND kind = 0 AND placed = 0 AND other = ?";
const SEAT: &str =
    "INSERT INTO follows (edge, placed, in_following, in_fans) VALUES (?, ?, 0, 0) IF NOT EXISTS";
const STATE: &str = "UPDATE follows SET live = 1, version = ?, since = ?, changed = ? WHERE edge = ?";
const BROUGHT: &str = "INSERT INTO follows (edge, brought, brought_following, brought_fans, \
    live, version, since, changed) VALUES (?, ?, 0, 0, 1, ?, ?, ?)";
const ENTRY: &str = "UPDATE follow_lists SET live = 1, version = ?, since = ? \
    WHERE owner = ? AND list = ? AND bucket = ? AND placed = ? AND other = ?";
const NOTE: &str = "INSERT INTO changes (shard, minute, stamp, kind, from_user, to_user, version, in_following, in_fans) \
    VALUES (0, ?, ?, 0, ?, ?, ?, 0, 0)";
const NOTES: &str = "INSERT INTO changes (shard, minute, stamp, kind, from_user, to_user, named) VALUES (?, ?, ?, 5, 0, ?, ?)";
const ENTRIES: &str = "SELECT placed, other, live, version, since FROM follow_lists \
    WHERE owner = ? AND list = ? AND bucket = 0";
const PARTS: &str = "SELECT opened, counted FROM follow_buckets WHERE owner = ? AND list = ?";
const ROWS: &str = "SELECT count(*) FROM follow_lists WHERE owner = ? AND list = 1 AND bucket = ?";
const MEMBER: &str = "INSERT INTO members (grp, kind, place, member, live, changed, role) VALUES (?, 0, 0, ?, 1, 1, 1) IF NOT EXISTS";

/// The statements for a follow, by the driver alone.
pub(in crate::rows) struct RawFollows {
    pub(in crate::rows) session: Session,
    blocked: PreparedStatement,
    seat: PreparedStatement,
    state: PreparedStatement,
    brought: PreparedStatement,
    entry: PreparedStatement,
    note: PreparedStatement,
    notes: PreparedStatement,
    entries: PreparedStatement,
    parts: PreparedStatement,
    rows: PreparedStatement,
    member: PreparedStatement,
}

impl RawFollows {
    async fn connect(address: &str, keyspace: &str) -> Result<Self> {
        let session = SessionBuilder::new().known_node(address).use_keyspace(keyspace, false).build().await?;
        let prepare = async |text: &str| {
            let mut statement = session.prepare(text).await?;
            statement.set_consistency(Consistency::LocalQuorum);
            anyhow::Ok(statement)
        };
        Ok(Self {
            blocked: prepare(BLOCKED).await?,
            seat: prepare(SEAT).await?,
            state: prepare(STATE).await?,
            brought: prepare(BROUGHT).await?,
            entry: prepare(ENTRY).await?,
            note: prepare(NOTE).await?,
            notes: prepare(NOTES).await?,
            entries: prepare(ENTRIES).await?,
            parts: prepare(PARTS).await?,
            rows: prepare(ROWS).await?,
            member: prepare(MEMBER).await?,
            session,
        })
    }

    /// Sends all that a first follow sends: is it blocked, the seat, the batch with four rows, is it blocked.
    pub(in crate::rows) async fn follow(&self, edge: Edge, stamp: i64) -> Result<()> {
        let (from, to) = (edge.from.get(), edge.to.get());
        self.session.execute_unpaged(&self.blocked, (to, from)).await?;
        self.session.execute_unpaged(&self.seat, (key(edge), stamp / 1000)).await?;
        self.four_rows(edge, stamp).await?;
        self.session.execute_unpaged(&self.blocked, (to, from)).await?;
        Ok(())
    }

    async fn imported_rows(&self, edge: Edge, stamp: i64) -> Result<()> {
        let (at, (following, fan)) = (stamp / 1000, entries(edge, stamp));
        let values = ((key(edge), at, stamp, at, at), following, fan);
        self.write([&self.brought, &self.entry, &self.entry], stamp, values).await
    }

    /// Change rows that name these follows, one row for each shard.
    async fn imported_notes(&self, follows: &[ImportedFollow], stamp: i64) -> Result<()> {
        for (follows, shard) in follows.chunks(follows.len().div_ceil(SHARDS)).zip(0_i32..) {
            let at = stamp / 1000;
            let named =
                |follow: &ImportedFollow| [follow.edge.from.get(), follow.edge.to.get(), stamp, 0, 0, at];
            let named: Vec<i64> = follows.iter().flat_map(named).collect();
            let row = (shard, stamp / 60_000_000, stamp, i64::from(shard), named);
            self.session.execute_unpaged(&self.notes, row).await?;
        }
        Ok(())
    }

    async fn four_rows(&self, edge: Edge, stamp: i64) -> Result<()> {
        let (from, to, at) = (edge.from.get(), edge.to.get(), stamp / 1000);
        let (following, fan) = entries(edge, stamp);
        let values = ((stamp, at, at, key(edge)), following, fan, (at / 60_000, stamp, from, to, stamp));
        self.write([&self.state, &self.entry, &self.entry, &self.note], stamp, values).await
    }

    /// One logged batch.
    async fn write<const N: usize>(
        &self,
        statements: [&PreparedStatement; N],
        stamp: i64,
        values: impl BatchValues,
    ) -> Result<()> {
        let mut batch = Batch::new(BatchType::Logged);
        batch.set_timestamp(Some(stamp));
        batch.set_consistency(Consistency::LocalQuorum);
        statements.into_iter().for_each(|statement| batch.append_statement(statement.clone()));
        self.session.batch(&batch, values).await?;
        Ok(())
    }

    /// Writes all rows for these follows as an import with so many at a time leaves them: the three for each
    /// follow in one logged batch, many at one time, and the notes about the changes.
    pub(in crate::rows) async fn write_rows(&self, graph: &[ImportedFollow], together: usize) -> Result<()> {
        let stamp = 1_700_000_000_000_000_i64;
        let rows = stream::iter(graph.iter().zip(stamp..))
            .map(async |(follow, stamp)| self.imported_rows(follow.edge, stamp).await)
            .buffer_unordered(AT_ONCE);
        let notes = stream::iter(graph.chunks(together).zip(stamp..))
            .then(async |(follows, stamp)| self.imported_notes(follows, stamp).await);
        tokio::try_join!(rows.try_collect::<()>(), notes.try_collect::<()>())?;
        Ok(())
    }

    /// Waits until all parts in a list but the newest were counted after nothing could be added to them any
    /// more.
    pub(in crate::rows) async fn closes_parts(
        &self,
        user: i64,
        list: FollowList,
        within: Duration,
    ) -> Result<()> {
        retry(within, Duration::from_secs(1), async || {
            ensure!(self.are_closed(user, list).await?, "the parts of the list are not closed");
            Ok(())
        })
        .await
    }

    async fn are_closed(&self, user: i64, list: FollowList) -> Result<bool> {
        let list = i32::from(list == FollowList::Fans);
        let rows = self.session.execute_unpaged(&self.parts, (user, list)).await?.into_rows_result()?;
        let (apart, mut closed) = (i64::try_from(CqlOptions::default().clocks_apart.as_millis())?, None);
        for row in rows.rows::<(Option<i64>, Option<i64>)>()? {
            let (opened, counted) = row?;
            if closed.is_some_and(|closed| counted.is_none_or(|counted| counted <= closed + apart)) {
                return Ok(false);
            }
            closed = opened;
        }
        Ok(true)
    }

    /// How many rows the largest part in a list of fans has.
    pub(in crate::rows) async fn largest_part(&self, user: i64) -> Result<i64> {
        let mut largest = 0;
        for bucket in 0.. {
            let row = self.session.execute_unpaged(&self.rows, (user, bucket)).await?.into_rows_result()?;
            let (rows,) = row.single_row::<(i64,)>()?;
            if rows == 0 {
                break;
            }
            largest = largest.max(rows);
        }
        Ok(largest)
    }

    /// Puts a member into a separate group, under the simplest possible condition.
    pub(in crate::rows) async fn conditional(&self, group: i64, user: i64) -> Result<()> {
        self.session.execute_unpaged(&self.member, (group, user)).await?;
        Ok(())
    }

    /// Reads both lists of a user, as far as their first buckets contain them; returns how many active
    /// entries there were.
    pub(in crate::rows) async fn both_lists(&self, user: i64) -> Result<usize> {
        let list = async |list: i32| {
            let rows = self.session.execute_unpaged(&self.entries, (user, list)).await?.into_rows_result()?;
            let entries = rows.rows::<(i64, i64, i32, i64, i64)>()?.collect::<Result<Vec<_>, _>>()?;
            anyhow::Ok(entries.iter().filter(|(_, _, live, ..)| *live == 1).count())
        };
        let (following, fans) = tokio::try_join!(list(0), list(1))?;
        Ok(following + fans)
    }
}

/// The values in both list rows.
fn entries(edge: Edge, stamp: i64) -> (ListEntry, ListEntry) {
    let (from, to, at) = (edge.from.get(), edge.to.get(), stamp / 1000);
    ((stamp, at, from, 0, 0, at, to), (stamp, at, to, 1, 0, at, from))
}

type ListEntry = (i64, i64, i64, i32, i32, i64, i64);

fn key(edge: Edge) -> Vec<u8> {
    [edge.from.get().to_be_bytes(), edge.to.get().to_be_bytes()].concat()
}
