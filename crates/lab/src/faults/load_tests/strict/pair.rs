//! What one caller knows of what it has set about a user.

use std::time::Duration;

use tokio::time::Instant;

use super::tally::Decided;
use crate::history::{Edge, Settings};

/// For so long a write of unknown outcome may yet have its effect: longer than a node tries, and the store.
const LATE: Duration = Duration::from_secs(30);

/// What a caller knows by its own writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<T> {
    /// As acknowledged; `None`: nothing is, or a write since then is of unknown outcome.
    pub(super) value: Option<T>,
    /// When the last write of unknown outcome was given up.
    open: Option<Instant>,
}

impl<T> Known<T> {
    pub(super) const fn nothing() -> Self {
        Self { value: None, open: None }
    }

    /// A write was not acknowledged: either is right until the next one is.
    pub(super) fn forget(&mut self) {
        *self = Self { value: None, open: Some(Instant::now()) };
    }

    /// Whether a write of unknown outcome may yet have its effect.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some_and(|since| since.elapsed() < LATE)
    }
}

/// Two users, and what the first one has set about the second.
#[derive(Debug)]
pub(super) struct RelationPair {
    pub(super) edge: Edge,
    pub(super) known: Known<Settings>,
}

/// What a node has returned of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsAnswer {
    /// Of these permissions these are denied, and whether all is allowed.
    Denied(u8, u8, bool),
    /// All of it.
    Whole(Settings),
}

impl RelationPair {
    pub(super) const fn new(edge: Edge) -> Self {
        Self { edge, known: Known::nothing() }
    }

    /// The decision; `None`: unknown, or a later write of unknown outcome may have taken effect, which the store shows.
    pub(super) fn judge(&self, told: SettingsAnswer) -> Option<Decided> {
        let known = self.known.value?;
        match told {
            SettingsAnswer::Whole(settings) if settings == known => Some(Decided::New),
            SettingsAnswer::Whole(settings) if settings.version > known.version && self.known.is_open() => {
                Some(Decided::Later)
            }
            SettingsAnswer::Denied(asked, denied, all) if decides(known, asked, denied, all) => {
                Some(Decided::New)
            }
            SettingsAnswer::Denied(..) if self.known.is_open() => None,
            SettingsAnswer::Whole(_) | SettingsAnswer::Denied(..) => Some(Decided::Old),
        }
    }

    /// The same, where the store has this.
    pub(super) fn judge_by(&self, stored: Option<Settings>) -> Decided {
        let later =
            stored.zip(self.known.value).is_some_and(|(stored, known)| stored.version > known.version);
        if later && self.known.is_open() { Decided::Later } else { Decided::Old }
    }
}

/// Whether what is set allows so much.
fn decides(settings: Settings, asked: u8, denied: u8, all: bool) -> bool {
    match settings.denied(asked) {
        Some(should) => denied == should && all == (should == 0 && !settings.blocked),
        // The default decides, and no user is blocked.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u8 = 63;
    const SET: Settings = Settings { version: 3, blocked: false, permissions: Some(ALL) };
    const BLOCKED: Settings = Settings { version: 4, blocked: true, permissions: Some(ALL) };

    fn pair(known: Settings) -> RelationPair {
        RelationPair { edge: Edge(1, 2), known: Known { value: Some(known), open: None } }
    }

    fn open(known: Settings) -> RelationPair {
        let known = Known { value: Some(known), open: Some(Instant::now()) };
        RelationPair { edge: Edge(1, 2), known }
    }

    #[test]
    fn a_decision_by_what_was_before_is_old() {
        let (allows, denies) =
            (SettingsAnswer::Denied(ALL, 0, true), SettingsAnswer::Denied(ALL, ALL, false));
        assert_eq!(pair(BLOCKED).judge(denies), Some(Decided::New));
        assert_eq!(pair(BLOCKED).judge(allows), Some(Decided::Old));
        assert_eq!(pair(SET).judge(denies), Some(Decided::Old));
        assert_eq!(pair(SET).judge(SettingsAnswer::Denied(ALL, 1, false)), Some(Decided::Old));
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Denied(0, 0, true)), Some(Decided::Old), "a message");
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Denied(0, 0, false)), Some(Decided::New));
    }

    #[test]
    fn a_record_is_old_by_its_version() {
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Whole(SET)), Some(Decided::Old));
        assert_eq!(
            open(BLOCKED).judge(SettingsAnswer::Whole(SET)),
            Some(Decided::Old),
            "no write makes it lower"
        );
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Whole(BLOCKED)), Some(Decided::New));
        assert_eq!(
            pair(SET).judge(SettingsAnswer::Whole(BLOCKED)),
            Some(Decided::Old),
            "nobody has made it so"
        );
        assert_eq!(open(SET).judge(SettingsAnswer::Whole(BLOCKED)), Some(Decided::Later));
    }

    #[test]
    fn store_shows_whether_unknown_write_applied() {
        let allows = SettingsAnswer::Denied(ALL, 0, true);
        assert_eq!(open(BLOCKED).judge(allows), None);
        assert_eq!(open(BLOCKED).judge_by(Some(BLOCKED)), Decided::Old);
        assert_eq!(open(BLOCKED).judge_by(None), Decided::Old);
        assert_eq!(open(BLOCKED).judge_by(Some(Settings { version: 5, ..SET })), Decided::Later);
        assert_eq!(pair(BLOCKED).judge_by(Some(Settings { version: 5, ..SET })), Decided::Old);
    }

    #[test]
    fn after_unknown_write_either_decision_is_right() {
        let mut pair = pair(SET);
        pair.known.forget();
        assert_eq!(pair.judge(SettingsAnswer::Denied(ALL, ALL, false)), None);
        assert!(pair.known.value.is_none());
        pair.known.value = Some(BLOCKED);
        assert_eq!(pair.judge(SettingsAnswer::Denied(ALL, ALL, false)), Some(Decided::New));
    }
}
