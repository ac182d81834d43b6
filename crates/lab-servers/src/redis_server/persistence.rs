//! The data that a server keeps on a disk: a log of its writes, from which it goes on after its death.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::{Context as _, Result};

use super::RedisServer;

/// The log's folder, within the server's folder.
const LOG: &str = "appendonlydir";
/// Writes a log, and syncs it to the disk once a second. A log whose end is cut off is loaded.
const OPTIONS: [(&str, &str); 3] =
    [("appendonly", "yes"), ("appendfsync", "everysec"), ("aof-load-truncated", "yes")];

impl RedisServer {
    /// Logs all writes from now on, and a [`restart`](Self::restart) goes on from the log.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn keep_log(&mut self) -> Result<()> {
        for (name, value) in OPTIONS {
            self.ask(&["CONFIG", "SET", name, value]).await?;
            self.options.extend([format!("--{name}"), value.to_owned()]);
        }
        // The log contains the earlier data once it was rewritten.
        self.until("begin its log", async |server: &Self| {
            Ok(server.info("aof_rewrite_in_progress").await? == "0")
        })
        .await
    }

    /// Like [`Self::keep_log`], but in this folder, as long as the server runs.
    ///
    /// # Errors
    /// If it does not answer, or cannot write there.
    pub async fn keep_log_in(&self, folder: &Path) -> Result<()> {
        let folder = folder.to_str().context("the folder has a name in UTF-8")?;
        for (name, value) in [("dir", folder)].into_iter().chain(OPTIONS) {
            self.ask(&["CONFIG", "SET", name, value]).await?;
        }
        Ok(())
    }

    /// Cuts so many bytes off the end of a killed server's log, as a loss of power does.
    ///
    /// # Errors
    /// When there is no log.
    pub fn cut_log(&self, bytes: u64) -> Result<()> {
        let folder = self.folder.path().join(LOG);
        let is_log = |path: &Path| path.extension().is_some_and(|kind| kind == "aof");
        let newest = fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_log(path) && path.to_string_lossy().contains(".incr."))
            .max_by_key(|path| fs::metadata(path).and_then(|about| about.modified()).ok());
        let file = File::options().write(true).open(newest.context("the server has no log")?)?;
        Ok(file.set_len(file.metadata()?.len().saturating_sub(bytes))?)
    }
}
