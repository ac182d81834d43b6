//! Several callers send one request at the same time, to any nodes: it has one effect, and they get one
//! answer.

use futures::{StreamExt as _, future::join_all};
use kith_proto::{
    group::v1::{
        CreateGroupRequest, DismissGroupRequest, ExportGroupsRequest, GetGroupRequest, GetInviteCodeRequest,
        Group, ImportGroup, ImportGroupsRequest, RotateInviteCodeRequest, UpdateGroupRequest,
    },
    r#type::v1::{ImportResult, import_result},
    user::v1::{
        CreateUserRequest, DeleteUserRequest, ExportUsersRequest, ImportUser, ImportUsersRequest,
        UpdateUserRequest, User,
    },
};
use prost::Message;
use prost_types::FieldMask;
use tonic::{Code, Response, Status};

use crate::cluster::site::{Peer, Site, stop, strong};

const CALLERS: usize = 5;
/// The number of rounds. Each has its own request, because a race does not have the same result each time.
const ROUNDS: i64 = 10;

/// Two nodes in a new cluster, and a call that is made several times at once.
struct Cluster([Peer; 2]);

impl Cluster {
    async fn start() -> Self {
        Self(Site::in_redis_of_tests().nodes(|_| {}).await)
    }

    /// Returns the answer that all callers get.
    async fn at_once<T: Message + Clone>(&self, call: impl AsyncFn(&Peer) -> Result<T, Status>) -> T {
        let answers = join_all((0..CALLERS).map(|caller| call(&self.0[caller % 2]))).await;
        let answers: Vec<T> = answers.into_iter().map(Result::unwrap).collect();
        for answer in &answers {
            assert_eq!(answer.encode_to_vec(), answers[0].encode_to_vec());
        }
        answers[0].clone()
    }

    /// Like `at_once`, but clears each answer's token: it depends on the nodes' positions at the time.
    async fn written_at_once<T: Message + Clone>(
        &self,
        call: impl AsyncFn(&Peer) -> Result<Response<T>, Status>,
        token: impl Fn(&mut T) -> &mut String,
    ) -> T {
        self.at_once(async |node| {
            let mut answer = call(node).await?.into_inner();
            token(&mut answer).clear();
            Ok(answer)
        })
        .await
    }

    async fn group(&self) -> i64 {
        let group = Group { name: "Chess".to_owned(), ..Group::default() };
        let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
        let created = self.0[0].groups().create_group(request).await.unwrap();
        created.into_inner().group.unwrap().group_id
    }

    /// Reads the version from the store.
    async fn version_of(&self, group_id: i64) -> Result<i64, Code> {
        let request = GetGroupRequest { group_id, consistency: strong() };
        let read = self.0[1].groups().get_group(request).await;
        read.map(|read| read.into_inner().group.unwrap().version).map_err(|status| status.code())
    }

    async fn users(&self) -> usize {
        let pages = self.0[0].users().export_users(ExportUsersRequest::default()).await.unwrap().into_inner();
        pages.map(|page| page.unwrap().users.len()).collect::<Vec<usize>>().await.iter().sum()
    }

    async fn groups(&self) -> usize {
        let pages =
            self.0[0].groups().export_groups(ExportGroupsRequest::default()).await.unwrap().into_inner();
        pages.map(|page| page.unwrap().groups.len()).collect::<Vec<usize>>().await.iter().sum()
    }

    async fn stop(self) {
        stop(self.0).await;
    }
}

fn mask(path: &str) -> Option<FieldMask> {
    Some(FieldMask { paths: vec![path.to_owned()] })
}

