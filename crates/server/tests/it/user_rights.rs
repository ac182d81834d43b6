//! A user with a token may not choose ids, or try out ids without a quota.

use kith_proto::{
    group::v1::{CreateGroupRequest, Group},
    r#type::v1::Users,
    user::v1::{BatchGetUsersRequest, User},
};
use kith_server::descriptors;
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MethodDescriptor, Value};
use tonic_types::StatusExt as _;

use crate::{
    contract,
    edge::raw::framed,
    node::assert_invalid,
    secured_node::{SecuredNode, by_token},
    signing::Signer,
};

const ANN: i64 = 7;
/// The number of records a minute.
const QUOTA: u32 = 5;

async fn node() -> (SecuredNode, String) {
    let signer = Signer::new(1);
    let node = SecuredNode::start_with([], signer.tokens(), |config| {
        config.limits.user_records_per_minute = QUOTA;
    })
    .await;
    node.create_user(User { user_id: ANN, user_name: "ann".into(), ..Default::default() }).await;
    (node, signer.token(ANN))
}

#[tokio::test]
async fn users_choose_no_group_id() {
    let (node, token) = node().await;
    let create = |group_id| {
        let group = Group { group_id, name: "chess".into(), ..Default::default() };
        CreateGroupRequest { group: Some(group), ..Default::default() }
    };
    for group_id in [5, 10_000_000_002, i64::MAX] {
        assert_invalid(node.groups().create_group(by_token(&token, create(group_id))).await, "group_id");
    }
    node.groups().create_group(by_token(&token, create(0))).await.unwrap();
}

/// Returns the lists with user or group ids in the requests of unary methods that users may call.
fn id_lists() -> Vec<(MethodDescriptor, FieldDescriptor)> {
    let is_for_users = |method: &MethodDescriptor| {
        contract::is_unary(method) && descriptors::access(method).unwrap().users() != Users::None
    };
    let is_list = |field: &FieldDescriptor| {
        let names_records = ["user_ids", "group_ids", "target_ids"].contains(&field.name());
        field.is_list() && field.kind() == Kind::Int64 && names_records
    };
    let methods = contract::methods().into_iter().filter(is_for_users);
    let lists = |method: MethodDescriptor| {
        let fields: Vec<_> = method.input().fields().filter(is_list).collect();
        fields.into_iter().map(move |field| (method.clone(), field))
    };
    methods.flat_map(lists).collect()
}

/// Makes a request with ids in this list, from this user.
fn request(method: &MethodDescriptor, list: &FieldDescriptor, user: i64) -> DynamicMessage {
    let mut request = DynamicMessage::new(method.input());
    request.set_field(list, Value::List(vec![Value::I64(1), Value::I64(2)]));
    for name in ["user_id", "group_id"] {
        if method.input().get_field_by_name(name).is_some() {
            request.set_field_by_name(name, Value::I64(user));
        }
    }
    request
}

/// Otherwise a user finds out which ids exist, as fast as it may call.
#[tokio::test]
async fn every_list_of_ids_counts_as_records() {
    let (node, _) = node().await;
    assert!(id_lists().iter().any(|(method, _)| method.name() == "AddMembers"));
    for (user, (method, list)) in (1_000..).zip(id_lists()) {
        let token = Signer::new(1).token(user);
        let all = BatchGetUsersRequest { user_ids: (1..=QUOTA.into()).collect(), consistency: None };
        node.users().batch_get_users(by_token(&token, all)).await.unwrap();
        let bearer = format!("Bearer {token}");
        let body = framed(&request(&method, &list, user).encode_to_vec());
        let refused = node.grpc(&contract::path_of(&method), &[("authorization", &bearer)], body).await;
        let refused = refused.unwrap_or_else(|| panic!("{} takes any number of ids", method.full_name()));
        let reason = refused.get_error_details().error_info().map(|info| info.reason.clone());
        assert_eq!(reason.as_deref(), Some("QUOTA_EXCEEDED"), "{}: {refused:?}", method.full_name());
    }
}
