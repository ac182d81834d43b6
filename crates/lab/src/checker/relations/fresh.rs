//! Checks sessions, strong reads and values, for follows.

use std::collections::HashMap;

use super::{
    Relations,
    follows::{Follow, FollowRead},
};
use crate::{
    checker::{report::CheckResult, restarts::Restarts},
    history::{Edge, Level, RelationOutcome, RelationRequest},
};

type VersionBy<K> = HashMap<K, u64, ahash::RandomState>;

/// C1 for follows.
pub(in crate::checker) fn monotonic(
    relations: &Relations<'_>,
    restarts: &Restarts,
    checked: &mut CheckResult,
) {
    for (edge, follow) in &relations.follows {
        let mut newest: VersionBy<(u32, usize)> = VersionBy::default();
        for read in follow.reads.iter().filter(|read| !read.of_list) {
            let most = follow.highest_version(read);
            if let Level::AtLeast(token) = read.level {
                checked.count_judged();
                if most < token {
                    checked.violation(|| below(*edge, read, "its token", token));
                }
            }
            if read.call.pinned {
                checked.count_judged();
                let session = (read.call.client, restarts.count_until(read.call.node, read.call.began));
                let before = newest.entry(session).or_default();
                if most < *before {
                    checked.violation(|| below(*edge, read, "its last read", *before));
                }
                *before = read.seen.unwrap_or_default().max(*before);
            }
        }
    }
}

/// C2 for follows and their lists.
pub(in crate::checker) fn own_writes(relations: &Relations<'_>, checked: &mut CheckResult) {
    let mut own: HashMap<Edge, VersionBy<(u32, u32)>, ahash::RandomState> = HashMap::default();
    let mut reads = all_reads(relations);
    for call in relations.calls() {
        while let Some((follow, read)) = reads.next_if(|(_, read)| read.call.began <= call.began) {
            let key = (read.call.client, read.call.node);
            let floor = own.get(&follow.edge).and_then(|own| own.get(&key)).copied();
            let Some(floor) = floor.filter(|_| read.level == Level::Cached) else { continue };
            checked.count_judged();
            if follow.highest_version(read) < floor {
                checked.violation(|| below(follow.edge, read, "its own write", floor));
            }
        }
        if let (
            RelationRequest::Follow(edge) | RelationRequest::Unfollow(edge),
            RelationOutcome::Follows(version) | RelationOutcome::Ended(version),
        ) = (call.what, &call.outcome)
        {
            let newest = own.entry(edge).or_default().entry((call.client, call.node)).or_default();
            *newest = (*version).max(*newest);
        }
    }
}

/// C4 for follows: reads and decisions are no older than what answers showed before, and each change is above
/// it.
pub(in crate::checker) fn strong(relations: &Relations<'_>, checked: &mut CheckResult) {
    for (edge, follow) in &relations.follows {
        for read in follow.reads.iter().filter(|read| read.level == Level::Strong) {
            checked.count_judged();
            let floor = follow.shown_before(read.call.began);
            if follow.highest_version(read) < floor {
                checked.violation(|| below(*edge, read, "what was shown before", floor));
            }
        }
        for write in &follow.writes {
            let Some(version) = write.version() else { continue };
            checked.count_judged();
            let (floor, begins) =
                (follow.shown_before(write.began), matches!(write.what, RelationRequest::Follow(_)));
            // For an existing follow the answer has its state.
            if version < floor || version == floor && !begins {
                checked.violation(|| {
                    let Edge(from, to) = *edge;
                    let began = write.began;
                    format!(
                        "follow:{from},{to}: a change of {began} ns became version {version}, after {floor}"
                    )
                });
            }
        }
    }
}

/// C6 for follows: visible values were written by a client.
pub(in crate::checker) fn phantoms(relations: &Relations<'_>, checked: &mut CheckResult) {
    for (edge, follow) in &relations.follows {
        for read in &follow.reads {
            let Some(version) = read.seen else { continue };
            checked.count_judged();
            if follow.is_end(version) || !follow.may_be(version, read.call.ended) {
                checked.violation(|| {
                    let (Edge(from, to), client) = (edge, read.call.client);
                    let began = read.call.began;
                    format!("follow:{from},{to}: client {client} saw version {version} at {began} ns, which no client wrote")
                });
            }
        }
    }
}

/// All reads, ordered by their begin.
fn all_reads<'b, 'a>(
    relations: &'b Relations<'a>,
) -> std::iter::Peekable<impl Iterator<Item = (&'b Follow<'a>, &'b FollowRead<'a>)> + use<'a, 'b>> {
    let all =
        relations.follows.values().flat_map(|follow| follow.reads.iter().map(move |read| (follow, read)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, read)| read.call.began);
    all.into_iter().peekable()
}

fn below(Edge(from, to): Edge, read: &FollowRead<'_>, what: &str, floor: u64) -> String {
    let (call, list) = (read.call, if read.of_list { " in a list" } else { "" });
    let seen = read.seen.map_or_else(|| "no follow".to_owned(), |version| format!("version {version}"));
    let (client, node, began) = (call.client, call.node, call.began);
    format!(
        "follow:{from},{to}: client {client} on node {node} read {seen}{list} at {began} ns, older than {what}: \
         version {floor}"
    )
}
