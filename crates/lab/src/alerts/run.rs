//! One case from its beginning to its end.

use std::{path::Path, time::Duration};

use anyhow::Result;
use kith_lab_servers::imported::fill_up_to;
use tokio::time::sleep;

use super::{
    case_result::CaseResult,
    cases::Case,
    faults::AlertFault,
    load::AlertCallers,
    promtool::fired,
    rules::{Rules, scrape_interval},
    scraped::ScrapedSeries,
    scraper::{EVERY, Scraper},
};
use crate::faults::{Plan, Site};

/// The number of users: at least as many as any case reads or writes.
const USERS: i64 = 2_000;
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The metrics that nodes reported in a case.
#[derive(Clone, Debug)]
pub struct CaseRun {
    case: Case,
    scraped: ScrapedSeries,
    /// The first scrape after the fault had begun.
    begun: usize,
}

/// Starts a cluster, injects the case's fault, and scrapes the nodes for these rules meanwhile.
///
/// # Errors
/// If the cluster does not start, or the fault cannot be injected.
pub async fn run(case: &Case, plan: &Plan, rules: &Rules) -> Result<CaseRun> {
    let settings = case.settings.iter().map(|setting| (*setting).to_owned());
    let plan = Plan { settings: plan.settings.iter().cloned().chain(settings).collect(), ..plan.clone() };
    let mut site =
        if case.has_relations { Site::with_cassandra(&plan).await? } else { Site::start(&plan).await? };
    if let Some(first) = site.members.first() {
        fill_up_to(first.node.channel(), USERS).await?;
    }
    let mut callers = AlertCallers::new(&site, plan.seed);
    callers.add(case.load);
    let scraper =
        Scraper::start(&site, ScrapedSeries::new(rules.metrics().into_iter().map(str::to_owned).collect()));
    sleep(scrapes(case.before)).await;
    match case.fault {
        AlertFault::NextDay(_) => scraper.skip_to(day()?),
        AlertFault::TargetsRemoved => scraper.remove_targets(),
        _ => {}
    }
    let begun = scraper.scrapes();
    case.fault.inject(&mut site, &mut callers, scrapes(case.lasts)).await?;
    Ok(CaseRun { case: *case, scraped: scraper.stop().await?, begun })
}

impl CaseRun {
    /// Evaluates these rules over the scraped series. The test file for Prometheus' tool, and the rules, stay
    /// in the folder.
    ///
    /// # Errors
    /// When the tool is not there, or finds the rules wrong.
    pub async fn judge(&self, rules: &Rules, folder: &Path) -> Result<CaseResult> {
        let interval = scrape_interval()?;
        let fired = fired(rules, &self.scraped, interval, folder, self.case.name).await?;
        let begun = interval * u32::try_from(self.begun)?;
        Ok(CaseResult::new(self.case, begun, fired))
    }
}

/// How long `count` scrapes take.
fn scrapes(count: usize) -> Duration {
    EVERY.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// How many scrapes a day has.
fn day() -> Result<usize> {
    Ok(usize::try_from(DAY.as_secs() / scrape_interval()?.as_secs().max(1))?)
}
