//! Collects what calls have shown about one follow.

use std::collections::{BTreeMap, BTreeSet};

use super::writes::{RelationWrite, WriteOutcome};
use crate::{
    checker::shown::{ShownSince, ShownUntil},
    history::{Edge, Level, RelationCall, RelationOutcome, RelationRequest, Setting},
};

/// Everything about one pair's follow.
///
/// An answer that shows a follow contains its version. An answer without a follow contains no version. It may
/// be due to any end that was sent before the answer came, and is checked against the end with the highest
/// version.
#[derive(Debug, Default)]
pub(super) struct Follow<'a> {
    pub(super) edge: Edge,
    /// Follows and unfollows.
    pub(super) writes: Vec<RelationWrite<'a>>,
    /// Changes to the followed user's settings for the follower.
    pub(super) blocks: Vec<RelationWrite<'a>>,
    pub(super) reads: Vec<FollowRead<'a>>,
    /// The version at the run's end. Inner `None`: no follow. Outer `None`: it was not read.
    pub(super) end: Option<Option<u64>>,
    /// The calls that may have ended it: when each was first sent, and the highest version that an end sent
    /// until then may have.
    ends: Vec<(u64, u64)>,
    since: ShownSince<u64>,
    until: ShownUntil<u64>,
    /// The versions that acknowledged follows have.
    follow_versions: BTreeSet<u64>,
    /// The versions that acknowledged ends have.
    end_versions: BTreeSet<u64>,
    /// When the first follow was sent that was not acknowledged and may have taken effect; `None`: none was.
    first_unacknowledged: Option<u64>,
}

/// A read that shows whether the follow exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct FollowRead<'a> {
    pub(super) call: &'a RelationCall,
    pub(super) level: Level,
    pub(super) seen: Option<u64>,
    /// Whether the answer is from a page in a list, and not from the record.
    pub(super) of_list: bool,
}

impl<'a> Follow<'a> {
    pub(super) fn new(edge: Edge) -> Self {
        Self { edge, ..Self::default() }
    }

    pub(super) fn finish(&mut self) {
        self.reads.sort_by_key(|read| read.call.began);
        self.ends = self.possible_ends();
        self.follow_versions = self.acknowledged_follows().filter_map(|write| write.version()).collect();
        let ended = self.writes.iter().filter(|write| matches!(write.what, RelationRequest::Unfollow(_)));
        self.end_versions = ended.filter_map(RelationWrite::version).collect();
        let begins = self.writes.iter().filter(|write| matches!(write.what, RelationRequest::Follow(_)));
        let unacknowledged =
            begins.filter(|write| matches!(write.outcome, WriteOutcome::Open | WriteOutcome::Denied));
        self.first_unacknowledged = unacknowledged.map(|write| write.began).min();
        let shown = self.all_shown();
        self.until = ShownUntil::new(shown.iter().copied());
        self.since = ShownSince::new(shown);
    }

