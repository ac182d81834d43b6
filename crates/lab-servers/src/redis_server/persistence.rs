//! What a server keeps on a disk: a log of what was written, from which it goes on after its death.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::{Context as _, Result};

use super::RedisServer;

/// Folder of the log, within that of the server.
const LOG: &str = "appendonlydir";
/// Writes a log, and syncs it to the disk once a second. A log whose end is cut off is loaded.
const OPTIONS: [(&str, &str); 3] =
    [("appendonly", "yes"), ("appendfsync", "everysec"), ("aof-load-truncated", "yes")];

impl RedisServer {
    /// From now on it logs what is written, and a [`restart`](Self::restart) goes on from the log.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn keep_log(&mut self) -> Result<()> {
        for (name, value) in OPTIONS {
            self.ask(&["CONFIG", "SET", name, value]).await?;
            self.options.extend([format!("--{name}"), value.to_owned()]);
        }
        // What it had before is part of the log once that was written again.
        self.until("begin its log", async |server: &Self| {
            Ok(server.info("aof_rewrite_in_progress").await? == "0")
        })
        .await
    }

    /// The same in this folder, as long as the server runs.
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

    /// Takes so many bytes from the end of the log of a server that was killed: what a loss of power does.
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
