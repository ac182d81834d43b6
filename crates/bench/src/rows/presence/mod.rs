//! Measures presence: what Redis needs to renew very many sessions, and how long it takes to open a session
//! that many groups are notified about. Each is compared with the same by hand with the Redis client.

mod open;
mod raw;
mod renew;
mod stage;

use anyhow::Result;

use crate::{
    claims::{
        OPEN_SESSION, OPEN_SESSION_TIME, PRESENCE_RENEW, PRESENCE_RENEW_COMMANDS, PRESENCE_RENEW_CORE,
        PRESENCE_RENEW_NODE, Plan,
    },
    ratio::each,
    results::Results,
};

use self::stage::PresenceStage;

/// Runs the requested rows. Without CQL, no row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let renewing = [&PRESENCE_RENEW, &PRESENCE_RENEW_CORE, &PRESENCE_RENEW_NODE, &PRESENCE_RENEW_COMMANDS];
    if plan.wants_any(&renewing)
        && let Some(stage) = PresenceStage::start(plan, "renew").await?
    {
        let taken = renew::measure(plan, &stage).await?;
        let (redis, client) = (each(&taken, |taken| taken.redis), each(&taken, |taken| taken.client));
        results.add(&PRESENCE_RENEW, &redis)?;
        results.add(&PRESENCE_RENEW_CORE, &redis)?;
        results.add(&PRESENCE_RENEW_NODE, &client)?;
        results.add(&PRESENCE_RENEW_COMMANDS, &each(&taken, |taken| taken.commands))?;
        stage.remove(plan).await?;
    }
    if plan.wants_any(&[&OPEN_SESSION, &OPEN_SESSION_TIME])
        && let Some(stage) = PresenceStage::start(plan, "open").await?
    {
        let taken = open::measure(plan, &stage).await?;
        results.add(&OPEN_SESSION, &taken)?;
        results.add(&OPEN_SESSION_TIME, &taken)?;
        stage.remove(plan).await?;
    }
    Ok(())
}
