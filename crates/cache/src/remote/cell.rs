//! What may replace what (coherence, "Redis states of a key"). Every rule is idempotent: drivers send again
//! what they are not sure of.

use std::time::Duration;

use bytes::Bytes;

use crate::{Version, clock::wall_clock_ms, guards};

use super::{Header, Kind};

/// A key of the shared tier in its present state. Absent keys, expired ones and foreign values are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What it is.
    pub header: Header,
    /// The packed record; empty unless it is a value.
    pub payload: Bytes,
    /// Longest time that the server keeps it; `None`: as long as its kind. Of a fill it counts from the moment at which the
    /// lease was taken, which is before the load began. Said by who writes it, and no part of its bytes.
    pub lasts: Option<Duration>,
}

/// What becomes of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing changes, its expiry neither.
    Keep,
    /// It stays, with its expiry, and is marked: a reader waits for its end.
    Await,
    /// It holds this, for the time that such a kind is kept.
    Set(Cell),
    /// It is gone.
    Delete,
}

/// The result for a load that missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// Another load has filled it meanwhile.
    Hit(Cell),
    /// The load may fill, with at least this version.
    Leased {
        /// The record is known to have reached it.
        floor: Version,
    },
    /// Another load has the lease, and may be the only one to have it for so long.
    Wait(Duration),
}

/// What became of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The value is stored.
    Stored,
    /// The lease ran out, was evicted or invalidated.
    Gone,
    /// Another load has the lease.
    Lost,
    /// The record has reached a higher version: the store that was read lags.
    Old,
    /// A value at least as new is stored.
    Newer,
}

impl Cell {
    /// A cell without payload.
    #[must_use]
    pub const fn bare(kind: Kind, version: Version, token: u64) -> Self {
        Self { header: Header::bare(kind, version, token), payload: Bytes::new(), lasts: None }
    }

    /// A record of this form, written now.
    #[must_use]
    pub fn value(schema: u16, version: Version, payload: impl Into<Bytes>) -> Self {
        let bare = Header::bare(Kind::Value, version, 0);
        Self { header: Header { schema, ..bare }, payload: payload.into(), lasts: None }.written_now()
    }

    /// The same, said to be written at this moment.
    #[must_use]
    pub fn written_now(mut self) -> Self {
        self.header.written_ms = wall_clock_ms();
        self
    }

    /// How long the server keeps it, where such a kind is kept for `usual`.
    #[must_use]
    pub fn kept(&self, usual: Duration) -> Duration {
        self.lasts.map_or(usual, |most| most.min(usual))
    }

    /// The same of a fill onto a lease that was taken so long ago; `None`: it is too old to be kept.
    #[must_use]
    pub(super) fn aged(self, leased: Duration) -> Option<Self> {
        let Some(most) = self.lasts else { return Some(self) };
        let lasts = Some(most.saturating_sub(leased)).filter(|lasts| !lasts.is_zero());
        lasts.is_some().then_some(Self { lasts, ..self })
    }

    fn is_copy(&self) -> bool {
        matches!(self.header.kind, Kind::Value | Kind::Null)
    }

    /// A load misses and asks for the lease. What cannot be filled over is a floor that the lease inherits. A
    /// lease of another load is waited for, and taken over after `left`.
    #[must_use]
    pub fn acquire(cell: Option<&Self>, token: u64, left: Duration) -> (Next, Acquired) {
        let floor = cell.filter(|_| guards::lease_floor());
        let floor = floor.map_or(Version::UNVERSIONED, |cell| cell.header.version);
        match cell.map(|cell| (cell, cell.header.kind)) {
            Some((cell, Kind::Value | Kind::Null)) => (Next::Keep, Acquired::Hit(cell.clone())),
            Some((cell, Kind::Lease)) if cell.header.token == token => {
                (Next::Keep, Acquired::Leased { floor })
            }
            Some((_, Kind::Lease)) if !left.is_zero() => (Next::Await, Acquired::Wait(left)),
            Some((_, Kind::Lease | Kind::Tomb)) | None => {
                (Next::Set(Self::bare(Kind::Lease, floor, token)), Acquired::Leased { floor })
            }
        }
    }

    /// A load brings what it read: onto its own lease, or onto a copy of a lower version; never onto a tomb
    /// or nothing, for what was there may have been newer and evicted.
    #[must_use]
    pub fn fill(cell: Option<&Self>, filling: Self) -> (Next, Filled) {
        let Some(here) = cell else {
            let gap = (Next::Set(filling), Filled::Stored);
            return if guards::fill_no_gap() { (Next::Keep, Filled::Gone) } else { gap };
        };
        let (token, version) = (filling.header.token, filling.header.version);
        match here.header.kind {
            Kind::Lease if here.header.token != token && guards::fill_own_lease() => {
                (Next::Keep, Filled::Lost)
            }
            Kind::Lease if version < here.header.version => (Next::Keep, Filled::Old),
            Kind::Lease => (Next::Set(filling), Filled::Stored),
            Kind::Tomb if guards::fill_no_tomb() || version < here.header.version => {
                (Next::Keep, Filled::Gone)
            }
            Kind::Tomb => (Next::Set(filling), Filled::Stored),
            Kind::Value | Kind::Null if here.header.token == token => (Next::Keep, Filled::Stored),
            Kind::Value | Kind::Null if version > here.header.version => (Next::Set(filling), Filled::Stored),
            Kind::Value | Kind::Null => (Next::Keep, Filled::Newer),
        }
    }

    /// A load failed: its lease is given up, and what is known of the record stays known.
    #[must_use]
    pub fn release(cell: Option<&Self>, token: u64) -> Next {
        match cell.map(|cell| cell.header) {
            Some(Header { kind: Kind::Lease, token: own, version, .. }) if own == token => {
                if version.is_versioned() {
                    Next::Set(Self::bare(Kind::Tomb, version, 0))
                } else {
                    Next::Delete
                }
            }
            Some(_) | None => Next::Keep,
        }
    }

    /// The record changed. With its version: what is at least as new stays, anything else becomes a tomb, and
    /// a lease dies by it. Without one, or when it is not known whether it changed, nothing is left.
    #[must_use]
    pub fn invalidate(cell: Option<&Self>, version: Option<Version>) -> Next {
        let Some(version) = version.filter(|version| version.is_versioned()) else { return Next::Delete };
        match cell {
            Some(cell) if cell.header.version >= version => Next::Keep,
            Some(_) | None => Next::Set(Self::bare(Kind::Tomb, version, 0)),
        }
    }

    /// A writer brings the value that it committed: over the copy of the version just before, so that nothing
    /// between is skipped; otherwise it only invalidates.
    #[must_use]
    pub fn put(cell: Option<&Self>, putting: Self) -> Next {
        let version = putting.header.version;
        let before = cell.filter(|cell| cell.is_copy()).map(|cell| cell.header.version);
        let next = before.is_some_and(|before| before.is_versioned() && before.get() + 1 == version.get());
        let newer = cell.is_none_or(|cell| cell.header.version < version);
        if next || newer && !guards::put_next_only() {
            return Next::Set(putting);
        }
        Self::invalidate(cell, Some(version))
    }
}
