//! How often each event happens in a world.

use rand::{Rng as _, rngs::StdRng};

/// The events that are more frequent in a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRates {
    pub(super) time_flies: bool,
    pub(super) evicts: bool,
    pub(super) nodes_die: bool,
    pub(super) nodes_pause: bool,
    /// Messages are changed.
    pub(super) changes: bool,
    pub(super) epochs_end: bool,
    pub(super) redis_fails: bool,
    /// Heads are read, so there are windows of headers.
    pub(super) lists: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StepKind {
    GoOn,
    Begin,
    Advance,
    Audit,
    MakeLate,
    Evict,
    Kill,
    Save,
    ChangeEpoch,
    MoveNode,
}

impl EventRates {
    pub(super) fn random(rng: &mut StdRng) -> Self {
        Self {
            time_flies: rng.random_bool(0.5),
            evicts: rng.random_bool(0.3),
            nodes_die: rng.random_bool(0.5),
            nodes_pause: rng.random_bool(0.5),
            changes: rng.random_bool(0.7),
            epochs_end: rng.random_bool(0.4),
            redis_fails: rng.random_bool(0.5),
            lists: rng.random_bool(0.5),
        }
    }

    pub(super) fn choices(self) -> [(StepKind, u32); 10] {
        let often = |is_often, many, few| if is_often { many } else { few };
        [
            (StepKind::GoOn, 140),
            (StepKind::Begin, 34),
            (StepKind::Advance, often(self.time_flies, 12, 3)),
            (StepKind::Audit, 6),
            (StepKind::MakeLate, 8),
            (StepKind::Evict, often(self.evicts, 8, 1)),
            (StepKind::Kill, often(self.nodes_die, 2, 0)),
            (StepKind::Save, often(self.epochs_end, 6, 0)),
            (StepKind::ChangeEpoch, often(self.epochs_end, 4, 0)),
            (StepKind::MoveNode, 6),
        ]
    }
}
