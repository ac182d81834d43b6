//! The gRPC notice service: each method decodes the request, makes one call, and encodes the response.

use kith_cache::Consistency;
use kith_proto::notice::v1::{self as wire, notice_service_server::NoticeService};
use kith_store::{NoticeChange, ReaderOrdinal, Slot, Timestamp};
use tonic::{Request, Response};

use super::{NoticeRecords, convert, listing::NoticeListRequest, marks::NoticeMark};
use crate::{
    error::Error,
    rpc::{
        answer_size::{ByteBudget, STREAM_MESSAGE_BYTES},
        batch::{Limits, missing},
        call::{Call, RpcResult},
        page_token::{PageSizes, PageTokens},
        request::WriteContext,
    },
};

/// The sizes of a notice page.
const PAGES: PageSizes = PageSizes { default: 50, max: 100 };
/// The most notices in one CountReaders call.
const COUNTED_AT_ONCE: usize = 100;

/// The gRPC notice service.
#[derive(Clone, Debug)]
pub struct NoticeRpc {
    records: NoticeRecords,
    pages: PageTokens,
    limits: Limits,
}

impl NoticeRpc {
    /// The service over a deployment's notices.
    #[must_use]
    pub const fn new(records: NoticeRecords, pages: PageTokens, limits: Limits) -> Self {
        Self { records, pages, limits }
    }
}

