//! Friend requests, and applications to groups. A change is decided and written in one transaction, with the
//! lists.

use async_trait::async_trait;
use kith_store::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, ApplicationList, ApplicationMark,
    ApplicationSlot, ApplicationStore, Applied, COMPLETION_GRACE, ChangeTarget, DueApplication,
    DueApplications, ListedApplication, PendingRequests, Receiver, StoreError, Timestamp, Write,
    distinct_ids,
};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt, internal},
    row::{json, moment, size, version},
    statement::{all, first, run},
};

/// Uses the primary key.
pub(crate) const PENDING: &str =
    "SELECT version, requests, invites FROM dockets WHERE side = ?1 AND receiver = ?2";
/// Uses the primary key.
pub(crate) const BY_ID: &str = "SELECT body FROM applications WHERE side = ?1 AND receiver = ?2 AND id = ?3";
/// Index `applications_slot`.
pub(crate) const BY_SLOT: &str = "SELECT body FROM applications
    WHERE state = 1 AND side = ?1 AND receiver = ?2 AND kind = ?3 AND origin = ?4";
/// Uses the primary key of the lists, then the primary key of the applications.
pub(crate) const LIST: &str = "SELECT a.body, l.received_ms, l.read_ms
    FROM application_lists AS l CROSS JOIN applications AS a USING (side, receiver, id)
    WHERE l.list = ?1 AND l.owner = ?2 AND l.id > ?3 ORDER BY l.id LIMIT ?4";
/// Uses the primary key of the lists, then the primary key of the applications.
pub(crate) const LISTED: &str = "SELECT a.body, l.received_ms, l.read_ms
    FROM application_lists AS l CROSS JOIN applications AS a USING (side, receiver, id)
    WHERE l.list = ?1 AND l.owner = ?2 AND l.id = ?3";
/// Index `applications_outstanding`.
pub(crate) const OUTSTANDING: &str =
    "SELECT side, receiver, id FROM applications INDEXED BY applications_outstanding
    WHERE effect = 1 AND decided_ms <= ?1 ORDER BY decided_ms LIMIT ?2";
/// Index `applications_expiring`.
pub(crate) const EXPIRING: &str =
    "SELECT side, receiver, id FROM applications INDEXED BY applications_expiring
    WHERE state = 1 AND expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2";
/// Index `applications_forgotten`. Outstanding ones are not deleted.
pub(crate) const FORGOTTEN: &str = "SELECT body FROM applications INDEXED BY applications_forgotten
    WHERE state > 1 AND forget_ms <= ?1 AND effect <> 1 ORDER BY forget_ms LIMIT ?2";
/// On conflict, it replaces the former pending counts.
const PUT_PENDING: &str = "INSERT OR REPLACE INTO dockets (side, receiver, version, requests, invites)
    VALUES (?1, ?2, ?3, ?4, ?5)";
