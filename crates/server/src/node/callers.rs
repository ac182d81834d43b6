//! Changes of callers while a node runs: their files are read again.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kith_service::metric;
use tokio::{
    sync::Mutex,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep},
};

use super::caller_sources::{CallerSources, Contents};
use crate::{
    auth::{Callers, Tokens},
    config::Config,
    health::{HealthCause, Reporter},
    start_error::StartError,
    telemetry::audit,
};

/// Pause between two reads that must be equal: an editor or a copy that writes in place has mostly finished by then.
const STABLE: Duration = Duration::from_millis(500);
/// Attempts to read a file that keeps changing, before the next period.
const READS_MAX: usize = 10;
/// Name of the remark in `/readyz`.
const REASON: &str = "callers_not_reloaded";

/// The callers of a node, from their sources.
pub(crate) struct CallersReload {
    sources: CallerSources,
    callers: Arc<Callers>,
    tokens: Arc<Tokens>,
    /// One reload at a time.
    state: Mutex<AppliedFiles>,
}

struct AppliedFiles {
    /// Hash of the files that were last applied.
    digest: [u8; 32],
    /// Why the present files are not applied, and since when.
    refused: Option<(String, SystemTime)>,
}

/// The result of reading the files again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    /// The callers have changed.
    Applied,
    /// The files are unchanged.
    Unchanged,
    /// The previous callers are kept, because the files cannot be used.
    Refused(String),
}

impl CallersReload {
    /// Reads the callers of a node that starts. Blocks while files are read.
    ///
    /// # Errors
    /// If a file cannot be used: a starting node has no previous callers.
    pub(crate) fn begin(config: &Config) -> Result<Self, StartError> {
        let sources = CallerSources::of(config);
        let contents = sources.read().map_err(StartError::new)?;
        let digest = contents.digest();
        let (callers, tokens) = if sources.is_none() {
            (Callers::open(), Tokens::none())
        } else {
            let found = sources.parse(contents).map_err(StartError::new)?;
            for warning in found.warnings {
                tracing::warn!(run = warning.run(), "{warning}");
            }
            (Callers::new(found.set), Tokens::new(found.issuers))
        };
        metrics::gauge!(metric::INSECURE_CALLERS.name).set(f64::from(u8::from(config.insecure_callers)));
        metrics::gauge!(metric::CALLERS_NOT_RELOADED.name).set(0.0);
        let state = Mutex::new(AppliedFiles { digest, refused: None });
        let reload = Self { sources, callers: Arc::new(callers), tokens: Arc::new(tokens), state };
        reload.expire();
        Ok(reload)
    }

