//! Every node is stopped and started again in sequence, while clients call that the published service
//! configuration has made.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use kith_lab_servers::imported::fill_up_to;
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use super::{Sizes, balanced::Balanced};
use crate::faults::{Better, Figure, HEALTHY, Plan, Site, ages::AcknowledgedVersions, calls::renaming};

const NODES: u32 = 3;
const USERS: i64 = 100;
const CLIENTS: u64 = 8;
/// One call in this many is a write.
const WRITE_EVERY: u64 = 10;
const BETWEEN_CALLS: Duration = Duration::from_millis(2);
/// How long calls run before, between and after the restarts.
const QUIET: Duration = Duration::from_secs(2);

const READ: &str = "kith.user.v1.UserService/GetUser";
const WRITE: &str = "kith.user.v1.UserService/UpdateUser";

struct Clients {
    balanced: Balanced,
    ages: AcknowledgedVersions,
    calls: AtomicU64,
    /// Failed calls, by code.
    failed: Mutex<BTreeMap<String, u64>>,
    oldest: Mutex<Duration>,
    slowest: Mutex<Duration>,
}

pub(super) async fn run(plan: &Plan, _sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut site = Site::start(&Plan { nodes: NODES, ..plan.clone() }).await?;
    fill_up_to(site.members[0].node.channel(), USERS).await?;
    let clients = Arc::new(Clients::new(site.channels())?);
    let mut calling = JoinSet::new();
    for client in 0..CLIENTS {
        calling.spawn(Arc::clone(&clients).run(client));
    }
    sleep(QUIET).await;
    let began = Instant::now();
    for member in &mut site.members {
        member.node.end().await?;
        member.node.run()?;
        member.node.until_trusted().await?;
        sleep(QUIET).await;
    }
    let lasted = began.elapsed();
    calling.shutdown().await;
    Ok(clients.figures(lasted))
}

impl Clients {
    fn new(nodes: Vec<Channel>) -> Result<Self> {
        Ok(Self {
            balanced: Balanced::new(nodes)?,
            ages: AcknowledgedVersions::default(),
            calls: AtomicU64::new(0),
            failed: Mutex::default(),
            oldest: Mutex::default(),
            slowest: Mutex::default(),
        })
    }

    async fn run(self: Arc<Self>, client: u64) {
        let mut random = SmallRng::seed_from_u64(client);
        for number in 0_u64.. {
            let (user_id, began) = (random.random_range(1..=USERS), Instant::now());
            let called = if number.is_multiple_of(WRITE_EVERY) {
                self.write(user_id, format!("{client}-{number}")).await
            } else {
                self.read(user_id).await
            };
            self.calls.fetch_add(1, Ordering::Relaxed);
            if let Err(status) = called {
                *self.failed.lock().entry(format!("{:?}", status.code())).or_default() += 1;
            }
            raise(&self.slowest, began.elapsed());
            sleep(BETWEEN_CALLS).await;
        }
    }

    async fn read(&self, user_id: i64) -> Result<(), tonic::Status> {
        let (asked, message) = (Instant::now(), GetUserRequest { user_id, consistency: None });
        let send = |node, request| async move { UserServiceClient::new(node).get_user(request).await };
        let user = self.balanced.call(READ, &message, send).await?.into_inner().user;
        let age = self.ages.age(user_id, user.map_or(0, |user| user.version), asked);
        raise(&self.oldest, age);
        Ok(())
    }

    async fn write(&self, user_id: i64, request_id: String) -> Result<(), tonic::Status> {
        let message = renaming(user_id, request_id.clone(), request_id);
        let send = |node, request| async move { UserServiceClient::new(node).update_user(request).await };
        let user = self.balanced.call(WRITE, &message, send).await?.into_inner().user;
        self.ages.written(user_id, user.map_or(0, |user| user.version));
        Ok(())
    }

    fn figures(&self, lasted: Duration) -> Vec<Figure> {
        let failed = self.failed.lock();
        let ms = |time: &Mutex<Duration>| time.lock().as_secs_f64() * 1e3;
        let mut figures = vec![
            Figure::without_target("lasted", "s", lasted.as_secs_f64(), Better::Lower),
            Figure::count("calls", self.calls.load(Ordering::Relaxed)),
            Figure::at_least_count("calls tried again", self.balanced.again(), 1),
            Figure::none("calls failed", failed.values().sum()),
            Figure::without_target("slowest call", "ms", ms(&self.slowest), Better::Lower),
            Figure::at_most("oldest read", "ms", ms(&self.oldest), HEALTHY.as_secs_f64() * 1e3),
        ];
        let by_code = failed.iter();
        figures.extend(by_code.map(|(code, times)| Figure::none(format!("failed with {code}"), *times)));
        figures
    }
}

fn raise(longest: &Mutex<Duration>, time: Duration) {
    let mut longest = longest.lock();
    *longest = longest.max(time);
}
