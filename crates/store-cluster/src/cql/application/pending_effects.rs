//! Notes about applications that may be incomplete, by the minute in which a change began or in which the
//! application expires. Each note is written before its change, and changed when nothing remains to be done.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{
    Application, ApplicationEffect, ApplicationId, ApplicationKey, ApplicationState, COMPLETION_GRACE,
    DueApplication, DueApplications, Receiver, StoreError, Timestamp, millis,
};

use super::row::{BY_ID_SERIAL, EXPIRY_STAMP, MINUTE, NoteKey};
use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{AT_A_TIME, Bound, Statement, values},
    },
    stores::Cql,
};

const NOTE: Statement = Statement::plain(
    "INSERT INTO %k.application_jobs (shard, minute, stamp, side, receiver, id, done) \
     VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?",
);
const OPEN_NOTES: Statement = Statement::read(
    "SELECT stamp, side, receiver, id FROM %k.application_jobs \
     WHERE shard = ? AND minute = ? AND done = 0 LIMIT ? ALLOW FILTERING",
);
/// Must never change: notes are found by it.
const SHARDS: i32 = 4;
/// How long a note is kept, in seconds.
const KEPT: i32 = 7 * 24 * 60 * 60;
/// Minutes that are read if there is no note about the progress so far.
const LOOK_BACK: i64 = 120;
/// The most minutes that a mark lists one by one.
const LEFT_MAX: usize = 512;
/// A note's age at which its write has certainly ended, with or without effect, in microseconds.
const WRITE_ENDED: i64 = 60_000_000;
impl Cql {
    /// Notes that a change begins.
    pub(super) async fn write_note(&self, key: ApplicationKey, note: NoteKey) -> Result<(), StoreError> {
        self.client.write(part(key, note, false, KEPT), Some(note.stamp)).await
    }

    /// Notes when an application expires.
    pub(super) async fn note_expiry(&self, application: &Application) -> Result<(), StoreError> {
        let ttl = self.client.ttl(application.expires).saturating_add(KEPT);
        let part = part(application.key(), NoteKey::expiry(application), false, ttl);
        self.client.write(part, Some(self.client.clock.version(0))).await
    }

    /// Notes that nothing remains to be done.
    pub(super) async fn end_note(&self, key: ApplicationKey, note: NoteKey) -> Result<(), StoreError> {
        let after = if note.stamp == EXPIRY_STAMP { self.client.clock.version(0) } else { note.stamp + 1 };
        self.client.write(part(key, note, true, KEPT), Some(after)).await
    }

    /// Applications that may be incomplete, from the minute on up to which notes were read before.
    pub(super) async fn due_notes(
        &self,
        from: Option<&[u8]>,
        now: Timestamp,
        limit: usize,
    ) -> Result<DueApplications, StoreError> {
        let last = now.0.div_euclid(MINUTE);
        let apart = millis(self.client.options.clocks_apart);
        // Later minutes may still get notes.
        let closed = (now.0.saturating_sub(apart)).div_euclid(MINUTE);
        let mut known = from.and_then(minutes_of).unwrap_or_default().into_iter();
        let first = known.next().unwrap_or(last - LOOK_BACK).min(closed);
        let minutes = known.filter(|minute| *minute < first).chain(first..=last);
        let places: Vec<_> =
            minutes.flat_map(|minute| (0..SHARDS).map(move |shard| (shard, minute))).collect();
        let reads = places.into_iter().map(|(shard, minute)| self.open_notes(shard, minute, limit));
        let found: Vec<Vec<DueApplication>> = stream::iter(reads).buffered(AT_A_TIME).try_collect().await?;
        let found: Vec<DueApplication> = found.into_iter().flatten().collect();
        // Including what is not due yet, or exceeds the limit.
        let left: BTreeSet<i64> =
            found.iter().map(|due| due.noted.0).filter(|minute| *minute < closed).collect();
        let old = stamp_at(now) - i64::try_from(COMPLETION_GRACE.as_micros()).unwrap_or(i64::MAX);
        let due = found.into_iter().filter(|due| due.noted.1 <= old).take(limit).collect();
        Ok(DueApplications { due, mark: Some(mark(closed, &left)) })
    }

