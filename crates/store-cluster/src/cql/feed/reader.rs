//! The relation change feeds, one for each shard: the journal entries for follows, blocks and members.
//!
//! A mark is the first minute that is still open. A feed that is opened with one delivers that minute and all
//! later ones again.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{
    ChangeFeed, FEED_BATCH_MAX, FeedBatch, FeedChange, FeedError, FeedRecord, FeedStream, MemberKey,
    NamedFeed, StoreError, Timestamp, Version,
};
use tokio::time::{Instant, timeout_at};

use super::delivered::DeliveredVersions;
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    open_minutes::{OpenMinutes, ReadIntervals},
    shared_ticks::{TICK, until_next},
    stores::Cql,
};

/// After this time a note's write has certainly ended, with or without effect.
const WRITE_ENDED: Duration = Duration::from_secs(6);
/// Older notes may have expired: a day, less the time to read them all.
const KEPT_MINUTES: i64 = 23 * 60;
/// The journal was read to its end if it was read so long ago at most.
const JUST_READ: Duration = Duration::from_secs(3);
/// How far another node's clock, by which a mark was made, may be ahead.
const AHEAD_MINUTES: i64 = 10;
const MARK: u8 = 1;

/// Opens a shard's feed.
#[derive(Debug)]
struct RelationFeed {
    cql: Arc<Cql>,
    shard: i32,
}

impl Cql {
    /// The change feeds.
    pub(crate) fn feeds(self: &Arc<Self>) -> Vec<NamedFeed> {
        let shards = 0..i32::try_from(self.client.options.feed_shards).unwrap_or(i32::MAX);
        let feed = |shard| NamedFeed {
            name: format!("relation_feed_{shard}"),
            feed: Arc::new(RelationFeed { cql: Arc::clone(self), shard }),
        };
        shards.map(feed).collect()
    }
}

#[async_trait]
impl ChangeFeed for RelationFeed {
    async fn open(&self, after: Option<&[u8]>) -> Result<Box<dyn FeedStream>, FeedError> {
        let now = self.cql.client.clock.minute();
        let from = match after {
            None => OpenMinutes::first_open(&self.cql),
            Some(mark) => minute_of(mark)
                .filter(|from| (now - KEPT_MINUTES..=now + AHEAD_MINUTES).contains(from))
                .ok_or(FeedError::Lost)?,
        };
        let mut window = OpenMinutes::new(self.shard, from, ReadIntervals::FEED);
        if after.is_none() {
            // The notes that exist were written before this returned.
            window.read(&self.cql).await.map_err(FeedError::Unavailable)?;
        } else {
            self.cql.client.session().map_err(FeedError::Unavailable)?;
        }
        Ok(Box::new(OpenRelationFeed {
            cql: Arc::clone(&self.cql),
            window,
            held: VecDeque::new(),
            inherited: VecDeque::new(),
            waiting: VecDeque::new(),
            undelivered: HashSet::new(),
            delivered: DeliveredVersions::default(),
            ended: None,
        }))
    }
}

/// An open feed with its position.
struct OpenRelationFeed {
    cql: Arc<Cql>,
    window: OpenMinutes,
    /// Entries that were read and are not delivered yet.
    held: VecDeque<ChangeLogEntry>,
    /// Changes without an end that existed when the feed was taken over: the node that died may have left
    /// them long ago.
    inherited: VecDeque<ChangeLogEntry>,
    /// Changes without an end, and since when.
    waiting: VecDeque<(Instant, ChangeLogEntry)>,
    /// The changes without an end that were not delivered since.
    undelivered: HashSet<ChangeLogEntry>,
    delivered: DeliveredVersions,
    ended: Option<StoreError>,
}

impl fmt::Debug for OpenRelationFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("held", &self.held.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl FeedStream for OpenRelationFeed {
    async fn next(&mut self, patience: Duration) -> Result<FeedBatch, FeedError> {
        if let Some(error) = &self.ended {
            return Err(FeedError::Unavailable(error.clone()));
        }
        let until = Instant::now() + patience;
        loop {
            let (changes, written) = self.take_changes();
            if !changes.is_empty() {
                return Ok(self.batch(changes, written));
            }
            match timeout_at(until, self.gather()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.ended = Some(error.clone());
                    return Err(FeedError::Unavailable(error));
                }
                Err(_) => return Ok(self.batch(Vec::new(), None)),
            }
        }
    }
}

