//! Holds what a caller knows about its own writes, and judges answers by them.

use std::time::Duration;

use tokio::time::Instant;

use super::tally::UsedValue;
use crate::history::{Edge, Settings};

/// How long a write with an unknown outcome may still take effect. Longer than a node or the store tries.
const LATE: Duration = Duration::from_secs(30);

/// The value that a caller has written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<T> {
    /// The last acknowledged value. `None`: no write was acknowledged, or a later write has an unknown
    /// outcome.
    pub(super) value: Option<T>,
    /// When the last write with an unknown outcome failed.
    open: Option<Instant>,
}

impl<T> Known<T> {
    pub(super) const fn nothing() -> Self {
        Self { value: None, open: None }
    }

    /// A write was not acknowledged: both values are correct until the next acknowledgement.
    pub(super) fn forget(&mut self) {
        *self = Self { value: None, open: Some(Instant::now()) };
    }

    /// Whether a write with an unknown outcome may still take effect.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some_and(|since| since.elapsed() < LATE)
    }
}

/// Two users, and the first user's settings for the second.
#[derive(Debug)]
pub(super) struct RelationPair {
    pub(super) edge: Edge,
    pub(super) known: Known<Settings>,
}

/// A node's answer about the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsAnswer {
    /// The requested permissions, those that are denied, and whether everything is allowed.
    Denied(u8, u8, bool),
    /// All settings are known.
    Whole(Settings),
}

impl RelationPair {
    pub(super) const fn new(edge: Edge) -> Self {
        Self { edge, known: Known::nothing() }
    }

    /// Judges an answer. `None`: no value is known, or a write with an unknown outcome may have taken effect
    /// later, which only the store shows.
    pub(super) fn judge(&self, answer: SettingsAnswer) -> Option<UsedValue> {
        let known = self.known.value?;
        match answer {
            SettingsAnswer::Whole(settings) if settings == known => Some(UsedValue::Current),
            SettingsAnswer::Whole(settings) if settings.version > known.version && self.known.is_open() => {
                Some(UsedValue::Later)
            }
            SettingsAnswer::Denied(asked, denied, all) if agrees(known, asked, denied, all) => {
                Some(UsedValue::Current)
            }
            SettingsAnswer::Denied(..) if self.known.is_open() => None,
            SettingsAnswer::Whole(_) | SettingsAnswer::Denied(..) => Some(UsedValue::Stale),
        }
    }

    /// Judges an answer that [`Self::judge`] could not, by the settings in the store.
    pub(super) fn judge_by(&self, stored: Option<Settings>) -> UsedValue {
        let later =
            stored.zip(self.known.value).is_some_and(|(stored, known)| stored.version > known.version);
        if later && self.known.is_open() { UsedValue::Later } else { UsedValue::Stale }
    }
}

/// Whether the settings lead to this answer.
fn agrees(settings: Settings, asked: u8, denied: u8, all: bool) -> bool {
    match settings.denied(asked) {
        Some(should) => denied == should && all == (should == 0 && !settings.blocked),
        // The default decides, and no user is blocked: any answer is right.
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
    fn decision_by_previous_value_is_stale() {
        let (allows, denies) =
            (SettingsAnswer::Denied(ALL, 0, true), SettingsAnswer::Denied(ALL, ALL, false));
        assert_eq!(pair(BLOCKED).judge(denies), Some(UsedValue::Current));
        assert_eq!(pair(BLOCKED).judge(allows), Some(UsedValue::Stale));
        assert_eq!(pair(SET).judge(denies), Some(UsedValue::Stale));
        assert_eq!(pair(SET).judge(SettingsAnswer::Denied(ALL, 1, false)), Some(UsedValue::Stale));
        assert_eq!(
            pair(BLOCKED).judge(SettingsAnswer::Denied(0, 0, true)),
            Some(UsedValue::Stale),
            "a message needs no permission, but no block"
        );
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Denied(0, 0, false)), Some(UsedValue::Current));
    }

    #[test]
    fn lower_or_unwritten_version_is_stale() {
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Whole(SET)), Some(UsedValue::Stale));
        assert_eq!(
            open(BLOCKED).judge(SettingsAnswer::Whole(SET)),
            Some(UsedValue::Stale),
            "no write lowers a version"
        );
        assert_eq!(pair(BLOCKED).judge(SettingsAnswer::Whole(BLOCKED)), Some(UsedValue::Current));
        assert_eq!(
            pair(SET).judge(SettingsAnswer::Whole(BLOCKED)),
            Some(UsedValue::Stale),
            "no write may have made it"
        );
        assert_eq!(open(SET).judge(SettingsAnswer::Whole(BLOCKED)), Some(UsedValue::Later));
    }

    #[test]
    fn store_shows_whether_unknown_write_applied() {
        let allows = SettingsAnswer::Denied(ALL, 0, true);
        assert_eq!(open(BLOCKED).judge(allows), None);
        assert_eq!(open(BLOCKED).judge_by(Some(BLOCKED)), UsedValue::Stale);
        assert_eq!(open(BLOCKED).judge_by(None), UsedValue::Stale);
        assert_eq!(open(BLOCKED).judge_by(Some(Settings { version: 5, ..SET })), UsedValue::Later);
        assert_eq!(pair(BLOCKED).judge_by(Some(Settings { version: 5, ..SET })), UsedValue::Stale);
    }

    #[test]
    fn unknown_write_permits_both_decisions() {
        let mut pair = pair(SET);
        pair.known.forget();
        assert_eq!(pair.judge(SettingsAnswer::Denied(ALL, ALL, false)), None);
        assert!(pair.known.value.is_none());
        pair.known.value = Some(BLOCKED);
        assert_eq!(pair.judge(SettingsAnswer::Denied(ALL, ALL, false)), Some(UsedValue::Current));
    }
}
