use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::Result;
use kith_lab_servers::redis_server::RedisServer;
use tokio::time::{Instant, sleep};

/// The pause between two times that Redis is emptied.
const EMPTIED_EVERY: Duration = Duration::from_millis(250);
/// Numbers that callers take after an old dump was put back, so that the run shows whether they are given out
/// again.
const TAKEN_AFTER: usize = 100;
/// How long that may take: clients connect again first.
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// The fault while callers take numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFault {
    /// No fault happens.
    Nothing,
    /// Redis loses all keys, again and again.
    Emptied,
    /// Redis is killed, and started with a dump that is older than the last numbers.
    PutBack,
    /// Callers die during calls, again and again.
    CallersDie,
}

impl NumberFault {
    /// All, in the order in which they are run.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Emptied, Self::PutBack, Self::CallersDie];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Emptied => "Redis emptied",
            Self::PutBack => "an old dump put back",
            Self::CallersDie => "callers die",
        }
    }

    /// Injects the fault into Redis for so long. `taken` counts the numbers that callers get.
    pub(super) async fn inject(
        self,
        redis: &mut RedisServer,
        lasts: Duration,
        taken: &AtomicUsize,
    ) -> Result<()> {
        match self {
            Self::Nothing | Self::CallersDie => sleep(lasts).await,
            Self::Emptied => {
                let begun = Instant::now();
                while begun.elapsed() < lasts {
                    sleep(EMPTIED_EVERY).await;
                    redis.ask(&["FLUSHALL"]).await?;
                }
            }
            Self::PutBack => {
                sleep(lasts / 4).await;
                let dump = redis.dump().await?;
                sleep(lasts / 4).await;
                redis.restart(Some(&dump)).await?;
                let (begun, before) = (Instant::now(), taken.load(Ordering::Relaxed));
                sleep(lasts / 2).await;
                while taken.load(Ordering::Relaxed) < before + TAKEN_AFTER
                    && begun.elapsed() < CONNECTED_WITHIN
                {
                    sleep(POLL).await;
                }
            }
        }
        Ok(())
    }
}
