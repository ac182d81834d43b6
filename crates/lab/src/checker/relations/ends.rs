//! Checks the final state.

use std::collections::{BTreeMap, HashMap};

use super::{Blocks, Relations, follows::Follow, writes::WriteOutcome};
use crate::{
    checker::report::CheckResult,
    history::{Edge, Event, RelationOutcome, RelationRequest, Setting, Side},
};

/// C12: each follower is in the list of fans, and no other user is: at the end the follow's record and both
/// lists agree. They also show the last change, by its version.
pub(in crate::checker) fn symmetry(relations: &Relations<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C12 symmetry");
    check_agreement(relations, &mut checked);
    for follow in relations.follows.values() {
        let Some(end) = follow.end else { continue };
        if let Some(violation) = violation(follow, end) {
            checked.violation(|| format!("follow:{},{}: {violation}", follow.edge.0, follow.edge.1));
        }
    }
    checked
}

/// Whether follow records, lists and counts agree, and no user follows another without permission.
pub(crate) fn relations_agree(ends: &[Event]) -> bool {
    let relations = Relations::new(ends);
    let mut checked = counts(&relations);
    check_agreement(&relations, &mut checked);
    checked.holds()
}

fn check_agreement(relations: &Relations<'_>, checked: &mut CheckResult) {
    let lists = [Side::Following, Side::Fans].map(|side| (side, list_entries(relations, side)));
    for (edge, follow) in &relations.follows {
        let Some(end) = follow.end else { continue };
        checked.count_judged();
        for (side, entries) in &lists {
            let Some(in_list) = entries.find(*edge, *side) else { continue };
            if in_list != end {
                checked.violation(|| asymmetric(*edge, *side, in_list, end));
            }
        }
        let blocked = |other: &Blocks<'_>| other.end.is_some_and(|settings| settings.blocked);
        if end.is_some() && relations.blocks.get(&edge.reversed()).is_some_and(blocked) {
            checked.violation(|| {
                format!("follow:{},{}: {end:?} is active, though it is blocked", edge.0, edge.1)
            });
        }
    }
    for (side, entries) in &lists {
        let unknown = entries.entries.iter().filter(|(edge, _)| !relations.follows.contains_key(edge));
        unknown.for_each(|(edge, version)| {
            checked.violation(|| asymmetric(*edge, *side, Some(*version), None));
        });
    }
}

/// C13: at the end counts equal the lists' lengths, and they are never below zero.
pub(in crate::checker) fn counts(relations: &Relations<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C13 counts");
    for end in &relations.lists {
        checked.count_judged();
        let lengths = (length(&end.following), length(&end.fans));
        if end.counts != lengths {
            let (user, counts) = (end.user, end.counts);
            checked.violation(|| {
                format!("user:{user}: {counts:?} are counted and {lengths:?} are in the lists")
            });
        }
    }
    for call in relations.calls() {
        let RelationOutcome::Counted(following, fans) = call.outcome else { continue };
        checked.count_judged();
        if following.min(fans) < 0 {
            checked.violation(|| format!("{:?} was answered with {following} and {fans}", call.what));
        }
    }
    checked
}

/// One side's lists.
struct ListEntries {
    /// The users whose lists were read.
    owners: Vec<i64>,
    entries: BTreeMap<Edge, u64>,
}

impl ListEntries {
    /// `None`: the list was not read; inner: it is not in it.
    fn find(&self, edge: Edge, side: Side) -> Option<Option<u64>> {
        let owner = if side == Side::Following { edge.0 } else { edge.1 };
        self.owners.binary_search(&owner).ok()?;
        Some(self.entries.get(&edge).copied())
    }
}

fn list_entries(relations: &Relations<'_>, side: Side) -> ListEntries {
    let mut owners: Vec<i64> = relations.lists.iter().map(|end| end.user).collect();
    owners.sort_unstable();
    let entries = relations.lists.iter().flat_map(|end| {
        let list = if side == Side::Following { &end.following } else { &end.fans };
        list.iter().map(|(other, version)| (side.edge(end.user, *other), *version))
    });
    ListEntries { owners, entries: entries.collect() }
}

fn length(list: &[(i64, u64)]) -> i64 {
    let once: HashMap<i64, u64, ahash::RandomState> = list.iter().copied().collect();
    i64::try_from(once.len()).unwrap_or(i64::MAX)
}

fn asymmetric(Edge(from, to): Edge, side: Side, in_list: Option<u64>, end: Option<u64>) -> String {
    let says = |version: Option<u64>| {
        version.map_or_else(|| "none".to_owned(), |version| format!("version {version}"))
    };
    let list = if side == Side::Following { "the list of who is followed" } else { "the list of fans" };
    format!("follow:{from},{to}: {list} has {}, the record is {}", says(in_list), says(end))
}

/// Describes how the final state is wrong.
fn violation(follow: &Follow<'_>, end: Option<u64>) -> Option<String> {
    let newest = follow.shown_before(u64::MAX);
    let Some(version) = end else {
        let lost = follow.ended_until(u64::MAX) < newest;
        return lost.then(|| format!("the follow of version {newest} is lost"));
    };
    if version < newest {
        return Some(format!("version {version} is active, after version {newest}"));
    }
    if follow.is_end(version) || !follow.may_be(version, u64::MAX) {
        return Some(format!("version {version} is active, which no client wrote"));
    }
    let known = follow.first_shown(version)?;
    let cut = follow.blocks.iter().find(|write| {
        let blocks = matches!(write.what, RelationRequest::Set(_, Setting::Block));
        blocks && write.began > known && matches!(write.outcome, WriteOutcome::Done(_))
    })?;
    Some(format!("version {version} is active, which the block of {} ns has ended", cut.began))
}
