//! Measures members: joins to one large group over bare conditional writes, and deep pages in its list over
//! the first page.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{
    ChangeContext, GroupId, MEMBERS_AT_ONCE, MemberChange, MemberChangeEvent, MemberStore, Role, Timestamp,
    UserId, Version, Write,
};

use super::relations::{DataFile, Keyspace, over_keyspace};
use crate::{
    claims::{JOINS_CQL, MEMBERS_DEEP_CQL, MEMBERS_DEEP_SQLITE, Plan},
    ratio::{Pair, Side, compare_micros, interleave, per_second},
    results::Results,
};

/// Callers that join at the same time.
const CALLERS: usize = 64;
/// Adds that are under way at the same time.
const ADDS: usize = 8;
/// Entries on a page.
const PAGE: usize = 50;
const MEMBERS_MAX: u32 = 1_000_000;
/// The user who owns each group.
const OWNER: i64 = 1;
/// Changes that a client reads if it already knows the group.
const CHANGES: i64 = 10;

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    results.row(&MEMBERS_DEEP_SQLITE, deep_in_sqlite(plan)).await?;
    over_keyspace(plan, results, &MEMBERS_DEEP_CQL, async |keyspace| {
        deep(plan, &keyspace.stores.members).await
    })
    .await?;
    over_keyspace(plan, results, &JOINS_CQL, async |keyspace| joins(plan, keyspace).await).await
}

async fn deep_in_sqlite(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let file = DataFile::open().await?;
    let pairs = deep(plan, &file.stores.members).await?;
    file.close().await;
    Ok(pairs)
}

/// Joins a second to one group by many callers, compared with as many rows that one caller writes into one
/// partition, each under a condition. No user may be lost or counted twice.
async fn joins(plan: &Plan, keyspace: &Keyspace) -> Result<Vec<Pair<f64>>> {
    let (store, group) = (&keyspace.stores.members, GroupId::new(1)?);
    change(store, group, MemberChange::AddFounder(UserId::new(OWNER)?)).await?;
    let (of_one, of_many) = (plan.size(1_000, 20), plan.size(10_000, 200));
    let (mut next, mut joined) = (OWNER, 1);
    let pairs = interleave(plan.rounds, async |side| {
        let joins = side.of(of_one, of_many);
        let users = next + 1..=next + joins;
        next += joins;
        joined += side.of(0, joins);
        let work = async {
            if side == Side::Kith {
                let calls = stream::iter(users)
                    .map(async |user| change(store, group, MemberChange::Join(UserId::new(user)?)).await);
                return calls.buffer_unordered(CALLERS).try_collect::<()>().await;
            }
            for user in users {
                keyspace.raw.conditional(2, user).await?;
            }
            Ok(())
        };
        per_second(usize::try_from(joins)?, work).await
    })
    .await?;
    let roster = store.rosters(&[group]).await?[0];
    ensure!(i64::from(roster.count) == joined, "{} members are counted of {joined}", roster.count);
    Ok(pairs)
}

/// Times member pages in a large group: the first pages, and the last pages.
async fn deep(plan: &Plan, store: &Arc<dyn MemberStore>) -> Result<Vec<Pair<f64>>> {
    let (group, members) = (GroupId::new(1)?, plan.size(100_000, 500));
    fill(store, group, members).await?;
    follow_changes(store, group).await?;
    let bottom = UserId::new(members - i64::try_from(PAGE)?)?;
    let (pieces, reads) = plan.size((20, 20), (1, 5));
    compare_micros(plan.rounds, pieces, reads, async |side| {
        let page = store.member_list(group, Role::Member, side.of(None, Some(bottom)), PAGE).await?;
        ensure!(page.len() == PAGE, "a page is short: {}", page.len());
        Ok(())
    })
    .await
}

/// Makes a group with all ids up to this one as members.
async fn fill(store: &Arc<dyn MemberStore>, group: GroupId, members: i64) -> Result<()> {
    change(store, group, MemberChange::AddFounder(UserId::new(OWNER)?)).await?;
    let users = (OWNER + 1..=members).map(UserId::new).collect::<Result<Vec<_>, _>>()?;
    let adds = stream::iter(users.chunks(MEMBERS_AT_ONCE))
        .map(async |users| change(store, group, MemberChange::Add(users.to_vec())).await);
    adds.buffer_unordered(ADDS).try_collect::<()>().await?;
    let roster = store.rosters(&[group]).await?[0];
    ensure!(i64::from(roster.count) == members, "{} members are counted of {members}", roster.count);
    Ok(())
}

/// A client that knew the group some changes ago gets only these.
async fn follow_changes(store: &Arc<dyn MemberStore>, group: GroupId) -> Result<()> {
    let before = store.rosters(&[group]).await?[0].version;
    for user in 0..CHANGES {
        let user = UserId::new(OWNER + 1 + user)?;
        change(store, group, MemberChange::SetRole(user, Role::Admin)).await?;
    }
    let known = MemberChangeEvent { version: before, user: UserId::new(i64::MAX)? };
    let changes = store.member_changes(group, known, PAGE).await?.context("the changes are not kept")?;
    ensure!(changes.len() == usize::try_from(CHANGES)?, "{} changes are read of {CHANGES}", changes.len());
    ensure!(
        changes.iter().all(|one| one.version > before && one.version > Version::NONE),
        "an old change is read"
    );
    Ok(())
}

async fn change(store: &Arc<dyn MemberStore>, group: GroupId, change: MemberChange) -> Result<()> {
    let terms = ChangeContext { by: None, members_max: MEMBERS_MAX, bans_max: 0, history: false };
    store.change_members(group, change, terms, Write::at(Timestamp::now())).await?;
    Ok(())
}
