//! Applications as they are stored: each by its id, which one has a slot, and what is pending with the receiver in the static
//! columns of the partition. Every change writes these, under the condition that the version is still the one that was read.

use kith_store::{
    Application, ApplicationId, ApplicationKey, ApplicationSlot, Docket, Receiver, StoreError, Timestamp,
    Version,
};

use super::pending_effects::Job;
use crate::cql::{
    error::malformed,
    record::Record,
    roster::count,
    session::{Bound, Cql, Statement, values},
};

const DOCKET: Statement = Statement::read(
    "SELECT version, requests, invites, writer FROM %k.applications WHERE side = ? AND receiver = ? LIMIT 1",
);
const DECIDED_DOCKET: Statement = Statement::serial(
    "SELECT version, requests, invites, writer FROM %k.applications WHERE side = ? AND receiver = ? LIMIT 1",
);
const BY_ID: Statement = Statement::read(
    "SELECT body, noted_minute, noted_stamp FROM %k.applications \
     WHERE side = ? AND receiver = ? AND kind = 0 AND place = ? AND origin = 0",
);
const DECIDED: Statement = Statement::serial(
    "SELECT body, noted_minute, noted_stamp FROM %k.applications \
     WHERE side = ? AND receiver = ? AND kind = 0 AND place = ? AND origin = 0",
);
const BY_SLOT: Statement = Statement::read(
    "SELECT id FROM %k.applications WHERE side = ? AND receiver = ? AND kind = 1 AND place = ? AND origin = ?",
);
/// Of a receiver to whom nobody ever applied the version is null, which is compared too.
const CHANGE: Statement = Statement::conditional(
    "UPDATE %k.applications SET version = ?, requests = ?, invites = ?, writer = ? \
     WHERE side = ? AND receiver = ? IF version = ?",
);
/// For test builds that lack the condition: it holds whatever was decided since.
const CHANGE_ANYHOW: Statement = Statement::conditional(
    "UPDATE %k.applications SET version = ?, requests = ?, invites = ?, writer = ? \
     WHERE side = ? AND receiver = ? IF version >= ?",
);
const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.applications (side, receiver, kind, place, origin, body, noted_minute, noted_stamp) \
     VALUES (?, ?, 0, ?, 0, ?, ?, ?) USING TTL ?",
);
const PUT_SLOT: Statement = Statement::conditional(
    "INSERT INTO %k.applications (side, receiver, kind, place, origin, id) VALUES (?, ?, 1, ?, ?, ?) USING TTL ?",
);
/// Cassandra takes no longer time to live.
const TTL_MAX: i64 = 20 * 365 * 24 * 60 * 60;

/// A docket as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenDocket {
    pub(super) docket: Docket,
    /// Chosen by the write that raised the version last.
    pub(super) writer: i64,
}

impl SeenDocket {
    fn of(row: &Record) -> Result<Self, StoreError> {
        let docket = Docket {
            version: row.version("version")?,
            requests: count(row, "requests")?,
            invites: count(row, "invites")?,
        };
        Ok(Self { docket, writer: row.some_number("writer")? })
    }
}

/// An application as it is stored.
#[derive(Clone, Debug)]
pub(super) struct SeenApplication {
    pub(super) application: Application,
    /// Where its last change was noted before it was made.
    pub(super) noted: Job,
}

impl Cql {
    /// The docket, as a quorum has it.
    pub(super) async fn docket_of(&self, receiver: Receiver) -> Result<SeenDocket, StoreError> {
        self.read_docket(&DOCKET, receiver).await
    }

    /// The docket, once the writes that are under way have ended.
    pub(super) async fn decided_docket(&self, receiver: Receiver) -> Result<SeenDocket, StoreError> {
        self.read_docket(&DECIDED_DOCKET, receiver).await
    }

    /// An application, as a quorum has it.
    pub(super) async fn application_of(
        &self,
        key: ApplicationKey,
    ) -> Result<Option<SeenApplication>, StoreError> {
        self.read_application(&BY_ID, key).await
    }

