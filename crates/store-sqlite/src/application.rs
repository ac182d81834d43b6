//! Friend requests, and applications to groups. A change is decided and written in one transaction, with the lists.

use async_trait::async_trait;
use kith_store::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, ApplicationList, ApplicationMark,
    ApplicationSlot, ApplicationStore, Applied, ChangeTarget, DueApplication, DueApplications,
    LEFT_TO_WHO_CHANGED, ListedApplication, PendingRequests, Receiver, StoreError, Timestamp, Version, Write,
    distinct_ids,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt, internal},
    request::once,
    row::size,
};

/// Primary key.
pub(crate) const PENDING: &str =
    "SELECT version, requests, invites FROM dockets WHERE side = ?1 AND receiver = ?2";
/// Primary key.
pub(crate) const BY_ID: &str = "SELECT body FROM applications WHERE side = ?1 AND receiver = ?2 AND id = ?3";
/// Index `applications_slot`.
pub(crate) const BY_SLOT: &str = "SELECT body FROM applications
    WHERE state = 1 AND side = ?1 AND receiver = ?2 AND kind = ?3 AND origin = ?4";
/// Primary key of the lists, then that of the applications.
pub(crate) const LIST: &str = "SELECT a.body, l.received_ms, l.read_ms
    FROM application_lists AS l CROSS JOIN applications AS a USING (side, receiver, id)
    WHERE l.list = ?1 AND l.owner = ?2 AND l.id > ?3 ORDER BY l.id LIMIT ?4";
/// Primary key of the lists, then that of the applications.
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
/// On conflict: what was pending before.
const PUT_PENDING: &str = "INSERT OR REPLACE INTO dockets (side, receiver, version, requests, invites)
    VALUES (?1, ?2, ?3, ?4, ?5)";
/// On conflict: the same application as it was.
const PUT: &str = "INSERT INTO applications
        (side, receiver, id, kind, origin, state, effect, expires_ms, decided_ms, forget_ms, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (side, receiver, id) DO UPDATE SET
        state = excluded.state, effect = excluded.effect, decided_ms = excluded.decided_ms,
        forget_ms = excluded.forget_ms, body = excluded.body";
/// On conflict: the entry exists already.
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
        let change = move |connection: &Connection| {
            once(connection, &write, || decide(connection, receiver, &change, write.now))
        };
        self.writer.write(change).await
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
        let page = move |connection: &Connection| {
            let mut read = connection.prepare_cached(LIST)?;
            let page = params![list, owner, after.get(), size(limit)];
            read.query_and_then(page, listed_of)?.collect()
        };
        self.readers.read(page).await
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
    let mut read = connection.prepare_cached(PENDING)?;
    let row = read.query_row(params![side, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let Some((version, requests, invites)) = row.optional()? else { return Ok(PendingRequests::default()) };
    let version = Version::new(version).ok_or_else(|| corrupt("dockets.version"))?;
    Ok(PendingRequests { version, requests, invites })
}

fn by_id(connection: &Connection, key: ApplicationKey) -> Result<Option<Application>, Failure> {
    let (side, id) = key.receiver.numbers();
    let mut read = connection.prepare_cached(BY_ID)?;
    read.query_and_then(params![side, id, key.id.get()], application_of)?.next().transpose()
}

fn by_slot(
    connection: &Connection,
    receiver: Receiver,
    slot: ApplicationSlot,
) -> Result<Option<Application>, Failure> {
    let (side, id) = receiver.numbers();
    let mut read = connection.prepare_cached(BY_SLOT)?;
    let slot = params![side, id, slot.kind as u8, slot.origin];
    read.query_and_then(slot, application_of)?.next().transpose()
}

fn put_pending(connection: &Connection, receiver: Receiver, pending: PendingRequests) -> Result<(), Failure> {
    let (side, id) = receiver.numbers();
    let row = params![side, id, pending.version.get(), pending.requests, pending.invites];
    connection.prepare_cached(PUT_PENDING)?.execute(row)?;
    Ok(())
}

fn put(connection: &Connection, application: &Application) -> Result<(), Failure> {
    let (side, receiver) = application.asks.receiver().numbers();
    let (id, slot) = (application.id.get(), application.slot());
    let body = serde_json::to_string(application);
    connection.prepare_cached(PUT)?.execute(params![
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
    ])?;
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
        connection.prepare_cached(MARK)?.execute(params![list, owner, id.get(), now.0, read])?;
        let mut listed = connection.prepare_cached(LISTED)?;
        for listed in listed.query_and_then(params![list, owner, id.get()], listed_of)? {
            found.push(listed?);
        }
    }
    Ok(found)
}

fn due(connection: &Connection, now: Timestamp, limit: usize) -> Result<DueApplications, Failure> {
    let left = i64::try_from(LEFT_TO_WHO_CHANGED.as_millis()).unwrap_or(i64::MAX);
    let mut due = Vec::new();
    for (sql, until) in [(OUTSTANDING, now.0.saturating_sub(left)), (EXPIRING, now.0)] {
        let mut read = connection.prepare_cached(sql)?;
        for key in read.query_and_then(params![until, size(limit - due.len())], key_of)? {
            due.push(DueApplication { key: key?, noted: (0, 0) });
        }
    }
    Ok(DueApplications { due, mark: None })
}

fn forget(connection: &Connection, now: Timestamp, limit: usize) -> Result<u64, Failure> {
    let mut read = connection.prepare_cached(FORGOTTEN)?;
    let gone = read.query_and_then(params![now.0, size(limit)], application_of)?;
    let gone: Vec<Application> = gone.collect::<Result<_, _>>()?;
    for application in &gone {
        let (side, receiver) = application.asks.receiver().numbers();
        let id = application.id.get();
        connection.prepare_cached(FORGET)?.execute(params![side, receiver, id])?;
        for (list, owner) in application.lists().map(ApplicationList::numbers) {
            connection.prepare_cached(FORGET_LISTED)?.execute(params![list, owner, id, side, receiver])?;
        }
    }
    Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
}

fn key_of(row: &Row<'_>) -> Result<ApplicationKey, Failure> {
    let receiver = Receiver::of(row.get(0)?, row.get(1)?).ok_or_else(|| corrupt("receiver"))?;
    let id = ApplicationId::new(row.get(2)?).map_err(|_| corrupt("applications.id"))?;
    Ok(ApplicationKey { receiver, id })
}

/// Of a row whose first column is the body.
fn application_of(row: &Row<'_>) -> Result<Application, Failure> {
    let body = row.get_ref(0)?.as_str().map_err(|_| corrupt("applications.body"))?;
    Ok(serde_json::from_str(body).map_err(|_| corrupt("applications.body"))?)
}

fn listed_of(row: &Row<'_>) -> Result<ListedApplication, Failure> {
    let moment = |at| Ok::<_, Failure>(row.get::<_, Option<i64>>(at)?.map(Timestamp));
    Ok(ListedApplication { application: application_of(row)?, received: moment(1)?, read: moment(2)? })
}
