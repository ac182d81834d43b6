//! Blocks and permissions that a user sets for others.

use kith_proto::relation::v1::{
    BatchGetRelationsRequest, relation_result, relation_service_client::RelationServiceClient,
};
use rand::{Rng as _, rngs::SmallRng};
use tonic::{Code, transport::Channel};

use super::{
    CALLERS,
    caller::{Known, PlaceAnswers, StrictSubject, UsedValue},
};
use crate::{
    faults::{
        calls::{failed, name_of, with_deadline},
        relation_calls::{PreparedRelationCall, settings},
    },
    history::{Edge, Level, RelationOutcome, RelationRequest, Setting, Settings},
};

/// Other users for each user.
const PAIRS: i64 = 4;
/// All permissions together.
const ALL: u8 = 63;
/// One read in this many is a batch with all pairs.
const BATCH_EVERY: u32 = 8;

/// A user's settings for some other users.
#[derive(Debug)]
pub(super) struct BlockSubject {
    pairs: Vec<Edge>,
}

/// A node's answer about the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsAnswer {
    /// The requested permissions, those that are denied, and whether everything is allowed.
    Denied(u8, u8, bool),
    /// All settings are known.
    Whole(Settings),
}

impl BlockSubject {
    pub(super) fn of(user: i64) -> Self {
        Self { pairs: (1..=PAIRS).map(|step| Edge(user, (user + step - 1) % CALLERS + 1)).collect() }
    }

    /// All pairs' settings.
    async fn batch(&self, node: Channel) -> Result<PlaceAnswers<SettingsAnswer>, String> {
        let (user_id, target_ids) = (self.pairs[0].0, self.pairs.iter().map(|pair| pair.1).collect());
        let asked = BatchGetRelationsRequest { user_id, target_ids, consistency: None };
        let answer = RelationServiceClient::new(node).batch_get_relations(with_deadline(asked)).await;
        let results = answer.map_err(|status| failed(&status, true).0)?.into_inner().results;
        let answers = results.into_iter().map(|found| match found.result {
            Some(relation_result::Result::Relation(relation)) => {
                let settings =
                    settings(relation.settings.as_ref()).map_err(|status| name_of(status.code()))?;
                Ok(SettingsAnswer::Whole(settings))
            }
            Some(relation_result::Result::Error(error)) => Err(name_of(Code::from(error.code))),
            None => Err(name_of(Code::Internal)),
        });
        Ok(answers.enumerate().collect())
    }
}

impl StrictSubject for BlockSubject {
    type Value = Settings;
    type Change = Setting;
    type Answer = SettingsAnswer;

    fn places(&self) -> usize {
        self.pairs.len()
    }

    fn change(&self, known: Option<Settings>, random: &mut SmallRng) -> Setting {
        let Some(known) = known else { return Setting::Permissions(random.random_range(0..=ALL)) };
        match random.random_range(0..4) {
            0 => Setting::Permissions(known.permissions.unwrap_or_default() ^ random.random_range(1..=ALL)),
            _ if known.blocked => Setting::Unblock,
            _ => Setting::Block,
        }
    }

    async fn write(
        &self,
        node: Channel,
        place: usize,
        change: Setting,
        request_id: &str,
    ) -> Result<Settings, String> {
        let asked = PreparedRelationCall::strong(RelationRequest::Set(self.pairs[place], change));
        match (PreparedRelationCall { request_id: request_id.to_owned(), ..asked }).send(node).await.0 {
            RelationOutcome::Set(settings, _) => Ok(settings),
            outcome => Err(code_of(outcome)),
        }
    }

    async fn ask(
        &self,
        node: Channel,
        place: usize,
        random: &mut SmallRng,
    ) -> Result<PlaceAnswers<SettingsAnswer>, String> {
        if random.random_ratio(1, BATCH_EVERY) {
            return self.batch(node).await;
        }
        let asked = if random.random_ratio(1, 4) { 0 } else { ALL };
        let check = PreparedRelationCall::strong(RelationRequest::Check(self.pairs[place], asked));
        match check.send(node).await.0 {
            RelationOutcome::Allows(all, denied) => {
                Ok(vec![(place, Ok(SettingsAnswer::Denied(asked, denied, all)))])
            }
            outcome => Err(code_of(outcome)),
        }
    }

