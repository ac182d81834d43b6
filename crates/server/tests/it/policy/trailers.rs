//! Answers name their source where the contract says so, and nowhere else.

use std::{collections::BTreeSet, fs};

use crate::json_grpc_parity::{by_grpc, rpcs};
use crate::node::TestNode;
use kith_proto::{
    application::v1::{ApplyRequest, Kind},
    group::v1::Group,
    relation::v1::{BlockRequest, FollowRequest},
    user::v1::{CreateUserRequest, User},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind as Form, MessageDescriptor, Value};

/// Calls that delete the data that all other calls need.
const ENDS: [&str; 2] = ["DeleteUser", "DismissGroup"];

/// Returns the methods whose answers carry trailing metadata, as the services' comments name them.
fn documented() -> BTreeSet<String> {
    let paths = rpcs().into_iter().map(|rpc| rpc.path);
    let named = |path: &String| {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap();
        let domain = service.split('.').nth(1).unwrap();
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/kith");
        let contract = fs::read_to_string(format!("{root}/{domain}/v1/{domain}.proto")).unwrap();
        let (before, _) = contract.split_once("\nservice ").unwrap();
        let comment = before.rsplit("\n\n").next().unwrap().replace("\n// ", " ");
        let sentences = comment.split(". ").filter(|sentence| sentence.contains("trailing metadata"));
        sentences.flat_map(|sentence| sentence.split([' ', ',', ':'])).any(|word| word == method)
    };
    paths.filter(named).collect()
}

/// Makes a message that asks about the stage's data.
fn message(descriptor: &MessageDescriptor, application: i64) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let other =
            field.containing_oneof().is_some_and(|oneof| oneof.fields().next() != Some(field.clone()));
        if let (Some(value), false) = (value(&field, application), other) {
            let value = if field.is_list() { Value::List(vec![value]) } else { value };
            message.set_field(&field, value);
        }
    }
    message
}

fn value(field: &FieldDescriptor, application: i64) -> Option<Value> {
    Some(match (field.name(), field.kind()) {
        ("target_id" | "target_ids" | "other_id" | "other_user_id", _) => Value::I64(2),
        ("application_id" | "application_ids", _) => Value::I64(application),
        ("permissions", _) => Value::U32(1),
        ("receiver", Form::Message(kind)) => Value::Message(message(&kind, application)),
        (name, Form::Int64) if name.ends_with("_id") || name.ends_with("_ids") => Value::I64(1),
        ("user_name" | "keyword", _) => Value::String("ann".to_owned()),
        _ => return None,
    })
}

async fn stage() -> (TestNode, i64) {
    let node = TestNode::start_with_relations(|_| {}).await;
    for (user_id, name) in [(1, "ann"), (2, "bea"), (3, "cid")] {
        let user = Some(User { user_id, user_name: name.to_owned(), ..Default::default() });
        node.users().create_user(CreateUserRequest { user, ..Default::default() }).await.unwrap();
    }
    node.group(Group { group_id: 1, name: "chess".to_owned(), creator_id: 1, ..Default::default() }).await;
    let block = BlockRequest { user_id: 2, target_id: 3, ..Default::default() };
    node.relations().block(block).await.unwrap();
    let follow = FollowRequest { user_id: 1, target_id: 2, ..Default::default() };
    node.relations().follow(follow).await.unwrap();
    let block = BlockRequest { user_id: 2, target_id: 1, ..Default::default() };
    node.relations().block(block).await.unwrap();
    let ask = ApplyRequest { kind: Kind::Friend.into(), applicant_id: 3, user_id: 1, ..Default::default() };
    let asked = node.applications().apply(ask).await.unwrap().into_inner().application.unwrap();
    (node, asked.application_id)
}

#[tokio::test]
async fn answers_carry_the_trailers_of_the_contract() {
    let documented = documented();
    assert_eq!(documented.len(), 6, "{documented:?}");
    let (node, application) = stage().await;
    let (mut carry, mut answered) = (BTreeSet::new(), 0);
    // The named methods come first: others change the data that they read.
    let (first, then): (Vec<_>, Vec<_>) = rpcs().into_iter().partition(|rpc| documented.contains(&rpc.path));
    for rpc in first.into_iter().chain(then) {
        if ENDS.iter().any(|end| rpc.path.ends_with(end)) {
            continue;
        }
        let outcome = by_grpc(&node, &rpc, &[], &message(&rpc.input, application)).await;
        answered += usize::from(outcome.code == "ok");
        if outcome.tier.is_some() {
            carry.insert(rpc.path);
        }
    }
    assert_eq!(carry, documented);
    assert!(answered >= 30, "only {answered} methods answered");
    node.stop().await;
}
