//! The store behind a node for tests: SQLite in memory, seeded, and its copies.

use kith_store_sqlite::{SqliteHandle, open_in_memory_with};

use crate::{config::Config, node::seed::SeedRecords, start_error::StartError};

/// Reader threads in a sandbox: there may be many sandboxes, and each serves one test.
const SANDBOX_READERS: usize = 1;

/// Opens a store in memory, migrated, with the seed.
pub(crate) async fn open(config: &Config) -> Result<SqliteHandle, StartError> {
    let seed = config.ephemeral.seed.as_deref().map(SeedRecords::read).transpose()?;
    let handle = open_in_memory_with(config.store.sqlite.readers).await.map_err(no_memory)?;
    if let Some(seed) = seed {
        seed.apply(&handle.stores(), config).await?;
    }
    Ok(handle)
}

/// The initial content for new sandboxes.
#[derive(Debug)]
pub(crate) enum SandboxTemplate {
    /// The store starts empty.
    Empty,
    /// The seed. Nothing writes to it.
    Seeded(SqliteHandle),
}

impl SandboxTemplate {
    /// Copies a store without writes since it was opened.
    pub(crate) async fn of(config: &Config, store: &SqliteHandle) -> Result<Self, StartError> {
        if config.ephemeral.seed.is_none() {
            return Ok(Self::Empty);
        }
        store.copy_in_memory(SANDBOX_READERS).await.map(Self::Seeded).map_err(no_memory)
    }

    /// A migrated store with this content. It ends when it is dropped.
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
