//! Watches the presence that a node sends to watchers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use kith_lab_servers::wait;
use kith_proto::presence::v1::{
    PresenceState, WatchPresenceRequest, WatchPresenceResponse,
    presence_service_client::PresenceServiceClient,
};
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::Instant};
use tonic::{Status, Streaming, transport::Channel};

use super::{
    WITHIN,
    online_users::{OnlineAt, OnlineUsers},
};
use crate::faults::Figure;

/// Users on one stream.
const OF_A_STREAM: usize = 500;
/// The time limit until online users are reported as online.
const FIRST_WITHIN: Duration = Duration::from_secs(30);

/// A watcher for all users.
#[derive(Debug)]
pub(super) struct PresenceWatcher {
    states: Arc<Mutex<WatchedStates>>,
    _streams: JoinSet<()>,
}

#[derive(Debug)]
struct WatchedStates {
    began: Instant,
    /// Each user's last state and version, and how often it was reported offline.
    users: BTreeMap<i64, LastState>,
    last_offline: Duration,
    /// Versions that decreased.
    version_drops: u64,
    ended: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LastState {
    state: PresenceState,
    version: i64,
    offline: u64,
}

impl PresenceWatcher {
    /// Begins; all are reported online.
    pub(super) async fn begin(node: &Channel, online: &OnlineUsers) -> Result<Self> {
        let (began, users) = (Instant::now(), BTreeMap::new());
        let last_offline = Duration::ZERO;
        let states =
            Arc::new(Mutex::new(WatchedStates { began, users, last_offline, version_drops: 0, ended: None }));
        let mut streams = JoinSet::new();
        for users in online.users().chunks(OF_A_STREAM) {
            let request = WatchPresenceRequest { user_ids: users.to_vec() };
            let responses =
                PresenceServiceClient::new(node.clone()).watch_presence(request).await?.into_inner();
            let states = Arc::clone(&states);
            streams.spawn(receive(responses, states));
        }
        let watcher = Self { states, _streams: streams };
        watcher.until_online(online.users().len()).await?;
        Ok(watcher)
    }

    /// Times all further responses from this moment on.
    pub(super) fn time_from(&self, began: Instant) {
        self.states.lock().began = began;
    }

    /// How often users were reported offline.
    pub(super) fn offline(&self) -> u64 {
        self.states.lock().users.values().map(|last| last.offline).sum()
    }

    pub(super) fn figures(self, online: &OnlineUsers, places: OnlineAt) -> Result<Vec<Figure>> {
        let states = self.states.lock();
        if let Some(why) = &states.ended {
            bail!("a stream ended: {why}");
        }
        let (mut not_once, mut uncalled, mut wrong) = (0, 0, 0);
        for user in online.users() {
            let last = states.users.get(&user).copied().unwrap_or_default();
            let goes = OnlineUsers::gateways_of(user, places).is_empty();
            let state = if goes { PresenceState::Offline } else { PresenceState::Online };
            not_once += u64::from(goes && last.offline != 1);
            uncalled += u64::from(!goes && last.offline > 0);
            wrong += u64::from(last.state != state);
        }
        let mut figures = vec![
            Figure::none("users reported offline while they have a session", uncalled),
            Figure::none("users whose last reported state is wrong", wrong),
            Figure::none("versions that decreased", states.version_drops),
        ];
        if places == OnlineAt::Surviving {
            figures.push(Figure::none("users not reported offline exactly once", not_once));
            figures.push(Figure::within("last report of an offline user after", states.last_offline, WITHIN));
        }
        Ok(figures)
    }

    async fn until_online(&self, users: usize) -> Result<()> {
        let is_online = |last: &&LastState| last.state == PresenceState::Online;
        wait::until("watchers do not receive who is online", FIRST_WITHIN, async || {
            Ok(self.states.lock().users.values().filter(is_online).count() >= users)
        })
        .await
    }
}

impl WatchedStates {
    fn add(&mut self, response: &WatchPresenceResponse) {
        let Some(presence) = &response.presence else { return };
        let last = self.users.entry(presence.user_id).or_default();
        self.version_drops += u64::from(presence.session_version < last.version);
        (last.state, last.version) = (presence.state(), presence.session_version);
        if last.state == PresenceState::Offline {
            last.offline += 1;
            self.last_offline = self.began.elapsed();
        }
    }
}

async fn receive(mut responses: Streaming<WatchPresenceResponse>, states: Arc<Mutex<WatchedStates>>) {
    let why: Result<(), Status> = async {
        while let Some(response) = responses.message().await? {
            states.lock().add(&response);
        }
        Ok(())
    }
    .await;
    states.lock().ended = Some(format!("{why:?}"));
}
