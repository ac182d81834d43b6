//! Memory that an entry takes, measured in a process that does nothing else.

use std::{fmt, fs, sync::Arc};

use anyhow::{Context as _, Result};
use kith_cache::remote::Codec as _;
use kith_cache::{Key, Loaded, Version};
use kith_lab_servers::people;
use kith_service::write::record_codec::RecordCodec;
use kith_store::{GroupId, Member, MemberKey, Role, Timestamp, User, UserId};

use crate::rows::memory::{MadeLoader, SameValueLoader, fill, kith_cache, made_cache, moka_cache};

const PAGE_BYTES: i64 = 4096;
/// Bytes in a stored user.
const USER_BYTES: usize = 300;

/// The structure that holds the entries.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Kind {
    /// moka without Kith.
    Moka,
    /// Kith's memory tier.
    Kith,
    /// Kith's memory tier with a user of 300 bytes for each entry.
    User,
    /// With a membership for each.
    Membership,
    /// With an absent membership for each.
    Absence,
}

/// The memory that an entry takes.
#[derive(Clone, Copy, Debug)]
pub struct EntryBytes {
    /// Bytes by which the process has grown.
    pub grown: i64,
    /// Bytes that the memory tier counts.
    pub counted: i64,
}

/// Fills an empty memory tier with `entries`, which share a value or have their own.
///
/// # Errors
/// When /proc cannot be read or the tier loses entries.
pub async fn bytes_an_entry(kind: Kind, entries: i64) -> Result<EntryBytes> {
    let value = Arc::new(people::user(1)?);
    match kind {
        Kind::Moka => moka(&value, entries).map(|grown| EntryBytes { grown, counted: grown }),
        Kind::Kith => kith(value, entries).await.map(|grown| EntryBytes { grown, counted: grown }),
        Kind::User => made((0..entries).collect(), of_300_bytes, User::weight).await,
        Kind::Membership => made(memberships(entries)?, |key| Ok(Some(member(*key))), Member::weight).await,
        Kind::Absence => made(memberships(entries)?, |_| Ok(None), Member::weight).await,
    }
}

async fn made<K: Key, V: fmt::Debug + Send + Sync + 'static>(
    keys: Vec<K>,
    make: fn(&K) -> Result<Option<V>>,
    weight: fn(&V) -> usize,
) -> Result<EntryBytes> {
    let load = move |key: &K| {
        // A value that cannot be made is noticed by the number of entries.
        make(key).ok().flatten().map_or(Loaded::Absent { version: Version::UNVERSIONED }, |value| {
            Loaded::Found { value: Arc::new(value), version: Version::new(1) }
        })
    };
    let (node, cache) = made_cache(MadeLoader(load), weight);
    let before = resident_bytes()?;
    fill(&node, &cache, &keys).await?;
    let grown = resident_bytes()? - before;
    let counted: u64 = node.namespaces().iter().map(|namespace| namespace.stats().weight_bytes).sum();
    let entries = i64::try_from(keys.len())?;
    Ok(EntryBytes { grown: grown / entries, counted: i64::try_from(counted)? / entries })
}

/// A user with an icon that makes it as large.
fn of_300_bytes(id: &i64) -> Result<Option<User>> {
    let mut user = people::user(id + 1)?;
    let lacking = USER_BYTES.saturating_sub(RecordCodec::USER.encode(&user).len());
    user.icon = format!("{}{}", user.icon, "x".repeat(lacking)).as_str().into();
    Ok(Some(user))
}

/// Distributes the memberships over groups of ten.
fn memberships(entries: i64) -> Result<Vec<MemberKey>> {
    let key = |at: i64| Ok(MemberKey { group: GroupId::new(at / 10 + 1)?, user: UserId::new(at + 1)? });
    (0..entries).map(key).collect()
}

fn member(key: MemberKey) -> Member {
    Member {
        key,
        version: kith_store::Version::FIRST,
        role: Role::Member,
        ordinal: 1,
        remark: "".into(),
        muted_until: None,
        joined: Timestamp(0),
        from_seq: 0,
        joined_seq: 1,
    }
}

fn moka(value: &Arc<User>, entries: i64) -> Result<i64> {
    let cache = moka_cache();
    let before = resident_bytes()?;
    for key in 0..entries {
        cache.insert(key, Arc::clone(value));
    }
    cache.run_pending_tasks();
    let grown = resident_bytes()? - before;
    anyhow::ensure!(cache.entry_count().cast_signed() == entries, "moka lost entries");
    Ok(grown / entries)
}

async fn kith(value: Arc<User>, entries: i64) -> Result<i64> {
    let (node, cache) = kith_cache(SameValueLoader(value));
    let keys: Vec<i64> = (0..entries).collect();
    let before = resident_bytes()?;
    fill(&node, &cache, &keys).await?;
    let grown = resident_bytes()? - before;
    Ok(grown / entries)
}

fn resident_bytes() -> Result<i64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: i64 = statm.split(' ').nth(1).context("/proc/self/statm is too short")?.parse()?;
    Ok(pages * PAGE_BYTES)
}
