//! What a node sends to watchers.

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
    crowd::{Crowd, OnlineAt},
};
use crate::faults::Figure;

/// Users of one stream.
const OF_A_STREAM: usize = 500;
/// Until online users are reported as online.
const FIRST_WITHIN: Duration = Duration::from_secs(30);

/// Who watches all users.
#[derive(Debug)]
pub(super) struct Watched {
    heard: Arc<Mutex<Heard>>,
    _streams: JoinSet<()>,
}

#[derive(Debug)]
struct Heard {
    began: Instant,
    /// The last state and version of each, and how often it was reported offline.
    users: BTreeMap<i64, Last>,
    last_offline: Duration,
    /// Versions that fell.
    fell: u64,
    ended: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    state: PresenceState,
    version: i64,
    offline: u64,
}

impl Watched {
    /// Begins; all are reported online.
    pub(super) async fn begin(node: &Channel, crowd: &Crowd) -> Result<Self> {
        let (began, users) = (Instant::now(), BTreeMap::new());
        let last_offline = Duration::ZERO;
        let heard = Arc::new(Mutex::new(Heard { began, users, last_offline, fell: 0, ended: None }));
        let mut streams = JoinSet::new();
        for users in crowd.users().chunks(OF_A_STREAM) {
            let request = WatchPresenceRequest { user_ids: users.to_vec() };
            let responses =
                PresenceServiceClient::new(node.clone()).watch_presence(request).await?.into_inner();
            let heard = Arc::clone(&heard);
            streams.spawn(hear(responses, heard));
        }
        let watched = Self { heard, _streams: streams };
        watched.until_online(crowd.users().len()).await?;
        Ok(watched)
    }

    /// Times all further responses from this moment on.
    pub(super) fn time_from(&self, began: Instant) {
        self.heard.lock().began = began;
    }

    /// How often users were reported offline.
    pub(super) fn offline(&self) -> u64 {
        self.heard.lock().users.values().map(|last| last.offline).sum()
    }

    pub(super) fn figures(self, crowd: &Crowd, places: OnlineAt) -> Result<Vec<Figure>> {
        let heard = self.heard.lock();
        if let Some(why) = &heard.ended {
            bail!("a stream ended: {why}");
        }
        let (mut not_once, mut uncalled, mut wrong) = (0, 0, 0);
        for user in crowd.users() {
            let last = heard.users.get(&user).copied().unwrap_or_default();
            let goes = Crowd::gateways_of(user, places).is_empty();
            let state = if goes { PresenceState::Offline } else { PresenceState::Online };
            not_once += u64::from(goes && last.offline != 1);
            uncalled += u64::from(!goes && last.offline > 0);
            wrong += u64::from(last.state != state);
        }
        let mut figures = vec![
            Figure::none("users told to be offline though they have a session", uncalled),
            Figure::none("users whose last state as told is not so", wrong),
            Figure::none("versions that fell", heard.fell),
        ];
        if places == OnlineAt::Staying {
            figures.push(Figure::none("users told to be offline not exactly once", not_once));
            figures.push(Figure::within("last told to be offline after", heard.last_offline, WITHIN));
        }
        Ok(figures)
    }

    async fn until_online(&self, users: usize) -> Result<()> {
        let is_online = |last: &&Last| last.state == PresenceState::Online;
        wait::until("watchers do not learn who is online", FIRST_WITHIN, async || {
            Ok(self.heard.lock().users.values().filter(is_online).count() >= users)
        })
        .await
    }
}

impl Heard {
    fn take(&mut self, response: &WatchPresenceResponse) {
        let Some(presence) = &response.presence else { return };
        let last = self.users.entry(presence.user_id).or_default();
        self.fell += u64::from(presence.session_version < last.version);
        (last.state, last.version) = (presence.state(), presence.session_version);
        if last.state == PresenceState::Offline {
            last.offline += 1;
            self.last_offline = self.began.elapsed();
        }
    }
}

async fn hear(mut responses: Streaming<WatchPresenceResponse>, heard: Arc<Mutex<Heard>>) {
    let why: Result<(), Status> = async {
        while let Some(response) = responses.message().await? {
            heard.lock().take(&response);
        }
        Ok(())
    }
    .await;
    heard.lock().ended = Some(format!("{why:?}"));
}
