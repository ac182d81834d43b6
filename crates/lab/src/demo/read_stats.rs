//! Read statistics for the demo: answers by tier, reads without an answer, staleness and latency, as one text
//! line.

use std::{fmt, time::Duration};

use super::words::{count, seconds};

/// Observations that readers made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadStats {
    memory: u64,
    redis: u64,
    store: u64,
    /// Reads that got no answer.
    refused: u64,
    /// Answers older than a write that had been acknowledged before their request.
    old: u64,
    oldest: Duration,
    slowest: Duration,
}

/// An answer with its age and latency.
#[derive(Clone, Debug)]
pub(super) struct TimedAnswer {
    pub(super) tier: String,
    pub(super) took: Duration,
    /// For how long a newer version had been acknowledged; zero: no newer version.
    pub(super) age: Duration,
}

impl ReadStats {
    pub(super) fn answered(&mut self, answer: &TimedAnswer) {
        match answer.tier.as_str() {
            "memory" => self.memory += 1,
            "redis" => self.redis += 1,
            _ => self.store += 1,
        }
        self.old += u64::from(!answer.age.is_zero());
        self.oldest = self.oldest.max(answer.age);
        self.slowest = self.slowest.max(answer.took);
    }

    pub(super) fn refused(&mut self) {
        self.refused += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.memory += other.memory;
        self.redis += other.redis;
        self.store += other.store;
        self.refused += other.refused;
        self.old += other.old;
        self.oldest = self.oldest.max(other.oldest);
        self.slowest = self.slowest.max(other.slowest);
    }

    pub(super) fn oldest(&self) -> Duration {
        self.oldest
    }
}

impl fmt::Display for ReadStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = self.memory + self.redis + self.store + self.refused;
        let tiers = (count(self.memory), count(self.redis), count(self.store));
        write!(f, "{} reads: {} from memory, {} Redis, {} MongoDB", count(reads), tiers.0, tiers.1, tiers.2)?;
        write!(f, "; {} unanswered; slowest {}", count(self.refused), seconds(self.slowest))?;
        match self.old {
            0 => write!(f, "; none was old"),
            old => write!(f, "; {} were old, by {} at most", count(old), seconds(self.oldest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tier: &str, took: u64, age: u64) -> TimedAnswer {
        let (took, age) = (Duration::from_millis(took), Duration::from_millis(age));
        TimedAnswer { tier: tier.to_owned(), took, age }
    }

    #[test]
    fn stats_are_shown_in_one_line() {
        let mut stats = ReadStats::default();
        for answer in [answer("memory", 1, 0), answer("redis", 3, 0), answer("store", 20, 150)] {
            stats.answered(&answer);
        }
        stats.refused();
        let line = "4 reads: 1 from memory, 1 Redis, 1 MongoDB; 1 unanswered; slowest 20 ms; 1 were old, by 150 ms at most";
        assert_eq!(stats.to_string(), line);
        let mut all = ReadStats::default();
        all.add(&stats);
        assert_eq!(all, stats);
    }
}
