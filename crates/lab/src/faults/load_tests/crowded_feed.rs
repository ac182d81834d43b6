//! A node dies after it has changed a user and before it has published that, while another program changes
//! very many dialogs: the change feed has to come through all of them to that user.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kith_proto::user::v1::user_service_client::UserServiceClient;
use mongodb::{
    Collection,
    bson::{Document, doc},
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{
    Sizes,
    by_hand::nick_name,
    orphaned::{LOOK, PATIENCE, QUIET, VISIBLE_WITHIN, restart},
};
use crate::faults::{
    Figure, Plan, Site,
    calls::{renaming, with_deadline},
    figure::float,
    site::NAME,
};

/// The node that writes next dies after its commit.
const DIES: &str = "after_commit=die@1";
const USER: i64 = 1;
/// Of so many writes one dialog is changed each second.
const WRITES_A_DIALOG: u64 = 5;
/// The dialogs' users have ids from here on: no node has copies for them.
const FIRST_STRANGER: i64 = 1_000_000;
/// How long dialogs are changed before the node writes.
const BEFORE: Duration = Duration::from_secs(10);
/// How long the change is looked for.
const LOOKED_FOR: Duration = Duration::from_secs(60);

/// Figures: changes of dialogs, and how long the other node answered the previous state.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut plan = Plan { nodes: 2, ..plan.clone() };
    plan.settings.push(QUIET.to_owned());
    let mut site = Site::with_users(&plan, USER).await?;
    let dialogs = site.mongod.database(NAME).await?.collection("dialogs");
    let count = i64::try_from(sizes.writes / WRITES_A_DIALOG)?;
    insert(&dialogs, count).await?;
    let changed = AtomicI64::new(0);
    let began = Instant::now();
    let slowest = tokio::select! {
        slowest = deaths(&mut site, sizes.rounds.div_ceil(3).max(2)) => slowest?,
        error = change_forever(&dialogs, count, &changed) => return Err(error),
    };
    let rate = float(changed.into_inner().unsigned_abs()) / began.elapsed().as_secs_f64();
    Ok(vec![
        Figure::at_least("changes of dialogs", "1/s", rate, 0.9 * float(count.unsigned_abs())),
        Figure::within("a dead node's change visible after", slowest, VISIBLE_WITHIN),
    ])
}

/// Lets both nodes die by turns. Returns the longest time until the other one showed the change.
async fn deaths(site: &mut Site, rounds: u32) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for victim in 0..site.members.len() {
        restart(site, victim, DIES).await?;
    }
    sleep(BEFORE).await;
    for round in 0..rounds {
        let victim = usize::try_from(round)? % site.members.len();
        slowest = slowest.max(die(site, victim, &format!("round {round}")).await?);
        restart(site, victim, DIES).await?;
    }
    Ok(slowest)
}

/// Lets a node write and die. Returns how long the other node did not show the change.
async fn die(site: &mut Site, victim: usize, name: &str) -> Result<Duration> {
    let other = site.members[1 - victim].node.channel();
    let shown = async || {
        let found = nick_name(other.clone(), USER).await.context("the other node does not answer")?;
        anyhow::Ok(found.as_deref() == Some(name))
    };
    ensure!(!shown().await?, "the name is not new");
    let began = Instant::now();
    let renamed = renaming(USER, name.to_owned(), String::new());
    let mut writer = UserServiceClient::new(site.members[victim].node.channel());
    let answer = writer.update_user(with_deadline(renamed)).await;
    ensure!(answer.is_err(), "the program is no build with fail points: the write was answered");
    site.members[victim].node.until_died(PATIENCE).await?;
    while began.elapsed() < LOOKED_FOR && !shown().await? {
        sleep(LOOK).await;
    }
    Ok(began.elapsed())
}

async fn insert(dialogs: &Collection<Document>, count: i64) -> Result<()> {
    let dialog = |at| doc! { "_id": { "u": FIRST_STRANGER + at, "c": "g1" }, "v": 1_i64, "read": 0_i64 };
    dialogs.insert_many((0..count).map(dialog)).await?;
    Ok(())
}

/// Changes all dialogs once a second, in the form of a node's writes, and counts the changes. Returns why it
/// cannot go on.
async fn change_forever(dialogs: &Collection<Document>, count: i64, changed: &AtomicI64) -> anyhow::Error {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        let change =
            doc! { "$inc": { "v": 1_i64, "read": 1_i64 }, "$set": { "u": changed.load(Ordering::Relaxed) } };
        if let Err(error) = dialogs.update_many(doc! { "_id.c": "g1" }, change).await {
            return error.into();
        }
        changed.fetch_add(count, Ordering::Relaxed);
    }
}
