//! A cluster's store over the MongoDB driver.

use std::{
    collections::BTreeMap,
    hint::black_box,
    process,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use kith_lab_servers::people;
use kith_store::{Stores, Timestamp};
use kith_store_cluster::{ClusterHandle, MongoOptions, connect};
use mongodb::{
    Client, Collection, Database,
    bson::doc,
    options::{Acknowledgment, ClientOptions, ReadConcern, ReturnDocument, WriteConcern},
};
use serde::Deserialize;

use super::store::{BATCH, ReadSizes, Reads, Tiered, Updates, compare_reads, compare_updates};
use crate::{
    claims::{Plan, STORE_100_MONGODB, STORE_ONE_MONGODB, UPDATE_MONGODB},
    results::Results,
};

/// Runs the requested rows. Without MongoDB, no row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let is_asked = plan.wants_any(&[&STORE_ONE_MONGODB, &STORE_100_MONGODB, &UPDATE_MONGODB]);
    let Some(uri) = plan.mongodb.as_ref().filter(|_| is_asked) else { return Ok(()) };
    let users = plan.size(10_000, 400);
    let database = FilledDatabase::with(uri, users).await?;
    let measured = measure(plan, &database, users, results).await;
    database.remove().await?;
    measured
}

async fn measure(
    plan: &Plan,
    database: &FilledDatabase,
    users: i64,
    results: &mut Results<'_>,
) -> Result<()> {
    let (tiered, raw) = (Tiered::over(&database.stores.users), &database.raw);
    let one = compare_reads(plan, &tiered, raw, users, ReadSizes::one(plan));
    results.row(&STORE_ONE_MONGODB, one).await?;
    let many = compare_reads(plan, &tiered, raw, users, ReadSizes::many(plan));
    results.row(&STORE_100_MONGODB, many).await?;
    results.row(&UPDATE_MONGODB, compare_updates(plan, &tiered, raw, users)).await
}

/// A separate database with users in it, and both ways to it.
#[derive(Debug)]
pub(super) struct FilledDatabase {
    pub(super) stores: Stores,
    handle: ClusterHandle,
    pub(super) raw: Arc<RawUsers>,
}

impl FilledDatabase {
    pub(super) async fn with(uri: &str, users: i64) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let name = format!("kith_bench_{}_{now}", process::id());
        let options = MongoOptions::new(uri, &name);
        let raw = Arc::new(RawUsers::connect(&options).await?);
        let handle = connect(options).await?;
        let stores = handle.stores();
        stores.migrations.migrate().await.context("MongoDB cannot be filled")?;
        people::fill(&stores.users, users).await?;
        Ok(Self { stores, handle, raw })
    }

    pub(super) async fn remove(self) -> Result<()> {
        self.handle.close().await;
        self.raw.database.drop().await?;
        Ok(())
    }
}

/// A database as the driver opens it, with Kith's concerns.
pub(super) async fn durable_database(kith: &MongoOptions) -> Result<Database> {
    let mut options = ClientOptions::parse(&kith.uri).await?;
    options.max_pool_size = Some(kith.pool_max);
    options.read_concern = Some(ReadConcern::majority());
    let durable = WriteConcern::builder().w(Acknowledgment::Majority).journal(true);
    options.write_concern = Some(durable.w_timeout(kith.write_majority).build());
    Ok(Client::with_options(options)?.database(&kith.database))
}

/// The commands that a service would write by hand with the driver.
#[derive(Debug)]
pub(super) struct RawUsers {
    pub(super) database: Database,
    users: Collection<Document>,
}

/// A user as stored, decoded as the driver does it.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "decoding is what is measured")]
pub(super) struct Document {
    #[serde(rename = "_id")]
    id: i64,
    v: i64,
    name: String,
    #[serde(default)]
    nick: String,
    email: Option<String>,
    phone: Option<String>,
    #[serde(default)]
    gender: i32,
    #[serde(default)]
    age: i32,
    #[serde(default)]
    region: String,
    #[serde(default)]
    icon: String,
    #[serde(default)]
    params: BTreeMap<String, String>,
    created: i64,
    updated: i64,
}

impl RawUsers {
    async fn connect(kith: &MongoOptions) -> Result<Self> {
        let database = durable_database(kith).await?;
        Ok(Self { users: database.collection("users"), database })
    }
}

impl Reads for RawUsers {
    type Read = Vec<Document>;

    async fn read(&self, ids: &[i64]) -> Result<Self::Read> {
        if let [id] = ids {
            return Ok(vec![self.users.find_one(doc! { "_id": id }).await?.context("a user is missing")?]);
        }
        let batch = u32::try_from(BATCH)?;
        let cursor = self.users.find(doc! { "_id": { "$in": ids } }).batch_size(batch);
        let users: Vec<Document> = cursor.await?.try_collect().await?;
        ensure!(users.len() == ids.len(), "a user is missing");
        Ok(users)
    }
}

impl Updates for RawUsers {
    async fn rename(&self, id: i64, nick_name: String) -> Result<()> {
        let change =
            doc! { "$set": { "nick": nick_name, "updated": Timestamp::now().0 }, "$inc": { "v": 1_i64 } };
        let update = self.users.find_one_and_update(doc! { "_id": id }, change);
        let user = update.return_document(ReturnDocument::After).await?;
        black_box(user.context("a user is missing")?);
        Ok(())
    }
}