/// On conflict, it changes the same application.
const PUT: &str = "INSERT INTO applications
        (side, receiver, id, kind, origin, state, effect, expires_ms, decided_ms, forget_ms, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (side, receiver, id) DO UPDATE SET
        state = excluded.state, effect = excluded.effect, decided_ms = excluded.decided_ms,
        forget_ms = excluded.forget_ms, body = excluded.body";
/// On conflict, the entry exists already and stays.
const PUT_LISTED: &str = "INSERT OR IGNORE INTO application_lists (list, owner, id, side, receiver)
    VALUES (?1, ?2, ?3, ?4, ?5)";
const MARK: &str = "UPDATE application_lists
    SET received_ms = coalesce(received_ms, ?4), read_ms = coalesce(read_ms, ?5)
    WHERE list = ?1 AND owner = ?2 AND id = ?3";
const FORGET: &str = "DELETE FROM applications WHERE side = ?1 AND receiver = ?2 AND id = ?3";
const FORGET_LISTED: &str = "DELETE FROM application_lists
    WHERE list = ?1 AND owner = ?2 AND id = ?3 AND side = ?4 AND receiver = ?5";

#[async_trait]
impl ApplicationStore for Sqlite {
    async fn change_application(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, StoreError> {
        let decide =
            move |connection: &Connection, write: &Write| decide(connection, receiver, &change, write.now);
        self.writer.once(write, decide).await
    }

    async fn get_application(&self, key: ApplicationKey) -> Result<Option<Application>, StoreError> {
        self.readers.read(move |connection| by_id(connection, key)).await
    }

    async fn count_pending(&self, receiver: Receiver) -> Result<PendingRequests, StoreError> {
        self.readers.read(move |connection| count_pending(connection, receiver)).await
    }

    async fn list_applications(
        &self,
        list: ApplicationList,
        after: ApplicationId,
        limit: usize,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        let (list, owner) = list.numbers();
        self.readers.all(LIST, (list, owner, after.get(), size(limit)), listed_of).await
    }

    async fn mark_applications(
        &self,
        list: ApplicationList,
        ids: &[ApplicationId],
        mark: ApplicationMark,
        now: Timestamp,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        let ids = distinct_ids(ids)?;
        self.writer.write(move |connection| marked(connection, list, &ids, mark, now)).await
    }

    async fn due_applications(
        &self,
        _from: Option<&[u8]>,
        now: Timestamp,
        limit: usize,
    ) -> Result<DueApplications, StoreError> {
        self.readers.read(move |connection| due(connection, now, limit)).await
    }

    async fn resume_application(
        &self,
        due: DueApplication,
        now: Timestamp,
    ) -> Result<Option<Application>, StoreError> {
        let found = self.readers.read(move |connection| by_id(connection, due.key)).await?;
        Ok(found.filter(|found| found.is_due(now)))
    }

    async fn forget_applications(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError> {
        self.writer.write(move |connection| forget(connection, now, limit)).await
    }
}

fn decide(
    connection: &Connection,
    receiver: Receiver,
    change: &ApplicationChange,
    now: Timestamp,
) -> Result<Application, Failure> {
    let found = match change.target() {
        Some(ChangeTarget::Id(id)) => by_id(connection, ApplicationKey { receiver, id })?,
        Some(ChangeTarget::Slot(slot)) => by_slot(connection, receiver, slot)?,
        None => None,
    };
    let before = count_pending(connection, receiver)?;
    let verdict = before.change(found, change, now)?;
    if verdict.changed {
        put_pending(connection, receiver, verdict.pending)?;
        for row in verdict.rows() {
            put(connection, row)?;
        }
    }
    Ok(verdict.application)
}

fn count_pending(connection: &Connection, receiver: Receiver) -> Result<PendingRequests, Failure> {
    let (side, id) = receiver.numbers();
    let pending = first(connection, PENDING, params![side, id], |row| {
        Ok(PendingRequests { version: version(row, 0)?, requests: row.get(1)?, invites: row.get(2)? })
    });
    Ok(pending?.unwrap_or_default())
}

fn by_id(connection: &Connection, key: ApplicationKey) -> Result<Option<Application>, Failure> {
    let (side, id) = key.receiver.numbers();
    first(connection, BY_ID, params![side, id, key.id.get()], application_of)
}

fn by_slot(
    connection: &Connection,
    receiver: Receiver,
    slot: ApplicationSlot,
) -> Result<Option<Application>, Failure> {
    let (side, id) = receiver.numbers();
    first(connection, BY_SLOT, params![side, id, slot.kind as u8, slot.origin], application_of)
}

fn put_pending(connection: &Connection, receiver: Receiver, pending: PendingRequests) -> Result<(), Failure> {
    let (side, id) = receiver.numbers();
    let row = params![side, id, pending.version.get(), pending.requests, pending.invites];
    run(connection, PUT_PENDING, row)
}

fn put(connection: &Connection, application: &Application) -> Result<(), Failure> {
    let (side, receiver) = application.purpose.receiver().numbers();
    let (id, slot) = (application.id.get(), application.slot());
    let body = serde_json::to_string(application);
    let row = params![
        side,
        receiver,
        id,
        slot.kind as u8,
        slot.origin,
        application.state as u8,
        application.effect as u8,
        application.expires.0,
        application.decided.map(|at| at.0),
        application.forgotten().0,
        body.map_err(|_| internal("an application cannot be written down"))?,
    ];
    run(connection, PUT, row)?;
    let mut put = connection.prepare_cached(PUT_LISTED)?;
    for (list, owner) in application.lists().map(ApplicationList::numbers) {
        put.execute(params![list, owner, id, side, receiver])?;
    }
    Ok(())
}

fn marked(
    connection: &Connection,
    list: ApplicationList,
    ids: &[ApplicationId],
    mark: ApplicationMark,
    now: Timestamp,
) -> Result<Vec<ListedApplication>, Failure> {
    let (list, owner) = list.numbers();
    let read = (mark == ApplicationMark::Read).then_some(now.0);
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        run(connection, MARK, params![list, owner, id.get(), now.0, read])?;
        found.extend(first(connection, LISTED, params![list, owner, id.get()], listed_of)?);
    }
    Ok(found)
}

fn due(connection: &Connection, now: Timestamp, limit: usize) -> Result<DueApplications, Failure> {
    let left = i64::try_from(COMPLETION_GRACE.as_millis()).unwrap_or(i64::MAX);
    let mut due = Vec::new();
    for (sql, until) in [(OUTSTANDING, now.0.saturating_sub(left)), (EXPIRING, now.0)] {
        due.extend(all(connection, sql, [until, size(limit - due.len())], due_of)?);
    }
    Ok(DueApplications { due, mark: None })
}

fn forget(connection: &Connection, now: Timestamp, limit: usize) -> Result<u64, Failure> {
    let gone = all(connection, FORGOTTEN, [now.0, size(limit)], application_of)?;
    for application in &gone {
        let (side, receiver) = application.purpose.receiver().numbers();
        let id = application.id.get();
        run(connection, FORGET, params![side, receiver, id])?;
        for (list, owner) in application.lists().map(ApplicationList::numbers) {
            run(connection, FORGET_LISTED, params![list, owner, id, side, receiver])?;
        }
    }
    Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
}

fn due_of(row: &Row<'_>) -> Result<DueApplication, Failure> {
    let receiver = Receiver::of(row.get(0)?, row.get(1)?).ok_or_else(|| corrupt("receiver"))?;
    let id = ApplicationId::new(row.get(2)?).map_err(|_| corrupt("applications.id"))?;
    Ok(DueApplication { key: ApplicationKey { receiver, id }, noted: (0, 0) })
}

/// Reads a row whose first column is the body.
fn application_of(row: &Row<'_>) -> Result<Application, Failure> {
    json(row, 0, "applications.body")
}

fn listed_of(row: &Row<'_>) -> Result<ListedApplication, Failure> {
    let (received, read) = (moment(row, 1)?, moment(row, 2)?);
    Ok(ListedApplication { application: application_of(row)?, received, read })
}
