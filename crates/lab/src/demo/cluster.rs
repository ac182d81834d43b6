//! The demonstration's cluster.

use std::{
    fs::File,
    io::BufRead as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use tokio::{process::Command, time::Instant};
use tonic::{Status, transport::Channel};

use super::{Demo, PrintLine, words::seconds};
use crate::faults::{
    Plan, Site,
    calls::{renaming, with_deadline},
};

const NODES: u32 = 3;
/// Users that are read and written all the while, the first in the file.
const WATCHED: usize = 200;

/// Three nodes, and the servers that they share.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) site: Site,
    /// Users that are there.
    pub(super) users: Vec<i64>,
    kith: PathBuf,
}

/// One answer to a read.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) version: i64,
    /// memory, redis or store.
    pub(super) tier: String,
    pub(super) took: Duration,
}

impl Cluster {
    /// Starts the cluster, fills it, and shows its parts.
    pub(super) async fn start(demo: &Demo, print: PrintLine<'_>) -> Result<Self> {
        print("THREE NODES over one Redis and one MongoDB, each in a process of its own");
        let began = Instant::now();
        let site = Site::start(&Plan::new(demo.kith.clone(), NODES, 1)).await?;
        let users = first_ids(&demo.users)?;
        let cluster = Self { site, users, kith: demo.kith.clone() };
        print(&format!(
            "  started, and each proves that it receives what the others publish: {}",
            seconds(began.elapsed())
        ));
        cluster.import(&demo.users, print).await?;
        print("  $ kith status");
        let addresses = cluster.addresses().join(",");
        cluster.kith(&["status", "--addr", &addresses, "-o", "table"], print).await?;
        Ok(cluster)
    }

    /// The nodes' names, and a channel to each.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (char, Channel)> {
        ('A'..).zip(self.site.channels())
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.site.members.iter().map(|member| format!("http://{}", member.node.address())).collect()
    }

    async fn import(&self, users: &Path, print: PrintLine<'_>) -> Result<()> {
        // The command writes its progress into the file's folder.
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("users.jsonl");
        std::fs::copy(users, &copy).context("the sample cannot be read")?;
        let (file, address) = (copy.to_string_lossy(), self.addresses().swap_remove(0));
        print("  $ kith import users users.jsonl");
        let began = Instant::now();
        self.kith(&["import", "users", &file, "--addr", &address, "-o", "table"], print).await?;
        print(&format!("  that took {}", seconds(began.elapsed())));
        Ok(())
    }

    /// Runs a command with the program, and prints its output.
    pub(super) async fn kith(&self, arguments: &[&str], print: PrintLine<'_>) -> Result<()> {
        let output = Command::new(&self.kith).args(arguments).env_clear().kill_on_drop(true).output().await?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            print(&format!("    {line}"));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "kith {} ended with {}: {errors}",
            arguments.join(" "),
            output.status
        );
        Ok(())
    }
}

/// Reads a user, from memory where that may answer.
pub(super) async fn read(node: Channel, user_id: i64) -> Result<Read, Status> {
    let began = Instant::now();
    let asked = with_deadline(GetUserRequest { user_id, consistency: None });
    let answer = UserServiceClient::new(node).get_user(asked).await?;
    let took = began.elapsed();
    let tier = answer.metadata().get("kith-tier").and_then(|tier| tier.to_str().ok());
    let tier = tier.unwrap_or("nowhere").to_owned();
    let version = answer.into_inner().user.map_or(0, |user| user.version);
    Ok(Read { version, tier, took })
}

/// Gives a user another nickname; the version that it has then.
pub(super) async fn write(node: Channel, user_id: i64, nick_name: String) -> Result<i64, Status> {
    let asked = renaming(user_id, nick_name, String::new());
    let answer = UserServiceClient::new(node).update_user(with_deadline(asked)).await?;
    Ok(answer.into_inner().user.map_or(0, |user| user.version))
}

fn first_ids(file: &Path) -> Result<Vec<i64>> {
    let file = File::open(file).context("there is no sample")?;
    let lines = std::io::BufReader::new(file).lines().take(WATCHED);
    lines.map(|line| id(&line?)).collect()
}

fn id(line: &str) -> Result<i64> {
    let user: serde_json::Value = serde_json::from_str(line).context("a line of the sample is no JSON")?;
    user.get("userId").and_then(serde_json::Value::as_i64).context("a user of the sample has no id")
}