    /// The present callers.
    pub(crate) fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// Which tokens of users are taken at each moment.
    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// Reads the files every `period`, until dropped.
    pub(crate) async fn run(&self, period: Duration, health: &Reporter) {
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

    /// Ends the streams of expired keys. Must be called every second.
    pub(crate) fn expire(&self) {
        let now = SystemTime::now();
        self.callers.end_expired(now);
        let first = self.callers.first_expiry(now).map_or(f64::INFINITY, |first| first.as_secs_f64());
        metrics::gauge!(metric::CREDENTIALS_EXPIRE_SECONDS.name).set(first);
    }

    /// Reads the files now. New callers are valid when this returns; files that cannot be used change nothing, and
    /// cause a remark of the node. Takes 500 ms if something has changed, and 5 s at most. Cancelling it changes
    /// nothing.
    pub(crate) async fn read_again(&self, health: &Reporter) -> ReloadOutcome {
        let mut state = self.state.lock().await;
        let taken = match self.stable_contents(state.digest).await {
            Ok(contents) if contents.digest() == state.digest => Ok(None),
            Ok(contents) => {
                let digest = contents.digest();
                self.sources.parse(contents).map(|found| Some((digest, found)))
            }
            Err(why) => Err(why),
        };
        match taken {
            Ok(taken) => {
                state.accept(health);
                let Some((digest, found)) = taken else { return ReloadOutcome::Unchanged };
                state.digest = digest;
                audit::callers_changed(&self.callers.replace(found.set));
                if self.tokens.replace(found.issuers) {
                    audit::issuer_keys_changed();
                }
                ReloadOutcome::Applied
            }
            Err(why) => {
                state.refuse(&why, health);
                ReloadOutcome::Refused(why)
            }
        }
    }

    /// The content of the files when they are not being written: immediately if it is unchanged.
    ///
    /// # Errors
    /// If they cannot be read, twice in the same way, or keep changing.
    async fn stable_contents(&self, known: [u8; 32]) -> Result<Contents, String> {
        let mut before = self.read().await;
        for _ in 0..READS_MAX {
            if before.as_ref().is_ok_and(|contents| contents.digest() == known) {
                return before;
            }
            sleep(STABLE).await;
            let now = self.read().await;
            if same(&before, &now) {
                return now;
            }
            before = now;
        }
        Err("the files of callers are being changed all the time; write them once".to_owned())
    }

    async fn read(&self) -> Result<Contents, String> {
        let sources = self.sources.clone();
        let read = spawn_blocking(move || sources.read()).await;
        read.unwrap_or_else(|_| Err("the files of callers could not be read; read them again".to_owned()))
    }
}

impl fmt::Debug for CallersReload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallersReload").field("callers", &self.callers).finish_non_exhaustive()
    }
}

impl AppliedFiles {
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
            tracing::warn!(why, "the callers of before are used, also keys that were revoked since");
        }
        metrics::gauge!(metric::CALLERS_NOT_RELOADED.name).set(1.0);
        let message = format!("the callers of before are used, also keys that were revoked since: {why}");
        health.remark(HealthCause { reason: REASON, message, since });
        self.refused = Some((why.to_owned(), since));
    }
}

