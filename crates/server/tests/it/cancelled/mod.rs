//! A caller that goes away, at any moment during a write, leaves no half write and no stale copy.

mod held;

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use held::{Hold, HoldPoint};
use kith_proto::user::v1::{user_service_client::UserServiceClient, *};
use kith_server::{config::Config, edge::Edge};
use kith_service::write::mutations::Mutations;
use kith_store::{Stored, Stores, UserId};
use tonic::{Code, Request, Status};

use crate::{bare_node, node::update_of_user};

const ID: i64 = 7;

/// A node without a network, over a store that can be held.
struct Bench {
    hold: Arc<Hold>,
    stores: Stores,
    users: UserServiceClient<Edge>,
    mutations: Mutations,
    _file: kith_store_sqlite::SqliteHandle,
}

impl Bench {
    async fn new() -> Self {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let hold = Arc::new(Hold::default());
        let mut stores = file.stores();
        stores.users = hold.over(&stores.users);
        let (edge, services) = bare_node::serve(&stores, &Config::default()).await;
        let users = UserServiceClient::new(edge);
        Self { hold, stores, users, mutations: services.mutations, _file: file }
    }

    async fn call(&self, write: Write) -> Result<(), Status> {
        self.call_within(write, None).await
    }

    async fn call_within(&self, write: Write, limit: Option<Duration>) -> Result<(), Status> {
        let mut users = self.users.clone();
        match write {
            Write::Create => {
                let user = User { user_id: ID, user_name: "new".into(), age: 1, ..Default::default() };
                let message = CreateUserRequest { user: Some(user), ..Default::default() };
                users.create_user(limited(message, limit)).await.map(drop)
            }
            Write::Update => {
                let user = User { user_id: ID, user_name: "newer".into(), age: 2, ..Default::default() };
                let message = update_of_user(user, &["user_name", "age"]);
                users.update_user(limited(message, limit)).await.map(drop)
            }
            Write::Delete => {
                let message = DeleteUserRequest { user_id: ID, ..Default::default() };
                users.delete_user(limited(message, limit)).await.map(drop)
            }
        }
    }

    /// Returns age and version through the tiers; `None` if no user is found.
    async fn cached(&self) -> Option<(i32, i64)> {
        let read = self.users.clone().get_user(GetUserRequest { user_id: ID, consistency: None }).await;
        match read {
            Ok(answer) => answer.into_inner().user.map(|user| (user.age, user.version)),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("{status:?}"),
        }
    }

    /// Returns age and version in the store, and checks that name and record agree.
    async fn stored(&self) -> Option<(i32, i64)> {
        match self.stores.users.user(UserId::new(ID).unwrap()).await.unwrap() {
            Stored::Live(user) => {
                let name = kith_store::UserName::new(&user.user_name).unwrap();
                assert_eq!(self.stores.users.user_by_name(&name).await.unwrap().unwrap(), *user);
                Some((i32::from(user.age), user.version.get()))
            }
            Stored::Deleted(_) | Stored::Never => None,
        }
    }

    async fn settled(&self) {
        let ended = async {
            while self.mutations.in_flight() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), ended).await.expect("every write ends");
    }

    /// Makes a node where `write` can begin, with the state before it in memory.
    async fn prepared(write: Write) -> Self {
        let bench = Self::new().await;
        if !matches!(write, Write::Create) {
            bench.call(Write::Create).await.unwrap();
        }
        bench.cached().await;
        bench
    }

    /// Like [`Self::prepared`], but the write will wait at this moment.
    async fn held(write: Write, moment: HoldPoint) -> Self {
        let bench = Self::prepared(write).await;
        bench.hold.at(moment);
        bench
    }

    async fn assert_agreed(&self, write: Write) {
        let stored = self.stored().await;
        assert_eq!(self.cached().await, stored, "{write:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Create,
    Update,
    Delete,
}

impl Write {
    const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Delete];

    /// Returns the values that are stored once the write has landed.
    fn landed(self) -> Option<(i32, i64)> {
        match self {
            Self::Create => Some((1, 1)),
            Self::Update => Some((2, 2)),
            Self::Delete => None,
        }
    }
}

