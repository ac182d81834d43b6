//! A compose service in a separate process, in place of a container.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use kith_lab_servers::child::ChildProcess;
use tempfile::TempDir;
use tokio::{
    process::Command as AsyncCommand,
    time::{Instant, sleep},
};

use super::file::{Image, Service};

/// Between two health checks. The file has a longer interval, for which a person would wait.
const EVERY: Duration = Duration::from_millis(200);
/// How long it may take to become healthy; as the file says, `start_period` and three tries.
const HEALTHY_WITHIN: Duration = Duration::from_secs(36);
/// How long a job may take.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// Maps the addresses and paths that a container uses: each first text is written as the second text on this
/// machine.
#[derive(Clone, Debug, Default)]
pub(super) struct HostPaths(Vec<(String, String)>);

/// A service that runs as a process.
#[derive(Debug)]
pub(super) struct Container {
    /// Used instead of the image's program.
    kith: PathBuf,
    /// The program's arguments when it runs as the container.
    arguments: Vec<String>,
    /// The program's arguments when it runs as the health check; a job has none.
    test: Option<Vec<String>>,
    environment: BTreeMap<String, String>,
    grace: Duration,
    folder: TempDir,
    /// `None`: stopped.
    process: Option<ChildProcess>,
}

impl HostPaths {
    pub(super) fn with(mut self, there: &str, here: &impl ToString) -> Self {
        self.0.push((there.to_owned(), here.to_string()));
        self
    }

    fn here(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
    }
}

impl Container {
    /// Creates the service's container on this machine. It does not run yet. `kith` replaces the image's
    /// program.
    ///
    /// # Errors
    /// If a secret is not a file in the repository.
    pub(super) fn of(service: &Service, image: &Image, kith: &Path, places: HostPaths) -> Result<Self> {
        let folder = TempDir::new()?;
        let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (secrets, data) = (at("secrets"), at("data"));
        let places = places.with("/run/secrets", &secrets).with("/var/lib/kith", &data);
        fs::create_dir(&secrets)?;
        fs::create_dir(&data)?;
        for name in &service.secrets {
            fs::write(Path::new(&secrets).join(name), places.here(secret(name)?))?;
        }
        let all = image.environment.iter().chain(&service.environment);
        let environment = all.map(|(name, value)| (name.clone(), places.here(value))).collect();
        let (kith, grace) = (kith.to_owned(), service.grace()?);
        let (words, test) = (arguments(&service.words(image))?, service.test().map(arguments).transpose()?);
        let arguments = words.iter().map(|word| places.here(word)).collect();
        Ok(Self { kith, arguments, test, environment, grace, folder, process: None })
    }

    /// Starts it without waiting.
    pub(super) fn start(&mut self) -> Result<()> {
        let mut command = Command::new(&self.kith);
        command.args(&self.arguments).env_clear().envs(&self.environment).current_dir(self.folder.path());
        let log = self.folder.path().join("log");
        self.process = Some(ChildProcess::start("a container", command, log)?);
        Ok(())
    }

    /// Sets where commands in the container find the node: they use the usual address, which is replaced by
    /// this address.
    pub(super) fn answers_at(&mut self, address: SocketAddr) {
        self.environment.insert("KITH_ADDR".to_owned(), format!("http://{address}"));
    }

    /// Waits until its health check passes.
    ///
    /// # Errors
    /// If it does not become healthy in time, or has ended.
    pub(super) async fn until_healthy(&mut self) -> Result<()> {
        let until = Instant::now() + HEALTHY_WITHIN;
        while !self.is_healthy().await? {
            self.process.as_mut().context("the container does not run")?.ensure_alive()?;
            ensure!(Instant::now() < until, "a container is not healthy within {HEALTHY_WITHIN:?}");
            sleep(EVERY).await;
        }
        Ok(())
    }

    async fn is_healthy(&self) -> Result<bool> {
        let test = self.test.as_ref().context("the service has no health check")?;
        let mut command = AsyncCommand::new(&self.kith);
        command.args(test).env_clear().envs(&self.environment).kill_on_drop(true);
        Ok(command.output().await?.status.success())
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it does not end well, or not in time.
    pub(super) async fn done(mut self) -> Result<()> {
        self.start()?;
        let process = self.process.as_mut().context("the container does not run")?;
        if process.until_ended(DONE_WITHIN).await? { Ok(()) } else { process.ensure_alive() }
    }

    /// Stops it as an engine does.
    ///
    /// # Errors
    /// If it would have been killed, or does not end well.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the container does not run")?;
        let took = process.end().await?;
        ensure!(took <= self.grace, "a container took {took:?} to stop, and would have been killed");
        Ok(())
    }
}

/// The arguments for the image's program.
fn arguments(words: &[String]) -> Result<Vec<String>> {
    let (program, arguments) = words.split_first().context("nothing is run")?;
    ensure!(program == "kith", "the image has no program {program}");
    Ok(arguments.to_vec())
}

/// The secret as the repository has it.
fn secret(name: &str) -> Result<&'static str> {
    match name {
        "mongodb_uri" => Ok(include_str!("../../../../deploy/compose/mongodb.uri")),
        "redis_url" => Ok(include_str!("../../../../deploy/compose/redis.url")),
        other => bail!("the repository has no secret {other}"),
    }
}
