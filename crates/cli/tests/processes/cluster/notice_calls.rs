//! Notice calls for tests with several nodes: audience 1, and the notices that its readers read.

use kith_proto::notice::v1::{notice_service_client::NoticeServiceClient, *};
use tonic::transport::Channel;

pub(super) fn client(channel: &Channel) -> NoticeServiceClient<Channel> {
    NoticeServiceClient::new(channel.clone())
}

/// Registers audience 1. `of_users`: each user is a reader.
pub(super) async fn audience(channel: &Channel, of_users: bool) {
    let audience = Audience { audience_id: 1, name: "Customers".to_owned(), of_users, ..Audience::default() };
    let request = RegisterAudienceRequest { audience: Some(audience), ..RegisterAudienceRequest::default() };
    client(channel).register_audience(request).await.unwrap();
}

/// Makes a request to publish a notice to audience 1, also for readers who register later.
pub(super) fn notice(notice_id: i64, request_id: &str) -> PublishNoticeRequest {
    let notice = Notice {
        notice_id,
        title: "News".to_owned(),
        audience_ids: vec![1],
        for_newcomers: true,
        ..Notice::default()
    };
    PublishNoticeRequest { notice: Some(notice), request_id: request_id.to_owned() }
}

/// Publishes a notice to audience 1. Returns the token.
pub(super) async fn publish(channel: &Channel, notice_id: i64) -> String {
    let published = client(channel).publish_notice(notice(notice_id, "")).await.unwrap();
    published.into_inner().consistency_token
}

/// Marks a notice as read.
pub(super) async fn mark(channel: &Channel, reader_id: i64, notice_id: i64) -> MarkReadResponse {
    let notice_ids = vec![notice_id];
    let request = MarkReadRequest { audience_id: 1, reader_id, notice_ids, ..MarkReadRequest::default() };
    client(channel).mark_read(request).await.unwrap().into_inner()
}

/// Returns how many have read a notice, and whether some are not counted yet.
pub(super) async fn count(channel: &Channel, notice_id: i64) -> (i64, bool) {
    let request = CountReadersRequest { audience_id: 1, notice_ids: vec![notice_id] };
    let counted = client(channel).count_readers(request).await.unwrap().into_inner();
    (counted.counts[0].read, counted.incomplete)
}
