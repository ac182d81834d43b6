use rand::{Rng, seq::IndexedRandom as _};

/// The shares of call kinds in a thousand calls. The remaining calls are cached reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Calls that update a user.
    pub updates: u32,
    /// Creations that fight for names.
    pub creations: u32,
    /// Deletions, where there is something to delete; else cached reads.
    pub deletions: u32,
    /// Strong reads of a user.
    pub strong: u32,
    /// Reads by token.
    pub by_token: u32,
}

/// The kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Update,
    Creation,
    Deletion,
    Strong,
    ByToken,
    Cached,
}

impl Mix {
    /// Three in ten calls write.
    pub const WRITING: Self = Self { updates: 250, creations: 20, deletions: 20, strong: 70, by_token: 100 };
    /// Nineteen in twenty calls are cached reads, as many as possible for users that are written all the
    /// while.
    pub const READING: Self = Self { updates: 30, creations: 2, deletions: 2, strong: 6, by_token: 10 };

    /// Which kind the next call is.
    pub(super) fn kind(&self, random: &mut impl Rng) -> CallKind {
        let others = self.updates + self.creations + self.deletions + self.strong + self.by_token;
        let kinds = [
            (CallKind::Update, self.updates),
            (CallKind::Creation, self.creations),
            (CallKind::Deletion, self.deletions),
            (CallKind::Strong, self.strong),
            (CallKind::ByToken, self.by_token),
            (CallKind::Cached, 1_000_u32.saturating_sub(others)),
        ];
        // Fails only where all are 0.
        kinds.choose_weighted(random, |(_, of)| *of).map_or(CallKind::Cached, |(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::SmallRng};

    use super::*;

    fn share(mix: Mix, of: CallKind) -> usize {
        let mut random = SmallRng::seed_from_u64(1);
        (0..100_000).filter(|_| mix.kind(&mut random) == of).count()
    }

    #[test]
    fn kinds_come_as_often_as_the_mix_says() {
        assert!((24_000..26_000).contains(&share(Mix::WRITING, CallKind::Update)));
        assert!((53_000..55_000).contains(&share(Mix::WRITING, CallKind::Cached)));
        assert!((94_500..95_500).contains(&share(Mix::READING, CallKind::Cached)));
        assert!((150..250).contains(&share(Mix::READING, CallKind::Deletion)));
    }
}
