//! A backup has all collections and tables, and a restore all cells with the times of their writes.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use kith_store::{GroupId, IdKind, Stores, UserId};
use kith_store_cluster::{
    ClusterHandle,
    backup::{BackupError, BackupManifest, BackupStore},
    verify_backup,
};
use mongodb::bson::{Document, doc};
use scylla::client::session::Session;

use crate::server::{self, DatabaseGuard};

/// More rows than a page has.
const MANY: i64 = 2_500;
/// Static cells alone, a row of a key alone, cells of several times, and cells that expire.
const ROWS: [&str; 8] = [
    "INSERT INTO %k.members (grp, version, living) VALUES (7, 3, 0)",
    "INSERT INTO %k.banned_from (member, grp) VALUES (1, 2)",
    "INSERT INTO %k.follows (edge, placed, live, version) VALUES (0x0102, 1, 1, 5) USING TIMESTAMP 5",
    "UPDATE %k.follows USING TIMESTAMP 9 AND TTL 5000 SET live = 0, version = 9 WHERE edge = 0x0102",
    "INSERT INTO %k.blocks (owner, kind, placed, other, live, remark) VALUES (1, 0, 0, 2, 1, '')",
    "UPDATE %k.members USING TTL 7 SET reply = 'r', named = [1, 2] WHERE grp = 8 AND kind = 2 AND place = 1 AND member = 1",
    "INSERT INTO %k.requests (id, plan) VALUES ('one', 'two')",
    "INSERT INTO %k.relation_log (owner, month, id, body) VALUES (1, 2, 3, 'x') USING TTL 100000",
];

struct Stage {
    stores: Stores,
    handle: ClusterHandle,
    session: Session,
    keyspace: String,
    database: mongodb::Database,
    folder: tempfile::TempDir,
    _cleaning: DatabaseGuard,
}

impl Stage {
    async fn open() -> Self {
        let (mongo, cql) = (server::options(), server::cql_options());
        let (stores, cleaning) = server::open_relations(mongo.clone(), cql.clone()).await;
        let handle = kith_store_cluster::connect(mongo.clone()).await.unwrap();
        Self {
            stores,
            handle: handle.with_idle_relations(cql.clone()).unwrap(),
            session: server::session().await,
            keyspace: cql.keyspace,
            database: server::database(&mongo).await,
            folder: tempfile::tempdir().unwrap(),
            _cleaning: cleaning,
        }
    }

    async fn run(&self, text: &str) {
        self.session.query_unpaged(text.replace("%k", &self.keyspace), ()).await.unwrap();
    }

    /// The tables' names, of which each has its columns that are not in its key.
    async fn tables(&self) -> Vec<(String, Vec<String>)> {
        let text = "SELECT table_name, column_name, kind FROM system_schema.columns WHERE keyspace_name = ?";
        let found =
            self.session.query_unpaged(text, (&self.keyspace,)).await.unwrap().into_rows_result().unwrap();
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for row in found.rows::<(String, String, String)>().unwrap() {
            let (table, column, kind) = row.unwrap();
            if all.last().is_none_or(|(last, _)| *last != table) {
                all.push((table, Vec::new()));
            }
            if kind == "static" || kind == "regular" {
                all.last_mut().unwrap().1.push(column);
            }
        }
        all
    }

    /// All rows, each as a text with the times of its cells.
    async fn rows(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (table, columns) in self.tables().await {
            let found =
                self.session.query_unpaged(format!("SELECT JSON * FROM {}.{table}", self.keyspace), ()).await;
            for row in found.unwrap().into_rows_result().unwrap().rows::<(String,)>().unwrap() {
                assert!(all.insert(format!("{table} {}", row.unwrap().0)));
            }
            for column in columns {
                let text =
                    format!("SELECT JSON WRITETIME({column}), {column} FROM {}.{table}", self.keyspace);
                let found = self.session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
                all.extend(
                    found.rows::<(String,)>().unwrap().map(|row| format!("{table} {}", row.unwrap().0)),
                );
            }
        }
        all
    }

    /// What is left to the follow's cells that expire.
    async fn time_to_live(&self) -> i32 {
        let text = format!("SELECT TTL(live) FROM {}.follows", self.keyspace);
        let found = self.session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
        found.single_row::<(i32,)>().unwrap().0
    }

