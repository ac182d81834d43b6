//! The methods that rows call very often.

use kith_proto::{
    message::v1::{
        ListConversationsRequest, ListConversationsResponse, PullMessagesRequest, PullMessagesResponse,
        SendMessageRequest, SendMessageResponse,
    },
    notice::v1::{CountNoticesRequest, CountNoticesResponse},
    receipt::v1::{GetReceiptRequest, GetReceiptResponse},
    relation::v1::{
        BatchGetRelationsRequest, BatchGetRelationsResponse, CheckPermissionRequest, CheckPermissionResponse,
        SetDoNotDisturbRequest, SetDoNotDisturbResponse,
    },
    user::v1::{GetUserRequest, GetUserResponse},
};

use crate::load::Method;

pub(super) const GET_USER: Method<GetUserRequest, GetUserResponse> =
    Method::new("/kith.user.v1.UserService/GetUser", |answer| answer.user.is_some());
pub(super) const CHECK_PERMISSION: Method<CheckPermissionRequest, CheckPermissionResponse> =
    Method::new("/kith.relation.v1.RelationService/CheckPermission", |answer| answer.allowed);
pub(super) const BATCH_GET_RELATIONS: Method<BatchGetRelationsRequest, BatchGetRelationsResponse> =
    Method::new("/kith.relation.v1.RelationService/BatchGetRelations", |answer| !answer.results.is_empty());
pub(super) const SET_DO_NOT_DISTURB: Method<SetDoNotDisturbRequest, SetDoNotDisturbResponse> =
    Method::new("/kith.relation.v1.RelationService/SetDoNotDisturb", |answer| answer.settings.is_some());
pub(super) const SEND_MESSAGE: Method<SendMessageRequest, SendMessageResponse> =
    Method::new("/kith.message.v1.MessageService/SendMessage", |answer| answer.seq > 0);
pub(super) const LIST_CONVERSATIONS: Method<ListConversationsRequest, ListConversationsResponse> =
    Method::new("/kith.message.v1.MessageService/ListConversations", |answer| {
        !answer.conversations.is_empty()
    });
pub(super) const PULL_MESSAGES: Method<PullMessagesRequest, PullMessagesResponse> =
    Method::new("/kith.message.v1.MessageService/PullMessages", |answer| !answer.messages.is_empty());
pub(super) const COUNT_NOTICES: Method<CountNoticesRequest, CountNoticesResponse> =
    Method::new("/kith.notice.v1.NoticeService/CountNotices", |answer| answer.totals.is_some());
pub(super) const GET_RECEIPT: Method<GetReceiptRequest, GetReceiptResponse> =
    Method::new("/kith.receipt.v1.ReceiptService/GetReceipt", |answer| answer.receipt.is_some());