fn limited<T>(message: T, limit: Option<Duration>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(limit) = limit {
        request.set_timeout(limit);
    }
    request
}

#[tokio::test]
async fn dropped_call_still_writes_and_settles_tiers() {
    for write in Write::ALL {
        for moment in [HoldPoint::BeforeCommit, HoldPoint::AfterCommit] {
            let bench = Bench::held(write, moment).await;
            tokio::select! {
                _ = bench.call(write) => panic!("the store is held"),
                () = bench.hold.reached() => {}
            }
            bench.hold.release();
            bench.settled().await;
            assert_eq!(bench.stored().await, write.landed(), "{write:?} {moment:?}");
            bench.assert_agreed(write).await;
        }
    }
}

#[tokio::test]
async fn late_deadline_leaves_no_stale_copy() {
    for write in Write::ALL {
        for moment in [HoldPoint::BeforeCommit, HoldPoint::AfterCommit] {
            let bench = Bench::held(write, moment).await;
            let refused = bench.call_within(write, Some(Duration::from_millis(50))).await.unwrap_err();
            assert_eq!(refused.code(), Code::DeadlineExceeded);
            bench.hold.release();
            bench.settled().await;
            assert_eq!(bench.stored().await, write.landed(), "{write:?} {moment:?}");
            bench.assert_agreed(write).await;
        }
    }
}

#[tokio::test]
async fn a_deadline_that_has_passed_begins_no_write() {
    for write in Write::ALL {
        let bench = Bench::prepared(write).await;
        let before = bench.stored().await;
        let refused = bench.call_within(write, Some(Duration::from_nanos(1))).await.unwrap_err();
        assert_eq!(refused.code(), Code::DeadlineExceeded);
        bench.settled().await;
        assert_eq!(bench.stored().await, before, "{write:?}");
    }
}

#[tokio::test]
async fn reads_during_a_write_restore_no_old_state() {
    for write in [Write::Update, Write::Delete] {
        for moment in [HoldPoint::BeforeCommit, HoldPoint::AfterCommit] {
            let bench = Bench::held(write, moment).await;
            let (done, _) = tokio::join!(bench.call(write), async {
                bench.hold.reached().await;
                for _ in 0..3 {
                    assert_eq!(bench.cached().await, bench.stored().await, "{write:?} {moment:?}");
                }
                bench.hold.release();
            });
            done.unwrap();
            bench.assert_agreed(write).await;
            assert_eq!(bench.stored().await, write.landed());
        }
    }
}

/// The call is polled a number of times and then dropped; the number rises until a call ends by itself.
#[tokio::test]
async fn dropped_call_leaves_store_and_tiers_agreed() {
    for write in Write::ALL {
        for polls in 0.. {
            let bench = Bench::prepared(write).await;
            let mut call = Box::pin(bench.call(write));
            let mut ended = false;
            for _ in 0..polls {
                ended = (&mut call).now_or_never().is_some();
                if ended {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(call);
            bench.settled().await;
            bench.assert_agreed(write).await;
            if ended {
                break;
            }
            assert!(polls < 100_000, "a call ends");
        }
    }
}

#[tokio::test]
async fn an_unknown_outcome_leaves_no_stale_copy() {
    for (write, landed) in Write::ALL.into_iter().flat_map(|write| [(write, true), (write, false)]) {
        let bench = Bench::prepared(write).await;
        bench.hold.lose_answer(landed);
        let refused = bench.call(write).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        bench.settled().await;
        bench.assert_agreed(write).await;
        assert_eq!(bench.stored().await == write.landed(), landed, "{write:?}");
    }
}
