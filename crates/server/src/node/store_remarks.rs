//! A serving node's remarks about its store, besides whether it answers: room runs out, or stored data cannot
//! be read. They appear in `/readyz`, in the log, and in metrics.

use std::time::{Duration, SystemTime};

use kith_service::{error::damage, metric};
use tokio::time::Instant;

use crate::{
    health::{HealthCause, Reporter},
    node::{store::StoreInfo, store_info::StoreRoom},
};

/// How long damage is reported after it was last met.
const DAMAGE_SHOWN: Duration = Duration::from_secs(10 * 60);
/// Below this many bytes, a node with some users soon has no room left.
const ROOM_LEAST: u64 = 256 << 20;
/// Below this many bytes no page can be written.
const ROOM_NONE: u64 = 64 << 10;
const FULL: &str = "store_full";
const NEARLY_FULL: &str = "store_nearly_full";

/// How much room there is, as far as an operator has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoomLevel {
    Enough,
    Little,
    None,
}

/// Reports the store's state each time that it is asked.
#[derive(Debug)]
pub(super) struct StoreRemarks {
    health: Reporter,
    info: StoreInfo,
    level: RoomLevel,
    /// When `level` began.
    since: SystemTime,
    /// Damage that was met before, and reported.
    damaged: u64,
}

impl StoreRemarks {
    pub(super) fn new(health: Reporter, info: StoreInfo) -> Self {
        // This comes before the first damage: an increase is seen from a value that was there.
        metrics::counter!(metric::STORE_DAMAGED.name).increment(0);
        let (level, since) = (RoomLevel::Enough, SystemTime::now());
        Self { health, info, level, since, damaged: damage::count() }
    }

    /// Reports what has changed. Call it after each store ping.
    pub(super) fn look(&mut self) {
        if let Some(room) = self.info.room() {
            self.report_room(room);
        }
        let damaged = damage::count();
        if damaged > self.damaged {
            self.damaged = damaged;
            self.report_damage();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "bytes of a disk, for a graph")]
    fn report_room(&mut self, room: StoreRoom) {
        if let Some(free) = room.free {
            metrics::gauge!(metric::STORE_FREE_BYTES.name).set(free as f64);
        }
        self.health.set_store_room(if room.full { Some(0) } else { room.free });
        let level = RoomLevel::of(room);
        metrics::gauge!(metric::STORE_FULL.name).set(if level == RoomLevel::None { 1.0 } else { 0.0 });
        if level != self.level {
            (self.level, self.since) = (level, SystemTime::now());
            self.health.end_remark(FULL);
            self.health.end_remark(NEARLY_FULL);
            match level {
                RoomLevel::Enough => tracing::info!("there is room for the data file again"),
                RoomLevel::Little => tracing::warn!("{}", self.little(room)),
                RoomLevel::None => tracing::error!("{}", self.none()),
            }
        }
        let (reason, message) = match level {
            RoomLevel::Enough => return,
            RoomLevel::Little => (NEARLY_FULL, self.little(room)),
            RoomLevel::None => (FULL, self.none()),
        };
        self.health.remark(HealthCause { reason, message, since: self.since });
    }

    fn little(&self, room: StoreRoom) -> String {
        let (free, place) = (room.free.unwrap_or_default() >> 20, &self.info.data().place);
        format!(
            "only {free} MiB are left for {place} (disk, or limit on file size): make room before writes are refused"
        )
    }

    fn none(&self) -> String {
        let place = &self.info.data().place;
        format!(
            "there is no room left for {place} (disk, quota or limit on file size): reads are answered, writes are \
             refused with STORE_FULL; make room"
        )
    }

    fn report_damage(&self) {
        let (count, place) = (self.damaged, &self.info.data().place);
        let message = format!(
            "stored data of {place} cannot be read ({count} calls since the start): the log names what was read; run \
             kith doctor, and restore a backup if it finds damage"
        );
        let cause = HealthCause { reason: "store_damaged", message, since: SystemTime::now() };
        self.health.remark_until(cause, Instant::now() + DAMAGE_SHOWN);
    }
}

impl RoomLevel {
    const fn of(room: StoreRoom) -> Self {
        match room.free {
            _ if room.full => Self::None,
            Some(..ROOM_NONE) => Self::None,
            Some(..ROOM_LEAST) => Self::Little,
            Some(_) | None => Self::Enough,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_reported_before_it_is_full() {
        let level = |free, full| RoomLevel::of(StoreRoom { free, full });
        assert_eq!(level(Some(1 << 30), false), RoomLevel::Enough);
        assert_eq!(level(None, false), RoomLevel::Enough);
        assert_eq!(level(Some(ROOM_LEAST - 1), false), RoomLevel::Little);
        assert_eq!(level(Some(0), false), RoomLevel::None);
        assert_eq!(level(Some(1 << 30), true), RoomLevel::None, "of a quota the system does not speak");
    }
}