#[tonic::async_trait]
impl NoticeService for NoticeRpc {
    async fn register_audience(
        &self,
        request: Request<wire::RegisterAudienceRequest>,
    ) -> RpcResult<wire::RegisterAudienceResponse> {
        let (request, context) = WriteContext::open(request)?;
        let new = convert::new_audience(request.audience.as_ref())?;
        let written = self.records.register_audience(new, context).await?;
        Ok(Response::new(wire::RegisterAudienceResponse {
            audience: Some(convert::audience_to_wire(&written.record)),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn register_readers(
        &self,
        request: Request<wire::RegisterReadersRequest>,
    ) -> RpcResult<wire::RegisterReadersResponse> {
        let (call, request) = Call::open(request);
        let audience = convert::audience_id("audience_id", request.audience_id)?;
        let readers = convert::new_readers(&request.readers, Timestamp::now())?;
        let written = self.records.register(audience, readers, call.deadline).await?;
        Ok(Response::new(wire::RegisterReadersResponse {
            registered: i32::try_from(written.record.len()).unwrap_or(i32::MAX),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn publish_notice(
        &self,
        request: Request<wire::PublishNoticeRequest>,
    ) -> RpcResult<wire::PublishNoticeResponse> {
        let (request, context) = WriteContext::open(request)?;
        let notice = request.notice.as_ref().ok_or_else(|| missing("notice"))?;
        let (id, new) = convert::new_notice(notice, self.records.config.body_bytes, Timestamp::now())?;
        let written = self.records.publish(id, new, context).await?;
        Ok(Response::new(wire::PublishNoticeResponse {
            notice: written.record.notice.as_ref().map(convert::notice_to_wire),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn update_notice(
        &self,
        request: Request<wire::UpdateNoticeRequest>,
    ) -> RpcResult<wire::UpdateNoticeResponse> {
        let (request, context) = WriteContext::open(request)?;
        let notice = request.notice.as_ref().ok_or_else(|| missing("notice"))?;
        let id = convert::notice_id(notice.notice_id)?;
        let paths = request.update_mask.clone().unwrap_or_default().paths;
        let mut patch = convert::patch(notice, &paths, self.records.config.body_bytes, Timestamp::now())?;
        patch.make_unread = request.make_unread;
        let written = self.records.change(id, NoticeChange::Update(patch), context).await?;
        Ok(Response::new(wire::UpdateNoticeResponse {
            notice: written.record.notice.as_ref().map(convert::notice_to_wire),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn delete_notice(
        &self,
        request: Request<wire::DeleteNoticeRequest>,
    ) -> RpcResult<wire::DeleteNoticeResponse> {
        let (request, context) = WriteContext::open(request)?;
        let id = convert::notice_id(request.notice_id)?;
        let audiences = convert::some_audiences(&request.audience_ids)?;
        let written = self.records.change(id, NoticeChange::Delete(audiences), context).await?;
        Ok(Response::new(wire::DeleteNoticeResponse {
            version: written.record.version.get(),
            deleted: written.record.notice.is_none(),
            consistency_token: written.token.to_string(),
        }))
    }

    async fn get_notice(
        &self,
        request: Request<wire::GetNoticeRequest>,
    ) -> RpcResult<wire::GetNoticeResponse> {
        let (call, request) = Call::open(request);
        let id = convert::notice_id(request.notice_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let notice = self.records.notice(id, call.principal, &consistency).await?;
        Ok(Response::new(wire::GetNoticeResponse { notice: Some(convert::notice_to_wire(&notice)) }))
    }

    async fn list_notices(
        &self,
        request: Request<wire::ListNoticesRequest>,
    ) -> RpcResult<wire::ListNoticesResponse> {
        let (call, request) = Call::open(request);
        let audience = convert::audience_id("audience_id", request.audience_id)?;
        let reader = (request.reader_id != 0)
            .then(|| convert::reader_id("reader_id", request.reader_id))
            .transpose()?;
        let query =
            [b"notices".as_slice(), &request.audience_id.to_be_bytes(), &request.reader_id.to_be_bytes()];
        let after = self.pages.of(call).verify_numbers(&query, &request.page_token)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let mut quota = self.limits.records.page(call, PAGES.of(request.page_size)?)?;
        let list = NoticeListRequest { audience, reader, after, size: quota.size };
        let page = self.records.list(list, call.principal, &consistency).await?;
        let mut budget = ByteBudget::new(STREAM_MESSAGE_BYTES.min(call.answer_bytes));
        let (mut notices, mut last) = (Vec::new(), page.more);
        for listed in &page.notices {
            let notice = convert::listed_to_wire(listed);
            if !budget.admit(&notice) {
                last = page.notices.get(notices.len().saturating_sub(1)).map(|listed| listed.position);
                break;
            }
            notices.push(notice);
        }
        quota.answered(notices.len());
        let next_page_token =
            last.map(|position| self.pages.of(call).issue_numbers(&query, position)).unwrap_or_default();
        Ok(Response::new(wire::ListNoticesResponse { notices, next_page_token }))
    }

    async fn mark_read(&self, request: Request<wire::MarkReadRequest>) -> RpcResult<wire::MarkReadResponse> {
        let (call, request) = Call::open(request);
        let key = convert::reader_key(request.audience_id, request.reader_id)?;
        let notices = convert::notice_ids(&request.notice_ids, None)?;
        let mark = match request.all {
            true if !notices.is_empty() => {
                return Err(Error::invalid("notice_ids", "must be empty with all").into());
            }
            true => NoticeMark::ReadAll { confirm: request.confirm },
            false => NoticeMark::Read { notices, confirm: request.confirm },
        };
        let marked = self.records.mark(key, mark, call.principal, call.deadline).await?;
        Ok(Response::new(wire::MarkReadResponse {
            totals: Some(convert::totals_to_wire(marked.totals)),
            not_found: marked.not_found.iter().map(|id| id.get()).collect(),
            consistency_token: marked.token.to_string(),
        }))
    }

    async fn mark_unread(
        &self,
        request: Request<wire::MarkUnreadRequest>,
    ) -> RpcResult<wire::MarkUnreadResponse> {
        let (call, request) = Call::open(request);
        let key = convert::reader_key(request.audience_id, request.reader_id)?;
        let mark = NoticeMark::Unread(convert::notice_ids(&request.notice_ids, None)?);
        let marked = self.records.mark(key, mark, call.principal, call.deadline).await?;
        Ok(Response::new(wire::MarkUnreadResponse {
            totals: Some(convert::totals_to_wire(marked.totals)),
            not_found: marked.not_found.iter().map(|id| id.get()).collect(),
            consistency_token: marked.token.to_string(),
        }))
    }

    async fn get_read_state(
        &self,
        request: Request<wire::GetReadStateRequest>,
    ) -> RpcResult<wire::GetReadStateResponse> {
        let (call, request) = Call::open(request);
        let key = convert::reader_key(request.audience_id, request.reader_id)?;
        let ids = convert::notice_ids(&request.notice_ids, None)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let states = self.records.states(key, &ids, call.principal, &consistency).await?;
        let states = states.into_iter().map(convert::state_to_wire).collect();
        Ok(Response::new(wire::GetReadStateResponse { states }))
    }

    async fn count_notices(
        &self,
        request: Request<wire::CountNoticesRequest>,
    ) -> RpcResult<wire::CountNoticesResponse> {
        let (call, request) = Call::open(request);
        let key = convert::reader_key(request.audience_id, request.reader_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let totals = self.records.totals(key, call.principal, &consistency).await?;
        Ok(Response::new(wire::CountNoticesResponse { totals: Some(convert::totals_to_wire(totals)) }))
    }

    async fn count_readers(
        &self,
        request: Request<wire::CountReadersRequest>,
    ) -> RpcResult<wire::CountReadersResponse> {
        let request = request.into_inner();
        let audience = convert::audience_id("audience_id", request.audience_id)?;
        let ids = convert::notice_ids(&request.notice_ids, Some(COUNTED_AT_ONCE))?;
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            entries.push(self.records.entry(audience, id).await?);
        }
        let audience = self.records.audience(audience, &Consistency::Cached).await?;
        let slots: Vec<Slot> = entries.iter().flat_map(|entry| entry.slots()).collect();
        let counted = self.records.counts.count(&audience, &slots).await?;
        let count_of = |slot: Slot| {
            let at = slots.iter().position(|known| *known == slot).unwrap_or(usize::MAX);
            counted.counts.get(at).map_or(0, |count| i64::try_from(*count).unwrap_or(i64::MAX))
        };
        let counts = entries.iter().map(|entry| wire::ReaderCount {
            notice_id: entry.notice.get(),
            read: count_of(entry.slot),
            confirmed: entry.confirm_slot.map_or(0, count_of),
        });
        Ok(Response::new(wire::CountReadersResponse {
            counts: counts.collect(),
            registered: i64::try_from(counted.registered).unwrap_or(i64::MAX),
            incomplete: counted.incomplete,
        }))
    }

    async fn list_readers(
        &self,
        request: Request<wire::ListReadersRequest>,
    ) -> RpcResult<wire::ListReadersResponse> {
        let request = request.into_inner();
        let audience = convert::audience_id("audience_id", request.audience_id)?;
        let (notice, state) = (convert::notice_id(request.notice_id)?, convert::reader_state(request.state)?);
        let query = [
            b"readers".as_slice(),
            &request.audience_id.to_be_bytes(),
            &request.notice_id.to_be_bytes(),
            &request.state.to_be_bytes(),
        ];
        let from = self.pages.verify(&query, &request.page_token)?.unwrap_or(0);
        let from = ReaderOrdinal::try_from(from).unwrap_or(ReaderOrdinal::MAX);
        let size = self.limits.pages.of(request.page_size)?;
        let page = self.records.readers(audience, notice, state, from, size).await?;
        Ok(Response::new(wire::ListReadersResponse {
            reader_ids: page.readers.iter().map(|reader| reader.get()).collect(),
            next_page_token: page.next.map(|next| self.pages.issue(&query, next.into())).unwrap_or_default(),
        }))
    }
}
