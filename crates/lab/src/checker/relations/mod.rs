//! Collects what calls about relations have seen, grouped by edge. Versions show the order here, too: follow
//! versions rise with each change, though not by 1, and settings versions rise by 1.

mod answers;
mod blocks;
mod ends;
mod follows;
mod fresh;
mod writes;

use std::collections::{BTreeMap, HashMap};

pub(crate) use self::ends::relations_agree;
pub(super) use self::{
    answers::{codes, requests},
    blocks::{lost, new_enemy},
    ends::{counts, symmetry},
    fresh::{monotonic, own_writes, phantoms, strong},
};
use self::{
    blocks::Blocks,
    follows::{Follow, FollowRead},
    writes::{RelationWrite, writes},
};
use crate::history::{
    Edge, EdgeEnd, Event, Level, ListsEnd, RelationCall, RelationOutcome, RelationRequest, Side,
};

/// Everything about relations.
#[derive(Debug)]
pub(super) struct Relations<'a> {
    /// Ordered by their begin.
    calls: Vec<&'a RelationCall>,
    follows: BTreeMap<Edge, Follow<'a>>,
    blocks: BTreeMap<Edge, Blocks<'a>>,
    lists: Vec<&'a ListsEnd>,
}

impl<'a> Relations<'a> {
    pub(super) fn new(events: &'a [Event]) -> Self {
        let (mut calls, mut ends, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        for event in events {
            match event {
                Event::Relation(call) => calls.push(call),
                Event::Edge(end) => ends.push(end),
                Event::Lists(end) => lists.push(end),
                _ => {}
            }
        }
        calls.sort_by_key(|call| (call.began, call.ended));
        let mut relations = Self { calls, follows: BTreeMap::new(), blocks: BTreeMap::new(), lists };
        relations.group_by_edge(&ends);
        relations
    }

    /// Calls in the order in which they began.
    pub(super) fn calls(&self) -> impl Iterator<Item = &'a RelationCall> {
        self.calls.iter().copied()
    }

    /// Cached reads of follows: when each began and ended, what is read, and for how long a newer state had
    /// been acknowledged then.
    pub(super) fn ages(&self) -> impl Iterator<Item = (&'a RelationCall, Edge, u64)> {
        self.follows.iter().flat_map(|(edge, follow)| follow.ages().map(|(call, age)| (call, *edge, age)))
    }

    fn group_by_edge(&mut self, ends: &[&'a EdgeEnd]) {
        for end in ends {
            self.follow(end.edge).end = Some(end.follow);
            self.blocks(end.edge).end = Some(end.settings);
        }
        for write in writes(&self.calls) {
            match *write.what {
                RelationRequest::Follow(edge) | RelationRequest::Unfollow(edge) => {
                    self.follow(edge).writes.push(write)
                }
                RelationRequest::Set(edge, _) => {
                    self.blocks(edge).changes.push(write.clone());
                    self.follow(edge.reversed()).blocks.push(write);
                }
                RelationRequest::Get(..)
                | RelationRequest::Check(..)
                | RelationRequest::List(..)
                | RelationRequest::Count(_) => {}
            }
        }
        self.add_reads();
        self.follows.values_mut().for_each(Follow::finish);
        self.blocks.values_mut().for_each(Blocks::finish);
    }

    /// Adds what reads show about each edge that was written.
    fn add_reads(&mut self) {
        let mut by_user: HashMap<(i64, Side), Vec<i64>, ahash::RandomState> = HashMap::default();
        for Edge(from, to) in self.follows.keys() {
            by_user.entry((*from, Side::Following)).or_default().push(*to);
            by_user.entry((*to, Side::Fans)).or_default().push(*from);
        }
        for call in self.calls.clone() {
            match (call.what, &call.outcome) {
                (
                    RelationRequest::Get(edge, level),
                    RelationOutcome::Found { follow, followed_by, settings },
                ) => {
                    self.follow(edge).reads.push(FollowRead { call, level, seen: *follow, of_list: false });
                    let level = if level == Level::Strong { level } else { Level::Cached };
                    let other = FollowRead { call, level, seen: *followed_by, of_list: false };
                    self.follow(edge.reversed()).reads.push(other);
                    self.blocks(edge).reads.push((call, *settings));
                }
                (RelationRequest::Check(edge, _), RelationOutcome::Allows(..)) => {
                    self.blocks(edge).decisions.push(call)
                }
                (RelationRequest::List(user, side, level), RelationOutcome::Listed(entries)) => {
                    for other in by_user.get(&(user, side)).into_iter().flatten() {
                        let found = entries.iter().filter(|(listed, _)| listed == other);
                        let seen = found.map(|(_, version)| *version).max();
                        let read = FollowRead { call, level, seen, of_list: true };
                        self.follow(side.edge(user, *other)).reads.push(read);
                    }
                }
                (RelationRequest::Follow(edge), RelationOutcome::Refused(_)) => {
                    self.blocks(edge.reversed()).decisions.push(call)
                }
                (RelationRequest::Unfollow(edge), RelationOutcome::Refused(code)) if code == "NOT_FOUND" => {
                    let read = FollowRead { call, level: Level::Strong, seen: None, of_list: false };
                    self.follow(edge).reads.push(read);
                }
                _ => {}
            }
        }
        let acknowledged: Vec<RelationWrite<'a>> =
            self.follows.values().flat_map(Follow::acknowledged_follows).collect();
        for write in acknowledged {
            if let RelationRequest::Follow(edge) = *write.what {
                self.blocks(edge.reversed()).opposite_follows.push(write);
            }
        }
    }

    fn follow(&mut self, edge: Edge) -> &mut Follow<'a> {
        self.follows.entry(edge).or_insert_with(|| Follow::new(edge))
    }

    fn blocks(&mut self, edge: Edge) -> &mut Blocks<'a> {
        self.blocks.entry(edge).or_insert_with(|| Blocks::new(edge))
    }
}
