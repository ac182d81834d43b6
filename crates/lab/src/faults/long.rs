//! A long run: one cluster with one fault after the other, one history, one judgement.

use std::{path::Path, time::Duration};

use anyhow::Result;
use rand::{SeedableRng as _, rngs::SmallRng, seq::SliceRandom as _};

use super::{
    report::{JudgedRun, Subject},
    rows::{ROWS, Row},
    run::{Load, PlannedFault, run_faults},
    site::Plan,
};

/// How it is named in reports.
pub(super) const NAME: &str = "long";
const WHAT: &str = "one fault after the other";
/// How long each fault is on.
const LASTS: Duration = Duration::from_secs(10);
/// How many cached reads are checked: without a violation, at most three in a million are wrong, at 95 %.
pub(super) const READS: u64 = 1_000_000;

/// Rows that leave a cluster unchanged, so that another may follow.
const FOLLOWED: [&str; 21] = [
    "F01", "F02", "F03", "F05", "F06", "F07", "F08", "F09", "F10", "F11a", "F11b", "F12a", "F12b", "F14",
    "F18", "F23", "F24", "F30", "F32", "F40", "F43",
];

/// Runs for about `lasts`, from a client's first call to the last call, and judges what clients saw. The
/// plan's seed chooses the order of the faults; each comes equally often, with a difference of at most one.
/// Reports each before it begins, with the calls so far.
///
/// # Errors
/// Like [`run`](super::run).
pub async fn long(
    plan: &Plan,
    load: Load,
    lasts: Duration,
    folder: &Path,
    on_fault: impl Fn(&Row, u64),
) -> Result<JudgedRun> {
    let history = folder.join(format!("{NAME}.jsonl"));
    let faults = plan_faults(plan.seed, lasts, load.before);
    let summary = run_faults(&faults, plan, load, &history, on_fault).await?;
    let subject = Subject { name: NAME, what: WHAT, bound: None, promises: &[] };
    JudgedRun::of(subject, summary, &history)
}

/// Plans as many faults as there is time for, at least one.
fn plan_faults(seed: u64, whole: Duration, before: Duration) -> Vec<PlannedFault> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut rows: Vec<Row> = ROWS.into_iter().filter(|row| FOLLOWED.contains(&row.name)).collect();
    let (mut faults, mut left) = (Vec::new(), whole);
    loop {
        rows.shuffle(&mut random);
        for row in &rows {
            let fault =
                PlannedFault { row: *row, before, lasts: LASTS, after: row.after(), deaths: 0, sends: 0 };
            let takes = fault.before + fault.lasts + fault.after;
            if takes > left && !faults.is_empty() {
                return faults;
            }
            left = left.saturating_sub(takes);
            faults.push(fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BEFORE: Duration = Duration::from_secs(3);

    fn names(seed: u64, minutes: u64) -> Vec<&'static str> {
        plan_faults(seed, Duration::from_secs(60 * minutes), BEFORE)
            .iter()
            .map(|fault| fault.row.name)
            .collect()
    }

    #[test]
    fn every_row_that_may_be_followed_is_in_table() {
        let missing = FOLLOWED.iter().filter(|name| !ROWS.iter().any(|row| row.name == **name));
        assert_eq!(missing.count(), 0);
        let dies = ROWS.iter().filter(|row| row.needs_failpoints() && FOLLOWED.contains(&row.name));
        assert_eq!(dies.count(), 0);
    }

    #[test]
    fn faults_follow_from_the_seed() {
        assert_eq!(names(7, 8), names(7, 8));
        assert_ne!(names(7, 8), names(8, 8));
    }

    #[test]
    fn no_fault_comes_twice_before_all_have_come() {
        let names = names(1, 30);
        assert!(names.len() > 2 * FOLLOWED.len(), "{names:?}");
        for round in names.chunks_exact(FOLLOWED.len()) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), FOLLOWED.len(), "{round:?}");
        }
    }

    #[test]
    fn each_fault_heals_before_next_and_all_fit() {
        for seed in 0..20 {
            let faults = plan_faults(seed, Duration::from_secs(240), BEFORE);
            let takes: Duration = faults.iter().map(|fault| fault.before + fault.lasts + fault.after).sum();
            assert!((200..=240).contains(&takes.as_secs()), "{takes:?}");
            assert!(
                faults.iter().all(|fault| fault.after > fault.row.effect().heals && fault.lasts == LASTS)
            );
        }
    }

    #[test]
    fn the_shortest_run_has_a_fault() {
        assert_eq!(plan_faults(1, Duration::ZERO, BEFORE).len(), 1);
    }
}
