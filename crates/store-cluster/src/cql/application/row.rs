//! The stored form of applications: each by its id, the application that owns each slot, and the receiver's
//! pending counts in the partition's static columns. Every change writes these on condition that the version
//! is still the version that was read.

use kith_store::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, ChangeTarget, PendingRequests, Receiver,
    StoreError, Version,
};

use crate::cql::{
    client::{
        conditional::Head,
        error::malformed,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

const PENDING_TEXT: &str =
    "SELECT version, requests, invites, writer FROM %k.applications WHERE side = ? AND receiver = ? LIMIT 1";
const BY_ID_TEXT: &str = "SELECT body, noted_minute, noted_stamp FROM %k.applications \
     WHERE side = ? AND receiver = ? AND kind = 0 AND place = ? AND origin = 0";
/// The pending counts, as a quorum has them.
pub(super) const PENDING: Statement = Statement::read(PENDING_TEXT);
/// The pending counts, after the writes in progress have ended.
pub(super) const PENDING_SERIAL: Statement = Statement::serial(PENDING_TEXT);
/// An application, as a quorum has it.
pub(super) const BY_ID: Statement = Statement::read(BY_ID_TEXT);
/// An application, after the writes in progress have ended.
pub(super) const BY_ID_SERIAL: Statement = Statement::serial(BY_ID_TEXT);
const BY_SLOT: Statement = Statement::read(
    "SELECT id FROM %k.applications WHERE side = ? AND receiver = ? AND kind = 1 AND place = ? AND origin = ?",
);
/// The version for a receiver without any application is null, which is compared, too.
const CHANGE: Statement = Statement::conditional(
    "UPDATE %k.applications SET version = ?, requests = ?, invites = ?, writer = ? \
     WHERE side = ? AND receiver = ? IF version = ?",
);
/// The statement for test builds without the condition: this condition is always true.
const CHANGE_UNCHECKED: Statement = Statement::conditional(
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

pub(super) const MINUTE: i64 = 60_000;
/// Replaces a stamp: an application that expires in the minute.
pub(super) const EXPIRY_STAMP: i64 = 0;

/// Identifies a note about an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoteKey {
    pub(super) minute: i64,
    pub(super) stamp: i64,
}

impl NoteKey {
    /// A note for a change that begins now.
    pub(super) fn now(cql: &Cql) -> Self {
        Self { minute: cql.client.clock.minute(), stamp: cql.client.clock.version(0) }
    }

    /// Notes that an application expires.
    pub(super) const fn expiry(application: &Application) -> Self {
        Self { minute: application.expires.0.div_euclid(MINUTE), stamp: EXPIRY_STAMP }
    }
}

/// A receiver's stored pending counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenRequests {
    pub(super) pending: PendingRequests,
    /// Chosen by the write that raised the version last.
    pub(super) writer: i64,
}

impl SeenRequests {
    pub(super) const fn head(&self) -> Head {
        Head { version: self.pending.version, writer: self.writer }
    }
}

/// A stored application.
#[derive(Clone, Debug)]
pub(super) struct SeenApplication {
    pub(super) application: Application,
    /// The note for its last change.
    pub(super) note: NoteKey,
}

impl Cql {
    /// Reads a receiver's pending counts, by [`PENDING`] or [`PENDING_SERIAL`].
    pub(super) async fn read_pending(
        &self,
        statement: &'static Statement,
        receiver: Receiver,
    ) -> Result<SeenRequests, StoreError> {
        let (side, id) = receiver.numbers();
        let rows = self.client.records(statement, values![side, id]).await?;
        let Some(row) = rows.first() else { return Ok(SeenRequests::default()) };
        let pending = PendingRequests {
            version: row.version("version")?,
            requests: row.count("requests")?,
            invites: row.count("invites")?,
        };
        Ok(SeenRequests { pending, writer: row.some_number("writer")? })
    }

    /// Reads an application, by [`BY_ID`] or [`BY_ID_SERIAL`].
    pub(super) async fn read_application(
        &self,
        statement: &'static Statement,
        key: ApplicationKey,
    ) -> Result<Option<SeenApplication>, StoreError> {
        let (side, id) = key.receiver.numbers();
        let rows = self.client.records(statement, values![side, id, key.id.get()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let note =
            NoteKey { minute: row.some_number("noted_minute")?, stamp: row.some_number("noted_stamp")? };
        Ok(Some(SeenApplication { application: row.json("body")?, note }))
    }

    /// Finds a change's application.
    pub(super) async fn target(
        &self,
        receiver: Receiver,
        change: &ApplicationChange,
    ) -> Result<Option<SeenApplication>, StoreError> {
        let id = match change.target() {
            None => return Ok(None),
            Some(ChangeTarget::Id(id)) => id,
            Some(ChangeTarget::Slot(slot)) => {
                let (side, id) = receiver.numbers();
                let rows =
                    self.client.records(&BY_SLOT, values![side, id, slot.kind as i64, slot.origin]).await?;
                let Some(row) = rows.first() else { return Ok(None) };
                ApplicationId::new(row.some_number("id")?).map_err(|_| malformed("id"))?
            }
        };
        self.read_application(&BY_ID, ApplicationKey { receiver, id }).await
    }

    /// Replaces an application. While it is pending it has no expiry, because it is counted.
    pub(super) fn application_part(
        &self,
        application: &Application,
        note: NoteKey,
    ) -> Result<Bound, StoreError> {
        let (side, receiver) = application.purpose.receiver().numbers();
        let ttl = application.decided.map_or(0, |_| self.client.ttl(application.forgotten()));
        let (id, body) = (application.id.get(), body(application)?);
        Ok(Bound(&PUT, values![side, receiver, id, body, note.minute, note.stamp, ttl]))
    }

    /// Gives a slot to an application. A slot whose application can have expired long ago is not read.
    pub(super) fn slot_part(&self, application: &Application) -> Bound {
        let (side, receiver) = application.purpose.receiver().numbers();
        let slot = application.slot();
        let (id, ttl) = (application.id.get(), self.client.ttl(application.forgotten()));
        Bound(&PUT_SLOT, values![side, receiver, slot.kind as i64, slot.origin, id, ttl])
    }
}

/// Replaces the pending counts that have this version.
pub(super) fn pending_part(receiver: Receiver, before: Version, after: SeenRequests) -> Bound {
    let (side, id) = receiver.numbers();
    let SeenRequests { pending, writer } = after;
    let PendingRequests { version, requests, invites } = pending;
    let before_or_null = (before > Version::NONE).then(|| before.get());
    let (requests, invites) = (i64::from(requests), i64::from(invites));
    let row = values![version.get(), requests, invites, writer, side, id, before_or_null];
    let is_unchecked = before > Version::NONE && crate::cql::client::fault_injection::lacks("docket_if_same");
    Bound(if is_unchecked { &CHANGE_UNCHECKED } else { &CHANGE }, row)
}

/// An application as one text.
pub(super) fn body(application: &Application) -> Result<String, StoreError> {
    serde_json::to_string(application).map_err(|_| malformed("body"))
}