fn assert_all_imported(results: &[ImportResult]) {
    let done = |result: &ImportResult| matches!(result.result, Some(import_result::Result::Id(_)));
    assert!(results.iter().all(done), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_user_is_created_once() {
    let cluster = Cluster::start().await;
    for round in 1..=ROUNDS {
        let user = User { user_name: format!("ann{round}"), ..User::default() };
        let request = CreateUserRequest { user: Some(user), request_id: format!("create-{round}") };
        let created = cluster
            .written_at_once(
                async |node| node.users().create_user(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        assert_eq!(created.user.unwrap().version, 1);
        assert_eq!(cluster.users().await, usize::try_from(round).unwrap());
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_user_is_changed_once() {
    let cluster = Cluster::start().await;
    let user_id = cluster.0[0].create("ann").await.user_id;
    for round in 1..=ROUNDS {
        let user = User { user_id, nick_name: round.to_string(), ..User::default() };
        let request = UpdateUserRequest {
            user: Some(user),
            update_mask: mask("nick_name"),
            request_id: format!("update-{round}"),
            ..UpdateUserRequest::default()
        };
        let updated = cluster
            .written_at_once(
                async |node| node.users().update_user(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        let read = cluster.0[1].read(user_id, strong()).await.unwrap();
        assert_eq!((read.version, Some(read)), (1 + round, updated.user));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_user_is_deleted_once() {
    let cluster = Cluster::start().await;
    for round in 1..=ROUNDS {
        let user_id = cluster.0[0].create(&format!("ann{round}")).await.user_id;
        let request_id = format!("delete-{round}");
        let request = DeleteUserRequest { user_id, request_id, ..DeleteUserRequest::default() };
        let deleted = cluster
            .written_at_once(
                async |node| node.users().delete_user(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        assert_eq!(deleted.version, 2);
        assert_eq!(cluster.0[1].read(user_id, strong()).await.unwrap_err().code(), Code::NotFound);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn users_are_imported_once() {
    let cluster = Cluster::start().await;
    let records = (1..=ROUNDS).map(|record| ImportUser {
        record,
        user: Some(User { user_name: format!("ann{record}"), ..User::default() }),
        request_id: format!("import-{record}"),
    });
    let request = ImportUsersRequest { records: records.collect() };
    let imported = cluster
        .at_once(async |node| {
            let stream = tokio_stream::iter([request.clone()]);
            let answers = node.users().import_users(stream).await?.into_inner();
            answers.into_future().await.0.expect("an answer for each message")
        })
        .await;
    assert_all_imported(&imported.results);
    assert_eq!(cluster.users().await, imported.results.len());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_group_is_created_once() {
    let cluster = Cluster::start().await;
    for round in 1..=ROUNDS {
        let group = Group { name: "Chess".to_owned(), ..Group::default() };
        let request = CreateGroupRequest { group: Some(group), request_id: format!("create-{round}") };
        let created = cluster
            .written_at_once(
                async |node| node.groups().create_group(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        assert_eq!(created.group.unwrap().version, 1);
        assert_eq!(cluster.groups().await, usize::try_from(round).unwrap());
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_group_is_changed_once() {
    let cluster = Cluster::start().await;
    let group_id = cluster.group().await;
    for round in 1..=ROUNDS {
        let group = Group { group_id, name: round.to_string(), ..Group::default() };
        let request = UpdateGroupRequest {
            group: Some(group),
            update_mask: mask("name"),
            request_id: format!("update-{round}"),
            ..UpdateGroupRequest::default()
        };
        let updated = cluster
            .written_at_once(
                async |node| node.groups().update_group(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        assert_eq!(updated.group.unwrap().version, 1 + round);
        assert_eq!(cluster.version_of(group_id).await, Ok(1 + round));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_group_is_dismissed_once() {
    let cluster = Cluster::start().await;
    for round in 1..=ROUNDS {
        let group_id = cluster.group().await;
        let request_id = format!("dismiss-{round}");
        let request = DismissGroupRequest { group_id, request_id, ..DismissGroupRequest::default() };
        let dismissed = cluster
            .written_at_once(
                async |node| node.groups().dismiss_group(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        assert_eq!(dismissed.version, 2);
        assert_eq!(cluster.version_of(group_id).await, Err(Code::NotFound));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn an_invite_code_is_changed_once() {
    let cluster = Cluster::start().await;
    let group_id = cluster.group().await;
    for round in 1..=ROUNDS {
        let request = RotateInviteCodeRequest { group_id, request_id: format!("rotate-{round}") };
        let rotated = cluster
            .written_at_once(
                async |node| node.groups().rotate_invite_code(request.clone()).await,
                |done| &mut done.consistency_token,
            )
            .await;
        assert_eq!(rotated.version, 1 + round);
        let request = GetInviteCodeRequest { group_id };
        let code = cluster.0[1].groups().get_invite_code(request).await.unwrap().into_inner();
        assert_eq!(code.invite_code, rotated.invite_code);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn groups_are_imported_once() {
    let cluster = Cluster::start().await;
    let records = (1..=ROUNDS).map(|record| ImportGroup {
        record,
        group: Some(Group { name: "Chess".to_owned(), ..Group::default() }),
        request_id: format!("import-{record}"),
    });
    let request = ImportGroupsRequest { records: records.collect() };
    let imported = cluster
        .at_once(async |node| {
            let stream = tokio_stream::iter([request.clone()]);
            let answers = node.groups().import_groups(stream).await?.into_inner();
            answers.into_future().await.0.expect("an answer for each message")
        })
        .await;
    assert_all_imported(&imported.results);
    assert_eq!(cluster.groups().await, imported.results.len());
    cluster.stop().await;
}
