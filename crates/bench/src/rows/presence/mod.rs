//! Measures presence: what Redis needs to renew very many sessions, and how long it takes to open a session
//! that many groups are notified about.

mod open;
mod renew;
mod stage;

use anyhow::Result;

use crate::{
    claims::{OPEN_SESSION_TIME, PRESENCE_RENEW_CORE, Plan},
    results::Results,
};

use self::stage::PresenceStage;

/// Runs the requested rows. Without CQL, no row runs.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants(&PRESENCE_RENEW_CORE)
        && let Some(stage) = PresenceStage::start(plan, "renew").await?
    {
        results.add(&PRESENCE_RENEW_CORE, &renew::measure(plan, &stage).await?)?;
        stage.remove(plan).await?;
    }
    if plan.wants(&OPEN_SESSION_TIME)
        && let Some(stage) = PresenceStage::start(plan, "open").await?
    {
        results.add(&OPEN_SESSION_TIME, &open::measure(plan, &stage).await?)?;
        stage.remove(plan).await?;
    }
    Ok(())
}
