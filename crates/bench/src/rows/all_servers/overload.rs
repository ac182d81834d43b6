//! Measures how many calls are done in time when a node gets ten times as many as it can handle, over its
//! best.

use std::time::Duration;

use anyhow::Result;
use kith_proto::user::v1::GetUserRequest;
use tokio::time::timeout;

use super::{
    lists::one,
    load::{Load, Measured, measure},
    sends::{Sends, many},
    stage::ClusterStage,
};
use crate::{
    claims::{OVERLOAD_GET_USER, OVERLOAD_SENDS, Plan},
    load::Callers,
    ratio::{Claim, Side, each, interleave},
    results::Results,
    rows::methods::GET_USER,
};

/// Callers for a node at its best, and for an overloaded node. Both methods have as many at the same time.
const AT_BEST: usize = 50;
const TOO_MANY: usize = 500;
/// An answer that comes later is useless.
const USEFUL: Duration = Duration::from_secs(2);

/// Runs the requested rows: each method alone at its best, and both at the same time with too many callers.
pub(super) async fn rows(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    let claims: [&Claim; 2] = [&OVERLOAD_SENDS, &OVERLOAD_GET_USER];
    if !plan.wants_any(&claims) {
        return Ok(());
    }
    let work = Work {
        stage,
        sends: many(plan, "v").prepare(stage).await?,
        get_user: {
            let users = (1..=200).map(|user_id| GetUserRequest { user_id, consistency: None }).collect();
            Callers::connect(stage.nodes[0].served.address, 8, GET_USER, users).await?
        },
    };
    let pairs = interleave(plan.rounds, async |side| match side {
        Side::Baseline => Ok([work.sends(AT_BEST).await?, work.reads(AT_BEST).await?]),
        Side::Kith => {
            let (sends, reads) = tokio::join!(work.sends(TOO_MANY), work.reads(TOO_MANY));
            Ok([sends?, reads?])
        }
    })
    .await?;
    results.add(&OVERLOAD_SENDS, &each(&pairs, |[sends, _]| sends.per_second()))?;
    results.add(&OVERLOAD_GET_USER, &each(&pairs, |[_, reads]| reads.per_second()))
}

struct Work<'a> {
    stage: &'a ClusterStage,
    sends: Sends,
    get_user: Callers<GetUserRequest, kith_proto::user::v1::GetUserResponse>,
}

impl Work<'_> {
    async fn sends(&self, callers: usize) -> Result<Measured> {
        let sends = self.sends.clone();
        let send = move |_| useful(sends.clone().send());
        measure(self.stage.times, Load::Callers(callers), &self.stage.all()?, send).await
    }

    async fn reads(&self, callers: usize) -> Result<Measured> {
        let get_user = self.get_user.clone();
        let read = move |number| useful(one(get_user.clone(), number));
        measure(self.stage.times, Load::Callers(callers), &self.stage.all()?, read).await
    }
}

async fn useful(call: impl Future<Output = Result<()>>) -> Result<()> {
    timeout(USEFUL, call).await?
}
