use std::{sync::Arc, time::Duration};

use kith_cache::Random;
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

/// All that happens at random in one run follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    generator: Arc<Mutex<SmallRng>>,
    /// Nothing is ever delayed.
    is_undelayed: bool,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { generator: Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))), is_undelayed: false }
    }

    /// Names are random and times are not, as scripts need it.
    pub(crate) fn without_delays() -> Self {
        Self { is_undelayed: true, ..Self::new(0) }
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.generator.lock().random_range(0..end)
    }

    pub(crate) fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<'a, T>(&self, among: &'a [T]) -> &'a T {
        &among[usize::try_from(self.below(among.len() as u64)).unwrap()]
    }

    /// Mostly short, now and then long.
    pub(crate) fn delay(&self) -> Duration {
        if self.is_undelayed {
            return Duration::ZERO;
        }
        let most = if self.one_in(20) { 30_000 } else { 1_000 };
        Duration::from_micros(self.below(most))
    }
}

impl Random for Chance {
    fn unit(&self) -> f64 {
        self.generator.lock().random()
    }
}
