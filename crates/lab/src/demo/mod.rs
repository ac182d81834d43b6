//! A cluster at work, for people to watch: three nodes over a real Redis and a real MongoDB, on this machine
//! alone. Readers read on every node all the while, a writer writes, and after each chapter their statistics
//! are printed.

mod cluster;
mod faults;
mod follow;
mod read_stats;
mod readers;
mod tiers;
mod words;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use tokio::time::Instant;

use self::{cluster::Cluster, readers::DemoReaders, words::seconds};
use crate::faults::bounds;

/// The demonstration's configuration: its program and its import file.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The program that runs a node.
    pub kith: PathBuf,
    /// Users to import, as JSON Lines.
    pub users: PathBuf,
}

/// Prints one line.
pub type PrintLine<'a> = &'a mut (dyn FnMut(&str) + Send);

impl Demo {
    /// Runs the demonstration from beginning to end, some forty seconds. Nothing is left: the servers, their
    /// data and the nodes are removed at the end, also if it fails.
    ///
    /// # Errors
    /// If a program does not start, or any result differs from the text, including a read beyond its bound.
    pub async fn run(&self, print: PrintLine<'_>) -> Result<()> {
        let began = Instant::now();
        let mut cluster = Cluster::start(self, print).await?;
        tiers::show(&cluster, print).await?;
        follow::show(&cluster, print).await?;
        let readers = DemoReaders::start(&cluster);
        faults::redis_away(&mut cluster, &readers, print).await?;
        faults::node_killed(&mut cluster, &readers, print).await?;
        let stats = readers.stop().await;
        print("");
        print("IN THE END");
        print(&format!("  all readers together: {stats}"));
        let bound = bounds().faulty.bound;
        ensure!(stats.oldest() <= bound, "a read was older than {}", seconds(bound));
        print(&format!(
            "  no read was older than {}, which is promised whatever happens to Redis or a node",
            seconds(bound)
        ));
        drop(cluster);
        print(&format!(
            "  the nodes, Redis, MongoDB and their data are gone; that took {}",
            seconds(began.elapsed())
        ));
        Ok(())
    }
}
