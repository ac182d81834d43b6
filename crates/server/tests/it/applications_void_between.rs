//! The preconditions of an application may end after the check and before the application is written.

use std::sync::Arc;

use crate::store_over::store_over;
use crate::{application_calls::of_group, bare_node};
use futures::future::BoxFuture;
use kith_proto::{
    application::v1::{
        self as wire, ApplyRequest, CountPendingRequest, Kind, State,
        application_service_client::ApplicationServiceClient,
    },
    group::v1::{self as groups, CreateGroupRequest, group_service_client::GroupServiceClient},
};
use kith_server::config::Config;
use kith_store::*;
use parking_lot::Mutex;

/// An application store that runs a hook right before an application is written.
#[derive(Clone)]
struct HookedStore {
    inner: Arc<dyn ApplicationStore>,
    happens: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

impl std::fmt::Debug for HookedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookedStore").finish_non_exhaustive()
    }
}

store_over! {
    ApplicationStore for HookedStore by inner {
        async fn change_application(
            &self,
            receiver: Receiver,
            change: ApplicationChange,
            write: Write,
        ) -> Result<Applied<Application>, StoreError> {
            let happens = self.happens.lock().take();
            if let Some(happens) = happens {
                happens.await;
            }
            self.inner.change_application(receiver, change, write).await
        }
    }
    fn get_application(key: ApplicationKey) -> Option<Application>;
    fn count_pending(receiver: Receiver) -> PendingRequests;
    fn list_applications(list: ApplicationList, after: ApplicationId, limit: usize) -> Vec<ListedApplication>;
    fn mark_applications(list: ApplicationList, ids: &[ApplicationId], mark: ApplicationMark, now: Timestamp)
        -> Vec<ListedApplication>;
    fn due_applications(from: Option<&[u8]>, now: Timestamp, limit: usize) -> DueApplications;
    fn resume_application(due: DueApplication, now: Timestamp) -> Option<Application>;
    fn forget_applications(now: Timestamp, limit: usize) -> u64;
}

#[tokio::test]
async fn request_of_who_came_in_meanwhile_is_closed() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let mut stores = file.stores();
    let between = HookedStore { inner: Arc::clone(&stores.applications), happens: Arc::default() };
    stores.applications = Arc::new(between.clone());
    let (edge, _) = bare_node::serve(&stores, &Config::default()).await;
    bare_node::user(&edge, 1, "ann").await;
    bare_node::user(&edge, 2, "bob").await;
    let group = groups::Group {
        group_id: 9,
        name: "Chess".into(),
        join_policy: groups::JoinPolicy::Approval.into(),
        visibility: groups::Visibility::Public.into(),
        creator_id: 1,
        ..Default::default()
    };
    let request = CreateGroupRequest { group: Some(group), ..Default::default() };
    GroupServiceClient::new(edge.clone()).create_group(request).await.unwrap();

    let behind = stores.clone();
    *between.happens.lock() = Some(Box::pin(async move {
        let add = MemberChange::Add(vec![UserId::new(2).unwrap()]);
        bare_node::change_members(&behind, GroupId::new(9).unwrap(), add, Timestamp::now()).await;
    }));
    let mut applications = ApplicationServiceClient::new(edge);
    let join = ApplyRequest { kind: Kind::Join.into(), applicant_id: 2, group_id: 9, ..Default::default() };
    let made = applications.apply(join).await.unwrap().into_inner().application.unwrap();
    assert_eq!(made.state(), State::Closed);
    let pending = applications.count_pending(CountPendingRequest { receiver: of_group(9) }).await.unwrap();
    assert_eq!(pending.into_inner(), wire::CountPendingResponse::default());
}
