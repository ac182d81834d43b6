//! The calls that a socket takes: those that users make for themselves.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use http::{Method, Request, StatusCode, Version, header};
use kith_proto::message::v1::{SendMessageRequest, send_message_request::To};
use kith_service::error::{Error, Reason};
use kith_store::{ConversationId, GroupId, UserId};
use tonic::Status;

use super::{
    frame::{self, CallId, SENT_BYTES},
    session::SocketSession,
};
use crate::{
    auth::{identity::InProcessIdentity, user::User},
    edge::{Edge, SESSION, SocketRequest},
    json::{self, BodyLimits},
};

/// Most record bytes in an answer. Their text is longer, through base64, field names and digits, and must fit
/// into a frame.
const ANSWER_BYTES: usize = 384 << 10;
/// Longest answer text that fits into a frame together with its call's number and its session.
const ANSWER_TEXT_BYTES: usize = SENT_BYTES - 512;

/// The calls that a socket takes, by service. All others are for services, for batches or for streams. A name
/// alone means the first service that has it: a service whose calls sockets took before keeps its names.
const CALLS: [(&str, &[&str]); 9] = [
    (
        "kith.message.v1.MessageService",
        &[
            "SendMessage",
            "SendSignal",
            "PullMessages",
            "PullBySeqs",
            "History",
            "GetSeqByTime",
            "GetMaxSeqs",
            "CreateConversation",
            "GetConversation",
            "ListConversations",
            "CountUnread",
            "GetReadSeqs",
            "MarkRead",
            "UpdateDialog",
            "HideConversation",
            "ClearConversation",
            "RecallMessage",
            "EditMessage",
            "React",
            "Unreact",
            "BatchGetReactions",
            "ListReactions",
        ],
    ),
    (
        "kith.receipt.v1.ReceiptService",
        &["GetReceipt", "BatchGetReceipts", "ListReaders", "ListUnread", "ListLeft", "ListOrdinals"],
    ),
    (
        "kith.relation.v1.RelationService",
        &[
            "Follow",
            "Unfollow",
            "RemoveFan",
            "Unfriend",
            "SetRemark",
            "Block",
            "Unblock",
            "SetPermissions",
            "SetDoNotDisturb",
            "GetRelation",
            "BatchGetRelations",
            "ListFollowing",
            "ListFans",
            "ListFriends",
            "ListBlocks",
            "ListDoNotDisturb",
            "CountRelations",
            "ListCommonFollowing",
            "ListFansIFollow",
            "ListFriendsInGroup",
        ],
    ),
    (
        "kith.member.v1.MemberService",
        &[
            "AddMembers",
            "Join",
            "Leave",
            "GetMember",
            "BatchIsMember",
            "ListMembers",
            "CountMembers",
            "ListMemberships",
            "CountMemberships",
            "ListCommonGroups",
            "SyncMembers",
            "SetMemberRemark",
        ],
    ),
    ("kith.group.v1.GroupService", &["CreateGroup", "GetGroup", "BatchGetGroups", "SearchGroups"]),
    ("kith.user.v1.UserService", &["GetUser", "BatchGetUsers", "FindUserByName", "SearchUsers"]),
    ("kith.presence.v1.PresenceService", &["GetPresence", "BatchGetPresence"]),
    (
        "kith.notice.v1.NoticeService",
        &["GetNotice", "ListNotices", "MarkRead", "MarkUnread", "GetReadState", "CountNotices"],
    ),
    (
        "kith.application.v1.ApplicationService",
        &[
            "Apply",
            "Decide",
            "Withdraw",
            "GetApplication",
            "ListApplications",
            "ListRelationLog",
            "MarkReceived",
            "MarkRead",
            "CountPending",
        ],
    ),
];

/// Makes one user's calls as JSON over HTTP makes them: deadline, bounds, rights, metrics and errors are the
/// same.
#[derive(Clone, Debug)]
pub(super) struct SocketCalls {
    edge: Edge,
    limits: BodyLimits,
}

impl SocketCalls {
    pub(super) const fn new(edge: Edge, limits: BodyLimits) -> Self {
        Self { edge, limits }
    }

    /// Makes one call and returns the frame that answers it. Dropped before, the call is cancelled; a write
    /// that has begun goes on.
    pub(super) async fn make(
        self,
        user: Arc<User>,
        session: Option<Arc<SocketSession>>,
        call: (CallId, String, String),
    ) -> String {
        let (id, name, body) = call;
        let Some((service, name)) = method(&name) else {
            return frame::call_failed(id, &json::failure_text(&not_taken()));
        };
        let metadata = session.as_deref().map(SocketSession::metadata);
        let request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(format!("/{service}/{name}"))
            .header(header::CONTENT_TYPE, "application/json")
            .extension(InProcessIdentity::User(user))
            .extension(SocketRequest { answer_bytes: Some(ANSWER_BYTES), ..SocketRequest::default() })
            .body(Body::from(body));
        let Ok(mut request) = request else {
            return frame::call_failed(id, &json::failure_text(&not_taken()));
        };
        request.headers_mut().extend(metadata.map(|metadata| (SESSION, metadata)));
        let (head, body) = json::answer(&self.edge, self.limits, request).await.into_parts();
        // The body is in memory as a whole.
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let frame = match std::str::from_utf8(&bytes) {
            Ok(message) if head.status == StatusCode::OK && message.len() >= ANSWER_TEXT_BYTES => {
                frame::call_failed(id, &json::failure_text(&too_large()))
            }
            Ok(message) if head.status == StatusCode::OK => frame::answer(id, message),
            Ok(_) | Err(_) => frame::call_failed(id, &bytes),
        };
        match session {
            Some(session) => frame::in_session(frame, &session.answered(head.headers.get(SESSION))),
            None => frame,
        }
    }
}

