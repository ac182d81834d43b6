//! The matrix's known data.

use std::collections::BTreeMap;

use kith_proto::{
    application::v1::{self as applications, application_service_client::ApplicationServiceClient},
    group::v1::{Group, Visibility},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        SendMessageRequest, message_service_client::MessageServiceClient, send_message_request::To,
    },
    notice::v1::{self as notices, notice_service_client::NoticeServiceClient},
    user::v1::User,
};

use super::requests::{APPLICANT, FRIEND, GROUP, ME, OTHER, SPARE, SPARE_GROUP};
use crate::secured_node::{ALL, SecuredNode, by};

/// Creates the data, and returns the values that requests name by a word.
pub(super) async fn create(node: &SecuredNode) -> BTreeMap<&'static str, String> {
    for user in [ME, OTHER, FRIEND, SPARE, APPLICANT] {
        let user_name = format!("user{user}");
        node.create_user(User { user_id: user, user_name, ..Default::default() }).await;
    }
    for group in [GROUP, SPARE_GROUP] {
        create_group(node, group).await;
    }
    let to = Some(To::GroupId(GROUP));
    let message = SendMessageRequest { to, sender_id: ME, client_message_id: "first".into(), ..text() };
    MessageServiceClient::new(node.channel.clone()).send_message(by(ALL, message)).await.unwrap();
    create_notices(node).await;
    let received = apply(node, APPLICANT, ME).await;
    let sent = apply(node, ME, SPARE).await;
    BTreeMap::from([("$APPLICATION", received.to_string()), ("$APPLIED", sent.to_string())])
}

fn text() -> SendMessageRequest {
    SendMessageRequest {
        content_type: "text/plain".into(),
        body: "hi".into(),
        ..SendMessageRequest::default()
    }
}

/// Creates a private group, so that strangers see nothing.
async fn create_group(node: &SecuredNode, group_id: i64) {
    let group = Group {
        group_id,
        creator_id: ME,
        name: "known".into(),
        visibility: Visibility::Private.into(),
        ..Default::default()
    };
    node.create_group(group).await;
    let request = AddMembersRequest { group_id, user_ids: vec![FRIEND], ..Default::default() };
    MemberServiceClient::new(node.channel.clone()).add_members(by(ALL, request)).await.unwrap();
}

async fn create_notices(node: &SecuredNode) {
    let mut client = NoticeServiceClient::new(node.channel.clone());
    let audience =
        notices::Audience { audience_id: 1, name: "all".into(), of_users: true, ..Default::default() };
    let request = notices::RegisterAudienceRequest { audience: Some(audience), ..Default::default() };
    client.register_audience(by(ALL, request)).await.unwrap();
    let reader = notices::Reader { reader_id: ME, since: None };
    let request = notices::RegisterReadersRequest { audience_id: 1, readers: vec![reader] };
    client.register_readers(by(ALL, request)).await.unwrap();
    for notice_id in [1, 2] {
        let notice = notices::Notice {
            notice_id,
            title: "known".into(),
            body: "text".into(),
            audience_ids: vec![1],
            ..Default::default()
        };
        let request = notices::PublishNoticeRequest { notice: Some(notice), ..Default::default() };
        client.publish_notice(by(ALL, request)).await.unwrap();
    }
}

async fn apply(node: &SecuredNode, applicant_id: i64, user_id: i64) -> i64 {
    let kind = applications::Kind::Friend.into();
    let request = applications::ApplyRequest { kind, applicant_id, user_id, ..Default::default() };
    let applied = ApplicationServiceClient::new(node.channel.clone()).apply(by(ALL, request)).await;
    applied.unwrap().into_inner().application.unwrap().application_id
}
