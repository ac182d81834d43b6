//! Changes callers while a node runs: their files are read again.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kith_service::metric;
use tokio::{
    sync::Mutex,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::caller_sources::{CallerFiles, CallerSources, Contents};
use crate::{
    auth::{Callers, Tokens},
    config::{AuthConfig, Config},
    health::{HealthCause, Reporter},
    start_error::StartError,
    telemetry::audit,
};

/// Pause between two reads that must be equal: an editor or a copy that writes in place has mostly finished
/// by then.
const STABLE: Duration = Duration::from_millis(500);
/// Least time between two requests to issuers' addresses, and the time after which an issuer that did not
/// answer is asked again.
const FETCH_LEAST: Duration = Duration::from_secs(30);
/// Attempts to read a file that keeps changing, before the next period.
const READS_MAX: usize = 10;
/// Names for the remarks in `/readyz`.
const REASON: &str = "callers_not_reloaded";
const ODD_KEYS: &str = "issuer_keys_left_out";

/// A node's callers, from their sources.
pub(crate) struct CallersReload {
    sources: CallerSources,
    callers: Arc<Callers>,
    tokens: Arc<Tokens>,
    /// One reload at a time.
    state: Mutex<AppliedFiles>,
}

struct AppliedFiles {
    /// A hash over the files that were last applied as a whole. `None`: parts of other files were applied
    /// since.
    digest: Option<[u8; 32]>,
    /// The content that is applied from each file.
    files: CallerFiles,
    /// The reason why present files are not applied, and since when.
    refused: Option<(String, SystemTime)>,
    /// Issuers' keys that are left out, and since when.
    odd_keys: (Vec<String>, SystemTime),
}

/// The result of reading the files again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    /// The callers have changed.
    Applied,
    /// The files are unchanged.
    Unchanged,
    /// Some files cannot be used, so that their earlier content is kept.
    Refused(String),
}

impl CallersReload {
    /// Reads the callers when a node starts. Blocks while files are read, and waits at most 5 s for the
    /// issuers' addresses. A node starts without the keys at an address that does not answer.
    ///
    /// # Errors
    /// If a file cannot be used: a starting node has no previous callers.
    pub(crate) async fn begin(config: &Config) -> Result<Self, StartError> {
        let sources = CallerSources::of(config);
        sources.fetch().await;
        let contents = sources.read();
        let (digest, warnings) = (contents.digest(), contents.warnings());
        let (files, refused) = sources.parse(contents, &CallerFiles::default());
        if let Some(why) = refused.iter().find(|unused| !unused.is_address) {
            return Err(StartError::new(why.text.as_str()));
        }
        let (callers, tokens) = if sources.is_none() {
            (Callers::open(), Tokens::none())
        } else {
            let set = sources.together(&files).map_err(StartError::new)?;
            (Callers::new(set), Tokens::new(files.issuers()))
        };
        for warning in warnings {
            tracing::warn!(run = warning.run(), "{warning}");
        }
        metrics::gauge!(metric::INSECURE_CALLERS.name).set(f64::from(u8::from(config.insecure_callers)));
        metrics::gauge!(metric::CALLERS_NOT_RELOADED.name).set(0.0);
        let state = Mutex::new(AppliedFiles::of(refused.is_empty().then_some(digest), files));
        let reload = Self { sources, callers: Arc::new(callers), tokens: Arc::new(tokens), state };
        reload.expire();
        Ok(reload)
    }

    /// The present callers.
    pub(crate) fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// The user tokens that are taken at present.
    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// Reads the files and asks the issuers' addresses, each in its period, until dropped.
    pub(crate) async fn run(&self, periods: &AuthConfig, health: &Reporter) {
        let files = self.read_files(periods.read_again_every, health);
        tokio::join!(files, self.fetch_keys(periods.jwks_read_every, health));
    }

