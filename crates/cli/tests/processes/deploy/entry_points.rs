//! What a new user of the compose file does, as the documents print it: the services `key`, `migrate` and `kith-1` run as the file
//! says, as processes in place of containers, and commands are run in that container and outside of it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use tempfile::TempDir;

use super::files::{block, text};
use crate::{
    cluster::site::variable, node::lent_keyspace::LentKeyspace, polls::block_until, port, spawned::Started,
};

const COMPOSE: &str = "docker-compose.yml";
const PATIENCE: Duration = Duration::from_secs(60);
/// In place of Docker: `docker compose exec SERVICE COMMAND...` runs the command with the environment of the container.
const DOCKER: &str =
    r#"docker() { [ "$1 $2 $3" = "compose exec kith-1" ] || exit 9; shift 3; env $CONTAINER "$@"; }"#;

/// A container of the file, and a user of this machine.
struct Stage {
    folder: TempDir,
    /// Of the container.
    environment: BTreeMap<String, String>,
    address: String,
}

impl Stage {
    fn new(keyspace: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), port::free());
        let at = |name: &str| folder.path().join(name).display().to_string();
        for (name, needed) in [("mongodb_uri", "KITH_TEST_MONGODB"), ("redis_url", "KITH_TEST_REDIS")] {
            fs::write(at(name), variable(needed)).unwrap();
        }
        fs::create_dir(at("volume")).unwrap();
        let content = block(&text(COMPOSE), "x-environment: &environment").unwrap();
        let here = content
            .replace("/run/secrets", &folder.path().display().to_string())
            .replace("/var/lib/kith", &at("volume"))
            .replace("scylladb:9042", &variable("KITH_TEST_CQL"))
            .replace("0.0.0.0:7600", &format!("0.0.0.0:{port}"))
            .replace("0.0.0.0:7601", &format!("0.0.0.0:{}", port::free()));
        let pair = |line: &str| {
            let (name, value) = line.split_once(": ").filter(|(name, _)| name.starts_with("KITH_"))?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        };
        let mut environment: BTreeMap<_, _> = here.lines().filter_map(pair).collect();
        let address = format!("127.0.0.1:{port}");
        let name = format!("kith_compose_{}", std::process::id());
        // What others use too has names of its own here; the usual port is that of the container.
        for (name, value) in [
            ("KITH_STORE__MONGODB__DATABASE", name.as_str()),
            ("KITH_STORE__CQL__KEYSPACE", keyspace),
            ("KITH_REDIS__PREFIX", &name),
            ("KITH_ADDR", &address),
            ("KITH_CLUSTER__ADVERTISE", &format!("http://{address}")),
        ] {
            environment.insert(name.to_owned(), value.to_owned());
        }
        Self { folder, environment, address }
    }

    /// What the container runs, as a list of words in JSON: that behind this text of the file.
    fn container(&self, file: &str, before: &str) -> Command {
        let content = text(file);
        let line = content.split_once(before).unwrap_or_else(|| panic!("{file} has no {before}")).1;
        let words: Vec<String> = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        let words = words.iter().skip_while(|word| ["CMD", "kith"].contains(&word.as_str()));
        let volume = self.folder.path().join("volume").display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
        command.args(words.map(|word| word.replace("/var/lib/kith", &volume)));
        command.env_clear().envs(&self.environment).current_dir(self.folder.path());
        command
    }

    /// Runs lines of a document, as the user of this machine.
    fn shell(&self, lines: &str) -> (bool, String) {
        let volume = self.folder.path().join("volume").display().to_string();
        let container: Vec<_> =
            self.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let programs = Path::new(env!("CARGO_BIN_EXE_kith")).parent().unwrap().display();
        let Output { status, stdout, stderr } = Command::new("bash")
            .args(["-c", &format!("set -e\n{DOCKER}\n{}", lines.replace("/var/lib/kith", &volume))])
            .env_clear()
            .env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"))
            .envs([("CONTAINER", container.join(" ")), ("KITH_ADDR", self.address.clone())])
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    fn key(&self) -> String {
        fs::read_to_string(self.folder.path().join("volume/kith.key")).unwrap()
    }
}

/// The commands of a document that hold this text.
fn lines(file: &str, with: &str) -> Vec<String> {
    let content = text(file);
    let commands = content.lines().filter_map(|line| line.strip_prefix("    ").or(line.strip_prefix("#   ")));
    commands.filter(|line| line.contains(with)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs servers: run cargo xtask test"]
async fn compose_starts_a_secured_node_as_printed() {
    let keyspace = LentKeyspace::of(Path::new("compose"), &variable("KITH_TEST_CQL")).await;
    let stage = Stage::new(&keyspace.name);
    let make = "\n  key:\n    image: kith:local\n    pull_policy: never\n    command: ";
    assert!(stage.container(COMPOSE, make).status().unwrap().success());
    let key = stage.key();
    assert!(stage.container(COMPOSE, make).status().unwrap().success(), "at the next start");
    assert_eq!(stage.key(), key);
    let migrate = "build: .\n    command: ";
    assert!(stage.container(COMPOSE, migrate).status().unwrap().success());
    let node = Started::of(stage.container("Dockerfile", "\nCMD "));
    let check = "healthcheck:\n    test: ";
    let is_healthy = || stage.container(COMPOSE, check).output().unwrap().status.success();
    block_until(PATIENCE, is_healthy, || node.logged());

    for file in [COMPOSE, "docs/deploying.md"] {
        let exec = lines(file, "docker compose exec kith-1 kith");
        assert!(!exec.is_empty(), "{file}");
        for line in exec {
            let (ended, printed) = stage.shell(&line);
            assert!(ended, "{line}\n{printed}");
        }
        let copied = lines(file, "docker compose exec kith-1 cat /var/lib/kith/kith.key");
        assert!(stage.shell(&copied.join("\n")).0, "{copied:?}");
        assert_eq!(fs::read_to_string(stage.folder.path().join("kith.key")).unwrap(), key, "{file}");
    }
    let outside = lines("docs/deploying.md", "KITH_API_KEY_FILE=kith.key kith nodes");
    let (ended, printed) = stage.shell(&outside.join("\n"));
    assert!(ended && printed.contains(&stage.address), "{outside:?}\n{printed}");
    let (ended, printed) = stage.shell("kith nodes");
    assert!(!ended && printed.contains("a key or a token is needed"), "{printed}");
    assert!(!node.logged().contains(key.trim_end()));
    node.stop();
}
