//! Finds damaged pages in the data file.

use std::time::Duration;

use kith_server::config::Config;

use super::Finding;

/// Checks the data file's pages within the time, also while a node runs.
#[cfg(feature = "embedded")]
pub(super) async fn findings(config: &Config, limit: Duration) -> Vec<Finding> {
    use kith_server::{config::Backend, node::store::data_file};

    use crate::output::note;

    if config.store.backend != Backend::Sqlite {
        return Vec::new();
    }
    let file = data_file(config);
    let shown = file.display().to_string();
    match kith_store_sqlite::quick_check(file, limit).await {
        Ok(Some(faults)) => faults.first().map(|fault| damaged(&shown, fault)).into_iter().collect(),
        Ok(None) => {
            let limit = humantime::format_duration(limit);
            note(&format!(
                "kith: {limit} were not enough to check all pages of {shown}; --timeout gives it longer"
            ));
            Vec::new()
        }
        // The store group opens it, and reports why it cannot be opened.
        Err(_) => Vec::new(),
    }
}

#[cfg(not(feature = "embedded"))]
pub(super) async fn findings(_config: &Config, _limit: Duration) -> Vec<Finding> {
    Vec::new()
}

/// SQLite's faults name pages and tables, but no stored data.
#[cfg(feature = "embedded")]
fn damaged(file: &str, fault: &str) -> Finding {
    let fault = crate::output::one_line(fault);
    let finding = format!("{file} is damaged: {fault}");
    Finding::new(
        finding,
        "kith restore --help  # stop the node and restore a backup; look for a fault of the disk",
    )
}
