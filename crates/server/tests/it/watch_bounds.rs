//! Streams that users may open: one user never takes all places on a node.

use bytes::Bytes;
use http::HeaderMap;
use kith_proto::{
    r#type::v1::Users,
    user::v1::{CreateUserRequest, User},
};
use kith_server::{descriptors, json};
use prost_reflect::{MethodDescriptor, Value};
use tonic::{Code, Status, body::Body, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{auth_matrix::requests::REQUESTS, contract, edge::raw::framed, node::TestNode};

/// A user who opens as many streams as it can, a user who wants a stream, and the users whom they watch.
const GREEDY: i64 = 7;
const OTHER: i64 = 8;
const WATCHED: i64 = 9;
/// A user needs at most one stream per device for a method.
const MOST: usize = 16;

/// Returns the endless streams that the contract lets users open: a new method is included automatically.
fn watches() -> Vec<MethodDescriptor> {
    let is_for_users = |method: &MethodDescriptor| {
        let access = descriptors::access(method).expect("every method has a rule");
        access.users() != Users::None
    };
    let methods = contract::methods().into_iter();
    methods.filter(|method| method.is_server_streaming() && is_for_users(method)).collect()
}

/// Makes the access matrix's request for this user.
fn request(method: &MethodDescriptor, user: i64) -> Bytes {
    let name = format!("{}/{}", method.parent_service().name(), method.name());
    let text = REQUESTS.iter().find(|(known, _)| *known == name).expect("the matrix has a request").1;
    let mut request = json::message(&method.input(), text.as_bytes()).unwrap();
    let self_field = descriptors::access(method).unwrap().self_field;
    if !self_field.is_empty() {
        request.set_field_by_name(&self_field, Value::I64(user));
    }
    framed(&prost::Message::encode_to_vec(&request))
}

/// Opens a stream; it is open until the body is dropped.
async fn open(channel: &Channel, method: &MethodDescriptor, user: i64) -> Result<Body, Status> {
    let path = contract::path_of(method);
    let call = http::Request::post(format!("http://kith{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("kith-acting-user", user.to_string())
        .body(Body::new(http_body_util::Full::new(request(method, user))))
        .unwrap();
    let mut channel = channel.clone();
    std::future::poll_fn(|cx| tower::Service::<http::Request<Body>>::poll_ready(&mut channel, cx))
        .await
        .unwrap();
    let answer = tower::Service::call(&mut channel, call).await.unwrap();
    refusal(answer.headers()).map_or(Ok(answer.into_body()), Err)
}

fn refusal(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers).filter(|status| status.code() != Code::Ok)
}

#[tokio::test]
async fn every_watch_of_users_has_a_bound() {
    let node = TestNode::start().await;
    for user_id in [GREEDY, OTHER, WATCHED] {
        let user = User { user_id, user_name: format!("user{user_id}"), ..Default::default() };
        let request = CreateUserRequest { user: Some(user), ..Default::default() };
        node.users().create_user(request).await.unwrap();
    }
    assert!(!watches().is_empty());
    for method in watches() {
        let mut held = Vec::new();
        let refused = loop {
            match open(&node.channel, &method, GREEDY).await {
                Ok(stream) if held.len() < MOST => held.push(stream),
                Ok(_) => panic!("{} has no bound for one user", method.full_name()),
                Err(status) => break status,
            }
        };
        let details = refused.get_error_details();
        let reason = details.error_info().map(|info| info.reason.as_str());
        assert_eq!((refused.code(), reason), (Code::ResourceExhausted, Some("TOO_MANY_RECEIVERS")));
        open(&node.channel, &method, OTHER).await.expect("others have places");
    }
}
