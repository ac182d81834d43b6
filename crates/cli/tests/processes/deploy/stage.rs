//! The compose file on this machine: its services run as the file says, as processes instead of containers,
//! and commands run in a container and outside.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use tempfile::TempDir;

use super::files::{block, text};
use crate::{cluster::site::variable, polls::block_until, port, spawned::Started};

pub(super) const COMPOSE: &str = "docker-compose.yml";
/// The text before the command that the key service runs.
pub(super) const MAKE_KEY: &str = "\n  key:\n    image: kith:local\n    pull_policy: never\n    command: ";
const MIGRATE: &str = "dockerfile: ../../Dockerfile }\n    command: ";
const CHECK_HEALTH: &str = "healthcheck:\n    test: ";
const PATIENCE: Duration = Duration::from_secs(60);
/// Replaces Docker: `docker compose exec SERVICE COMMAND...` runs the command with the container's
/// environment, and `docker compose cp SERVICE:FILE COPY` copies a file of a volume.
const DOCKER: &str = r#"docker() {
    if [ "$1 $2" = "compose cp" ]; then cp "${3#*:}" "$4"; return; fi
    [ "$1 $2" = "compose exec" ] || exit 9
    local environment="CONTAINER_${3#kith-}"
    shift 3
    env ${!environment} "$@"
}"#;

/// The file's containers, and a user on this machine.
pub(super) struct Stage {
    folder: TempDir,
    /// The node containers, from `kith-1` on.
    nodes: Vec<NodeContainer>,
}

struct NodeContainer {
    environment: BTreeMap<String, String>,
    port: u16,
}

impl Stage {
    /// `name`: the database and Redis prefix, because other tests share the servers.
    pub(super) fn new(name: &str, keyspace: &str, nodes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, needed) in [("mongodb_uri", "KITH_TEST_MONGODB"), ("redis_url", "KITH_TEST_REDIS")] {
            fs::write(folder.path().join(name), variable(needed)).unwrap();
        }
        fs::create_dir(folder.path().join("volume")).unwrap();
        let name = format!("kith_{name}_{}", std::process::id());
        let nodes = (0..nodes).map(|_| NodeContainer::new(folder.path(), &name, keyspace)).collect();
        Self { folder, nodes }
    }

    /// Returns the command that this node's container runs, the JSON word list after this text in the file.
    pub(super) fn container(&self, node: usize, file: &str, before: &str) -> Command {
        let content = text(file);
        let line = content.split_once(before).unwrap_or_else(|| panic!("{file} has no {before}")).1;
        let words: Vec<String> = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        let words = words.iter().skip_while(|word| ["CMD", "kith"].contains(&word.as_str()));
        let volume = self.folder.path().join("volume").display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
        command.args(words.map(|word| word.replace("/var/lib/kith", &volume)));
        command.env_clear().envs(&self.nodes[node].environment).current_dir(self.folder.path());
        command
    }

    /// Makes the key and migrates, then starts all nodes. Returns them once they are healthy.
    pub(super) fn up(&self) -> Vec<Started> {
        for job in [MAKE_KEY, MIGRATE] {
            assert!(self.container(0, COMPOSE, job).status().unwrap().success(), "{job}");
        }
        let start = |node| Started::of(self.container(node, "Dockerfile", "\nCMD "));
        let nodes: Vec<_> = (0..self.nodes.len()).map(start).collect();
        for (at, node) in nodes.iter().enumerate() {
            let is_healthy = || self.container(at, COMPOSE, CHECK_HEALTH).output().unwrap().status.success();
            block_until(PATIENCE, is_healthy, || node.logged());
        }
        nodes
    }

    /// Runs a document's lines as a user on this machine. Returns the exit code and all output.
    pub(super) fn shell(&self, lines: &str) -> (i32, String) {
        let volume = self.folder.path().join("volume").display().to_string();
        let programs = Path::new(env!("CARGO_BIN_EXE_kith")).parent().unwrap().display();
        let containers = self.nodes.iter().enumerate().map(|(at, node)| {
            let pairs: Vec<_> =
                node.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (format!("CONTAINER_{}", at + 1), pairs.join(" "))
        });
        let Output { status, stdout, stderr } = Command::new("bash")
            .args(["-c", &format!("set -e\n{DOCKER}\n{}", lines.replace("/var/lib/kith", &volume))])
            .env_clear()
            .env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"))
            .envs(containers)
            .env("KITH_ADDR", self.address(0))
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    /// Returns the address at which a program on the machine or in its container reaches a node.
    pub(super) fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[node].port)
    }

    /// Returns the address at which other containers reach a node. It does not show that it is on this
    /// machine.
    pub(super) fn address_of_others(&self, node: usize) -> String {
        format!("0.0.0.0:{}", self.nodes[node].port)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn key(&self) -> String {
        fs::read_to_string(self.folder.path().join("volume/kith.key")).unwrap()
    }
}

impl NodeContainer {
    fn new(folder: &Path, name: &str, keyspace: &str) -> Self {
        let port = port::free();
        let content = block(&text(COMPOSE), "x-environment: &environment").unwrap();
        let here = content
            .replace("/run/secrets", &folder.display().to_string())
            .replace("/var/lib/kith", &folder.join("volume").display().to_string())
            .replace("scylladb:9042", &variable("KITH_TEST_CQL"))
            .replace("0.0.0.0:7600", &format!("0.0.0.0:{port}"))
            .replace("0.0.0.0:7601", &format!("0.0.0.0:{}", port::free()));
        let pair = |line: &str| {
            let (name, value) = line.split_once(": ").filter(|(name, _)| name.starts_with("KITH_"))?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        };
        let mut environment: BTreeMap<_, _> = here.lines().filter_map(pair).collect();
        let address = format!("127.0.0.1:{port}");
        // Shared resources have their own names here; the usual port is the container's.
        for (key, value) in [
            ("KITH_STORE__MONGODB__DATABASE", name),
            ("KITH_STORE__CQL__KEYSPACE", keyspace),
            ("KITH_REDIS__PREFIX", name),
            ("KITH_ADDR", &address),
            ("KITH_CLUSTER__ADVERTISE", &format!("http://{address}")),
        ] {
            environment.insert(key.to_owned(), value.to_owned());
        }
        Self { environment, port }
    }
}
