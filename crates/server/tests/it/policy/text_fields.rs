//! Every text field in a request has a class, and behaves as docs/guide/texts.md says about the class.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract;
use crate::http::Connection;
use crate::json_grpc_parity::{Outcome, by_json, rpcs};
use crate::node::TestNode;
use kith_proto::{
    group::v1::Group,
    user::v1::{CreateUserRequest, User},
};
use prost_reflect::{Kind, MessageDescriptor};
use tokio::net::TcpStream;

const DOCUMENT: &str = include_str!("../../../../../docs/guide/texts.md");
/// Fields that many messages have, with equal rules.
const EVERYWHERE: [&str; 4] = ["request_id", "page_token", "conversation_id", "conversation_ids"];

/// A call that sets one text, at `%`.
struct Case {
    field: &'static str,
    rpc: &'static str,
    body: &'static str,
    /// The name in the error.
    at: &'static str,
}

/// The calls for each text that people read.
const CASES: [Case; 20] = [
    case("User.user_name", "CreateUser", r#"{"user":{"userName":"%"}}"#, "user_name"),
    case(
        "User.user_name",
        "UpdateUser",
        r#"{"user":{"userId":1,"userName":"%"},"updateMask":"user_name"}"#,
        "user_name",
    ),
    case("FindUserByNameRequest.user_name", "FindUserByName", r#"{"userName":"%"}"#, "user_name"),
    case("User.nick_name", "CreateUser", r#"{"user":{"userName":"n","nickName":"%"}}"#, "nick_name"),
    case("User.region", "CreateUser", r#"{"user":{"userName":"r","region":"%"}}"#, "region"),
    case("SuspendUserRequest.reason", "SuspendUser", r#"{"userId":1,"reason":"%"}"#, "reason"),
    case("User.icon", "CreateUser", r#"{"user":{"userName":"i","icon":"%"}}"#, "icon"),
    case("Group.name", "CreateGroup", r#"{"group":{"name":"%","creatorId":1}}"#, "name"),
    case(
        "Group.name",
        "UpdateGroup",
        r#"{"group":{"groupId":1,"name":"%"},"updateMask":{"paths":["name"]}}"#,
        "name",
    ),
    case("Group.icon", "CreateGroup", r#"{"group":{"name":"g","icon":"%","creatorId":1}}"#, "icon"),
    case(
        "Group.icon",
        "UpdateGroup",
        r#"{"group":{"groupId":1,"icon":"%"},"updateMask":{"paths":["icon"]}}"#,
        "icon",
    ),
    case("Group.tags", "CreateGroup", r#"{"group":{"name":"g","tags":["fine","%"],"creatorId":1}}"#, "tags"),
    case("SetRemarkRequest.remark", "SetRemark", r#"{"userId":1,"targetId":2,"remark":"%"}"#, "remark"),
    case(
        "SetMemberRemarkRequest.remark",
        "SetMemberRemark",
        r#"{"groupId":1,"userId":1,"remark":"%"}"#,
        "remark",
    ),
    case(
        "ApplyRequest.reference",
        "Apply",
        r#"{"kind":"KIND_FRIEND","applicantId":1,"userId":2,"reference":"%"}"#,
        "reference",
    ),
    case(
        "ApplyRequest.message",
        "Apply",
        r#"{"kind":"KIND_FRIEND","applicantId":2,"userId":1,"message":"%"}"#,
        "message",
    ),
    case("Audience.name", "RegisterAudience", r#"{"audience":{"audienceId":1,"name":"%"}}"#, "name"),
    case("Notice.title", "PublishNotice", r#"{"notice":{"title":"%","audienceIds":[1]}}"#, "title"),
    case("Notice.body", "PublishNotice", r#"{"notice":{"title":"n","body":"%","audienceIds":[1]}}"#, "body"),
    case("User.email", "CreateUser", r#"{"user":{"userName":"e","email":"%@example.org"}}"#, "email"),
];

const fn case(field: &'static str, rpc: &'static str, body: &'static str, at: &'static str) -> Case {
    Case { field, rpc, body, at }
}

/// Field and class, as the document has them: a row for each class, with the fields in backquotes.
fn documented() -> BTreeMap<String, String> {
    let (_, table) = DOCUMENT.split_once("\n| class | fields |\n").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let fields = rows.flat_map(|(class, fields)| {
        let names = fields.split('`').skip(1).step_by(2);
        names.map(|field| (field.to_owned(), class.to_owned()))
    });
    fields.collect()
}

fn collect(message: &MessageDescriptor, fields: &mut BTreeSet<String>, seen: &mut BTreeSet<String>) {
    if !message.full_name().starts_with("kith.") || !seen.insert(message.full_name().to_owned()) {
        return;
    }
    for field in message.fields() {
        match field.kind() {
            _ if field.is_map() => drop(fields.insert(format!("{}.{}", message.name(), field.name()))),
            Kind::String if EVERYWHERE.contains(&field.name()) => {}
            Kind::String => drop(fields.insert(format!("{}.{}", message.name(), field.name()))),
            Kind::Message(inner) => collect(&inner, fields, seen),
            _ => {}
        }
    }
}

#[test]
fn every_text_field_of_a_request_has_a_class() {
    let (mut fields, mut seen) = (BTreeSet::new(), BTreeSet::new());
    contract::methods().iter().for_each(|method| collect(&method.input(), &mut fields, &mut seen));
    assert_eq!(documented().into_keys().collect::<BTreeSet<_>>(), fields);
    let cases: BTreeSet<_> = CASES.iter().map(|case| case.field.to_owned()).collect();
    let read = |(field, class): (String, String)| {
        matches!(class.as_str(), "name" | "prose" | "email").then_some(field)
    };
    assert_eq!(documented().into_iter().filter_map(read).collect::<BTreeSet<_>>(), cases);
}

async fn set(connection: &mut Connection<TcpStream>, case: &Case, text: &str) -> Outcome {
    let rpc = rpcs().into_iter().find(|rpc| rpc.path.ends_with(&format!("/{}", case.rpc))).unwrap();
    let text = serde_json::to_string(text).unwrap();
    let body = case.body.replace('%', text.trim_matches('"'));
    by_json(connection, &rpc, &[], &serde_json::from_str(&body).unwrap()).await
}

#[tokio::test]
async fn texts_behave_as_their_class_says() {
    let node = TestNode::start_with_relations(|_| {}).await;
    for (user_id, user_name) in [(1, "one"), (2, "two")] {
        let user = Some(User { user_id, user_name: user_name.to_owned(), ..Default::default() });
        node.users().create_user(CreateUserRequest { user, ..Default::default() }).await.unwrap();
    }
    node.group(Group { group_id: 1, name: "one".to_owned(), creator_id: 1, ..Default::default() }).await;
    let mut connection = Connection::open(node.address).await;
    let classes = documented();
    for case in &CASES {
        let prose = classes[case.field] == "prose";
        let fine = if prose {
            "one\r\ntwo\n\u{200F}שלום\u{1F469}\u{200D}\u{1F4BB}"
        } else {
            "می\u{200C}خواهم"
        };
        let outcome = set(&mut connection, case, fine).await;
        let context = format!("{} {}: {outcome:?}", case.field, case.rpc);
        assert_ne!(outcome.code, "invalid_argument", "{context}");
        let answer = outcome.answer.to_string();
        let kept = answer.contains(serde_json::to_string(fine).unwrap().trim_matches('"'));
        assert!(outcome.code != "ok" || kept, "what is taken comes back as it was: {context}");
        for (c, code, in_prose) in [
            ('\u{202E}', "U+202E", false),
            ('\0', "U+0000", false),
            ('\n', "U+000A", true),
            ('\u{200F}', "U+200F", true),
            ('\u{200B}', "U+200B", true),
        ] {
            let outcome = set(&mut connection, case, &format!("a{c}b")).await;
            let context = format!("{} {} {code}: {outcome:?}", case.field, case.rpc);
            assert_eq!(outcome.code != "invalid_argument", prose && in_prose, "{context}");
            let words = (format!("{} must not hold {code} (", case.at), "at character 2");
            let named = outcome.message.starts_with(&words.0) && outcome.message.ends_with(words.1);
            assert!(named || prose && in_prose, "{context}");
        }
    }
    node.stop().await;
}
