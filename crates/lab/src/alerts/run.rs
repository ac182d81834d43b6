//! One case from its beginning to its end.

use std::{path::Path, time::Duration};

use anyhow::Result;
use kith_lab_servers::imported::fill_up_to;
use tokio::time::sleep;

use super::{
    cases::Case,
    crowd::AlertCallers,
    faults::AlertFault,
    promtool::fired,
    rules::{Rules, scrape_interval},
    scraped::Scraped,
    scraper::{EVERY, Scraper},
    shown::Shown,
};
use crate::faults::{Plan, Site};

/// Users that there are: at least as many as any case asks for.
const USERS: i64 = 2_000;
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// What nodes reported in a case.
#[derive(Clone, Debug)]
pub struct Ran {
    case: Case,
    scraped: Scraped,
    /// The first scrape after the fault had begun.
    begun: usize,
}

/// Starts a cluster, does to it what the case says, and scrapes its nodes meanwhile: what these rules look at.
///
/// # Errors
/// When the cluster does not start, or what is to be done to it cannot be done.
pub async fn run(case: &Case, plan: &Plan, rules: &Rules) -> Result<Ran> {
    let settings = case.settings.iter().map(|setting| (*setting).to_owned());
    let plan = Plan { settings: plan.settings.iter().cloned().chain(settings).collect(), ..plan.clone() };
    let mut site = Site::start(&plan).await?;
    if let Some(first) = site.members.first() {
        fill_up_to(first.node.channel(), USERS).await?;
    }
    let mut crowd = AlertCallers::new(&site, plan.seed);
    crowd.join(case.load);
    let scraper =
        Scraper::start(&site, Scraped::new(rules.metrics().into_iter().map(str::to_owned).collect()));
    sleep(scrapes(case.before)).await;
    if matches!(case.fault, AlertFault::NextDay(_)) {
        scraper.skip_to(day()?);
    }
    let begun = scraper.scrapes();
    case.fault.inject(&mut site, &mut crowd, scrapes(case.lasts)).await?;
    Ok(Ran { case: *case, scraped: scraper.stop().await?, begun })
}

impl Ran {
    /// What these rules make of it. The file that asks Prometheus' tool, and the rules, stay in the folder.
    ///
    /// # Errors
    /// When the tool is not there, or finds the rules wrong.
    pub async fn shown(&self, rules: &Rules, folder: &Path) -> Result<Shown> {
        let interval = scrape_interval()?;
        let fired = fired(rules, &self.scraped, interval, folder, self.case.name).await?;
        let begun = interval * u32::try_from(self.begun)?;
        Ok(Shown::new(self.case, begun, fired))
    }
}

/// How long so many scrapes take.
fn scrapes(count: usize) -> Duration {
    EVERY.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Scrapes of a day.
fn day() -> Result<usize> {
    Ok(usize::try_from(DAY.as_secs() / scrape_interval()?.as_secs().max(1))?)
}