    async fn read_files(&self, period: Duration, health: &Reporter) {
        if !self.sources.has_files() {
            return std::future::pending().await;
        }
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.read_again(health).await;
        }
    }

    /// Asks the issuers' addresses every `period`, and sooner when an address has not answered, or when a
    /// token names an unknown key. Every client can make such a token.
    async fn fetch_keys(&self, period: Duration, health: &Reporter) {
        if !self.sources.has_addresses() {
            return std::future::pending().await;
        }
        let least = FETCH_LEAST.min(period);
        let mut more = Duration::ZERO;
        loop {
            sleep(least).await;
            // Whether the time has passed does not matter.
            drop(timeout(more, self.tokens.key_missed()).await);
            let answered = self.sources.fetch().await;
            more = if answered { period - least } else { Duration::ZERO };
            self.read_again(health).await;
        }
    }

    /// Asks the issuers' addresses now, and reads the files as [`Self::read_again`] does.
    pub(crate) async fn fetch_and_read_again(&self, health: &Reporter) -> ReloadOutcome {
        self.sources.fetch().await;
        self.read_again(health).await
    }

    /// Ends the streams whose keys have expired. Must be called every second.
    pub(crate) fn expire(&self) {
        let now = SystemTime::now();
        self.callers.end_expired(now);
        let first = self.callers.first_expiry(now).map_or(f64::INFINITY, |first| first.as_secs_f64());
        metrics::gauge!(metric::CREDENTIALS_EXPIRE_SECONDS.name).set(first);
    }

    /// Reads the files now. New callers are valid when this returns. A file that cannot be used changes
    /// nothing, and causes a remark on the node; the other files are applied. Takes 500 ms if something has
    /// changed, and 5 s at most. Cancelling it changes nothing.
    pub(crate) async fn read_again(&self, health: &Reporter) -> ReloadOutcome {
        let mut state = self.state.lock().await;
        let read = self.stable_contents(state.digest).await;
        let outcome = match read {
            Ok(contents) if state.digest == Some(contents.digest()) => Ok(ReloadOutcome::Unchanged),
            Ok(contents) => self.apply(&mut state, contents),
            Err(why) => Err(why),
        };
        state.remark_odd_keys(health);
        match outcome {
            Ok(outcome) => {
                state.accept(health);
                outcome
            }
            Err(why) => {
                state.refuse(&why, health);
                ReloadOutcome::Refused(why)
            }
        }
    }

    /// Applies the usable files.
    ///
    /// # Errors
    /// Says why some, or all, are not applied.
    fn apply(&self, state: &mut AppliedFiles, contents: Contents) -> Result<ReloadOutcome, String> {
        let digest = contents.digest();
        let (files, refused) = self.sources.parse(contents, &state.files);
        let changes = self.callers.replace(self.sources.together(&files)?);
        audit::callers_changed(&changes);
        let has_other_keys = self.tokens.replace(files.issuers());
        if has_other_keys {
            audit::issuer_keys_changed();
        }
        state.take(files);
        if refused.is_empty() {
            state.digest = Some(digest);
            return Ok(ReloadOutcome::Applied);
        }
        if has_other_keys || !changes.is_empty() {
            state.digest = None;
        }
        Err(refused.iter().map(|unused| unused.text.as_str()).collect::<Vec<_>>().join("; "))
    }

    /// The files' content when they are not being written: immediately if it is unchanged.
    ///
    /// # Errors
    /// If they keep changing.
    async fn stable_contents(&self, known: Option<[u8; 32]>) -> Result<Contents, String> {
        let mut before = self.read().await?;
        for _ in 0..READS_MAX {
            if known == Some(before.digest()) {
                return Ok(before);
            }
            sleep(STABLE).await;
            let now = self.read().await?;
            if before.digest() == now.digest() {
                return Ok(now);
            }
            before = now;
        }
        Err("the files of callers are being changed all the time; write them once".to_owned())
    }

    async fn read(&self) -> Result<Contents, String> {
        let sources = self.sources.clone();
        let read = spawn_blocking(move || sources.read()).await;
        read.map_err(|_| "the files of callers could not be read; read them again".to_owned())
    }
}

impl fmt::Debug for CallersReload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallersReload").field("callers", &self.callers).finish_non_exhaustive()
    }
}

impl AppliedFiles {
    fn of(digest: Option<[u8; 32]>, files: CallerFiles) -> Self {
        let mut applied = Self {
            digest,
            files: CallerFiles::default(),
            refused: None,
            odd_keys: (Vec::new(), SystemTime::UNIX_EPOCH),
        };
        applied.take(files);
        applied
    }

    /// Records that these files are applied.
    fn take(&mut self, files: CallerFiles) {
        let odd_keys = files.odd_keys();
        if odd_keys != self.odd_keys.0 {
            for why in &odd_keys {
                tracing::warn!("{why}");
            }
            self.odd_keys = (odd_keys, SystemTime::now());
        }
        self.files = files;
    }

    fn remark_odd_keys(&self, health: &Reporter) {
        let (odd_keys, since) = &self.odd_keys;
        if odd_keys.is_empty() {
            health.end_remark(ODD_KEYS);
        } else {
            let message = odd_keys.join("; ");
            health.remark(HealthCause { reason: ODD_KEYS, message, since: *since });
        }
    }

    fn accept(&mut self, health: &Reporter) {
        if self.refused.take().is_some() {
            metrics::gauge!(metric::CALLERS_NOT_RELOADED.name).set(0.0);
            health.end_remark(REASON);
        }
    }

    fn refuse(&mut self, why: &str, health: &Reporter) {
        let (since, known) = match &self.refused {
            Some((before, since)) => (*since, before == why),
            None => (SystemTime::now(), false),
        };
        if !known {
            tracing::warn!(
                why,
                "of these files and addresses the content of before is used, also keys that were revoked since"
            );
        }
        metrics::gauge!(metric::CALLERS_NOT_RELOADED.name).set(1.0);
        let message = format!(
            "of these files and addresses the content of before is used, also keys that were revoked since: {why}"
        );
        health.remark(HealthCause { reason: REASON, message, since });
        self.refused = Some((why.to_owned(), since));
    }
}

#[cfg(test)]
mod tests;