    async fn back_up(&self, name: &str) -> BackupManifest {
        self.handle.back_up(&self.folder.path().join(name), &|_| ()).await.unwrap()
    }

    async fn restore(&self, name: &str) -> Result<(), BackupError> {
        let folder = self.folder.path().join(name);
        let backup = verify_backup(&folder, &|_| ())?;
        self.handle.restore(&folder, &backup, &|_| ()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn no_collection_or_table_is_forgotten() {
    let stage = Stage::open().await;
    let backup = stage.back_up("one").await;
    let of = |store| -> BTreeSet<String> {
        backup.files.iter().filter(|file| file.store == store).map(|file| file.name.clone()).collect()
    };
    let collections = stage.database.list_collection_names().await.unwrap();
    assert_eq!(of(BackupStore::Mongodb), collections.into_iter().collect());
    let tables = stage.tables().await;
    assert_eq!(of(BackupStore::Cql), tables.into_iter().map(|(name, _)| name).collect());
}

/// The backup copies memberships before members, so that a member who joins in between lacks the membership.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn restored_member_has_its_membership() {
    let stage = Stage::open().await;
    stage
        .run(
            "INSERT INTO %k.members (grp, version, kind, place, member, live, changed, role, ordinal, remark, \
             muted_until, joined, named) VALUES (9, 5, 0, 0, 3, 1, 5, 1, 1, '', 0, 1, [])",
        )
        .await;
    let before = stage.stores.members.memberships(UserId::new(3).unwrap(), None, 10).await.unwrap();
    assert!(before.is_empty());
    stage.back_up("one").await;
    stage.restore("one").await.unwrap();
    let after = stage.stores.members.memberships(UserId::new(3).unwrap(), None, 10).await.unwrap();
    assert_eq!(after, [GroupId::new(9).unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn rows_keep_the_times_of_their_cells() {
    let stage = Stage::open().await;
    for row in ROWS {
        stage.run(row).await;
    }
    let large = |number| {
        let stage = &stage;
        async move {
            let row = "INSERT INTO %k.members (grp, version, kind, place, member, live) VALUES";
            stage.run(&format!("{row} (9, 5, 1, 0, {number}, 1)")).await;
            let row = "INSERT INTO %k.memberships (member, grp, live) VALUES";
            stage.run(&format!("{row} ({number}, 9, 1)")).await;
        }
    };
    stream::iter(0..MANY).map(large).buffer_unordered(32).collect::<Vec<()>>().await;
    let (users, before) = (stage.database.collection::<Document>("users"), stage.rows().await);
    users.insert_one(doc! { "_id": 5_i64, "nick": "ann" }).await.unwrap();
    let backup = stage.back_up("one").await;
    assert!(before.len() > 4 * usize::try_from(MANY).unwrap());
    users.update_one(doc! { "_id": 5_i64 }, doc! { "$set": { "nick": "eve" } }).await.unwrap();
    stage.run("DELETE FROM %k.members WHERE grp = 9").await;
    stage.run("UPDATE %k.follows SET live = 1 WHERE edge = 0x0102").await;
    for _ in 0..2 {
        assert!(stage.handle.holds_data().await.unwrap());
        stage.restore("one").await.unwrap();
        assert!(!stage.handle.holds_data().await.unwrap(), "it has not ended");
        assert!(stage.stores.migrations.status().await.is_err());
        stage.handle.end_restore().await.unwrap();
        stage.stores.migrations.restore_indexes().await.unwrap();
        let after = stage.rows().await;
        let has_expired =
            |row: &&String| ["[1, 2]", "\"r\"", ")\": null"].iter().any(|part| row.contains(part));
        let differing: Vec<_> = before.symmetric_difference(&after).filter(|row| !has_expired(row)).collect();
        assert!(differing.is_empty(), "{differing:?}");
        assert!((1..=5_000).contains(&stage.time_to_live().await));
        let found = users.find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(found, doc! { "_id": 5_i64, "nick": "ann" });
    }
    assert_eq!(backup.rows("users"), 1);
    // Ids continue.
    stage.stores.node.allocate_ids(IdKind::User, 1).await.unwrap();
}
