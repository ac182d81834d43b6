//! Audiences and notices that rows start from.

use anyhow::Result;
use kith_proto::notice::v1::{
    Audience, Notice, PublishNoticeRequest, Reader, RegisterAudienceRequest, RegisterReadersRequest,
    notice_service_client::NoticeServiceClient,
};
use tonic::transport::Channel;

use crate::rows::until_done::until_done;

pub(super) type NoticeClient = NoticeServiceClient<Channel>;

/// Readers in one registration.
const READERS_AT_ONCE: usize = 1_000;

pub(super) async fn register_audience(client: &NoticeClient, audience_id: i32) -> Result<()> {
    let audience = Audience { audience_id, name: format!("audience {audience_id}"), ..Audience::default() };
    let request = RegisterAudienceRequest { audience: Some(audience), request_id: String::new() };
    // The node may be starting.
    until_done(async || client.clone().register_audience(request.clone()).await.map(drop)).await
}

/// Publishes a notice with this id; 0: any.
pub(super) async fn publish(client: &mut NoticeClient, audience_id: i32, notice_id: i64) -> Result<()> {
    let (title, audience_ids) = (format!("notice {notice_id}"), vec![audience_id]);
    let notice = Notice { notice_id, title, audience_ids, ..Notice::default() };
    let request = PublishNoticeRequest { notice: Some(notice), request_id: String::new() };
    client.publish_notice(request).await?;
    Ok(())
}

/// Registers the readers from 1 on, who see all notices.
pub(super) async fn register_readers(
    client: &mut NoticeClient,
    audience_id: i32,
    readers: i64,
) -> Result<()> {
    let since = Some(prost_types::Timestamp::default());
    let readers: Vec<Reader> = (1..=readers).map(|reader_id| Reader { reader_id, since }).collect();
    for readers in readers.chunks(READERS_AT_ONCE) {
        let request = RegisterReadersRequest { audience_id, readers: readers.to_vec() };
        client.register_readers(request).await?;
    }
    Ok(())
}
