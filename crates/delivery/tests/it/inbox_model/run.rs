//! A run: worlds with one user each, and random steps in them.

use std::collections::BTreeMap;

use super::{
    mutants::{Deviation, Mutant},
    world::World,
};
use crate::model::{EditedScripts, TestRedis};

/// Steps in one world, before it comes to rest.
const STEPS: usize = 120;
/// How many steps are shown for a world in which something was wrong.
const SHOWN: usize = 60;

/// The events in a run in which nothing was wrong.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) steps: usize,
    /// Each event, and how often it happened.
    pub(crate) counts: BTreeMap<&'static str, usize>,
}

/// The real Redis, and the scripts as the run has them.
pub(super) struct Server {
    pub(super) redis: TestRedis,
    pub(super) deviation: Deviation,
    pub(super) scripts: EditedScripts,
}

/// Makes at least this many steps.
///
/// # Errors
/// The first thing that was wrong, with the steps that led to it.
pub(crate) async fn run(seed: u64, steps: usize, mutant: Option<&Mutant>) -> Result<Report, String> {
    let server = Server::connect(mutant).await;
    let mut report = Report::default();
    let mut world_seed = seed;
    while report.steps < steps {
        let mut world = World::new(&server, world_seed);
        assert!(server.scripts.is_edited(), "a text that a mutant replaces is in no script");
        let mut wrong = None;
        for _ in 0..STEPS {
            if let Err(found) = world.step().await {
                wrong = Some(found);
                break;
            }
        }
        if wrong.is_none() {
            wrong = world.rest().await.err();
        }
        if let Some(wrong) = wrong {
            let from = world.trace.len().saturating_sub(SHOWN);
            return Err(format!("seed {world_seed}: {wrong}\n{}", world.trace[from..].join("\n")));
        }
        report.steps += STEPS;
        for (what, count) in world.counts {
            *report.counts.entry(what).or_default() += count;
        }
        world_seed += 1;
    }
    Ok(report)
}

impl Server {
    async fn connect(mutant: Option<&Mutant>) -> Self {
        let redis = TestRedis::connect().await;
        let (edits, deviation) =
            mutant.map_or((&[][..], Deviation::None), |mutant| (mutant.edits, mutant.deviation));
        Self { redis, deviation, scripts: EditedScripts::new(edits.iter().copied()) }
    }
}
