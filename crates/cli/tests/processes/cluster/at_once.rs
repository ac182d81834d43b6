//! Several callers send one request at the same time, to any nodes: it has one effect, and they get one
//! answer.

use futures::{StreamExt as _, future::join_all};
use kith_proto::{
    group::v1::{CreateGroupRequest, GetInviteCodeRequest, Group, RotateInviteCodeRequest},
    r#type::v1::import_result,
    user::v1::{CreateUserRequest, ExportUsersRequest, ImportUser, ImportUsersRequest, User},
};
use tonic::Status;

use crate::cluster::site::{Peer, Site, stop};

const CALLERS: usize = 5;
/// The number of rounds. Each has its own request, because a race does not have the same result each time.
const ROUNDS: i64 = 10;

/// Returns the answer that all callers get, from any of two nodes.
async fn at_once<T: Clone + std::fmt::Debug + PartialEq>(
    nodes: &[Peer; 2],
    call: impl AsyncFn(&Peer) -> Result<T, Status>,
) -> T {
    let answers = join_all((0..CALLERS).map(|caller| call(&nodes[caller % 2]))).await;
    let answers: Vec<T> = answers.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    answers[0].clone()
}

async fn users(node: &Peer) -> usize {
    let pages = node.users().export_users(ExportUsersRequest::default()).await.unwrap().into_inner();
    pages.map(|page| page.unwrap().users.len()).collect::<Vec<usize>>().await.iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_user_is_created_once() {
    let nodes = Site::in_redis_of_tests().nodes(|_| {}).await;
    for round in 1..=ROUNDS {
        let user = User { user_name: format!("ann{round}"), ..User::default() };
        let request = CreateUserRequest { user: Some(user), request_id: format!("create-{round}") };
        // Tokens depend on the nodes' positions at the time.
        let created = at_once(&nodes, async |node| {
            Ok(node.users().create_user(request.clone()).await?.into_inner().user.unwrap())
        });
        assert_eq!(created.await.version, 1);
        assert_eq!(users(&nodes[0]).await, usize::try_from(round).unwrap());
    }
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn users_are_imported_once() {
    let nodes = Site::in_redis_of_tests().nodes(|_| {}).await;
    let records = (1..=ROUNDS).map(|record| ImportUser {
        record,
        user: Some(User { user_name: format!("ann{record}"), ..User::default() }),
        request_id: format!("import-{record}"),
    });
    let request = ImportUsersRequest { records: records.collect() };
    let imported = at_once(&nodes, async |node| {
        let answers = node.users().import_users(tokio_stream::iter([request.clone()])).await?.into_inner();
        answers.into_future().await.0.expect("an answer for each message")
    });
    let results = imported.await.results;
    assert!(
        results.iter().all(|result| matches!(result.result, Some(import_result::Result::Id(_)))),
        "{results:?}"
    );
    assert_eq!(users(&nodes[0]).await, results.len());
    stop(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn an_invite_code_is_changed_once() {
    let nodes = Site::in_redis_of_tests().nodes(|_| {}).await;
    let group = Group { name: "Chess".to_owned(), ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    let created = nodes[0].groups().create_group(request).await.unwrap();
    let group_id = created.into_inner().group.unwrap().group_id;
    for round in 1..=ROUNDS {
        let request = RotateInviteCodeRequest { group_id, request_id: format!("rotate-{round}") };
        let rotated = at_once(&nodes, async |node| {
            let rotated = node.groups().rotate_invite_code(request.clone()).await?.into_inner();
            Ok((rotated.version, rotated.invite_code))
        });
        let (version, invite_code) = rotated.await;
        assert_eq!(version, 1 + round);
        let code = nodes[1].groups().get_invite_code(GetInviteCodeRequest { group_id }).await.unwrap();
        assert_eq!(code.into_inner().invite_code, invite_code);
    }
    stop(nodes).await;
}