/// Service and method that `MarkRead` or `NoticeService.MarkRead` names, if sockets take it.
fn method(name: &str) -> Option<(&'static str, &str)> {
    let (wanted, name) = name.split_once('.').map_or((None, name), |(service, name)| (Some(service), name));
    let is_named = |service: &str| wanted.is_none_or(|wanted| service.rsplit('.').next() == Some(wanted));
    let found = CALLS.iter().find(|(service, names)| is_named(service) && names.contains(&name));
    found.map(|(service, _)| (*service, name))
}

/// The conversation to which this user's call sends. `None`: it sends nothing, or will be refused.
pub(super) fn sends_to(user: UserId, name: &str, body: &str) -> Option<ConversationId> {
    if method(name)?.1 != "SendMessage" {
        return None;
    }
    let request: SendMessageRequest = json::body("kith.message.v1.SendMessageRequest", body).ok()?;
    match request.to? {
        To::ConversationId(id) => id.parse().ok(),
        To::UserId(other) => Some(ConversationId::direct(user, UserId::new(other).ok()?)),
        To::GroupId(group) => GroupId::new(group).ok().map(ConversationId::Group),
    }
}

fn too_large() -> Status {
    let message = format!("the answer would have {SENT_BYTES} bytes of text or more: ask for fewer records");
    Error::new(Reason::AnswerTooLarge, message).into()
}

fn not_taken() -> Status {
    Error::new(Reason::MethodUnknown, "sockets take no call of this name").into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use kith_proto::r#type::v1::{Action, Users};

    use super::*;
    use crate::descriptors;

    #[test]
    fn socket_calls_are_unary_contract_methods() {
        let pool = descriptors::pool().unwrap();
        for (service, names) in CALLS {
            let service = pool.get_service_by_name(service).unwrap();
            for name in names {
                let method = service.methods().find(|method| method.name() == *name);
                let method = method.unwrap_or_else(|| panic!("{name} is in the contract"));
                assert!(!method.is_server_streaming() && !method.is_client_streaming(), "{name}");
                let short = service.name();
                assert_eq!(super::method(&format!("{short}.{name}")), Some((service.full_name(), *name)));
                let access = descriptors::access(&method).unwrap();
                assert!(matches!(access.action(), Action::Read | Action::Write), "{name} is for users");
                assert_ne!(access.users(), Users::None, "{name} is for users");
            }
        }
    }

    #[test]
    fn sends_to_one_conversation_are_known_as_such() {
        let of = |name: &str, body: &str| {
            sends_to(UserId::new(7).unwrap(), name, body).map(|conversation| conversation.to_string())
        };
        for (body, expected) in [
            (r#"{"conversationId":"d7-8"}"#, Some("d7-8")),
            (r#"{"conversation_id":"d7-8","body":"aGk="}"#, Some("d7-8")),
            (r#"{"userId":8}"#, Some("d7-8")),
            (r#"{"user_id":"8"}"#, Some("d7-8")),
            (r#"{"userId":8.0}"#, Some("d7-8")),
            (r#"{"userId":7}"#, Some("d7-7")),
            (r#"{"groupId":"9"}"#, Some("g9")),
            (r#"{"conversationId":"g9"}"#, Some("g9")),
            (r#"{"conversationId":"d8-7"}"#, None),
            (r#"{"userId":0}"#, None),
            ("{}", None),
            ("[]", None),
        ] {
            for name in ["SendMessage", "MessageService.SendMessage"] {
                assert_eq!(of(name, body).as_deref(), expected, "{name} {body}");
            }
            assert_eq!(of("SendSignal", body), None);
        }
    }

    #[test]
    fn name_alone_is_that_of_the_first_service() {
        let mut seen = HashSet::new();
        let twice = CALLS.iter().flat_map(|(_, names)| *names).filter(|name| !seen.insert(**name));
        assert_eq!(
            twice.collect::<Vec<_>>(),
            [&"MarkRead"; 2],
            "a name that some services have is documented"
        );
        assert_eq!(method("MarkRead"), Some(("kith.message.v1.MessageService", "MarkRead")));
        let long = "ApplicationService.MarkRead";
        assert_eq!(method(long), Some(("kith.application.v1.ApplicationService", "MarkRead")));
        assert_eq!(method("NoticeService.MarkRead"), Some(("kith.notice.v1.NoticeService", "MarkRead")));
    }

    #[test]
    fn calls_for_services_are_not_taken() {
        for name in [
            "BatchSend",
            "SetUserSeqRange",
            "TrimConversation",
            "DeleteUser",
            "GetNode",
            "Receive",
            "WatchOffline",
            "PublishNotice",
            "NoticeService.ListReaders",
            "NoticeService.SendMessage",
            "NoticeService.",
            "NoticeService",
            ".MarkRead",
            "kith.notice.v1.NoticeService.MarkRead",
            "notice.v1.NoticeService.MarkRead",
            "NoticeService/MarkRead",
            "",
        ] {
            assert_eq!(method(name), None, "{name}");
        }
    }
}
