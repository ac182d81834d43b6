//! How often each event happens in a world.

use rand::{Rng as _, rngs::StdRng};

/// The events in a world. At most one kind of state goes back: nodes that do not know what was given out
/// cannot notice an old state that was put back by hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRates {
    /// Every command is made and answered, no key is lost, and no epoch ends.
    pub(super) is_calm: bool,
    /// Callers name numbers above all that were issued, so that numbers are left out.
    pub(super) skips: bool,
    pub(super) nodes_die: bool,
    pub(super) redis_fails: bool,
    pub(super) empties: bool,
    pub(super) epochs_end: bool,
    /// An old state is put back under a running server.
    pub(super) puts_back: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StepKind {
    GoOn,
    Begin,
    Advance,
    MakeLate,
    Empty,
    Kill,
    Save,
    PutBack,
    ChangeEpoch,
    MoveNode,
}

impl EventRates {
    pub(super) fn random(rng: &mut StdRng) -> Self {
        let calm = Self {
            is_calm: true,
            skips: rng.random_bool(0.5),
            nodes_die: false,
            redis_fails: false,
            empties: false,
            epochs_end: false,
            puts_back: false,
        };
        match rng.random_range(0..4) {
            0 => calm,
            1 => Self { is_calm: false, puts_back: true, ..calm },
            _ => Self {
                is_calm: false,
                skips: true,
                nodes_die: rng.random_bool(0.5),
                redis_fails: rng.random_bool(0.6),
                empties: rng.random_bool(0.5),
                epochs_end: rng.random_bool(0.6),
                puts_back: false,
            },
        }
    }

    /// No number may be lost: no fault, no step that is slower than a lease, and no caller that skips
    /// numbers.
    pub(super) const fn is_contiguous(self) -> bool {
        self.is_calm && !self.skips
    }

    pub(super) fn choices(self) -> [(StepKind, u32); 10] {
        let often = |is_often, many| if is_often { many } else { 0 };
        [
            (StepKind::GoOn, 140),
            (StepKind::Begin, 40),
            (StepKind::Advance, 12),
            (StepKind::MakeLate, often(self.redis_fails, 12)),
            (StepKind::Empty, often(self.empties, 8)),
            (StepKind::Kill, often(self.nodes_die, 3)),
            (StepKind::Save, often(self.epochs_end || self.puts_back, 12)),
            (StepKind::PutBack, often(self.puts_back, 12)),
            (StepKind::ChangeEpoch, often(self.epochs_end, 5)),
            (StepKind::MoveNode, often(self.epochs_end, 4)),
        ]
    }
}
