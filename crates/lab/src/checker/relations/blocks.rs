//! Checks users' settings for other users: no change is lost, and all nodes use it at once.

use super::{
    Relations,
    writes::{RelationWrite, WriteOutcome},
};
use crate::{
    checker::{report::CheckResult, shown::ShownUntil},
    history::{Edge, Level, RelationCall, RelationOutcome, RelationRequest, Setting, Settings},
};

/// Maximum concurrent changes to one edge.
const AT_ONCE: usize = 64;

/// One user's settings for another.
#[derive(Debug, Default)]
pub(super) struct Blocks<'a> {
    edge: Edge,
    pub(super) changes: Vec<RelationWrite<'a>>,
    /// All reads that have settings.
    pub(super) reads: Vec<(&'a RelationCall, Settings)>,
    /// Calls that were decided by it.
    pub(super) decisions: Vec<&'a RelationCall>,
    /// Acknowledged opposite follows: no block may have been in force.
    pub(super) opposite_follows: Vec<RelationWrite<'a>>,
    pub(super) end: Option<Settings>,
    /// Acknowledged changes, ordered by version.
    states: Vec<SettingsChange>,
    /// Settings that were read and belong to no acknowledged change.
    others: Vec<Settings>,
    /// The newest version that was acknowledged or read from a memory.
    shown: ShownUntil<u64>,
}

/// An acknowledged change.
#[derive(Clone, Copy, Debug)]
struct SettingsChange {
    /// The settings after the change.
    settings: Settings,
    /// The setting that was changed.
    setting: Setting,
    began: u64,
    ended: u64,
}

/// The possible settings when a call ran.
struct Candidates {
    states: Vec<Settings>,
    /// Changes with an open outcome that may have taken effect.
    open: Vec<Setting>,
}

/// C5, for settings: each acknowledged change is included in the change with the next version, and at the end
/// the store has the last acknowledged version or a newer version.
pub(in crate::checker) fn lost(relations: &Relations<'_>, checked: &mut CheckResult) {
    for blocks in relations.blocks.values() {
        for pair in blocks.states.windows(2) {
            checked.count_judged();
            if let Some(wrong) = wrong_pair(pair[0], pair[1]) {
                checked.violation(|| format!("{}: {wrong}", blocks.name()));
            }
        }
        let (Some(last), Some(end)) = (blocks.states.last(), blocks.end) else { continue };
        checked.count_judged();
        let at_last = end.version == last.settings.version && end != last.settings;
        if end.version < last.settings.version || at_last {
            checked.violation(|| format!("{}: {last:?} is lost, the store has {end:?}", blocks.name()));
        }
    }
}

/// C14: after a change is acknowledged, or a read from memory has returned it, no node uses the previous
/// value for a decision or a read. A strong read asks the store, and a read with a token may do so. Both can
/// return a change that is committed but not yet acknowledged, so their results constrain later strong reads
/// (C4), and no reads from memory.
pub(in crate::checker) fn new_enemy(relations: &Relations<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C14 new enemy");
    for blocks in relations.blocks.values() {
        for (call, settings) in &blocks.reads {
            checked.count_judged();
            if let Some(wrong) = blocks.wrong_read(call, *settings) {
                checked.violation(|| blocks.violation(call.client, call.began, &wrong));
            }
        }
        for call in &blocks.decisions {
            let Some(decided) = decision(call) else { continue };
            checked.count_judged();
            if !blocks.candidates(call.began, call.ended).allow(decided) {
                let wrong = format!("{:?} was answered with {:?}", call.what, call.outcome);
                checked.violation(|| blocks.violation(call.client, call.began, &wrong));
            }
        }
        for write in &blocks.opposite_follows {
            checked.count_judged();
            if !blocks.candidates(write.began, write.ended).allow(Decision::Blocked(false)) {
                checked.violation(|| {
                    blocks.violation(0, write.began, "it began to follow though it is blocked")
                });
            }
        }
    }
    checked
}

/// The decision that a call shows.
#[derive(Clone, Copy)]
enum Decision {
    /// A check: the requested permissions, the denied permissions, and whether everything was allowed.
    Asked(u8, u8, bool),
    /// A follow: whether a block refused it.
    Blocked(bool),
}

fn decision(call: &RelationCall) -> Option<Decision> {
    match (&call.what, &call.outcome) {
        (RelationRequest::Check(_, asked), RelationOutcome::Allows(all, denied)) => {
            Some(Decision::Asked(*asked, *denied, *all))
        }
        (RelationRequest::Follow(_), RelationOutcome::Refused(code)) if code == "FAILED_PRECONDITION" => {
            Some(Decision::Blocked(true))
        }
        _ => None,
    }
}

const fn may_ask_the_store(call: &RelationCall) -> bool {
    matches!(call.what, RelationRequest::Get(_, Level::Strong | Level::AtLeast(_)))
}

impl<'a> Blocks<'a> {
    pub(super) fn new(edge: Edge) -> Self {
        Self { edge, ..Self::default() }
    }

