//! The rules for the states of a cell: which state may replace which (docs/internals/cache.md, "Cells in
//! Redis"). Every rule is idempotent, because drivers repeat commands without an answer.

use std::time::Duration;

use bytes::Bytes;

use crate::{Version, api::clock::wall_clock_ms, testing::rules};

use super::{CellKind, Header};

/// A key in the shared tier in its present state. Absent keys, expired keys and foreign values are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its kind and metadata.
    pub header: Header,
    /// The packed record; empty unless it is a value.
    pub payload: Bytes,
    /// Maximum time that the server keeps it; `None`: as long as its kind. For a fill it counts from the
    /// moment at which the lease was taken, which is before the load began. Set by the writer, and no part of
    /// the stored bytes.
    pub ttl_max: Option<Duration>,
}

/// The new state of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextState {
    /// Unchanged, including its expiry.
    Keep,
    /// It stays, with its expiry, and is marked: a reader waits for its end.
    Await,
    /// It is replaced by this cell, and kept for the time of its kind.
    Set(Cell),
    /// The key is deleted.
    Delete,
}

/// The result for a load that missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// Another load has filled it meanwhile.
    Hit(Cell),
    /// The load has the lease and may fill.
    Leased {
        /// The record is known to have reached this version: the load must return at least that.
        floor: Version,
    },
    /// Another load has the lease; it cannot be taken over for this long.
    Wait(Duration),
}

/// The result of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillResult {
    /// The value is stored.
    Stored,
    /// The lease has expired, or was evicted or invalidated.
    Gone,
    /// Another load has the lease.
    Lost,
    /// The record has reached a higher version: the store server that was read lags.
    Old,
    /// A value at least as new is stored.
    Newer,
}

impl Cell {
    /// A cell without payload.
    #[must_use]
    pub const fn bare(kind: CellKind, version: Version, token: u64) -> Self {
        Self { header: Header::bare(kind, version, token), payload: Bytes::new(), ttl_max: None }
    }

    /// A record in this schema, written now.
    #[must_use]
    pub fn value(schema: u16, version: Version, payload: impl Into<Bytes>) -> Self {
        let bare = Header::bare(CellKind::Value, version, 0);
        Self { header: Header { schema, ..bare }, payload: payload.into(), ttl_max: None }.written_now()
    }

    /// Returns the cell with this moment as the time of writing.
    #[must_use]
    pub fn written_now(mut self) -> Self {
        self.header.written_ms = wall_clock_ms();
        self
    }

    /// How long the server keeps it, if its kind is kept for `usual` and no longer than `ttl_max`.
    #[must_use]
    pub fn ttl(&self, usual: Duration) -> Duration {
        self.ttl_max.map_or(usual, |most| most.min(usual))
    }

    /// The cell to keep for a fill whose lease was taken this long ago; `None`: it is too old to be kept.
    #[must_use]
    pub(super) fn aged(self, leased: Duration) -> Option<Self> {
        let Some(most) = self.ttl_max else { return Some(self) };
        let ttl_max = Some(most.saturating_sub(leased)).filter(|ttl_max| !ttl_max.is_zero());
        ttl_max.is_some().then_some(Self { ttl_max, ..self })
    }

    /// A load misses and requests the lease. The previous cell's version becomes the lease's floor. Another
    /// load's lease is waited for, and taken over after `left`.
    #[must_use]
    pub fn acquire(cell: Option<&Self>, token: u64, left: Duration) -> (NextState, Acquired) {
        let floor = cell.filter(|_| rules::lease_floor());
        let floor = floor.map_or(Version::UNVERSIONED, |cell| cell.header.version);
        match cell.map(|cell| (cell, cell.header.kind)) {
            Some((cell, CellKind::Value | CellKind::Null)) => (NextState::Keep, Acquired::Hit(cell.clone())),
            Some((cell, CellKind::Lease)) if cell.header.token == token => {
                (NextState::Keep, Acquired::Leased { floor })
            }
            Some((_, CellKind::Lease)) if !left.is_zero() => (NextState::Await, Acquired::Wait(left)),
            Some((_, CellKind::Lease | CellKind::Tomb)) | None => {
                (NextState::Set(Self::bare(CellKind::Lease, floor, token)), Acquired::Leased { floor })
            }
        }
    }

    /// A load fills what it read: its own lease, or a copy of a lower version; never a tomb or an absent key,
    /// because a newer value may have been there and been evicted.
    #[must_use]
    pub fn fill(cell: Option<&Self>, filling: Self) -> (NextState, FillResult) {
        let Some(here) = cell else {
            let gap = (NextState::Set(filling), FillResult::Stored);
            return if rules::fill_no_gap() { (NextState::Keep, FillResult::Gone) } else { gap };
        };
        let (token, version) = (filling.header.token, filling.header.version);
        match here.header.kind {
            CellKind::Lease if here.header.token != token && rules::fill_own_lease() => {
                (NextState::Keep, FillResult::Lost)
            }
            CellKind::Lease if version < here.header.version => (NextState::Keep, FillResult::Old),
            CellKind::Lease => (NextState::Set(filling), FillResult::Stored),
            CellKind::Tomb if rules::fill_no_tomb() || version < here.header.version => {
                (NextState::Keep, FillResult::Gone)
            }
            CellKind::Tomb => (NextState::Set(filling), FillResult::Stored),
            CellKind::Value | CellKind::Null if here.header.token == token => {
                (NextState::Keep, FillResult::Stored)
            }
            CellKind::Value | CellKind::Null if version > here.header.version => {
                (NextState::Set(filling), FillResult::Stored)
            }
            CellKind::Value | CellKind::Null => (NextState::Keep, FillResult::Newer),
        }
    }

    /// A load failed: its lease is released, and the known version of the record is kept.
    #[must_use]
    pub fn release(cell: Option<&Self>, token: u64) -> NextState {
        match cell.map(|cell| cell.header) {
            Some(Header { kind: CellKind::Lease, token: own, version, .. }) if own == token => {
                if version.is_versioned() {
                    NextState::Set(Self::bare(CellKind::Tomb, version, 0))
                } else {
                    NextState::Delete
                }
            }
            Some(_) | None => NextState::Keep,
        }
    }

    /// The record changed. With a version: a cell at least as new stays, any other cell, also a lease,
    /// becomes a tomb. Without a version, or if it is not known whether the record changed, the key is
    /// deleted.
    #[must_use]
    pub fn invalidate(cell: Option<&Self>, version: Option<Version>) -> NextState {
        let Some(version) = version.filter(|version| version.is_versioned()) else {
            return NextState::Delete;
        };
        match cell {
            Some(cell) if cell.header.version >= version => NextState::Keep,
            Some(_) | None => NextState::Set(Self::bare(CellKind::Tomb, version, 0)),
        }
    }

    /// A writer stores the value that it committed if the cell has the version just before, so that no
    /// version in between is skipped; otherwise it only invalidates.
    #[must_use]
    pub fn put(cell: Option<&Self>, putting: Self) -> NextState {
        let version = putting.header.version;
        let before = cell.filter(|cell| cell.header.is_copy()).map(|cell| cell.header.version);
        let next = before.is_some_and(|before| before.is_versioned() && before.get() + 1 == version.get());
        let newer = cell.is_none_or(|cell| cell.header.version < version);
        if next || newer && !rules::put_next_only() {
            return NextState::Set(putting);
        }
        Self::invalidate(cell, Some(version))
    }
}
