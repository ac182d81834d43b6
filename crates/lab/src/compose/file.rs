//! Reads `docker-compose.yml` and the `Dockerfile`, as far as they describe the project's own containers.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Both as they are in the repository: an engine reads the same.
const COMPOSE: &str = include_str!("../../../../docker-compose.yml");
const DOCKERFILE: &str = include_str!("../../../../Dockerfile");
/// How long compose waits for a container to stop by default.
const GRACE: Duration = Duration::from_secs(10);

/// The compose file.
#[derive(Debug, Deserialize)]
pub(super) struct File {
    services: BTreeMap<String, Service>,
}

/// A service in the compose file.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Service {
    /// Replaces the image's command.
    command: Option<Vec<String>>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// The secrets by name: each is a file with that name in the container.
    #[serde(default)]
    pub(super) secrets: Vec<String>,
    /// `name:/folder`, and `:ro` behind it where nothing is written.
    #[serde(default)]
    volumes: Vec<String>,
    stop_grace_period: Option<String>,
    healthcheck: Option<Healthcheck>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Healthcheck {
    #[serde(default)]
    test: Vec<String>,
}

/// The settings that the `Dockerfile` has for every container.
#[derive(Debug)]
pub(super) struct Image {
    entrypoint: Vec<String>,
    command: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
}

impl File {
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read() -> Result<Self> {
        serde_saphyr::from_str(COMPOSE).context("docker-compose.yml cannot be read")
    }

    /// # Errors
    /// If there is no service with this name.
    pub(super) fn service(&self, name: &str) -> Result<&Service> {
        self.services.get(name).with_context(|| format!("docker-compose.yml has no service {name}"))
    }

    /// The nodes' names, in their order.
    pub(super) fn nodes(&self) -> Vec<String> {
        self.services.keys().filter(|name| name.starts_with("kith-")).cloned().collect()
    }

    /// Options for the Redis server, as [`kith_lab_servers::redis_server::RedisServer::start`] takes them.
    ///
    /// # Errors
    /// If the file has no options.
    pub(super) fn redis_options(&self) -> Result<Vec<(&str, &str)>> {
        let command = self.service("redis")?.command.as_ref().context("redis has no command")?;
        let mut words = command.iter().skip(1).map(String::as_str);
        let mut options = Vec::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            options.push((name.trim_start_matches('-'), value));
        }
        Ok(options)
    }
}

impl Service {
    /// All words in the container's command, the program first.
    pub(super) fn words(&self, image: &Image) -> Vec<String> {
        let command = self.command.as_ref().unwrap_or(&image.command);
        image.entrypoint.iter().chain(command).cloned().collect()
    }

    /// The container's folder for this volume; `None`: it has no volume with this name.
    pub(super) fn mount(&self, volume: &str) -> Option<&str> {
        let mut mounts = self.volumes.iter().filter_map(|mount| mount.split_once(':'));
        let (_, folder) = mounts.find(|(name, _)| *name == volume)?;
        Some(folder.trim_end_matches(":ro"))
    }

    /// How long the container may take to end after SIGTERM until it is killed.
    ///
    /// # Errors
    /// If the file has an invalid time.
    pub(super) fn grace(&self) -> Result<Duration> {
        let period = self.stop_grace_period.as_deref();
        period.map_or(Ok(GRACE), |period| {
            humantime::parse_duration(period).with_context(|| format!("{period} is no time"))
        })
    }

    /// The health check's command. `None`: there is no command that runs without a shell.
    pub(super) fn test(&self) -> Option<&[String]> {
        let (kind, words) = self.healthcheck.as_ref()?.test.split_first()?;
        (kind == "CMD").then_some(words)
    }
}

impl Image {
    /// # Errors
    /// If it does not name what a container runs.
    pub(super) fn read() -> Result<Self> {
        let environment = lines("ENV").filter_map(|line| line.split_once('='));
        Ok(Self {
            entrypoint: words("ENTRYPOINT")?,
            command: words("CMD")?,
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }
}

fn lines(instruction: &'static str) -> impl Iterator<Item = &'static str> {
    DOCKERFILE.lines().filter_map(move |line| line.strip_prefix(instruction)?.strip_prefix(' '))
}

fn words(instruction: &'static str) -> Result<Vec<String>> {
    let value = lines(instruction).last().with_context(|| format!("Dockerfile has no {instruction}"))?;
    serde_json::from_str(value).with_context(|| format!("Dockerfile: {instruction} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_from_file_or_else_from_image() {
        let (file, image) = (File::read().unwrap(), Image::read().unwrap());
        assert_eq!(file.nodes(), ["kith-1", "kith-2", "kith-3"]);
        let node = file.service("kith-2").unwrap();
        assert_eq!(node.words(&image), ["kith", "serve"]);
        assert_eq!(file.service("migrate").unwrap().words(&image), ["kith", "migrate"]);
        assert_eq!(image.environment["KITH_DATA_DIR"], "/var/lib/kith");
        let key = file.service("key").unwrap();
        assert_eq!(key.words(&image)[..3], ["kith", "keys", "generate"]);
        assert_eq!((key.mount("key"), node.mount("key")), (Some("/var/lib/kith"), Some("/var/lib/kith")));
    }

    #[test]
    fn what_services_share_is_merged_into_each() {
        let file = File::read().unwrap();
        let node = file.service("kith-3").unwrap();
        assert_eq!(node.environment["KITH_STORE__MIGRATE"], "manual");
        assert_eq!(node.environment["KITH_CLUSTER__ADVERTISE"], "http://kith-3:7600");
        assert_eq!(node.secrets, ["mongodb_uri", "redis_url"]);
        assert_eq!(node.grace().unwrap(), Duration::from_secs(20));
        assert_eq!(node.test().unwrap(), ["kith", "ping", "--timeout", "2s"]);
        assert!(file.redis_options().unwrap().contains(&("maxmemory-policy", "noeviction")));
    }
}
