//! Runs the program of a client on a cluster, and judges it.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use kith_lab_servers::proxy::Proxy;
use tonic::transport::Channel;

use super::{
    disturbance::{ROUND, disturb},
    judge::{StoredMessage, Violation, judge},
    program::{Chat, Task, TrialProgram},
};
use crate::faults::{
    Plan, Site,
    calls::{retried, whole_log},
};

/// The clients, and where each has its `trial.sh` in the checkout.
pub const CLIENTS: [(&str, &str); 4] = [
    ("go", "clients/go"),
    ("python", "clients/python"),
    ("typescript", "clients/typescript"),
    ("rust", "crates/client"),
];
/// Conversations, which a program sends to at the same time.
const CHATS: i64 = 16;
const NODES: u32 = 2;

/// The work that all clients do.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The program that runs a node.
    pub kith: PathBuf,
    /// The checkout with the clients.
    pub checkout: PathBuf,
    /// How many messages are sent, at least.
    pub messages: u64,
}

/// The work that a client has done.
#[derive(Debug)]
pub struct TrialReport {
    /// How many messages were acknowledged.
    pub sent: u64,
    /// How many calls have failed finally, and were made again by the program.
    pub failed: u64,
    /// An error of these calls.
    pub last_error: Option<String>,
    /// How many faults there were.
    pub faults: u64,
    /// How long the program has run.
    pub took: Duration,
    /// Where a promise does not hold.
    pub violations: Vec<Violation>,
}

impl Trial {
    /// Runs the client's program in this folder.
    ///
    /// # Errors
    /// If a server or the program does not run, or the program has ended before each fault has been there.
    pub async fn run(&self, folder: &str) -> Result<TrialReport> {
        let mut site = Site::with_users(&Plan::new(self.kith.clone(), NODES, 1), 2 * CHATS).await?;
        let starting = site.members.iter().map(|member| Proxy::start(member.node.address(), 1));
        let links = try_join_all(starting).await?;
        let task = Task {
            addresses: links.iter().map(Proxy::address).collect(),
            chats: (1..=CHATS).map(|chat| Chat { from: chat, to: chat + CHATS }).collect(),
            messages: self.messages.div_ceil(CHATS.unsigned_abs()),
        };
        let script = self.checkout.join(folder).join("trial.sh");
        let program = TrialProgram::start(&script, &task).await?;
        let (began, is_over) = (Instant::now(), AtomicBool::new(false));
        let ending = async {
            let printed = program.end().await;
            is_over.store(true, Ordering::Relaxed);
            Ok::<_, anyhow::Error>((printed?, began.elapsed()))
        };
        let ((printed, took), faults) = tokio::try_join!(ending, disturb(&mut site, &links, &is_over))?;
        ensure!(faults >= ROUND, "the program has ended after {faults} faults: it needs more messages");
        let node = site.channels().into_iter().next().context("there is a node")?;
        let pulling = task.chats.iter().enumerate().map(|(place, chat)| {
            let sent = printed.acknowledged.iter().filter(|message| message.chat == place);
            pull(&node, chat, sent.map(|message| message.seq).max().unwrap_or_default())
        });
        let stored = try_join_all(pulling).await?;
        Ok(TrialReport {
            sent: printed.acknowledged.len() as u64,
            failed: printed.failed,
            last_error: printed.last_error,
            faults,
            took,
            violations: judge(task.messages, &printed.acknowledged, &stored),
        })
    }
}

/// All messages of a conversation. Its highest acknowledged number is `last`, without which a read may be
/// late.
async fn pull(node: &Channel, chat: &Chat, last: i64) -> Result<Vec<StoredMessage>> {
    let conversation = format!("d{}-{}", chat.from, chat.to);
    let pulled = retried(async || whole_log(node, &conversation, last).await).await;
    let messages = pulled.with_context(|| format!("{conversation} cannot be read"))?.into_iter();
    Ok(messages.map(|message| StoredMessage { seq: message.seq, id: message.client_message_id }).collect())
}
