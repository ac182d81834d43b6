//! Changes to audiences and notices: a transaction reads the documents that a change may affect, and writes
//! each on condition that it has the version that was read. A change that collides with another change is
//! decided again.

use std::sync::Arc;

use futures::TryStreamExt as _;
use kith_store::{
    Audience, AudienceId, NewAudience, Notice, NoticeChange, NoticeChangeResult, NoticeDecision, NoticeId,
    NoticeRefusal, StoreError, Stored, Version, Write,
};
use mongodb::{
    ClientSession,
    bson::{Document, RawDocument, RawDocumentBuf, doc, rawdoc},
};

use super::audience::{audience, audience_update, new_audience};
use crate::mongo::{
    database::Mongo,
    document::params_document,
    error::malformed,
    record::stored,
    transaction::before_commit,
    write::{AppliedWrite, Failure, Retries},
};

/// The kinds of writes to audiences and notices.
pub(super) enum NoticeSteps {
    /// Registers an audience.
    Register { audience: NewAudience, most: usize },
    /// Changes a notice.
    Change { id: NoticeId, change: NoticeChange, live_max: usize },
}

impl Mongo {
    /// Makes all these steps, or none.
    pub(super) async fn write_notice(
        &self,
        steps: &NoticeSteps,
        write: &Write,
    ) -> Result<AppliedWrite, StoreError> {
        let mut retries = Retries::within(self.options.notices);
        let _lock = self.notice_lock.lock().await;
        loop {
            let error = match Box::pin(self.try_notice(steps, write)).await {
                Ok(done) => return Ok(done),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Collision(error)) => error,
                Err(Failure::Unmatched | Failure::Duplicate) => StoreError::Overloaded,
            };
            if !retries.again().await {
                return Err(error);
            }
        }
    }

    async fn try_notice(&self, steps: &NoticeSteps, write: &Write) -> Result<AppliedWrite, Failure> {
        let mut session = self.begin_transaction().await?;
        let made = Box::pin(self.notice_steps(steps, write, &mut session)).await;
        self.end_transaction(session, made).await
    }

    async fn notice_steps(
        &self,
        steps: &NoticeSteps,
        write: &Write,
        session: &mut ClientSession,
    ) -> Result<AppliedWrite, Failure> {
        if let Some(done) = self.find_answer_in(write, session).await? {
            return Ok(done);
        }
        let document = match steps {
            NoticeSteps::Register { audience, most } => {
                self.register_in(audience, *most, write, session).await?
            }
            NoticeSteps::Change { id, change, live_max } => {
                self.change_in(*id, change, *live_max, write, session).await?
            }
        };
        self.keep_answer_in(write, document, session).await
    }

    async fn register_in(
        &self,
        new: &NewAudience,
        most: usize,
        write: &Write,
        session: &mut ClientSession,
    ) -> Result<RawDocumentBuf, Failure> {
        match self.audiences_in(&[new.id], session).await?.pop() {
            Some(before) if before.of_users != new.of_users => {
                return Err(refused(NoticeRefusal::AnotherKind));
            }
            Some(before) if before.name == new.name => {}
            Some(before) => {
                let after =
                    Audience { name: new.name.clone(), version: before.version.next(), ..before.clone() };
                self.put_audience_in(&after, before.version, session).await?;
            }
            None => self.insert_audience_in(new, most, write, session).await?,
        }
        Ok(RawDocumentBuf::new())
    }

    async fn insert_audience_in(
        &self,
        new: &NewAudience,
        most: usize,
        write: &Write,
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let count =
            self.audiences.count_documents(doc! {}).session(&mut *session).await.map_err(before_commit)?;
        if usize::try_from(count).unwrap_or(usize::MAX) >= most {
            return Err(refused(NoticeRefusal::TooManyAudiences));
        }
        self.audiences
            .insert_one(new_audience(new, write.now))
            .session(session)
            .await
            .map(drop)
            .map_err(before_commit)
    }

    async fn change_in(
        &self,
        id: NoticeId,
        change: &NoticeChange,
        live_max: usize,
        write: &Write,
        session: &mut ClientSession,
    ) -> Result<RawDocumentBuf, Failure> {
        let find = self.notices.find_one(doc! { "_id": id.get() }).session(&mut *session);
        let found = find.await.map_err(before_commit)?;
        let before: Stored<Notice> =
            found.map_or(Ok(Stored::Never), |found| stored(&found)).map_err(Failure::Final)?;
        let audiences = self.audiences_in(&change.audiences(&before), session).await?;
        let decided = change.decide(id, &before, &audiences, write, live_max).map_err(Failure::Final)?;
        for after in &decided.audiences {
            let before = audiences.iter().find(|before| before.id == after.id);
            let version = before.map_or(Version::NONE, |before| before.version);
            self.put_audience_in(after, version, session).await?;
        }
        self.put_notice_in(id, &before, &decided, session).await?;
        let text = serde_json::to_string(&decided.changed).map_err(|_| Failure::Final(malformed("reply")))?;
        Ok(rawdoc! { "json": text })
    }

    async fn audiences_in(
        &self,
        ids: &[AudienceId],
        session: &mut ClientSession,
    ) -> Result<Vec<Audience>, Failure> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = ids.iter().map(|id| id.get().into()).collect();
        let find = self.audiences.find(doc! { "_id": { "$in": ids } }).session(&mut *session);
        let mut cursor = find.await.map_err(before_commit)?;
        let found: Vec<RawDocumentBuf> = cursor.stream(session).try_collect().await.map_err(before_commit)?;
        found.iter().map(|found| audience(found).map_err(Failure::Final)).collect()
    }

    async fn put_audience_in(
        &self,
        after: &Audience,
        before: Version,
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let (filter, update) = audience_update(after, before);
        let written = self.audiences.update_one(filter, update).session(session).await;
        matched(written.map_err(before_commit)?.matched_count)
    }

    async fn put_notice_in(
        &self,
        id: NoticeId,
        before: &Stored<Notice>,
        decided: &NoticeDecision,
        session: &mut ClientSession,
    ) -> Result<(), Failure> {
        let before: &Arc<Notice> = match (before, &decided.notice) {
            (Stored::Live(before), _) => before,
            (_, Ok(notice)) => {
                let mut document = doc! { "_id": id.get(), "v": notice.version.get() };
                document.extend(notice_fields(notice));
                document.insert("w", rand::random::<i64>());
                let document = RawDocumentBuf::try_from(&document);
                let document = document.map_err(|_| Failure::Final(malformed("notice")))?;
                let insert = self.notices.insert_one(document).session(session);
                return insert.await.map(drop).map_err(before_commit);
            }
            (_, Err(_)) => return Ok(()),
        };
        let filter = doc! { "_id": id.get(), "v": before.version.get() };
        let update = decided.notice.as_ref().map_or_else(|_| deletion(), notice_update);
        let written = self.notices.update_one(filter, update).session(session).await;
        matched(written.map_err(before_commit)?.matched_count)
    }
}

