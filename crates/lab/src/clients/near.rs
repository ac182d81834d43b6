//! A process with a near cache, and its node, are paused: what the cache returns is not older than it
//! promises.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use kith_client::{Client, NearCache};
use kith_lab_servers::{proxy::Mode, signal::signal};
use kith_proto::user::v1::{UpdateUserRequest, User, user_service_client::UserServiceClient};
use serde::{Deserialize, Serialize};
use tokio::{
    process::{Child, Command},
    time::sleep,
};
use tonic::transport::Channel;

use crate::faults::{Plan, Site};

const USERS: i64 = 8;
const NODES: u32 = 2;
/// How often each fault occurs.
const ROUNDS: u32 = 4;
const PAUSED_FOR: Duration = Duration::from_millis(2_500);
const HEALTHY_FOR: Duration = Duration::from_secs(2);
/// How old a cached answer of a node may be after a pause or without broadcasts, and the second of the copy.
const PROMISED: Duration = Duration::from_secs(3 + 1);

/// Runs a cluster of two nodes, and this program as the reader of one of them.
#[derive(Clone, Debug)]
pub struct NearTrial {
    /// The program that runs a node.
    pub kith: PathBuf,
    /// The program that has the command `near-reader`.
    pub reader: PathBuf,
}

/// The reader has seen this.
#[derive(Clone, Copy, Debug)]
pub struct NearReport {
    /// How many reads were answered.
    pub reads: u64,
    /// How many changes were acknowledged.
    pub changes: usize,
    /// For how long the most outdated answer had been outdated when its read began.
    pub oldest: Duration,
}

/// A reader prints this at its end.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    reads: u64,
    answers: Vec<Answer>,
}

/// A user's number, and when the last read began that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    user: i64,
    number: u64,
    last_began: u64,
}

/// The changes of each user: when each number was acknowledged, in microseconds.
type Changes = BTreeMap<i64, Vec<(u64, u64)>>;

impl NearReport {
    /// Whether no answer was older than promised.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.oldest <= PROMISED && self.changes > 0 && self.reads > 0
    }
}

impl NearTrial {
    /// Runs all faults, while users change all the time.
    ///
    /// # Errors
    /// If a program does not run, or a change fails.
    pub async fn run(&self) -> Result<NearReport> {
        let mut site = Site::with_users(&Plan::new(self.kith.clone(), NODES, 1), USERS).await?;
        let (writer, read_node) = (site.channels().swap_remove(0), site.members[1].node.address());
        let reader = start(&self.reader, read_node)?;
        let is_over = AtomicBool::new(false);
        let pausing = async {
            let paused = pause(&mut site, &reader).await;
            is_over.store(true, Ordering::Relaxed);
            paused
        };
        let (changes, ()) = tokio::try_join!(change(writer, &is_over), pausing)?;
        let seen = end(reader).await?;
        let count = changes.values().map(Vec::len).sum();
        Ok(NearReport { reads: seen.reads, changes: count, oldest: oldest(&seen.answers, &changes) })
    }
}

/// Reads users by a near cache until its input ends, and prints what it saw.
///
/// # Errors
/// If the client cannot be made, or the standard output is closed.
pub async fn read_near(address: SocketAddr) -> Result<()> {
    let near = NearCache::new(Client::builder().address(address.to_string()).connect()?, 100);
    let reading = async {
        let (mut seen, mut last) = (Seen::default(), BTreeMap::<i64, Answer>::new());
        let ended = wait_for_end();
        tokio::pin!(ended);
        loop {
            for user in 1..=USERS {
                let last_began = now();
                let Ok(Some(read)) = near.user(user).await else { continue };
                let answer = Answer { user, number: number(&read), last_began };
                seen.reads += 1;
                let replaced = last.insert(user, answer).filter(|last| last.number != answer.number);
                seen.answers.extend(replaced);
            }
            tokio::select! {
                () = &mut ended => break,
                () = sleep(Duration::from_millis(1)) => {}
            }
        }
        seen.answers.extend(last.into_values());
        seen
    };
    println!("{}", serde_json::to_string(&reading.await)?);
    Ok(())
}

async fn wait_for_end() {
    let end = || io::stdin().read_to_end(&mut Vec::new());
    drop(tokio::task::spawn_blocking(end).await);
}

fn number(user: &User) -> u64 {
    user.nick_name.parse().unwrap_or_default()
}

/// Microseconds since 1970, by the clock that both processes share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn start(program: &Path, address: SocketAddr) -> Result<Child> {
    let mut command = Command::new(program);
    command.arg("near-reader").arg(address.to_string()).kill_on_drop(true);
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

async fn end(mut reader: Child) -> Result<Seen> {
    drop(reader.stdin.take());
    let output = reader.wait_with_output().await?;
    ensure!(output.status.success(), "the reader has ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("the reader has printed something else")
}

/// Changes the users in turn.
async fn change(node: Channel, is_over: &AtomicBool) -> Result<Changes> {
    let (mut users, mut changes) = (UserServiceClient::new(node), Changes::new());
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        for user_id in 1..=USERS {
            let user = User { user_id, nick_name: number.to_string(), ..User::default() };
            let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
            let request = UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
            users.update_user(request).await?;
            changes.entry(user_id).or_default().push((number, now()));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(changes)
}

/// Pauses the reader, then its node, then what its node hears of others.
async fn pause(site: &mut Site, reader: &Child) -> Result<()> {
    let process = reader.id().context("the reader runs")?;
    for _ in 0..ROUNDS {
        signal(process, "STOP")?;
        sleep(PAUSED_FOR).await;
        signal(process, "CONT")?;
        sleep(HEALTHY_FOR).await;
        let node = &site.members[1].node;
        node.signal("STOP")?;
        sleep(PAUSED_FOR).await;
        node.signal("CONT")?;
        site.until_trusted().await?;
        site.members[1].to_redis.set_subscriptions(Mode::Freeze);
        sleep(PAUSED_FOR).await;
        site.members[1].to_redis.set_subscriptions(Mode::Pass);
        site.until_trusted().await?;
    }
    Ok(())
}

/// For how long the most outdated answer had been outdated: since the next number was acknowledged.
fn oldest(answers: &[Answer], changes: &Changes) -> Duration {
    let outdated = answers.iter().filter_map(|answer| {
        let changes = changes.get(&answer.user)?;
        let (_, next) = changes.iter().find(|(number, _)| *number > answer.number)?;
        Some(answer.last_began.saturating_sub(*next))
    });
    Duration::from_micros(outdated.max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_the_next_acknowledged_change() {
        let changes = Changes::from([(1, vec![(1, 1_000), (2, 2_000), (3, 9_000)])]);
        let answer = |number, last_began| Answer { user: 1, number, last_began };
        let age = |answers: &[Answer]| oldest(answers, &changes).as_micros();
        assert_eq!(age(&[answer(3, 90_000)]), 0, "nothing came after it");
        assert_eq!(age(&[answer(1, 1_900)]), 0, "the next one was not acknowledged");
        assert_eq!(age(&[answer(1, 2_500), answer(2, 9_400), answer(3, 9_500)]), 500);
    }
}