    /// The follows that were acknowledged.
    pub(super) fn acknowledged_follows(&self) -> impl Iterator<Item = RelationWrite<'a>> {
        let done = |write: &&RelationWrite<'a>| {
            matches!(write.outcome, WriteOutcome::Done(RelationOutcome::Follows(_)))
        };
        self.writes.iter().filter(done).cloned()
    }

    /// The highest version that this read may have seen.
    pub(super) fn highest_version(&self, read: &FollowRead<'_>) -> u64 {
        read.seen.unwrap_or_else(|| self.ended_until(read.call.ended))
    }

    /// The highest version that an end sent until then may have; 0: no end.
    pub(super) fn ended_until(&self, time: u64) -> u64 {
        let sent = self.ends.partition_point(|(began, _)| *began <= time);
        sent.checked_sub(1).map_or(0, |last| self.ends[last].1)
    }

    /// The highest version that an answer showed before then; 0: none.
    pub(super) fn shown_before(&self, time: u64) -> u64 {
        self.until.before(time)
    }

    /// Cached reads, and their ages: for how long a newer state had been acknowledged when they began.
    pub(super) fn ages(&self) -> impl Iterator<Item = (&'a RelationCall, u64)> {
        let cached = self.reads.iter().filter(|read| read.level == Level::Cached);
        cached.map(|read| (read.call, self.since.age(self.highest_version(read), read.call.began)))
    }

    /// Whether a follow that was sent until then may have this version.
    pub(super) fn may_be(&self, version: u64, until: u64) -> bool {
        self.follow_versions.contains(&version)
            || self.first_unacknowledged.is_some_and(|began| began <= until)
    }

    /// Whether this version is known to belong to an end, and not to an active follow.
    pub(super) fn is_end(&self, version: u64) -> bool {
        self.end_versions.contains(&version) && !self.follow_versions.contains(&version)
    }

    /// When an answer first showed the follow with this version; `None`: never.
    pub(super) fn first_shown(&self, version: u64) -> Option<u64> {
        let acked = self
            .acknowledged_follows()
            .filter(|write| write.version() == Some(version))
            .map(|write| write.ended);
        let seen = self.reads.iter().filter(|read| read.seen == Some(version)).map(|read| read.call.ended);
        acked.chain(seen).min()
    }

    fn possible_ends(&self) -> Vec<(u64, u64)> {
        let later = self.later();
        let below = |time| later.range(time + 1..).next().map_or(u64::MAX, |(_, least)| least - 1);
        let ends = self.writes.iter().filter_map(|write| match (write.what, write.outcome) {
            (RelationRequest::Unfollow(_), WriteOutcome::Done(_)) => Some((write.began, write.version()?)),
            (RelationRequest::Unfollow(_), WriteOutcome::Open) => Some((write.began, u64::MAX)),
            // The follow may have been written, and ended again because of a block.
            (RelationRequest::Follow(_), WriteOutcome::Denied) => Some((write.began, below(write.ended))),
            (RelationRequest::Follow(_), WriteOutcome::Open) if !self.blocks.is_empty() => {
                Some((write.began, u64::MAX))
            }
            _ => None,
        });
        let cuts = self.blocks.iter().filter_map(|write| match (write.what, write.outcome) {
            (RelationRequest::Set(_, Setting::Block), WriteOutcome::Done(_)) => {
                Some((write.began, below(write.ended)))
            }
            (RelationRequest::Set(_, Setting::Block), WriteOutcome::Open) => Some((write.began, u64::MAX)),
            _ => None,
        });
        let mut ends: Vec<(u64, u64)> = ends.chain(cuts).collect();
        ends.sort_unstable();
        let mut most = 0;
        for (_, version) in &mut ends {
            most = most.max(*version);
            *version = most;
        }
        ends
    }

    /// For each begin of an acknowledged write, the lowest version among the writes that began then or later.
    fn later(&self) -> BTreeMap<u64, u64> {
        let acked = self.writes.iter().filter_map(|write| Some((write.began, write.version()?)));
        let mut acked: Vec<(u64, u64)> = acked.collect();
        acked.sort_unstable();
        let mut least = u64::MAX;
        for (_, version) in acked.iter_mut().rev() {
            least = least.min(*version);
            *version = least;
        }
        // Reversed: among writes that began at the same time, the last inserted has the lowest version.
        acked.into_iter().rev().collect()
    }

    /// Versions, and when answers showed them.
    fn all_shown(&self) -> Vec<(u64, u64)> {
        let acked = self.writes.iter().filter_map(|write| Some((write.version()?, write.ended)));
        let seen = self.reads.iter().filter_map(|read| Some((read.seen?, read.call.ended)));
        let mut shown: Vec<(u64, u64)> = acked.chain(seen).collect();
        let until = ShownUntil::new(shown.iter().copied());
        let cuts = self
            .blocks
            .iter()
            .filter(|write| matches!(write.outcome, WriteOutcome::Done(RelationOutcome::Set(_, true))));
        // The end by a block is above every version shown before the block.
        shown.extend(cuts.map(|write| (until.before(write.began) + 1, write.ended)).filter(|cut| cut.0 > 1));
        shown
    }
}