impl OpenRelationFeed {
    /// Reads until there are changes to deliver. May be dropped at any moment.
    async fn gather(&mut self) -> Result<(), StoreError> {
        loop {
            let first = !self.window.has_been_read();
            let fresh = self.window.read(&self.cql).await?;
            self.hold(fresh, first);
            self.window.close();
            while let Some(note) = self.inherited.front().copied() {
                let confirmed = self.confirmed(note).await?;
                self.inherited.pop_front();
                self.held.extend(confirmed);
            }
            while let Some((since, note)) = self.waiting.front().copied() {
                if since.elapsed() < WRITE_ENDED {
                    break;
                }
                let is_undelivered = self.undelivered.contains(&note);
                let confirmed = if is_undelivered { self.confirmed(note).await? } else { None };
                self.waiting.pop_front();
                self.undelivered.remove(&note);
                self.held.extend(confirmed);
            }
            if !self.held.is_empty() {
                return Ok(());
            }
            until_next(TICK).await;
        }
    }

    /// A change's present result; `None`: it had no effect.
    async fn confirmed(&self, note: ChangeLogEntry) -> Result<Option<ChangeLogEntry>, StoreError> {
        let version = match note.subject {
            ChangeSubject::Block(edge) => self.cql.confirmed_block(edge).await?.map(|row| row.block.version),
            ChangeSubject::Member(MemberKey { group, user }) => {
                self.cql.confirmed_members(group, &[user]).await?.pop().map(|row| row.member.version)
            }
            ChangeSubject::Roster(group) => Some(self.cql.confirmed_roster(group).await?.roster.version),
            ChangeSubject::Follow(_) | ChangeSubject::Count(_) => note.version,
        };
        let version = version.filter(|version| *version > Version::NONE);
        Ok(version.map(|version| ChangeLogEntry { version: Some(version), ..note }))
    }

    /// The first notes after a takeover are also checked now.
    fn hold(&mut self, fresh: Vec<ChangeLogEntry>, first: bool) {
        for note in fresh {
            match (note.subject, note.version) {
                (ChangeSubject::Count(_), _) => {}
                (ChangeSubject::Block(_) | ChangeSubject::Member(_) | ChangeSubject::Roster(_), None) => {
                    self.inherited.extend(first.then_some(note));
                    self.waiting.push_back((Instant::now(), note));
                    self.undelivered.insert(note);
                }
                _ => {
                    self.undelivered.remove(&ChangeLogEntry { version: None, ..note });
                    self.held.push_back(note);
                }
            }
        }
    }

    /// Returns some of what is held, except changes that were delivered with this version or a higher
    /// version, and when the oldest was noted.
    fn take_changes(&mut self) -> (Vec<FeedChange>, Option<Timestamp>) {
        let (mut changes, mut written) = (Vec::new(), None::<Timestamp>);
        while changes.len() < FEED_BATCH_MAX
            && let Some(note) = self.held.pop_front()
        {
            let (Some(record), Some(version)) = (record(&note), note.version) else { continue };
            if !self.delivered.add(record, version) {
                continue;
            }
            let noted = Timestamp(note.stamp / 1_000);
            written = Some(written.map_or(noted, |oldest| oldest.min(noted)));
            changes.push(FeedChange { record, version: Some(version), by_hand: false });
        }
        (changes, written)
    }

    /// A server that hangs returns no error before its time limit, so a batch without changes alone shows no
    /// end.
    fn batch(&self, changes: Vec<FeedChange>, written: Option<Timestamp>) -> FeedBatch {
        let is_last = self.held.is_empty() && self.window.since_read().is_some_and(|since| since < JUST_READ);
        FeedBatch { changes, mark: self.mark(), is_last, written }
    }

    /// The first minute that was not delivered completely.
    fn mark(&self) -> Vec<u8> {
        let held = self.held.iter().chain(self.waiting.iter().map(|(_, note)| note));
        let from = held.map(|note| note.minute).fold(self.window.from(), i64::min);
        [&[MARK], &from.to_be_bytes()[..]].concat()
    }
}

fn record(note: &ChangeLogEntry) -> Option<FeedRecord> {
    match note.subject {
        ChangeSubject::Follow(edge) => Some(FeedRecord::Follow(edge)),
        ChangeSubject::Block(edge) => Some(FeedRecord::Block(edge)),
        ChangeSubject::Member(key) => Some(FeedRecord::Member(key)),
        ChangeSubject::Roster(group) => Some(FeedRecord::Roster(group)),
        ChangeSubject::Count(_) => None,
    }
}

fn minute_of(mark: &[u8]) -> Option<i64> {
    let (MARK, minute) = mark.split_first().map(|(kind, minute)| (*kind, minute))? else { return None };
    minute.try_into().ok().map(i64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_none_is_not_read() {
        assert_eq!(minute_of(&[&[MARK], &7_i64.to_be_bytes()[..]].concat()), Some(7));
        for garbage in [&[][..], &[MARK], &[0; 9], &[MARK; 10], b"garbage"] {
            assert_eq!(minute_of(garbage), None);
        }
    }
}