    /// Writes the lists once more; returns what remains to be done by others, or ends the note.
    pub(super) async fn resume_note(
        &self,
        due: DueApplication,
        now: Timestamp,
    ) -> Result<Option<Application>, StoreError> {
        let DueApplication { key, noted: (minute, stamp) } = due;
        let note = NoteKey { minute, stamp };
        let has_ended = stamp < stamp_at(now) - WRITE_ENDED;
        let Some(seen) = self.read_application(&BY_ID_SERIAL, key).await? else {
            // The note's write may be in progress.
            return if has_ended { self.end_note(key, note).await.map(|()| None) } else { Ok(None) };
        };
        let application = seen.application;
        if stamp == EXPIRY_STAMP && application.is_open(now) {
            return Ok(None);
        }
        self.write_lists(&application).await?;
        if application.is_due(now) {
            return Ok(Some(application));
        }
        let is_over = if stamp == EXPIRY_STAMP {
            application.state != ApplicationState::Pending
        } else {
            seen.note == note || has_ended
        };
        if is_over && application.effect != ApplicationEffect::Outstanding {
            self.end_note(key, note).await?;
        }
        Ok(None)
    }

    async fn open_notes(
        &self,
        shard: i32,
        minute: i64,
        limit: usize,
    ) -> Result<Vec<DueApplication>, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows = self.client.records(&OPEN_NOTES, values![shard, minute, limit]).await?;
        rows.iter().map(|row| due(minute, row)).collect()
    }
}

fn part(key: ApplicationKey, note: NoteKey, done: bool, ttl: i32) -> Bound {
    let (side, receiver) = key.receiver.numbers();
    let NoteKey { minute, stamp } = note;
    Bound(&NOTE, values![shard(receiver), minute, stamp, side, receiver, key.id.get(), done, ttl])
}

fn due(minute: i64, row: &NamedRow) -> Result<DueApplication, StoreError> {
    let receiver = Receiver::of(row.some_number("side")?, row.some_number("receiver")?);
    let receiver = receiver.ok_or_else(|| malformed("receiver"))?;
    let id = ApplicationId::new(row.some_number("id")?).map_err(|_| malformed("id"))?;
    Ok(DueApplication { key: ApplicationKey { receiver, id }, noted: (minute, row.some_number("stamp")?) })
}

/// The shard with the notes about this receiver.
fn shard(receiver: i64) -> i32 {
    let mixed = receiver.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    i32::try_from(mixed % u64::from(SHARDS.unsigned_abs())).unwrap_or_default()
}

/// A moment as a stamp.
const fn stamp_at(moment: Timestamp) -> i64 {
    moment.0.saturating_mul(1000)
}

/// Makes the mark: the minute from which all are read next time, and earlier minutes with incomplete work. So
/// a note that cannot be ended does not make all minutes since then be read again.
fn mark(closed: i64, left: &BTreeSet<i64>) -> Vec<u8> {
    // If there are too many to list, all are read from the first unlisted minute on.
    let first = left.iter().nth(LEFT_MAX).copied().unwrap_or(closed);
    let named = left.iter().copied().take(LEFT_MAX);
    std::iter::once(first).chain(named).flat_map(i64::to_be_bytes).collect()
}

fn minutes_of(mark: &[u8]) -> Option<Vec<i64>> {
    let (minutes, []) = mark.as_chunks::<8>() else { return None };
    Some(minutes.iter().copied().map(i64::from_be_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_names_minutes_with_open_notes() {
        assert_eq!(minutes_of(&mark(9, &BTreeSet::new())), Some(vec![9]));
        assert_eq!(minutes_of(&mark(9, &BTreeSet::from([7, 2]))), Some(vec![9, 2, 7]));
        assert_eq!(minutes_of(&7_i64.to_be_bytes()), Some(vec![7]), "as it was written before");
        assert_eq!(minutes_of(&[0; 9]), None);
    }

    #[test]
    fn of_too_many_minutes_none_is_lost() {
        let most = i64::try_from(LEFT_MAX).unwrap();
        let minutes = minutes_of(&mark(most + 100, &(0..most + 50).collect())).unwrap();
        assert_eq!(minutes[0], most, "from here on all are looked at");
        assert!(minutes[1..].iter().copied().eq(0..most));
    }
}
