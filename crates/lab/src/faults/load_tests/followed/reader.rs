//! A system that follows every change. It is stopped at random pages: before it has handled them, and before
//! it has saved their cursor.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use kith_proto::change::v1::{
    GetCursorRequest, ReadChangesRequest, ReadChangesResponse, change_service_client::ChangeServiceClient,
};
use rand::{Rng as _, rngs::SmallRng};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::FollowedState;
use crate::{
    checker::is_outage_code,
    faults::calls::{failed, with_deadline},
};

/// It is stopped at one of so many pages.
const STOPPED_AT_ONE_OF: u32 = 5;
/// The most changes in a page: few, so that there are many pages.
const LIMIT_MAX: i32 = 300;
/// How long it waits after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a cluster may take until it keeps changes.
const KEPT_WITHIN: Duration = Duration::from_secs(60);

/// Reads changes through any node.
#[derive(Debug)]
pub(super) struct ChangesReader {
    state: Arc<FollowedState>,
    /// The last saved cursor.
    cursor: String,
    /// The restores that it knows of.
    restores: u64,
    random: SmallRng,
}

impl ChangesReader {
    /// A reader that begins at the present end.
    ///
    /// # Errors
    /// If no node returns a cursor in time.
    pub(super) async fn begin(state: &Arc<FollowedState>, random: SmallRng) -> Result<Self> {
        let mut reader = Self { state: Arc::clone(state), cursor: String::new(), restores: 0, random };
        reader.cursor = reader.end().await?;
        Ok(reader)
    }

    /// Reads until all writers have ended and everything is read, or the time for that is over. Returns how
    /// often it was stopped.
    pub(super) async fn run(mut self) -> Result<u64> {
        let mut stops = 0;
        while !self.state.is_read() {
            let page = match self.page().await {
                Ok(page) => page,
                Err(status) => {
                    self.go_on_after(&status).await?;
                    continue;
                }
            };
            let stops_here = !page.changes.is_empty() && self.random.random_ratio(1, STOPPED_AT_ONE_OF);
            let handles_it = !stops_here || self.random.random_bool(0.5);
            if handles_it {
                self.state.tally.lock().add_page(&page.changes, Instant::now());
            }
            if stops_here {
                stops += 1;
                continue;
            }
            self.cursor = page.cursor;
            let wait = page.ask_again_after.context("a page has its wait")?;
            sleep(Duration::try_from(wait)?).await;
        }
        Ok(stops)
    }

    async fn page(&mut self) -> Result<ReadChangesResponse, Status> {
        let node = self.state.nodes[self.random.random_range(0..self.state.nodes.len())].clone();
        let limit = self.random.random_range(1..=LIMIT_MAX);
        let request = ReadChangesRequest { cursor: self.cursor.clone(), kinds: Vec::new(), limit };
        Ok(ChangeServiceClient::new(node).read_changes(with_deadline(request)).await?.into_inner())
    }

    /// A cursor that ended begins again at the end: that is right after a restore.
    async fn go_on_after(&mut self, status: &Status) -> Result<()> {
        let name = failed(status, true).0;
        if status.code() == Code::FailedPrecondition {
            let restores = self.state.restores();
            if self.restores == restores {
                self.state.tally.lock().add_expired(status.message());
            }
            self.restores = restores;
            let asked = Instant::now();
            self.cursor = self.end().await?;
            self.state.tally.lock().begin_again(asked);
        } else if is_outage_code(&name) {
            sleep(PAUSE).await;
        } else {
            bail!("ReadChanges is answered with {name}: {}", status.message());
        }
        Ok(())
    }

    async fn end(&self) -> Result<String> {
        let began = Instant::now();
        for node in self.state.nodes.iter().cycle() {
            let mut client = ChangeServiceClient::new(node.clone());
            match client.get_cursor(with_deadline(GetCursorRequest {})).await {
                Ok(answer) => return Ok(answer.into_inner().cursor),
                Err(status) if began.elapsed() > KEPT_WITHIN => bail!("GetCursor: {}", status.message()),
                Err(_) => sleep(PAUSE).await,
            }
        }
        bail!("there is no node")
    }
}
