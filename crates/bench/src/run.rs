//! All rows, and how they are run.

use anyhow::{Result, bail, ensure};

use crate::{
    claims::{ALL, Plan},
    ratio::{Claim, Row},
    results::Results,
    rows::{
        all_servers, changes, cluster, held, keys, members, memory, messages, mongodb, presence, readers,
        redis, relations, rpc, sqlite, streams, tokens,
    },
    table::table,
};

/// The fewest rounds in a run that counts.
pub const ROUNDS_MIN: usize = 5;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every row ran and holds.
    Holds,
    /// Every row ran, and at least one row does not hold.
    Misses,
    /// A requested row could not run.
    Incomplete,
}

/// Runs the rows. Prints each when it is measured and adds it to the file of results, and prints all as a
/// table in the end. Rows that were not measured stay in that file as they are; a quick run leaves it alone.
///
/// # Errors
/// When a row is unknown, a side fails, or the file cannot be written. The rows that were measured before
/// stay in the file.
pub async fn run(plan: &Plan) -> Result<Verdict> {
    if let Some(name) = plan.only.iter().find(|name| ALL.iter().all(|claim| claim.name != *name)) {
        bail!(
            "no row is named {name}; there are: {}",
            ALL.iter().map(|claim| claim.name).collect::<Vec<_>>().join(", ")
        );
    }
    ensure!(plan.quick || plan.rounds >= ROUNDS_MIN, "at least {ROUNDS_MIN} rounds make a figure");
    let mut results = Results::new(plan);
    rpc::rows(plan, &mut results).await?;
    keys::rows(plan, &mut results).await?;
    held::rows(plan, &mut results).await?;
    tokens::rows(plan, &mut results).await?;
    streams::rows(plan, &mut results).await?;
    cluster::rows(plan, &mut results).await?;
    memory::rows(plan, &mut results).await?;
    sqlite::rows(plan, &mut results).await?;
    mongodb::rows(plan, &mut results).await?;
    redis::rows(plan, &mut results).await?;
    Box::pin(relations::rows(plan, &mut results)).await?;
    Box::pin(members::rows(plan, &mut results)).await?;
    Box::pin(messages::rows(plan, &mut results)).await?;
    Box::pin(all_servers::rows(plan, &mut results)).await?;
    Box::pin(changes::rows(plan, &mut results)).await?;
    readers::rows(plan, &mut results).await?;
    Box::pin(presence::rows(plan, &mut results)).await?;
    let rows = results.into_rows();
    print!("{}", table(&rows));
    if plan.quick {
        println!("A quick run measures nothing; {} is as it was.", plan.out.display());
    }
    Ok(verdict(plan, &rows))
}

fn verdict(plan: &Plan, rows: &[Row]) -> Verdict {
    let holds = |row: &Row| row.holds || plan.quick;
    for row in rows.iter().filter(|row| !holds(row)) {
        println!("{} does not hold.", row.name);
    }
    let ran = |claim: &&Claim| rows.iter().any(|row| row.name == claim.name);
    let missing: Vec<_> = ALL.iter().filter(|claim| plan.wants(claim) && !ran(claim)).collect();
    for claim in &missing {
        println!(
            "{} was not run: it needs KITH_TEST_MONGODB, KITH_TEST_CQL or KITH_TEST_REDIS (cargo xtask bench sets them).",
            claim.name
        );
    }
    match (missing.is_empty(), rows.iter().all(holds)) {
        (false, _) => Verdict::Incomplete,
        (true, true) => Verdict::Holds,
        (true, false) => Verdict::Misses,
    }
}
