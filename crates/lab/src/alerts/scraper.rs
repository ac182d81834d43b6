//! Scrapes nodes as a Prometheus does.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

use super::scraped::ScrapedSeries;
use crate::{faults::Site, scrape};

/// The pause between two scrapes.
pub(super) const EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take.
const WITHIN: Duration = Duration::from_millis(450);
/// The port that nodes have in the published configuration.
const PORT: u16 = 7601;

/// Scrapes until it is stopped.
#[derive(Debug)]
pub(super) struct Scraper {
    scraped: Arc<Mutex<ScrapedSeries>>,
    /// Whether the nodes are not targets any more.
    removed: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    scraping: JoinHandle<Result<()>>,
}

impl Scraper {
    /// Begins at once, with the nodes as they are named in the published configuration.
    pub(super) fn start(site: &Site, scraped: ScrapedSeries) -> Self {
        let nodes = site.members.iter().enumerate();
        let nodes: Vec<(String, SocketAddr)> =
            nodes.map(|(at, member)| (format!("kith-{}:{PORT}", at + 1), member.node.operations())).collect();
        let (scraped, removed, over) = (Arc::new(Mutex::new(scraped)), Arc::default(), Arc::default());
        let (targets, end) = (Arc::clone(&removed), Arc::clone(&over));
        let scraping = tokio::spawn(scrape_all(nodes, Arc::clone(&scraped), targets, end));
        Self { scraped, removed, over, scraping }
    }

    /// Scrapes go on without a target, as after a Deployment was scaled to 0.
    pub(super) fn remove_targets(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Scrapes so far, those that were skipped among them.
    pub(super) fn scrapes(&self) -> usize {
        self.scraped.lock().scrapes()
    }

    /// See [`ScrapedSeries::skip_to`].
    pub(super) fn skip_to(&self, scrapes: usize) {
        self.scraped.lock().skip_to(scrapes);
    }

    /// Stops scraping. Returns the scraped series.
    ///
    /// # Errors
    /// When a node has answered with something that is not understood.
    pub(super) async fn stop(self) -> Result<ScrapedSeries> {
        self.over.store(true, Ordering::Relaxed);
        self.scraping.await??;
        Ok(self.scraped.lock().clone())
    }
}

async fn scrape_all(
    nodes: Vec<(String, SocketAddr)>,
    scraped: Arc<Mutex<ScrapedSeries>>,
    removed: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
) -> Result<()> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let targets: &[(String, SocketAddr)] = if removed.load(Ordering::Relaxed) { &[] } else { &nodes };
        let answers = targets.iter().map(|(_, node)| timeout(WITHIN, scrape::metrics(*node)));
        // Whatever keeps a node from answering: it is not up.
        let answers: Vec<Option<String>> =
            join_all(answers).await.into_iter().map(|answer| answer.ok()?.ok()).collect();
        let named = targets.iter().zip(&answers);
        scraped.lock().add(named.map(|((name, _), answer)| (name.as_str(), answer.as_deref())))?;
    }
    Ok(())
}
