//! Reads and writes that a service would do by hand with rusqlite: threads that read, and a thread that
//! commits in groups.

use std::{collections::BTreeMap, hint::black_box, thread};

use anyhow::{Context as _, Result, ensure};
use crossbeam_channel::{Receiver, Sender, bounded};
use kith_store::{Gender, Timestamp, UserId, Version};
use kith_store_sqlite::SqliteOptions;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};
use tokio::sync::oneshot;

use crate::rows::{
    raw_writer::{RawWriter, open_durable},
    store::{BATCH, Reads, Updates},
};

const COLUMNS: &str = "id, version, deleted, name, nick, email, phone, gender, age, region, icon, params, \
                       created_ms, updated_ms";

/// A record as one would write it down by hand.
#[derive(Debug)]
#[expect(dead_code, reason = "what it is read for happens outside of the bench")]
pub(super) struct RawUser {
    id: UserId,
    version: Version,
    user_name: String,
    nick_name: String,
    email: String,
    phone: String,
    gender: Gender,
    age: u8,
    region: String,
    icon: String,
    params: BTreeMap<String, String>,
    created: Timestamp,
    updated: Timestamp,
}

/// Threads that read, fed by one queue.
#[derive(Debug)]
pub(super) struct RawReaders(Sender<Read>);

#[derive(Debug)]
struct Read {
    ids: Vec<i64>,
    reply: oneshot::Sender<Result<Vec<RawUser>>>,
}

impl RawReaders {
    pub(super) fn start(options: &SqliteOptions) -> Result<Self> {
        let (sender, receiver) = bounded(options.queue);
        for _ in 0..options.readers {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = with_cache(Connection::open_with_flags(&options.path, flags)?, options)?;
            let queue = receiver.clone();
            thread::spawn(move || serve_reads(&connection, &queue));
        }
        Ok(Self(sender))
    }
}

impl Reads for RawReaders {
    type Read = Vec<RawUser>;

    async fn read(&self, ids: &[i64]) -> Result<Self::Read> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(Read { ids: ids.to_vec(), reply })?;
        let users = answer.await??;
        ensure!(users.len() == ids.len(), "a user is missing");
        Ok(users)
    }
}

fn serve_reads(connection: &Connection, queue: &Receiver<Read>) {
    let one = format!("SELECT {COLUMNS} FROM users WHERE id = ?1");
    let marks = ["?"; BATCH].join(", ");
    let many = format!("SELECT {COLUMNS} FROM users WHERE id IN ({marks})");
    while let Ok(Read { ids, reply }) = queue.recv() {
        let sql = if ids.len() == 1 { &one } else { &many };
        // The bench ends at the first failure, and with it every waiter.
        drop(reply.send(read(connection, sql, &ids)));
    }
}

fn read(connection: &Connection, sql: &str, ids: &[i64]) -> Result<Vec<RawUser>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(ids))?;
    let mut users = Vec::with_capacity(ids.len());
    while let Some(row) = rows.next()? {
        users.push(decode(row)?);
    }
    Ok(users)
}

/// Writes names by hand.
#[derive(Debug)]
pub(super) struct RawRenames(RawWriter<Rename, RawUser>);

#[derive(Debug)]
struct Rename {
    id: i64,
    nick_name: String,
}

impl RawRenames {
    pub(super) fn start(options: &SqliteOptions) -> Result<Self> {
        let connection = with_cache(open_durable(options)?, options)?;
        connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
        Ok(Self(RawWriter::start(connection, options.queue, options.group_commit_max, rename_all)))
    }
}

impl Updates for RawRenames {
    async fn rename(&self, id: i64, nick_name: String) -> Result<()> {
        black_box(self.0.write(Rename { id, nick_name }).await?);
        Ok(())
    }
}

fn rename_all(connection: &Connection, batch: &[Rename]) -> Result<Vec<RawUser>> {
    let update = format!(
        "UPDATE users SET nick = ?2, updated_ms = ?3, version = version + 1
         WHERE id = ?1 AND deleted = 0 RETURNING {COLUMNS}"
    );
    let rename = |Rename { id, nick_name }: &Rename| {
        let mut statement = connection.prepare_cached(&update)?;
        let mut rows = statement.query((id, nick_name, Timestamp::now().0))?;
        decode(rows.next()?.context("a user is missing")?)
    };
    batch.iter().map(rename).collect()
}

fn with_cache(connection: Connection, options: &SqliteOptions) -> Result<Connection> {
    let cache_kib = i64::try_from(options.cache_bytes / 1024)?;
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    Ok(connection)
}

fn decode(row: &Row<'_>) -> Result<RawUser> {
    let params: BTreeMap<String, String> = serde_json::from_str(row.get_ref(11)?.as_str()?)?;
    Ok(RawUser {
        id: UserId::new(row.get(0)?)?,
        version: Version::new(row.get(1)?).context("a version is below 0")?,
        user_name: row.get(3)?,
        nick_name: row.get(4)?,
        email: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
        phone: row.get::<_, Option<String>>(6)?.unwrap_or_default(),
        gender: gender(row.get(7)?)?,
        age: row.get(8)?,
        region: row.get(9)?,
        icon: row.get(10)?,
        params,
        created: Timestamp(row.get(12)?),
        updated: Timestamp(row.get(13)?),
    })
}

fn gender(number: u8) -> Result<Gender> {
    let known = [Gender::Unspecified, Gender::Female, Gender::Male, Gender::Other];
    known.get(usize::from(number)).copied().context("a gender is unknown")
}
