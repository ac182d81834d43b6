//! The answers of requests, stored in the commit of their writes.
//!
//! `{_id: request id, f: fingerprint, reply: the document that the write left, at: when}`. An index removes old ones;
//! until then their age is checked.

use kith_store::{REQUEST_KEPT, Request, StoreError, Timestamp};
use mongodb::{
    ClientSession,
    bson::{Binary, DateTime, RawDocument, RawDocumentBuf, doc, rawdoc, spec::BinarySubtype},
    error::Error,
};

use super::{connect::Mongo, error::malformed, transaction::before_commit, write::Failure};

impl Mongo {
    /// The answer of an earlier write with this request id, seen outside of any transaction.
    pub(super) async fn replay(
        &self,
        request: &Request,
        now: Timestamp,
    ) -> Result<Option<RawDocumentBuf>, StoreError> {
        match self.find_one(&self.requests, doc! { "_id": request.id.as_str() }).await? {
            Some(kept) => answer(&kept, request, now),
            None => Ok(None),
        }
    }

    /// As [`Self::replay`], in the snapshot of a transaction.
    pub(super) async fn replay_in(
        &self,
        request: &Request,
        now: Timestamp,
        session: &mut ClientSession,
    ) -> Result<Option<RawDocumentBuf>, Failure> {
        let find = self.requests.find_one(doc! { "_id": request.id.as_str() });
        let kept = find.max_time(self.options.command).session(session).await.map_err(before_commit)?;
        kept.map_or(Ok(None), |kept| answer(&kept, request, now)).map_err(Failure::Final)
    }

    /// Stores the answer, which replaces an expired one.
    pub(super) async fn remember(
        &self,
        request: &Request,
        now: Timestamp,
        reply: &RawDocument,
        session: &mut ClientSession,
    ) -> Result<(), Error> {
        let fingerprint = Binary { subtype: BinarySubtype::Generic, bytes: request.fingerprint.to_vec() };
        let kept = rawdoc! {
            "_id": request.id.as_str(),
            "f": fingerprint,
            "reply": reply.to_owned(),
            "at": DateTime::from_millis(now.0),
        };
        let filter = doc! { "_id": request.id.as_str() };
        self.requests.replace_one(filter, kept).upsert(true).session(session).await.map(drop)
    }
}

fn answer(
    kept: &RawDocument,
    request: &Request,
    now: Timestamp,
) -> Result<Option<RawDocumentBuf>, StoreError> {
    let at = kept.get_datetime("at").map_err(|_| malformed("at"))?;
    if Timestamp(at.timestamp_millis()).after(REQUEST_KEPT) <= now {
        return Ok(None);
    }
    let fingerprint = kept.get_binary("f").map_err(|_| malformed("f"))?;
    if fingerprint.bytes != request.fingerprint {
        return Err(StoreError::RequestMismatch);
    }
    kept.get_document("reply").map(|reply| Some(reply.to_owned())).map_err(|_| malformed("reply"))
}
