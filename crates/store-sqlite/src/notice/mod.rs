//! Audiences and their notices.

pub(crate) mod reader;

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use kith_store::{
    Applied, Audience, AudienceChange, AudienceId, BATCH_MAX, NewAudience, Notice, NoticeChange,
    NoticeChangeResult, NoticeId, NoticeRefusal, NoticeStore, NoticeTerms, StoreError, Stored, Timestamp,
    Version, Write, at_most, pack_entries, unpack_entries,
};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt, internal},
    row::{self, json, moment, params_text, size, text, version},
    statement::{first, run},
};

macro_rules! select_audiences {
    () => {
        "SELECT id, version, name, of_users, created_ms, next_slot, entries FROM audiences"
    };
}

/// Uses the primary key.
pub(crate) const AUDIENCE: &str = concat!(select_audiences!(), " WHERE id = ?1");
/// Primary key, in order.
pub(crate) const AUDIENCES: &str = concat!(select_audiences!(), " WHERE id > ?1 ORDER BY id LIMIT ?2");
const COUNT_AUDIENCES: &str = "SELECT count(*) FROM audiences";
const PUT_AUDIENCE: &str = "INSERT OR REPLACE INTO audiences
        (id, version, name, of_users, created_ms, next_slot, entries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
/// Uses the primary key.
pub(crate) const NOTICE: &str =
    "SELECT id, version, deleted, revision, title, body, params, audiences, publish_ms,
        expire_ms, pinned, must_confirm, for_newcomers, created_ms, updated_ms
    FROM notices WHERE id = ?1";
const PUT_NOTICE: &str =
    "INSERT OR REPLACE INTO notices (id, version, deleted, revision, title, body, params,
        audiences, publish_ms, expire_ms, pinned, must_confirm, for_newcomers, created_ms, updated_ms)
    VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
/// Uses the primary key.
pub(crate) const DELETE_NOTICE: &str = "UPDATE notices SET version = ?2, deleted = 1, title = '', body = '',
        params = '{}', audiences = '[]', expire_ms = NULL, updated_ms = ?3 WHERE id = ?1";
/// Index `notices_expired`.
pub(crate) const EXPIRED: &str =
    "SELECT id FROM notices WHERE expire_ms IS NOT NULL AND expire_ms < ?1 LIMIT ?2";

#[async_trait]
impl NoticeStore for Sqlite {
    async fn audiences(&self, ids: &[AudienceId], _strong: bool) -> Result<Vec<Audience>, StoreError> {
        at_most(ids.len(), BATCH_MAX)?;
        let ids: HashSet<AudienceId> = ids.iter().copied().collect();
        let read = move |connection: &Connection| {
            ids.into_iter().filter_map(|id| audience(connection, id).transpose()).collect()
        };
        self.readers.read(read).await
    }

    async fn audience_list(
        &self,
        after: Option<AudienceId>,
        limit: usize,
    ) -> Result<Vec<Audience>, StoreError> {
        self.readers.all(AUDIENCES, (after.map_or(0, AudienceId::get), size(limit)), audience_of).await
    }

    async fn notices(
        &self,
        ids: &[NoticeId],
        _strong: bool,
    ) -> Result<Vec<(NoticeId, Stored<Notice>)>, StoreError> {
        at_most(ids.len(), BATCH_MAX)?;
        let ids: HashSet<NoticeId> = ids.iter().copied().collect();
        let read = move |connection: &Connection| {
            ids.into_iter().map(|id| Ok((id, notice(connection, id)?))).collect()
        };
        self.readers.read(read).await
    }

    async fn register_audience(
        &self,
        audience: NewAudience,
        most: usize,
        write: Write,
    ) -> Result<Applied<()>, StoreError> {
        self.writer.once(write, move |connection, write| register(connection, &audience, most, write)).await
    }

    async fn change_notice(
        &self,
        id: NoticeId,
        change: NoticeChange,
        live_max: usize,
        write: Write,
    ) -> Result<Applied<NoticeChangeResult>, StoreError> {
        self.writer.once(write, move |connection, write| make(connection, id, &change, live_max, write)).await
    }

    async fn remove_expired(&self, id: AudienceId, now: Timestamp) -> Result<bool, StoreError> {
        let remove = move |connection: &Connection| {
            let Some(before) = audience(connection, id)? else { return Ok(false) };
            let after =
                AudienceChange::RemoveExpired(now).apply(&before, usize::MAX).map_err(StoreError::from)?;
            after.iter().try_for_each(|after| put_audience(connection, after))?;
            Ok(after.is_some())
        };
        self.writer.write(remove).await
    }

    async fn expired_notices(&self, before: Timestamp, limit: usize) -> Result<Vec<NoticeId>, StoreError> {
        let id = |row: &Row<'_>| Ok(NoticeId::new(row.get(0)?).map_err(|_| corrupt("notices.id"))?);
        self.readers.all(EXPIRED, [before.0, size(limit)], id).await
    }
}

