//! Streams from the real services: each ends when its caller's key is removed, and an import keeps its
//! acknowledged records.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kith_proto::user::v1::{user_service_client::UserServiceClient, *};
use kith_server::auth::Rights;
use prost::Message as _;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, body::Body};

use super::{Cell, known};
use crate::{
    edge::{raw::framed, until},
    secured_node::{ALL, SecuredNode, bearer, by, key_of},
};

const BOUND: Duration = Duration::from_secs(20);
/// A method that this node does not serve; the tests' walk over services covers it.
const NOT_SERVED: &str = "PresenceService/WatchPresence";
const LOADER: &str = "loader";
/// The number of records in an import message.
const RECORDS: i64 = 10;
/// How many import messages are acknowledged before the key is removed.
const ACKNOWLEDGED: usize = 20;

/// Returns the code with which a method's stream ends, once its caller's key is removed.
async fn end(node: &SecuredNode, cell: &Cell) -> Option<Code> {
    let message = framed(&cell.request(cell.me()).encode_to_vec());
    // An import's stream stays open.
    let message = stream::iter([Ok::<_, Status>(Frame::data(message))]);
    let message = if cell.method.is_client_streaming() {
        Body::new(StreamBody::new(message.chain(stream::pending())))
    } else {
        Body::new(StreamBody::new(message))
    };
    let request = http::Request::post(format!("http://kith{}", cell.path))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", bearer(&cell.name));
    let answer = tower::Service::call(&mut node.edge.clone(), request.body(message).unwrap()).await.unwrap();
    assert_eq!(Status::from_header_map(answer.headers()).map(|status| status.code()), None, "{}", cell.name);
    node.callers.find(key_of(&cell.name).as_bytes()).unwrap().ended.cancel();
    let mut body = answer.into_body();
    let frame: Frame<Bytes> = body.frame().await?.unwrap();
    Status::from_header_map(frame.trailers_ref()?).map(|status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_the_services_end_with_their_key() {
    let none = BTreeMap::from([("$APPLICATION", "1".to_owned()), ("$APPLIED", "2".to_owned())]);
    let is_served = |cell: &Cell| !cell.is_unary() && cell.name != NOT_SERVED;
    let streams = || Cell::all(&none).into_iter().filter(is_served);
    let node = SecuredNode::start(streams().map(|cell| (cell.name, Rights::ALL))).await;
    known::create(&node).await;
    for cell in streams() {
        let ended = timeout(BOUND, end(&node, &cell)).await;
        assert_eq!(ended, Ok(Some(Code::Unauthenticated)), "{}", cell.name);
    }
    until("nothing goes on", || node.edge.in_flight() == 0).await;
}

/// Makes an import message, whose names contain its number.
fn message(number: usize) -> ImportUsersRequest {
    let record = |record| ImportUser {
        record,
        user: Some(User { user_name: format!("m{number}r{record}"), ..User::default() }),
        request_id: String::new(),
    };
    ImportUsersRequest { records: (1..=RECORDS).map(record).collect() }
}

/// Counts the stored users for each message that has any.
async fn stored(users: &mut UserServiceClient<tonic::transport::Channel>) -> BTreeMap<usize, i64> {
    let mut export = users.export_users(by(ALL, ExportUsersRequest::default())).await.unwrap().into_inner();
    let mut counts = BTreeMap::new();
    while let Some(message) = export.message().await.unwrap() {
        for user in message.users {
            let number = user.user_name[1..].split_once('r').unwrap().0.parse().unwrap();
            *counts.entry(number).or_default() += 1;
        }
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn import_without_its_key_ends_after_acks() {
    let node = SecuredNode::start([(LOADER.to_owned(), Rights::ALL)]).await;
    let mut users = UserServiceClient::new(node.channel.clone());
    let (send, messages) = mpsc::channel(1);
    let sending = tokio::spawn(async move {
        let mut number = 0;
        while send.send(message(number)).await.is_ok() {
            number += 1;
        }
    });
    let request = by(LOADER, ReceiverStream::new(messages));
    let mut answers = users.import_users(request).await.unwrap().into_inner();
    let mut acknowledged = BTreeSet::new();
    let status = loop {
        match timeout(BOUND, answers.message()).await.unwrap() {
            Ok(answer) => assert_eq!(answer.unwrap().results.len(), 10),
            Err(status) => break status,
        }
        acknowledged.insert(acknowledged.len());
        if acknowledged.len() == ACKNOWLEDGED {
            node.callers.find(key_of(LOADER).as_bytes()).unwrap().ended.cancel();
        }
    };
    assert_eq!(status.code(), Code::Unauthenticated);
    timeout(BOUND, sending).await.expect("its messages are read no more").unwrap();
    assert!(acknowledged.len() >= ACKNOWLEDGED);
    let stored = stored(&mut users).await;
    // An unacknowledged message may have been stored in part.
    let whole: BTreeSet<_> =
        stored.iter().filter(|(_, records)| **records == RECORDS).map(|(at, _)| *at).collect();
    assert!(acknowledged.is_subset(&whole), "{stored:?}");
    assert!(stored.keys().all(|number| *number <= acknowledged.len()), "{stored:?}");
}
