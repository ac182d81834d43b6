use std::{sync::Arc, time::Duration};

use kith_cache::Random;
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

/// All that happens by chance in one run follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Arc<Mutex<SmallRng>>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.0.lock().random_range(0..end)
    }

    pub(crate) fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Mostly short, now and then long.
    pub(crate) fn delay(&self) -> Duration {
        let most = if self.one_in(20) { 30_000 } else { 1_000 };
        Duration::from_micros(self.below(most))
    }
}

impl Random for Chance {
    fn unit(&self) -> f64 {
        self.0.lock().random()
    }
}