    pub(super) fn finish(&mut self) {
        let acked = self.changes.iter().filter_map(|write| match (write.what, write.outcome) {
            (RelationRequest::Set(_, setting), WriteOutcome::Done(RelationOutcome::Set(settings, _))) => {
                let (settings, setting) = (*settings, *setting);
                Some(SettingsChange { settings, setting, began: write.began, ended: write.ended })
            }
            _ => None,
        });
        self.states = acked.collect();
        self.states.sort_by_key(|state| (state.settings.version, state.began));
        let others = self.reads.iter().filter(|(_, read)| !self.is_acknowledged(read.version));
        self.others = others.map(|(_, read)| *read).collect();
        let by_memories = self.reads.iter().filter(|(call, _)| !may_ask_the_store(call));
        let shown = by_memories.map(|(call, read)| (read.version, call.ended));
        let acked = self.states.iter().map(|state| (state.settings.version, state.ended));
        self.shown = ShownUntil::new(shown.chain(acked));
        self.others.sort_unstable_by_key(|read| (read.version, read.blocked, read.permissions));
        self.others.dedup();
    }

    /// Describes how a read is wrong. `None`: it is correct.
    fn wrong_read(&self, call: &RelationCall, read: Settings) -> Option<String> {
        let floor = self.floor(call.began);
        if read.version < floor {
            return Some(format!("{read:?} was read, older than version {floor}"));
        }
        let known = self.states.binary_search_by_key(&read.version, |state| state.settings.version).ok()?;
        let known = self.states[known];
        (known.settings != read).then(|| format!("{read:?} was read, and it is {:?}", known.settings))
    }

    /// The highest version that an acknowledgement or a read from memory showed before this time.
    fn floor(&self, time: u64) -> u64 {
        self.shown.before(time)
    }

    fn candidates(&self, began: u64, ended: u64) -> Candidates {
        let floor = self.floor(began);
        let from = self.states.partition_point(|state| state.settings.version < floor);
        let near = self.states[from..].iter().take(AT_ONCE).filter(|state| state.began <= ended);
        let mut states: Vec<Settings> = near.map(|state| state.settings).collect();
        if floor == 0 {
            states.push(Settings::default());
        }
        // Settings by changes that were never acknowledged.
        states.extend(self.others.iter().filter(|read| read.version >= floor));
        let open =
            self.changes.iter().filter(|write| write.outcome == WriteOutcome::Open && write.began <= ended);
        let setting = |write: &RelationWrite<'_>| match write.what {
            RelationRequest::Set(_, setting) => Some(*setting),
            _ => None,
        };
        Candidates { states, open: open.filter_map(setting).collect() }
    }

    fn is_acknowledged(&self, version: u64) -> bool {
        self.states.binary_search_by_key(&version, |state| state.settings.version).is_ok()
    }

    fn name(&self) -> String {
        let Edge(from, to) = self.edge;
        format!("block:{from},{to}")
    }

    fn violation(&self, client: u32, began: u64, wrong: &str) -> String {
        format!(
            "{}: client {client} at {began} ns: {wrong}; version {} was known",
            self.name(),
            self.floor(began)
        )
    }
}

impl Candidates {
    /// Whether any possible settings lead to this decision.
    fn allow(&self, decision: Decision) -> bool {
        self.states.iter().any(|state| self.derived(*state).any(|state| decides(state, decision)))
    }

    /// The settings, with any combination of the open changes.
    fn derived(&self, state: Settings) -> impl Iterator<Item = Settings> {
        let set = |setting: &Setting| state.with(*setting);
        let blocked = self.open.iter().filter(|setting| !matches!(setting, Setting::Permissions(_))).map(set);
        let blocked: Vec<bool> = blocked.map(|state| state.blocked).chain([state.blocked]).collect();
        let permissions = self.open.iter().map(set).map(|state| state.permissions).chain([state.permissions]);
        let permissions: Vec<Option<u8>> = permissions.collect();
        let both = blocked.into_iter().flat_map(move |blocked| {
            permissions.clone().into_iter().map(move |permissions| Settings { blocked, permissions, ..state })
        });
        both.collect::<Vec<_>>().into_iter()
    }
}

fn decides(state: Settings, decision: Decision) -> bool {
    match decision {
        Decision::Blocked(blocked) => state.blocked == blocked,
        Decision::Asked(asked, denied, all) => match state.denied(asked) {
            Some(should) => denied == should && all == (should == 0 && !state.blocked),
            None => true,
        },
    }
}

/// Describes how two consecutive acknowledged changes are wrong.
fn wrong_pair(before: SettingsChange, after: SettingsChange) -> Option<String> {
    let (one, two) = (before.settings, after.settings);
    if one.version == two.version {
        return Some(format!("two changes became version {}", one.version));
    }
    let next = one.version + 1 == two.version;
    (next && one.with(after.setting) != two).then(|| format!("{one:?} became {two:?} by {:?}", after.setting))
}