    /// An application, once the writes that are under way have ended.
    pub(super) async fn decided_application(
        &self,
        key: ApplicationKey,
    ) -> Result<Option<SeenApplication>, StoreError> {
        self.read_application(&DECIDED, key).await
    }

    /// The last application of a slot.
    pub(super) async fn application_in(
        &self,
        receiver: Receiver,
        slot: ApplicationSlot,
    ) -> Result<Option<SeenApplication>, StoreError> {
        let (side, id) = receiver.numbers();
        let rows = self.records(&BY_SLOT, values![side, id, slot.kind as i64, slot.origin]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let id = ApplicationId::new(row.some_number("id")?).map_err(|_| malformed("id"))?;
        self.application_of(ApplicationKey { receiver, id }).await
    }

    /// So many seconds something is kept that is forgotten then.
    pub(in crate::cql) fn ttl(&self, forgotten: Timestamp) -> i32 {
        let seconds = forgotten.0.saturating_sub(self.clock.millis()) / 1000;
        i32::try_from(seconds.clamp(1, TTL_MAX)).unwrap_or(i32::MAX)
    }

    /// Puts an application in the place of what it was. While it is pending it stays: it is counted.
    pub(super) fn application_part(
        &self,
        application: &Application,
        noted: Job,
    ) -> Result<Bound, StoreError> {
        let (side, receiver) = application.asks.receiver().numbers();
        let ttl = application.decided.map_or(0, |_| self.ttl(application.forgotten()));
        let body = body(application)?;
        let mut row = values![side, receiver, application.id.get(), body];
        row.extend(values![noted.minute, noted.stamp, ttl]);
        Ok(Bound(&PUT, row))
    }

    /// Gives a slot to an application. Nobody asks for the slot of one that can have run out long ago.
    pub(super) fn slot_part(&self, application: &Application) -> Bound {
        let (side, receiver) = application.asks.receiver().numbers();
        let slot = application.slot();
        let mut row = values![side, receiver, slot.kind as i64, slot.origin, application.id.get()];
        row.extend(values![self.ttl(application.forgotten())]);
        Bound(&PUT_SLOT, row)
    }

    async fn read_docket(
        &self,
        statement: &'static Statement,
        receiver: Receiver,
    ) -> Result<SeenDocket, StoreError> {
        let (side, id) = receiver.numbers();
        let rows = self.records(statement, values![side, id]).await?;
        rows.first().map_or_else(|| Ok(SeenDocket::default()), SeenDocket::of)
    }

    async fn read_application(
        &self,
        statement: &'static Statement,
        key: ApplicationKey,
    ) -> Result<Option<SeenApplication>, StoreError> {
        let (side, id) = key.receiver.numbers();
        let rows = self.records(statement, values![side, id, key.id.get()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let application = application(row)?;
        let noted = Job { minute: row.some_number("noted_minute")?, stamp: row.some_number("noted_stamp")? };
        Ok(Some(SeenApplication { application, noted }))
    }
}

/// Puts a docket in the place of that of this version.
pub(super) fn docket_part(receiver: Receiver, before: Version, after: SeenDocket) -> Bound {
    let (side, id) = receiver.numbers();
    let SeenDocket { docket, writer } = after;
    let mut row =
        values![docket.version.get(), i64::from(docket.requests), i64::from(docket.invites), writer];
    row.extend(values![side, id, (before > Version::NONE).then(|| before.get())]);
    let is_anyhow = before > Version::NONE && crate::cql::broken::lacks("docket_if_same");
    Bound(if is_anyhow { &CHANGE_ANYHOW } else { &CHANGE }, row)
}

/// An application as one text.
pub(super) fn body(application: &Application) -> Result<String, StoreError> {
    serde_json::to_string(application).map_err(|_| malformed("body"))
}

/// The application of a row with such a text.
pub(super) fn application(row: &Record) -> Result<Application, StoreError> {
    row.json("body")
}
