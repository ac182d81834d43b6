//! Names changes, and knows by which call each kind of record is read.

use kith_forward::Change;
use kith_proto::change::v1::{self as wire, ChangeKind};
use serde_json::{Value, json};

use crate::changes::KIND;

/// The most messages that are read for one event.
const MESSAGES_MAX: i32 = 1_000;

/// The call that returns a record.
pub(super) struct RecordCall {
    pub(super) method: &'static str,
    /// The request, in JSON.
    pub(super) request: Value,
    /// The field of the answer that has the record.
    pub(super) field: &'static str,
}

/// Returns the change as it is forwarded.
pub(super) fn forwarded(change: &wire::Change) -> Change {
    let fields = fields(change);
    let kind = change.kind().as_str_name().trim_start_matches(KIND).to_lowercase();
    let ids: Vec<_> = fields.iter().map(|(_, id)| id.as_str()).collect();
    // Messages of a conversation follow each other; each range of them is a record of its own.
    let (lane, record) = match *ids {
        [conversation, first, last] => {
            (format!("{kind}/{conversation}"), format!("{kind}/{conversation}/{first}-{last}"))
        }
        _ => {
            let record = format!("{kind}/{}", ids.join("/"));
            (record.clone(), record)
        }
    };
    let key = fields.iter().map(|(name, id)| ((*name).to_owned(), id.as_str().into())).collect();
    Change { position: change.position.clone(), kind, lane, record, key }
}

/// Returns the fields that identify the record, as JSON names them.
fn fields(change: &wire::Change) -> Vec<(&'static str, String)> {
    let number = |value: i64| Some(value).filter(|value| *value != 0).map(|value| value.to_string());
    let fields = [
        ("groupId", number(change.group_id)),
        ("userId", number(change.user_id)),
        ("otherUserId", number(change.other_user_id)),
        ("conversationId", Some(change.conversation_id.clone()).filter(|id| !id.is_empty())),
        ("firstSeq", number(change.first_seq)),
        ("lastSeq", number(change.last_seq)),
        ("audienceId", number(change.audience_id.into())),
        ("noticeId", number(change.notice_id)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns how to read a record; `None` if no call returns records of this kind.
pub(super) fn call(change: &Change) -> Option<RecordCall> {
    let id = |name: &str| change.key.get(name).cloned().unwrap_or_default();
    let strong = json!({"strong": true});
    let kind = ChangeKind::from_str_name(&format!("{KIND}{}", change.kind.to_uppercase()))?;
    let (method, request, field) = match kind {
        ChangeKind::User => {
            ("UserService/GetUser", json!({"userId": id("userId"), "consistency": strong}), "user")
        }
        ChangeKind::Group => {
            ("GroupService/GetGroup", json!({"groupId": id("groupId"), "consistency": strong}), "group")
        }
        ChangeKind::Member => (
            "MemberService/GetMember",
            json!({"groupId": id("groupId"), "userId": id("userId"), "consistency": strong}),
            "member",
        ),
        ChangeKind::Roster => {
            ("MemberService/CountMembers", json!({"groupId": id("groupId"), "consistency": strong}), "roster")
        }
        ChangeKind::Follow | ChangeKind::Block => (
            "RelationService/GetRelation",
            json!({"userId": id("userId"), "targetId": id("otherUserId"), "consistency": strong}),
            "relation",
        ),
        ChangeKind::Messages => (
            "MessageService/PullMessages",
            json!({"conversationId": id("conversationId"), "fromSeq": id("firstSeq"), "toSeq": id("lastSeq"),
                   "atLeastSeq": id("lastSeq"), "limit": MESSAGES_MAX}),
            "messages",
        ),
        ChangeKind::Dialog => (
            "MessageService/GetConversation",
            json!({"userId": id("userId"), "conversationId": id("conversationId"), "consistency": strong}),
            "conversation",
        ),
        ChangeKind::Notice => {
            ("NoticeService/GetNotice", json!({"noticeId": id("noticeId"), "consistency": strong}), "notice")
        }
        ChangeKind::Conversation | ChangeKind::Audience | ChangeKind::Reaction | ChangeKind::Unspecified => {
            return None;
        }
    };
    Some(RecordCall { method, request, field })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::methods::Methods;

    const KINDS: [ChangeKind; 12] = [
        ChangeKind::User,
        ChangeKind::Group,
        ChangeKind::Member,
        ChangeKind::Roster,
        ChangeKind::Follow,
        ChangeKind::Block,
        ChangeKind::Messages,
        ChangeKind::Conversation,
        ChangeKind::Dialog,
        ChangeKind::Audience,
        ChangeKind::Notice,
        ChangeKind::Reaction,
    ];

    fn whole(kind: ChangeKind) -> wire::Change {
        let mut change = wire::Change { position: "1.a.0.0".into(), ..Default::default() };
        change.set_kind(kind);
        match kind {
            ChangeKind::User => change.user_id = 7,
            ChangeKind::Group | ChangeKind::Roster => change.group_id = 9,
            ChangeKind::Member => (change.group_id, change.user_id) = (9, 7),
            ChangeKind::Follow | ChangeKind::Block => (change.user_id, change.other_user_id) = (7, 8),
            ChangeKind::Messages | ChangeKind::Reaction => {
                change.conversation_id = "g9".into();
                (change.first_seq, change.last_seq) = (2, 4);
            }
            ChangeKind::Conversation => change.conversation_id = "g9".into(),
            ChangeKind::Dialog => (change.user_id, change.conversation_id) = (7, "g9".into()),
            ChangeKind::Audience => change.audience_id = 3,
            ChangeKind::Notice => change.notice_id = 5,
            ChangeKind::Unspecified => {}
        }
        change
    }

    #[test]
    fn records_have_names() {
        let names = KINDS.map(|kind| forwarded(&whole(kind)).record);
        let expected = "user/7 group/9 member/9/7 roster/9 follow/7/8 block/7/8 messages/g9/2-4 conversation/g9 dialog/7/g9 \
                        audience/3 notice/5 reaction/g9/2-4";
        assert_eq!(names.join(" "), expected);
        assert_eq!(forwarded(&whole(ChangeKind::Messages)).lane, "messages/g9");
    }

    /// Every field of a request is one of the contract, and so is the field of the answer.
    #[test]
    fn every_call_is_of_the_contract() {
        let methods = Methods::built_in().unwrap();
        let mut read = 0;
        for kind in KINDS {
            let Some(call) = call(&forwarded(&whole(kind))) else { continue };
            let method = methods.find(call.method).unwrap();
            let request = kith_server::json::message(&method.input(), call.request.to_string().as_bytes());
            assert!(request.is_ok(), "{kind:?}: {request:?}");
            assert!(method.output().get_field_by_name(call.field).is_some(), "{kind:?}");
            assert!(!call.request.to_string().contains("null"), "{kind:?} has no id");
            read += 1;
        }
        assert_eq!(read, 9);
    }
}
