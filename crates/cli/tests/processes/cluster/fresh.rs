//! Reads on a node that did not write are fresh.

use kith_proto::user::v1::{GetUserRequest, UpdateUserRequest, User};
use tonic::{Code, IntoRequest, Request, Response};

use crate::cluster::site::{Site, at_least, stop};

/// A call in a session; the first session is empty.
pub(super) fn in_session<T>(session: &str, message: impl IntoRequest<T>) -> Request<T> {
    let mut request = message.into_request();
    request.metadata_mut().insert("kith-session", session.parse().unwrap());
    request
}

pub(super) fn session_of<T>(answer: &Response<T>) -> String {
    answer.metadata().get("kith-session").expect("a session").to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn read_in_a_session_is_never_older() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    b.get(id).await;
    let mut session = String::new();
    for round in 0..200 {
        let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let update = UpdateUserRequest {
            user: Some(User { user_id: id, nick_name: round.to_string(), ..User::default() }),
            update_mask: Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] }),
            ..UpdateUserRequest::default()
        };
        let written = writer.users().update_user(in_session(&session, update)).await.unwrap();
        session = session_of(&written);
        let request = GetUserRequest { user_id: id, ..GetUserRequest::default() };
        let read = reader.users().get_user(in_session(&session, request)).await.unwrap();
        session = session_of(&read);
        assert!(session.len() < 300, "it does not grow: {session}");
        let (version, read) = (written.into_inner().user.unwrap().version, read.into_inner().user.unwrap());
        assert!(read.version >= version, "version {} after {version}", read.version);
    }
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn token_is_valid_on_the_nodes_of_its_database() {
    let (here, elsewhere) = (Site::in_redis_of_tests(), Site::in_redis_of_tests());
    let ((a, b), other) = (here.pair().await, elsewhere.node().await);
    let id = a.create("ann").await.user_id;
    let bob = other.create("bob").await.user_id;
    let (_, foreign) = other.rename(bob, "b").await;
    for token in ["forged", foreign.as_str()] {
        let refused = a.read(id, at_least(token)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    let (version, token) = a.rename(id, "a").await;
    assert_eq!(b.read(id, at_least(&token)).await.unwrap().version, version);
    stop([a, b, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn repeated_request_brings_nothing_old_back() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    let once = |nick_name: &str| UpdateUserRequest {
        user: Some(User { user_id: id, nick_name: nick_name.to_owned(), ..User::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] }),
        request_id: "once".to_owned(),
        ..UpdateUserRequest::default()
    };
    let first = a.users().update_user(once("first")).await.unwrap().into_inner().user.unwrap();
    let (version, _) = a.rename(id, "second").await;
    let repeated = b.users().update_user(once("first")).await.unwrap().into_inner();
    assert_eq!(repeated.user.unwrap().version, first.version, "the answer of then");
    for peer in [&a, &b] {
        let read = peer.read(id, at_least(&repeated.consistency_token)).await.unwrap();
        assert_eq!((read.version, read.nick_name.as_str()), (version, "second"));
    }
    stop([a, b]).await;
}