    async fn stored(&self, node: Channel, place: usize) -> Option<Settings> {
        let asked = PreparedRelationCall::strong(RelationRequest::Get(self.pairs[place], Level::Strong));
        match asked.send(node).await.0 {
            RelationOutcome::Found { settings, .. } => Some(settings),
            _ => None,
        }
    }

    fn judge(known: &Known<Settings>, answer: SettingsAnswer) -> Option<UsedValue> {
        let value = known.value?;
        match answer {
            SettingsAnswer::Whole(settings) if settings == value => Some(UsedValue::Current),
            SettingsAnswer::Whole(settings) if settings.version > value.version && known.is_open() => {
                Some(UsedValue::Later)
            }
            SettingsAnswer::Denied(asked, denied, all) if agrees(value, asked, denied, all) => {
                Some(UsedValue::Current)
            }
            SettingsAnswer::Denied(..) if known.is_open() => None,
            SettingsAnswer::Whole(_) | SettingsAnswer::Denied(..) => Some(UsedValue::Stale),
        }
    }

    fn explains(stored: Settings, known: Settings, _answer: SettingsAnswer) -> bool {
        stored.version > known.version
    }
}

/// A failed call's code.
fn code_of(outcome: RelationOutcome) -> String {
    match outcome {
        RelationOutcome::Refused(code) | RelationOutcome::Open(code) => code,
        // Another answer than was asked for.
        _ => name_of(Code::Internal),
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
    use tokio::time::Instant;

    use super::*;

    const SET: Settings = Settings { version: 3, blocked: false, permissions: Some(ALL) };
    const BLOCKED: Settings = Settings { version: 4, blocked: true, permissions: Some(ALL) };

    fn judge(known: Settings, answer: SettingsAnswer) -> Option<UsedValue> {
        BlockSubject::judge(&Known { value: Some(known), open: None }, answer)
    }

    /// Judges as `judge` does, with a write whose outcome is unknown.
    fn open(known: Settings, answer: SettingsAnswer) -> Option<UsedValue> {
        BlockSubject::judge(&Known { value: Some(known), open: Some(Instant::now()) }, answer)
    }

    #[test]
    fn decision_by_previous_value_is_stale() {
        let (allows, denies) =
            (SettingsAnswer::Denied(ALL, 0, true), SettingsAnswer::Denied(ALL, ALL, false));
        assert_eq!(judge(BLOCKED, denies), Some(UsedValue::Current));
        assert_eq!(judge(BLOCKED, allows), Some(UsedValue::Stale));
        assert_eq!(judge(SET, denies), Some(UsedValue::Stale));
        assert_eq!(judge(SET, SettingsAnswer::Denied(ALL, 1, false)), Some(UsedValue::Stale));
        let message = judge(BLOCKED, SettingsAnswer::Denied(0, 0, true));
        assert_eq!(message, Some(UsedValue::Stale), "a message needs no permission, but no block");
        assert_eq!(judge(BLOCKED, SettingsAnswer::Denied(0, 0, false)), Some(UsedValue::Current));
    }

    #[test]
    fn lower_or_unwritten_version_is_stale() {
        let [set, blocked] = [SET, BLOCKED].map(SettingsAnswer::Whole);
        assert_eq!(judge(BLOCKED, set), Some(UsedValue::Stale));
        assert_eq!(open(BLOCKED, set), Some(UsedValue::Stale), "no write lowers a version");
        assert_eq!(judge(BLOCKED, blocked), Some(UsedValue::Current));
        assert_eq!(judge(SET, blocked), Some(UsedValue::Stale), "no write may have made it");
        assert_eq!(open(SET, blocked), Some(UsedValue::Later));
    }

    #[test]
    fn store_shows_whether_unknown_write_applied() {
        let allows = SettingsAnswer::Denied(ALL, 0, true);
        assert_eq!(open(BLOCKED, allows), None);
        assert!(!BlockSubject::explains(BLOCKED, BLOCKED, allows));
        assert!(BlockSubject::explains(Settings { version: 5, ..SET }, BLOCKED, allows));
    }

    #[test]
    fn unknown_write_permits_both_decisions() {
        let denies = SettingsAnswer::Denied(ALL, ALL, false);
        assert_eq!(BlockSubject::judge(&Known { value: None, open: Some(Instant::now()) }, denies), None);
        assert_eq!(open(BLOCKED, denies), Some(UsedValue::Current));
    }
}
