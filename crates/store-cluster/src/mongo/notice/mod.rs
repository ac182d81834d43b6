//! Audiences and their notices.
//!
//! A notice is `{_id, v, rev, title, body, params, a, publish, expire, pinned, confirm, newcomers, created,
//! updated, w, u}`: `a` has its audiences. Changes are in `write.rs`.

mod audience;
pub(super) mod reader;
mod write;

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    Applied, Audience, AudienceChange, AudienceId, BATCH_MAX, NewAudience, Notice, NoticeChange,
    NoticeChangeResult, NoticeId, NoticeStore, NoticeTerms, Params, StoreError, Stored, Text, Timestamp,
    Version, Write, at_most,
};
use mongodb::{
    Collection,
    bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc},
    options::{Hint, ReadConcern},
};

use super::{
    database::Mongo,
    document::{count, fields, flag, moment, number, number_in, params, text, version},
    error::{malformed, read_failed, write_failed},
    record::{Record, all},
    write::backoff,
};
use audience::{audience, audience_update};
use write::{NoticeSteps, changed};

/// The most collisions between changes to one audience.
const REMOVALS_MAX: u32 = 16;

#[async_trait]
impl NoticeStore for Mongo {
    async fn audiences(&self, ids: &[AudienceId], strong: bool) -> Result<Vec<Audience>, StoreError> {
        let _permit = self.admit()?;
        at_most(ids.len(), BATCH_MAX)?;
        let ids: HashSet<i64> = ids.iter().map(|id| id.get().into()).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let limit = ids.len();
        let filter = doc! { "_id": { "$in": ids.into_iter().collect::<Vec<_>>() } };
        self.audiences_by(filter, None, limit, concern(strong)).await
    }

    async fn audience_list(
        &self,
        after: Option<AudienceId>,
        limit: usize,
    ) -> Result<Vec<Audience>, StoreError> {
        let _permit = self.admit()?;
        let after = after.map_or(0, |id| i64::from(id.get()));
        let filter = doc! { "_id": { "$gt": after } };
        self.audiences_by(filter, Some("_id_"), limit, ReadConcern::majority()).await
    }

    async fn notices(
        &self,
        ids: &[NoticeId],
        strong: bool,
    ) -> Result<Vec<(NoticeId, Stored<Notice>)>, StoreError> {
        let _permit = self.admit()?;
        let found = self.many(ids.iter().map(|id| id.get()).collect(), concern(strong)).await?;
        found.into_iter().map(|(id, notice)| Ok((notice_id(id)?, notice))).collect()
    }

    async fn register_audience(
        &self,
        audience: NewAudience,
        most: usize,
        write: Write,
    ) -> Result<Applied<()>, StoreError> {
        let _permit = self.admit()?;
        let done = Box::pin(self.write_notice(&NoticeSteps::Register { audience, most }, &write)).await?;
        Ok(Applied { record: (), replayed: done.replayed })
    }

    async fn change_notice(
        &self,
        id: NoticeId,
        change: NoticeChange,
        live_max: usize,
        write: Write,
    ) -> Result<Applied<NoticeChangeResult>, StoreError> {
        let _permit = self.admit()?;
        let steps = NoticeSteps::Change { id, change, live_max };
        let done = Box::pin(self.write_notice(&steps, &write)).await?;
        Ok(Applied { record: changed(&done.document)?, replayed: done.replayed })
    }

    async fn remove_expired(&self, id: AudienceId, now: Timestamp) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        for tries in 1..=REMOVALS_MAX {
            let found = self.find_one(&self.audiences, doc! { "_id": i64::from(id.get()) }).await?;
            let Some(before) = found.as_deref().map(audience).transpose()? else { return Ok(false) };
            let Some(after) = AudienceChange::RemoveExpired(now).apply(&before, usize::MAX)? else {
                return Ok(false);
            };
            let (filter, update) = audience_update(&after, before.version);
            let written = self.audiences.update_one(filter, update).await.map_err(write_failed)?;
            if written.matched_count == 1 {
                return Ok(true);
            }
            tokio::time::sleep(backoff(tries)).await;
        }
        Err(StoreError::Overloaded)
    }

    async fn expired_notices(&self, before: Timestamp, limit: usize) -> Result<Vec<NoticeId>, StoreError> {
        let _permit = self.admit()?;
        let find = self.notices.find(doc! { "expire": { "$lt": before.0 } }).limit(count(limit));
        let find = find.projection(doc! { "_id": 1 }).hint(Hint::Name("expired".to_owned()));
        let cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        let id = |found: &RawDocument| notice_id(number_in(found, "_id")?.ok_or_else(|| malformed("_id"))?);
        all(cursor, id).await
    }
}

impl Mongo {
    async fn audiences_by(
        &self,
        filter: Document,
        by_id_in: Option<&str>,
        limit: usize,
        concern: ReadConcern,
    ) -> Result<Vec<Audience>, StoreError> {
        all(self.cursor(&self.audiences, filter, by_id_in, limit, concern).await?, audience).await
    }
}

impl Record for Notice {
    /// Notices have no secrets.
    const OWNER: &'static str = "n";

    fn collection(mongo: &Mongo) -> &Collection<RawDocumentBuf> {
        &mongo.notices
    }

    fn read(document: &RawDocument) -> Result<Self, StoreError> {
        let id = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
        let mut notice = blank(notice_id(id)?);
        for field in fields(document) {
            let (name, value) = field?;
            match name {
                "v" => notice.version = version(value)?,
                "rev" => notice.revision = number(value, "rev")?,
                "title" => notice.title = text(value, "title")?,
                "body" => notice.body = text(value, "body")?,
                "params" => notice.params = params(value)?,
                "a" => notice.audiences = audience_ids(value)?,
                "publish" => notice.terms.publish = moment(value, "publish")?,
                "expire" => notice.terms.expire = Some(moment(value, "expire")?),
                "pinned" => notice.terms.pinned = flag(value, "pinned")?,
                "confirm" => notice.terms.must_confirm = flag(value, "confirm")?,
                "newcomers" => notice.terms.for_newcomers = flag(value, "newcomers")?,
                "created" => notice.created = moment(value, "created")?,
                "updated" => notice.updated = moment(value, "updated")?,
                _ => {}
            }
        }
        if notice.version == Version::NONE || notice.audiences.is_empty() {
            return Err(malformed("a"));
        }
        Ok(notice)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn params(&self) -> &Params {
        &self.params
    }
}

fn blank(id: NoticeId) -> Notice {
    let terms = NoticeTerms {
        publish: Timestamp(0),
        expire: None,
        pinned: false,
        must_confirm: false,
        for_newcomers: false,
    };
    Notice {
        id,
        version: Version::NONE,
        revision: 0,
        title: Text::default(),
        body: Text::default(),
        params: Params::default(),
        audiences: Vec::new(),
        terms,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

fn audience_ids(value: RawBsonRef<'_>) -> Result<Vec<AudienceId>, StoreError> {
    let array = value.as_array().ok_or_else(|| malformed("a"))?;
    let id = |item: RawBsonRef<'_>| AudienceId::new(number(item, "a")?).map_err(|_| malformed("a"));
    array.into_iter().map(|item| id(item.map_err(|_| malformed("a"))?)).collect()
}

fn notice_id(number: i64) -> Result<NoticeId, StoreError> {
    NoticeId::new(number).map_err(|_| malformed("_id"))
}

fn concern(strong: bool) -> ReadConcern {
    if strong { ReadConcern::linearizable() } else { ReadConcern::majority() }
}
