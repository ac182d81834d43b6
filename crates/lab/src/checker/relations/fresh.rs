//! The checks of sessions, strong reads and values, of follows.

use std::collections::HashMap;

use super::{
    Relations,
    follows::{Follow, Look},
};
use crate::{
    checker::{report::Checked, runs::Runs},
    history::{About, Edge, Level, Relates},
};

type By<K> = HashMap<K, u64, ahash::RandomState>;

/// C1, of follows.
pub(in crate::checker) fn monotonic(relations: &Relations<'_>, runs: &Runs, checked: &mut Checked) {
    for (edge, follow) in &relations.follows {
        let mut newest: By<(u32, usize)> = By::default();
        for look in follow.looks.iter().filter(|look| !look.of_list) {
            let most = follow.most(look);
            if let Level::AtLeast(token) = look.level {
                checked.look();
                if most < token {
                    checked.violation(|| below(*edge, look, "its token", token));
                }
            }
            if look.call.pinned {
                checked.look();
                let session = (look.call.client, runs.number(look.call.node, look.call.began));
                let before = newest.entry(session).or_default();
                if most < *before {
                    checked.violation(|| below(*edge, look, "its last read", *before));
                }
                *before = look.seen.unwrap_or_default().max(*before);
            }
        }
    }
}

/// C2, of follows and their lists.
pub(in crate::checker) fn own_writes(relations: &Relations<'_>, checked: &mut Checked) {
    let mut own: HashMap<Edge, By<(u32, u32)>, ahash::RandomState> = HashMap::default();
    let mut looks = looks(relations);
    for call in relations.calls() {
        while let Some((follow, look)) = looks.next_if(|(_, look)| look.call.began <= call.began) {
            let key = (look.call.client, look.call.node);
            let floor = own.get(&follow.edge).and_then(|own| own.get(&key)).copied();
            let Some(floor) = floor.filter(|_| look.level == Level::Cached) else { continue };
            checked.look();
            if follow.most(look) < floor {
                checked.violation(|| below(follow.edge, look, "its own write", floor));
            }
        }
        if let (
            About::Follow(edge) | About::Unfollow(edge),
            Relates::Follows(version) | Relates::Ended(version),
        ) = (call.what, &call.outcome)
        {
            let newest = own.entry(edge).or_default().entry((call.client, call.node)).or_default();
            *newest = (*version).max(*newest);
        }
    }
}

/// C4, of follows: what is read or decided is no older than what answers showed before, and each change is above it.
pub(in crate::checker) fn strong(relations: &Relations<'_>, checked: &mut Checked) {
    for (edge, follow) in &relations.follows {
        for look in follow.looks.iter().filter(|look| look.level == Level::Strong) {
            checked.look();
            let floor = follow.shown_before(look.call.began);
            if follow.most(look) < floor {
                checked.violation(|| below(*edge, look, "what was shown before", floor));
            }
        }
        for write in &follow.writes {
            let Some(version) = write.version() else { continue };
            checked.look();
            let (floor, begins) = (follow.shown_before(write.began), matches!(write.what, About::Follow(_)));
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

/// C6, of follows: what is seen was written by a client.
pub(in crate::checker) fn phantoms(relations: &Relations<'_>, checked: &mut Checked) {
    for (edge, follow) in &relations.follows {
        for look in &follow.looks {
            let Some(version) = look.seen else { continue };
            checked.look();
            if follow.is_end(version) || !follow.may_be(version, look.call.ended) {
                checked.violation(|| {
                    let (Edge(from, to), client) = (edge, look.call.client);
                    let began = look.call.began;
                    format!("follow:{from},{to}: client {client} saw version {version} at {began} ns, which no client wrote")
                });
            }
        }
    }
}

/// All reads, ordered by their begin.
fn looks<'b, 'a>(
    relations: &'b Relations<'a>,
) -> std::iter::Peekable<impl Iterator<Item = (&'b Follow<'a>, &'b Look<'a>)> + use<'a, 'b>> {
    let all =
        relations.follows.values().flat_map(|follow| follow.looks.iter().map(move |look| (follow, look)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, look)| look.call.began);
    all.into_iter().peekable()
}

fn below(Edge(from, to): Edge, look: &Look<'_>, what: &str, floor: u64) -> String {
    let (call, list) = (look.call, if look.of_list { " in a list" } else { "" });
    let seen = look.seen.map_or_else(|| "no follow".to_owned(), |version| format!("version {version}"));
    let (client, node, began) = (call.client, call.node, call.began);
    format!(
        "follow:{from},{to}: client {client} on node {node} read {seen}{list} at {began} ns, older than {what}: \
         version {floor}"
    )
}
