//! Each method with a `request_id`: a repeated request has the first answer, and its id is refused with
//! another request about the record. The stores' conformance suite says what a repeated request does.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor, Value};
use tonic::Status;

use super::{known, reason};
use crate::{
    contract,
    json_grpc_parity::raw,
    secured_node::{ALL, SecuredNode, by},
};

/// Requests about one record, as service, method and JSON. Each succeeds, and differs from the last
/// request.
type Record = &'static [(&'static str, &'static str)];

const RECORDS: [Record; 14] = [
    &[
        ("UserService/CreateUser", r#"{"user": {"userId": 40, "userName": "new"}}"#),
        ("UserService/CreateUser", r#"{"user": {"userId": 41, "userName": "other"}}"#),
    ],
    &[
        ("UserService/UpdateUser", r#"{"user": {"userId": 40, "region": "here"}, "updateMask": "region"}"#),
        ("UserService/SuspendUser", r#"{"userId": 40, "reason": "spam"}"#),
        ("UserService/SignOutUser", r#"{"userId": 40}"#),
        ("UserService/ResumeUser", r#"{"userId": 40}"#),
        ("UserService/DeleteUser", r#"{"userId": 40}"#),
    ],
    &[
        ("GroupService/CreateGroup", r#"{"group": {"groupId": 50, "name": "new"}}"#),
        ("GroupService/CreateGroup", r#"{"group": {"groupId": 51, "name": "other"}}"#),
    ],
    &[
        ("GroupService/UpdateGroup", r#"{"group": {"groupId": 5, "name": "renamed"}, "updateMask": "name"}"#),
        ("GroupService/RotateInviteCode", r#"{"groupId": 5}"#),
        ("GroupService/UpdateGroup", r#"{"group": {"groupId": 5, "name": "again"}, "updateMask": "name"}"#),
    ],
    &[
        ("MemberService/AddMembers", r#"{"groupId": 5, "userIds": [20]}"#),
        ("MemberService/SetRole", r#"{"groupId": 5, "userId": 20, "role": "ROLE_ADMIN"}"#),
        ("MemberService/MuteMember", r#"{"groupId": 5, "userId": 20, "muteTime": "2100-01-01T00:00:00Z"}"#),
        ("MemberService/MuteGroup", r#"{"groupId": 5, "muteTime": "2100-01-01T00:00:00Z"}"#),
        ("MemberService/SetMemberRemark", r#"{"groupId": 5, "userId": 20, "remark": "a name"}"#),
        ("GroupService/TransferGroup", r#"{"groupId": 5, "ownerId": 20}"#),
        ("MemberService/Leave", r#"{"groupId": 5, "userId": 7}"#),
        ("MemberService/RemoveMembers", r#"{"groupId": 5, "userIds": [7], "ban": true}"#),
        ("MemberService/UnbanMembers", r#"{"groupId": 5, "userIds": [7]}"#),
        ("MemberService/AddMembers", r#"{"groupId": 5, "userIds": [7]}"#),
    ],
    &[
        ("MemberService/Join", r#"{"groupId": 52, "userId": 8}"#),
        ("MemberService/Leave", r#"{"groupId": 52, "userId": 8}"#),
    ],
    &[
        ("GroupService/UpdateGroup", r#"{"group": {"groupId": 6, "name": "renamed"}, "updateMask": "name"}"#),
        ("GroupService/DismissGroup", r#"{"groupId": 6}"#),
    ],
    &[
        ("RelationService/Follow", r#"{"userId": 7, "targetId": 20}"#),
        ("RelationService/Unfollow", r#"{"userId": 7, "targetId": 20}"#),
    ],
    &[
        ("RelationService/SetRemark", r#"{"userId": 7, "targetId": 9, "remark": "one"}"#),
        ("RelationService/SetRemark", r#"{"userId": 7, "targetId": 9, "remark": "two"}"#),
        ("RelationService/SetPermissions", r#"{"userId": 7, "targetId": 9, "permissions": 1}"#),
        ("RelationService/SetDoNotDisturb", r#"{"userId": 7, "targetId": 9, "doNotDisturb": true}"#),
        ("RelationService/Block", r#"{"userId": 7, "targetId": 9}"#),
        ("RelationService/Unblock", r#"{"userId": 7, "targetId": 9}"#),
    ],
    &[
        ("ApplicationService/Apply", r#"{"kind": "KIND_FRIEND", "applicantId": 8, "userId": 7}"#),
        ("ApplicationService/Withdraw", r#"{"receiver": {"userId": 7}, "applicationId": $APPLICATION}"#),
    ],
    &[
        (
            "ApplicationService/Decide",
            r#"{"receiver": {"userId": 20}, "applicationId": $APPLIED, "decision": "DECISION_REFUSE"}"#,
        ),
        ("ApplicationService/Apply", r#"{"kind": "KIND_FRIEND", "applicantId": 9, "userId": 20}"#),
    ],
    &[
        (
            "MessageService/UpdateDialog",
            r#"{"userId": 8, "conversationId": "d8-9", "settings": {"pinned": true}, "updateMask": "pinned"}"#,
        ),
        ("MessageService/HideConversation", r#"{"userId": 8, "conversationId": "d8-9"}"#),
        ("MessageService/ClearConversation", r#"{"userId": 8, "conversationId": "d8-9"}"#),
        ("MessageService/SetUserSeqRange", r#"{"userId": 8, "conversationId": "d8-9", "minSeq": 1}"#),
    ],
    &[
        ("NoticeService/RegisterAudience", r#"{"audience": {"audienceId": 2, "name": "new"}}"#),
        ("NoticeService/RegisterAudience", r#"{"audience": {"audienceId": 2, "name": "renamed"}}"#),
    ],
    &[
        ("NoticeService/PublishNotice", r#"{"notice": {"noticeId": 3, "title": "new", "audienceIds": [1]}}"#),
        ("NoticeService/UpdateNotice", r#"{"notice": {"noticeId": 3, "title": "a"}, "updateMask": "title"}"#),
        ("NoticeService/DeleteNotice", r#"{"noticeId": 3}"#),
    ],
];
/// Methods that change two records, with tests of their own.
const OF_TWO_RECORDS: [&str; 2] = ["RemoveFan", "Unfriend"];

fn method(name: &str) -> MethodDescriptor {
    let of = |method: &MethodDescriptor| format!("{}/{}", method.parent_service().name(), method.name());
    contract::methods().into_iter().find(|method| of(method) == name).unwrap()
}

/// Makes the call under this id. Returns the answer without its consistency token.
async fn call(node: &SecuredNode, name: &str, body: &str, id: &str) -> Result<DynamicMessage, Status> {
    let method = method(name);
    let mut request = kith_server::json::message(&method.input(), body.as_bytes()).unwrap();
    request.set_field_by_name("request_id", Value::String(id.to_owned()));
    let request = by(ALL, request.encode_to_vec());
    let answer = raw::call(&node.channel, &contract::path_of(&method), request).await?;
    let mut answer = DynamicMessage::decode(method.output(), answer.get_ref().as_slice()).unwrap();
    answer.clear_field_by_name("consistency_token");
    Ok(answer)
}

#[tokio::test]
async fn repeated_requests_have_the_first_answer() {
    let node = SecuredNode::start([]).await;
    let replacements = known::create(&node).await;
    for user in [8, 9] {
        let made = format!(r#"{{"userId": {user}, "otherUserId": {}}}"#, 17 - user);
        let create = method("MessageService/CreateConversation");
        let request = kith_server::json::message(&create.input(), made.as_bytes()).unwrap();
        let request = by(ALL, request.encode_to_vec());
        raw::call(&node.channel, &contract::path_of(&create), request).await.unwrap();
    }
    let open =
        r#"{"group": {"groupId": 52, "name": "a", "visibility": "VISIBILITY_PUBLIC", "joinPolicy": 1}}"#;
    call(&node, "GroupService/CreateGroup", open, "").await.unwrap();
    for (at, requests) in RECORDS.iter().enumerate() {
        let body = |at: usize| {
            let (_, body) = requests[at];
            replacements.iter().fold(body.to_owned(), |body, (from, to)| body.replace(from, to))
        };
        for (number, (name, _)) in requests.iter().enumerate() {
            let id = format!("record-{at}-{number}");
            let first = call(&node, name, &body(number), &id).await;
            let first = first.unwrap_or_else(|status| panic!("{name}: {status:?}"));
            let again = call(&node, name, &body(number), &id).await;
            assert_eq!(again.unwrap(), first, "{name}");
            let Some((other, _)) = requests.get(number + 1) else { continue };
            let reused = call(&node, other, &body(number + 1), &id).await.unwrap_err();
            assert_eq!(reason(&reused), "REQUEST_ID_REUSED", "{other} after {name}: {reused:?}");
        }
    }
}

#[test]
fn every_method_with_a_request_id_is_repeated() {
    let has_id = |method: &MethodDescriptor| {
        contract::is_unary(method) && method.input().get_field_by_name("request_id").is_some()
    };
    let all: BTreeSet<_> = contract::methods()
        .into_iter()
        .filter(has_id)
        .map(|method| method.name().to_owned())
        .filter(|name| !OF_TWO_RECORDS.contains(&name.as_str()))
        .collect();
    let here = RECORDS.iter().flat_map(|requests| requests.iter());
    let here: BTreeSet<_> = here.map(|(name, _)| name.split_once('/').unwrap().1.to_owned()).collect();
    assert_eq!(here, all);
}
