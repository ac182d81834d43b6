//! The answers to requests, stored in the commit that wrote them.
//!
//! `{_id: request id, f: fingerprint, reply: the document that the write left, at: when}`. An index removes
//! old answers; until then their age is checked.

use kith_store::{REQUEST_KEPT, Request, StoreError, Timestamp, Write};
use mongodb::{
    ClientSession,
    bson::{Binary, DateTime, RawDocument, RawDocumentBuf, doc, rawdoc, spec::BinarySubtype},
};

use super::{
    database::Mongo,
    error::malformed,
    transaction::before_commit,
    write::{AppliedWrite, Failure},
};

impl Mongo {
    /// The answer to an earlier write with this request id, seen outside any transaction.
    pub(super) async fn find_answer(
        &self,
        request: &Request,
        now: Timestamp,
    ) -> Result<Option<RawDocumentBuf>, StoreError> {
        match self.find_one(&self.requests, doc! { "_id": request.id.as_str() }).await? {
            Some(kept) => answer(&kept, request, now),
            None => Ok(None),
        }
    }

    /// The earlier write with the request id, in a transaction's snapshot.
    pub(super) async fn find_answer_in(
        &self,
        write: &Write,
        session: &mut ClientSession,
    ) -> Result<Option<AppliedWrite>, Failure> {
        let Some(request) = &write.request else { return Ok(None) };
        let find = self.requests.find_one(doc! { "_id": request.id.as_str() });
        let kept = find.max_time(self.options.command).session(session).await.map_err(before_commit)?;
        let document = kept.map_or(Ok(None), |kept| answer(&kept, request, write.now));
        Ok(document.map_err(Failure::Final)?.map(|document| AppliedWrite { document, replayed: true }))
    }

    /// Ends a transaction that left this document: stores it as the answer, which replaces an expired answer.
    pub(super) async fn keep_answer_in(
        &self,
        write: &Write,
        document: RawDocumentBuf,
        session: &mut ClientSession,
    ) -> Result<AppliedWrite, Failure> {
        if let Some(request) = &write.request {
            let fingerprint = Binary { subtype: BinarySubtype::Generic, bytes: request.fingerprint.to_vec() };
            let kept = rawdoc! {
                "_id": request.id.as_str(),
                "f": fingerprint,
                "reply": document.clone(),
                "at": DateTime::from_millis(write.now.0),
            };
            let filter = doc! { "_id": request.id.as_str() };
            let keep = self.requests.replace_one(filter, kept).upsert(true).session(session);
            keep.await.map_err(before_commit)?;
        }
        Ok(AppliedWrite { document, replayed: false })
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
