//! Records whose changes are not broadcast, as counts that a store corrects by itself: no node answers with a
//! copy that is older than its longest age, whatever is lost, late or cut. Every run follows from its seed.

use std::{sync::Arc, time::Duration};

use kith_cache::Consistency;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{chance::Chance, faults::FaultSet, runtime, seeds, truth::Kind, world::World};

/// Runs that a test of all packages makes.
const SEEDS: u64 = 100;
/// Operations of a run.
const STEPS: u64 = 300;
const KEYS: u64 = 2;

#[test]
fn no_copy_is_older_than_its_age() {
    for seed in seeds(SEEDS) {
        let judged = runtime().block_on(run(seed));
        assert!(judged.is_ok(), "KITH_SEED={seed}: {judged:?}");
    }
}

async fn run(seed: u64) -> Result<(), String> {
    let chance = Chance::new(seed);
    let faults = FaultSet::random(&chance);
    let world = World::new(chance, faults, 3);
    let mut calls = JoinSet::new();
    sleep(Duration::from_millis(300)).await;
    for step in 0..STEPS {
        sleep(Duration::from_micros(world.chance.below(40_000))).await;
        let id = (Kind::Count, world.chance.below(KEYS));
        if world.chance.one_in(20) {
            world.disturb(id);
        }
        if world.chance.one_in(10) {
            world.store.change(id);
        }
        let (world, peer) = (Arc::clone(&world), world.some_peer());
        calls.spawn(async move {
            let (began, phases) = (Instant::now(), peer.phases.clone());
            let judged = match phases.live(peer.ask(id, &Consistency::Cached)).await {
                Some(Ok(answer)) => world.store.truth.judge_age(id, answer, began),
                Some(Err(error)) if faults.is_healthy() => Err(format!("a read fails: {error}")),
                // A node that died gives no answer.
                Some(Err(_)) | None => Ok(()),
            };
            judged.map_err(|why| format!("step {step}, node {}: {why} ({faults:?})", peer.id))
        });
    }
    world.calm();
    while let Some(call) = calls.join_next().await {
        call.map_err(|error| error.to_string())??;
    }
    world.store.truth.violation().map_or(Ok(()), Err)
}
