//! What calls about relations have seen, grouped by edge. Versions show the order here, too: those of follows rise with
//! each change, though not by one, and those of settings by one.

mod answers;
mod blocks;
mod ends;
mod follows;
mod fresh;
mod writes;

use std::collections::{BTreeMap, HashMap};

pub(crate) use self::ends::agree;
pub(super) use self::{
    answers::{codes, requests},
    blocks::{lost, new_enemy},
    ends::{counts, symmetry},
    fresh::{monotonic, own_writes, phantoms, strong},
};
use self::{
    blocks::Blocks,
    follows::{Follow, Look},
    writes::{RelationWrite, writes},
};
use crate::history::{About, Edge, EdgeEnd, Event, Level, ListsEnd, Relates, RelationCall, Side};

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
        relations.fill(&ends);
        relations
    }

    /// Calls in the order in which they began.
    pub(super) fn calls(&self) -> impl Iterator<Item = &'a RelationCall> {
        self.calls.iter().copied()
    }

    /// Cached reads of follows: when each began and ended, what is read, and for how long something newer had been
    /// acknowledged then.
    pub(super) fn ages(&self) -> impl Iterator<Item = (&'a RelationCall, Edge, u64)> {
        self.follows.iter().flat_map(|(edge, follow)| follow.ages().map(|(call, age)| (call, *edge, age)))
    }

    fn fill(&mut self, ends: &[&'a EdgeEnd]) {
        for end in ends {
            self.follow(end.edge).end = Some(end.follow);
            self.blocks(end.edge).end = Some(end.settings);
        }
        for write in writes(&self.calls) {
            match *write.what {
                About::Follow(edge) | About::Unfollow(edge) => self.follow(edge).writes.push(write),
                About::Set(edge, _) => {
                    self.blocks(edge).changes.push(write.clone());
                    self.follow(edge.reversed()).blocks.push(write);
                }
                About::Get(..) | About::Check(..) | About::List(..) | About::Count(_) => {}
            }
        }
        self.look();
        self.follows.values_mut().for_each(Follow::seal);
        self.blocks.values_mut().for_each(Blocks::seal);
    }

    /// What reads show of each edge that was written.
    fn look(&mut self) {
        let mut by_user: HashMap<(i64, Side), Vec<i64>, ahash::RandomState> = HashMap::default();
        for Edge(from, to) in self.follows.keys() {
            by_user.entry((*from, Side::Following)).or_default().push(*to);
            by_user.entry((*to, Side::Fans)).or_default().push(*from);
        }
        for call in self.calls.clone() {
            match (call.what, &call.outcome) {
                (About::Get(edge, level), Relates::Found { follow, followed_by, settings }) => {
                    self.follow(edge).looks.push(Look { call, level, seen: *follow, of_list: false });
                    let level = if level == Level::Strong { level } else { Level::Cached };
                    let other = Look { call, level, seen: *followed_by, of_list: false };
                    self.follow(edge.reversed()).looks.push(other);
                    self.blocks(edge).reads.push((call, *settings));
                }
                (About::Check(edge, _), Relates::Allows(..)) => self.blocks(edge).decisions.push(call),
                (About::List(user, side, level), Relates::Listed(entries)) => {
                    for other in by_user.get(&(user, side)).into_iter().flatten() {
                        let found = entries.iter().filter(|(listed, _)| listed == other);
                        let seen = found.map(|(_, version)| *version).max();
                        let look = Look { call, level, seen, of_list: true };
                        self.follow(side.edge(user, *other)).looks.push(look);
                    }
                }
                (About::Follow(edge), Relates::Refused(_)) => {
                    self.blocks(edge.reversed()).decisions.push(call)
                }
                (About::Unfollow(edge), Relates::Refused(code)) if code == "NOT_FOUND" => {
                    let look = Look { call, level: Level::Strong, seen: None, of_list: false };
                    self.follow(edge).looks.push(look);
                }
                _ => {}
            }
        }
        let begun: Vec<RelationWrite<'a>> = self.follows.values().flat_map(Follow::begun).collect();
        for write in begun {
            if let About::Follow(edge) = *write.what {
                self.blocks(edge.reversed()).begun.push(write);
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
