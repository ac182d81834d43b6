//! Memory of an entry, measured in a process that does nothing else.

use std::{fs, sync::Arc};

use anyhow::{Context as _, Result};
use kith_lab_servers::people;
use kith_store::User;

use crate::rows::memory::{SameValueLoader, fill, kith_cache, moka_cache};

const PAGE_BYTES: i64 = 4096;

/// What holds the entries.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Kind {
    /// moka alone.
    Moka,
    /// The memory tier of Kith.
    Kith,
}

/// Fills an empty memory tier with `entries` of one shared value. Returns by how many bytes the process
/// has grown for each.
///
/// # Errors
/// When /proc cannot be read or the tier loses entries.
pub async fn bytes_an_entry(kind: Kind, entries: i64) -> Result<i64> {
    let value = Arc::new(people::user(1)?);
    match kind {
        Kind::Moka => moka(&value, entries),
        Kind::Kith => kith(value, entries).await,
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