fn register(connection: &Connection, new: &NewAudience, most: usize, write: &Write) -> Result<(), Failure> {
    let after = match audience(connection, new.id)? {
        Some(before) if before.of_users != new.of_users => {
            return Err(StoreError::from(NoticeRefusal::AnotherKind).into());
        }
        Some(before) if before.name == new.name => return Ok(()),
        Some(before) => Audience { version: before.version.next(), name: new.name.clone(), ..before },
        None => first_audience(connection, new, most, write.now)?,
    };
    put_audience(connection, &after)
}

fn first_audience(
    connection: &Connection,
    new: &NewAudience,
    most: usize,
    now: Timestamp,
) -> Result<Audience, Failure> {
    let count: i64 = connection.prepare_cached(COUNT_AUDIENCES)?.query_row([], |row| row.get(0))?;
    if count >= size(most) {
        return Err(StoreError::from(NoticeRefusal::TooManyAudiences).into());
    }
    let NewAudience { id, name, of_users } = new.clone();
    Ok(Audience {
        id,
        version: Version::FIRST,
        name,
        of_users,
        created: now,
        next_slot: 0,
        entries: Vec::new(),
    })
}

fn make(
    connection: &Connection,
    id: NoticeId,
    change: &NoticeChange,
    live_max: usize,
    write: &Write,
) -> Result<NoticeChangeResult, Failure> {
    let before = notice(connection, id)?;
    let ids = change.audiences(&before).into_iter();
    let audiences: Vec<Audience> =
        ids.filter_map(|id| audience(connection, id).transpose()).collect::<Result<_, _>>()?;
    let decided = change.decide(id, &before, &audiences, write, live_max)?;
    match &decided.notice {
        Ok(notice) => put_notice(connection, notice)?,
        Err(version) => {
            run(connection, DELETE_NOTICE, params![id.get(), version.get(), write.now.0])?;
        }
    }
    decided.audiences.iter().try_for_each(|audience| put_audience(connection, audience))?;
    Ok(decided.changed)
}

fn put_audience(connection: &Connection, audience: &Audience) -> Result<(), Failure> {
    let row = params![
        audience.id.get(),
        audience.version.get(),
        audience.name.as_str(),
        audience.of_users,
        audience.created.0,
        audience.next_slot,
        pack_entries(&audience.entries)
    ];
    run(connection, PUT_AUDIENCE, row)
}

fn put_notice(connection: &Connection, notice: &Notice) -> Result<(), Failure> {
    let audiences =
        serde_json::to_string(&notice.audiences).map_err(|_| internal("audiences cannot be written down"))?;
    let NoticeTerms { publish, expire, pinned, must_confirm, for_newcomers } = notice.terms;
    let row = params![
        notice.id.get(),
        notice.version.get(),
        notice.revision,
        notice.title.as_str(),
        notice.body.as_str(),
        params_text(&notice.params)?,
        audiences,
        publish.0,
        expire.map(|expire| expire.0),
        pinned,
        must_confirm,
        for_newcomers,
        notice.created.0,
        notice.updated.0
    ];
    run(connection, PUT_NOTICE, row)
}

fn audience(connection: &Connection, id: AudienceId) -> Result<Option<Audience>, Failure> {
    first(connection, AUDIENCE, [id.get()], audience_of)
}

fn audience_of(row: &Row<'_>) -> Result<Audience, Failure> {
    let entries = row.get_ref(6)?.as_blob().map_err(|_| corrupt("audiences.entries"))?;
    Ok(Audience {
        id: AudienceId::new(row.get(0)?).map_err(|_| corrupt("audiences.id"))?,
        version: version(row, 1)?,
        name: text(row, 2)?,
        of_users: row.get(3)?,
        created: Timestamp(row.get(4)?),
        next_slot: row.get(5)?,
        entries: unpack_entries(entries).ok_or_else(|| corrupt("audiences.entries"))?,
    })
}

fn notice(connection: &Connection, id: NoticeId) -> Result<Stored<Notice>, Failure> {
    Ok(first(connection, NOTICE, [id.get()], |row| notice_of(id, row))?.unwrap_or(Stored::Never))
}

fn notice_of(id: NoticeId, row: &Row<'_>) -> Result<Stored<Notice>, Failure> {
    let version = version(row, 1)?;
    if row.get(2)? {
        return Ok(Stored::Deleted(version));
    }
    Ok(Stored::Live(Arc::new(Notice {
        id,
        version,
        revision: row.get(3)?,
        title: text(row, 4)?,
        body: text(row, 5)?,
        params: row::params(row, 6)?,
        audiences: json(row, 7, "notices.audiences")?,
        terms: NoticeTerms {
            publish: Timestamp(row.get(8)?),
            expire: moment(row, 9)?,
            pinned: row.get(10)?,
            must_confirm: row.get(11)?,
            for_newcomers: row.get(12)?,
        },
        created: Timestamp(row.get(13)?),
        updated: Timestamp(row.get(14)?),
    })))
}
