//! Nodes of the real cache over fakes of what they share, in virtual time: whatever is lost, late or cut, no
//! cached read is wrong for longer than its bound. Every run follows from its seed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod chance;
mod wire;
mod world;

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use world::World;

const KEYS: u64 = 5;
const STEPS: u64 = 200;
/// Of a cached read under any fault but the death of a writer.
const BOUND: Duration = Duration::from_secs(3);

/// One run.
async fn run(seed: u64) -> Result<(), String> {
    let world = Arc::new(World::new(seed));
    let peers = world.peers(3 + seed % 3);
    let mut calls: JoinSet<Result<(), String>> = JoinSet::new();
    for step in 0..STEPS {
        sleep(Duration::from_micros(world.chance.below(40_000))).await;
        let peer = Arc::clone(&peers[usize::try_from(world.chance.below(peers.len() as u64)).unwrap()]);
        let key = world.chance.below(KEYS);
        if world.chance.one_in(25) {
            world.disturb(&peers);
        } else if world.chance.one_in(5) {
            let world = Arc::clone(&world);
            calls.spawn(async move {
                let acknowledged = peer.write(&world.store, key).await;
                match peer.read(key).await {
                    Some(version) if version < acknowledged => {
                        Err(format!("step {step}: the writer reads {version} after {acknowledged}"))
                    }
                    Some(_) | None => Ok(()),
                }
            });
        } else {
            let world = Arc::clone(&world);
            calls.spawn(async move {
                let began = Instant::now();
                let Some(version) = peer.read(key).await else { return Ok(()) };
                let late = world.store.staleness(key, version, began);
                if late <= BOUND { Ok(()) } else { Err(format!("step {step}: {late:?} stale")) }
            });
        }
    }
    while let Some(call) = calls.join_next().await {
        call.map_err(|error| error.to_string())??;
    }
    world.calm(&peers);
    sleep(BOUND).await;
    for (at, peer) in peers.iter().enumerate() {
        for key in 0..KEYS {
            let (version, last) = (peer.read(key).await, world.store.version(key));
            if version != Some(last) {
                return Err(format!("after all node {at} reads {version:?}, not {last}"));
            }
        }
    }
    Ok(())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[test]
fn no_cached_read_is_wrong_for_longer_than_its_bound() {
    let variable = |wanted: &str| std::env::vars().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let seeds = match variable("KITH_SEED") {
        Some(seed) => vec![seed.parse().unwrap()],
        None => (0..variable("KITH_SEEDS").map_or(500, |seeds| seeds.parse().unwrap())).collect::<Vec<u64>>(),
    };
    let failed: Vec<_> = seeds
        .into_iter()
        .filter_map(|seed| runtime().block_on(run(seed)).err().map(|why| format!("KITH_SEED={seed}: {why}")))
        .collect();
    assert!(
        failed.is_empty(),
        "{} seeds fail, the first are {:#?}",
        failed.len(),
        &failed[..failed.len().min(5)]
    );
}