/// The result when a notice changed.
pub(super) fn changed(reply: &RawDocument) -> Result<NoticeChangeResult, StoreError> {
    let text = reply.get_str("json").map_err(|_| malformed("reply"))?;
    serde_json::from_str(text).map_err(|_| malformed("reply"))
}

fn notice_update(notice: &Notice) -> Document {
    let mut set = notice_fields(notice);
    set.insert("u", rand::random::<i64>());
    let mut update = doc! { "$set": set, "$inc": { "v": 1_i64 } };
    if notice.terms.expire.is_none() {
        update.insert("$unset", doc! { "expire": "" });
    }
    update
}

/// Leaves a stub, whose id stays taken.
fn deletion() -> Document {
    let gone = ["rev", "title", "body", "params", "a", "publish", "expire", "pinned", "confirm", "newcomers"];
    let gone: Document =
        gone.into_iter().chain(["created", "updated"]).map(|field| (field.to_owned(), "".into())).collect();
    let set = doc! { "deleted": true, "u": rand::random::<i64>() };
    doc! { "$set": set, "$unset": gone, "$inc": { "v": 1_i64 } }
}

fn notice_fields(notice: &Notice) -> Document {
    let audiences: Vec<i64> = notice.audiences.iter().map(|id| id.get().into()).collect();
    let mut fields = doc! {
        "rev": notice.revision,
        "title": notice.title.as_str(),
        "body": notice.body.as_str(),
        "params": params_document(&notice.params),
        "a": audiences,
        "publish": notice.terms.publish.0,
        "pinned": notice.terms.pinned,
        "confirm": notice.terms.must_confirm,
        "newcomers": notice.terms.for_newcomers,
        "created": notice.created.0,
        "updated": notice.updated.0,
    };
    if let Some(expire) = notice.terms.expire {
        fields.insert("expire", expire.0);
    }
    fields
}

/// Another write came between, which the transaction's snapshot does not have.
fn matched(count: u64) -> Result<(), Failure> {
    if count == 1 { Ok(()) } else { Err(Failure::Unmatched) }
}

fn refused(refusal: NoticeRefusal) -> Failure {
    Failure::Final(refusal.into())
}