fn same(before: &Result<Contents, String>, now: &Result<Contents, String>) -> bool {
    match (before, now) {
        (Ok(before), Ok(now)) => before.digest() == now.digest(),
        (Err(before), Err(now)) => before == now,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use tempfile::TempDir;
    use tokio::time::Instant;

    use super::*;
    use crate::config::IssuerConfig;

    const ONE: &str = "correct-horse-battery-staple-one-key";
    const TWO: &str = "correct-horse-battery-staple-two-key";

    struct ReloadFixture {
        folder: TempDir,
        reload: CallersReload,
        health: Reporter,
    }

    impl ReloadFixture {
        /// Of a file of keys.
        fn new(keys: &str) -> Self {
            Self::of(keys, |config, file| config.api_key_file = Some(file))
        }

        /// Of a file of callers.
        fn of_callers(text: &str) -> Self {
            Self::of(text, |config, file| config.auth.callers_file = Some(file))
        }

        fn of(text: &str, configure: impl FnOnce(&mut Config, PathBuf)) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("kith.key");
            fs::write(&file, text).unwrap();
            let mut config = Config::default();
            configure(&mut config, file);
            Self { folder, reload: CallersReload::begin(&config).unwrap(), health: Reporter::new() }
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("kith.key")
        }

        fn write(&self, keys: &str) {
            fs::write(self.file(), keys).unwrap();
        }

        fn valid(&self) -> [bool; 2] {
            [ONE, TWO].map(|key| self.reload.callers.find(key.as_bytes()).is_some())
        }

        async fn read_again(&self) -> ReloadOutcome {
            self.reload.read_again(&self.health).await
        }

        fn remarks(&self) -> Vec<&'static str> {
            self.health.remarks().iter().map(|remark| remark.reason).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_keys_need_no_restart_and_end_streams() {
        let stage = ReloadFixture::new(ONE);
        let one = stage.reload.callers.find(ONE.as_bytes()).unwrap();
        assert_eq!(stage.read_again().await, ReloadOutcome::Unchanged);
        stage.write(&format!("{ONE}\n{TWO}\n"));
        assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
        assert_eq!((stage.valid(), one.ended.is_cancelled()), ([true, true], false));
        stage.write(TWO);
        assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
        assert_eq!((stage.valid(), one.ended.is_cancelled()), ([false, true], true));
    }

    /// A public key of Ed25519: that of RFC 8037, or one of which a letter differs.
    fn jwks(letter: char) -> String {
        let x = format!("{letter}1qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        format!(r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "{x}"}}]}}"#)
    }

    #[tokio::test(start_paused = true)]
    async fn issuer_keys_are_read_as_caller_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jwks.json");
        fs::write(&file, jwks('1')).unwrap();
        let toml = "issuer = 'one'\naudience = ['kith']\njwks_file = 'jwks.json'";
        let mut config = Config::default();
        config.auth.issuers.push(IssuerConfig { jwks_file: file.clone(), ..toml::from_str(toml).unwrap() });
        let (reload, health) = (CallersReload::begin(&config).unwrap(), Reporter::new());
        assert!(!reload.callers.is_open(), "an issuer closes the node");
        assert_eq!(reload.read_again(&health).await, ReloadOutcome::Unchanged);
        fs::write(&file, jwks('2')).unwrap();
        assert_eq!(reload.read_again(&health).await, ReloadOutcome::Applied);
        for wrong in ["", "{}", r#"{"keys": [{"kty": "oct", "kid": "a", "k": "c2VjcmV0"}]}"#] {
            fs::write(&file, wrong).unwrap();
            let ReloadOutcome::Refused(why) = reload.read_again(&health).await else {
                panic!("{wrong} is taken")
            };
            assert!(why.starts_with("auth.issuers: jwks_file: ") && !why.contains("c2VjcmV0"), "{why}");
        }
        assert_eq!((reload.tokens.issuers(), health.remarks().len()), (1, 1), "those of before are valid");
        fs::write(&file, "{}").unwrap();
        assert!(CallersReload::begin(&config).is_err(), "a node that starts has none of before");
    }

    #[tokio::test(start_paused = true)]
    async fn the_files_are_read_in_their_period() {
        let stage = ReloadFixture::new(ONE);
        stage.write(TWO);
        let until = Instant::now() + Duration::from_secs(11);
        tokio::select! {
            () = stage.reload.run(Duration::from_secs(10), &stage.health) => panic!("it goes on"),
            () = tokio::time::sleep_until(until) => {}
        }
        assert_eq!(stage.valid(), [false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn unusable_file_changes_nothing_and_is_visible() {
        let stage = ReloadFixture::new(ONE);
        for keys in ["", "REPLACE_ME", &ONE[..20], "\u{0}"] {
            stage.write(keys);
            let ReloadOutcome::Refused(why) = stage.read_again().await else { panic!("{keys} is taken") };
            assert!(why.starts_with("api_key_file: ") && !why.contains("correct"), "{why}");
            assert_eq!((stage.valid(), stage.remarks()), ([true, false], vec![REASON]));
        }
        fs::remove_file(stage.file()).unwrap();
        assert!(matches!(stage.read_again().await, ReloadOutcome::Refused(_)));
        fs::create_dir(stage.file()).unwrap();
        assert!(matches!(stage.read_again().await, ReloadOutcome::Refused(_)));
        let since = stage.health.remarks()[0].since;
        assert!(matches!(stage.read_again().await, ReloadOutcome::Refused(_)));
        assert_eq!(stage.health.remarks()[0].since, since, "it is as old as the first refusal");
        fs::remove_dir(stage.file()).unwrap();
        stage.write(TWO);
        assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
        assert_eq!((stage.valid(), stage.remarks()), ([false, true], vec![]));
    }

    fn toml(name: &str, key: &str, expires: &str) -> String {
        let digest = crate::auth::Digest::of(key.as_bytes()).to_hex();
        format!(
            "[[caller]]\nname = \"{name}\"\nscopes = [\"watcher\"]\nkeys = [{{ sha256 = \"{digest}\"{expires} }}]\n"
        )
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn wrong_caller_files_change_nothing_at_runtime() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        type DamageFile<'a> = &'a dyn Fn(&PathBuf) -> std::io::Result<()>;
        let good = toml("chat", ONE, "");
        let stage = ReloadFixture::of_callers(&good);
        let file = stage.file();
        let fifo = |file: &PathBuf| std::process::Command::new("mkfifo").arg(file).status().map(drop);
        let writable = |file: &PathBuf| {
            fs::write(file, &good)?;
            fs::set_permissions(file, fs::Permissions::from_mode(0o666))
        };
        let twice = format!("{good}{}", toml("chat", TWO, ""));
        let wrong: [(&str, DamageFile<'_>); 9] = [
            ("cut within an entry", &|file| fs::write(file, &good[..good.len() - 9])),
            ("emptied", &|file| fs::write(file, "")),
            ("absent", &|_| Ok(())),
            ("a folder", &|file| fs::create_dir(file)),
            ("a FIFO", &fifo),
            ("a link to what never ends", &|file| symlink("/dev/zero", file)),
            ("too large", &|file| fs::write(file, vec![b'#'; (4 << 20) + 1])),
            ("writable by others", &writable),
            ("a name twice", &|file| fs::write(file, &twice)),
        ];
        for (what, make) in wrong {
            if fs::remove_file(&file).is_err() {
                fs::remove_dir(&file).ok();
            }
            make(&file).unwrap();
            let reread = stage.read_again().await;
            assert!(matches!(reread, ReloadOutcome::Refused(_)), "{what}: {reread:?}");
            assert_eq!((stage.valid(), stage.remarks()), ([true, false], vec![REASON]), "{what}");
        }
        fs::remove_file(&file).unwrap();
        fs::write(&file, toml("chat", TWO, "")).unwrap();
        assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
        assert_eq!((stage.valid(), stage.remarks()), ([false, true], vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn key_configured_after_its_expiry_is_refused() {
        let past = format!("{}{}", toml("chat", ONE, ", expires = 2020-01-01"), toml("jobs", TWO, ""));
        let stage = ReloadFixture::of_callers(&past);
        assert_eq!(stage.valid(), [false, true]);
        stage.write(&past.replace("2020-01-01", "2999-01-01"));
        assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
        assert_eq!(stage.valid(), [true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn remark_ends_when_the_old_file_is_back() {
        let stage = ReloadFixture::new(ONE);
        stage.write("");
        stage.read_again().await;
        stage.write(ONE);
        assert_eq!(stage.read_again().await, ReloadOutcome::Unchanged);
        assert_eq!(stage.remarks(), Vec::<&str>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn half_written_file_is_taken_once_whole() {
        let stage = ReloadFixture::new(&format!("{ONE}\n{TWO}\n"));
        // Truncated, as an editor that writes in place leaves it for a moment. The rest is valid by itself.
        stage.write(&format!("{ONE}\n"));
        let write = async {
            sleep(STABLE / 2).await;
            stage.write(&format!("{ONE}\n{TWO}\n\n"));
        };
        let (reloaded, ()) = tokio::join!(stage.read_again(), write);
        assert_eq!(reloaded, ReloadOutcome::Applied);
        assert_eq!(stage.valid(), [true, true], "no key was removed by half a file");
    }

    #[tokio::test(start_paused = true)]
    async fn constantly_changing_file_is_not_applied() {
        let stage = ReloadFixture::new(ONE);
        let write = async {
            for at in 0.. {
                stage.write(&format!("{TWO}{}", "\n".repeat(at)));
                sleep(STABLE / 2).await;
            }
        };
        let reloaded = tokio::select! {
            biased;
            () = write => unreachable!("it goes on"),
            reloaded = stage.read_again() => reloaded,
        };
        assert!(matches!(reloaded, ReloadOutcome::Refused(_)), "{reloaded:?}");
        assert_eq!(stage.valid(), [true, false]);
    }
}
