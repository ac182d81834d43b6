//! The store of a node for tests: SQLite in memory, seeded, and copies of it.

use kith_store_sqlite::{SqliteHandle, open_in_memory_with};

use crate::{config::Config, node::seed::Seed, start_error::StartError};

/// Threads that read in a sandbox: there may be many sandboxes, and each serves one test.
const SANDBOX_READERS: usize = 1;

/// Opens a store in memory, migrated, with what the seed holds.
pub(crate) async fn open(config: &Config) -> Result<SqliteHandle, StartError> {
    let seed = config.ephemeral.seed.as_deref().map(Seed::read).transpose()?;
    let handle = open_in_memory_with(config.store.sqlite.readers).await.map_err(no_memory)?;
    if let Some(seed) = seed {
        seed.apply(&handle.stores(), config).await?;
    }
    Ok(handle)
}

/// What new sandboxes begin as.
#[derive(Debug)]
pub(crate) enum Template {
    /// Nothing.
    Empty,
    /// The seed. Nothing writes to it.
    Seeded(SqliteHandle),
}

impl Template {
    /// Of a store that nothing has been written to since it was opened.
    pub(crate) async fn of(config: &Config, store: &SqliteHandle) -> Result<Self, StartError> {
        if config.ephemeral.seed.is_none() {
            return Ok(Self::Empty);
        }
        store.copy_in_memory(SANDBOX_READERS).await.map(Self::Seeded).map_err(no_memory)
    }

    /// A migrated store that begins so. Dropping it ends it.
    pub(crate) async fn open(&self) -> Result<SqliteHandle, StartError> {
        match self {
            Self::Empty => open_in_memory_with(SANDBOX_READERS).await.map_err(no_memory),
            Self::Seeded(seed) => seed.copy_in_memory(SANDBOX_READERS).await.map_err(no_memory),
        }
    }
}

fn no_memory(error: impl std::fmt::Display) -> StartError {
    StartError::new(format!("a store in memory cannot be opened: {error}"))
}
