//! A new user follows the documents for the compose file: commands run in a node's container and outside.

use std::{fs, path::Path};

use super::{
    files::text,
    stage::{COMPOSE, MAKE_KEY, Stage},
};
use crate::{cluster::site::variable, node::data_stores::DataStores};

/// Returns the commands in a document that contain this text.
fn lines(file: &str, with: &str) -> Vec<String> {
    let content = text(file);
    let commands = content.lines().filter_map(|line| line.strip_prefix("    ").or(line.strip_prefix("#   ")));
    commands.filter(|line| line.contains(with)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs servers: run cargo xtask test"]
async fn compose_starts_a_secured_node_as_printed() {
    let [mongodb, cql] = ["KITH_TEST_MONGODB", "KITH_TEST_CQL"].map(variable);
    let lent = DataStores::of(Path::new("compose"), &mongodb, Some(&cql)).await;
    let keyspace = lent.stores.keyspace.as_deref().unwrap();
    let stage = Stage::new("compose", keyspace, 1);
    let node = stage.up().pop().unwrap();
    let key = stage.key();
    assert!(stage.container(0, COMPOSE, MAKE_KEY).status().unwrap().success(), "at the next start");
    assert_eq!(stage.key(), key);

    for file in [COMPOSE, "docs/operate/deploying.md"] {
        let exec = lines(file, "docker compose exec kith-1 kith");
        assert!(!exec.is_empty(), "{file}");
        for line in exec {
            let (code, printed) = stage.shell(&line);
            assert_eq!(code, 0, "{line}\n{printed}");
        }
        let copied = lines(file, "docker compose cp kith-1:/var/lib/kith/kith.key");
        assert_eq!(stage.shell(&copied.join("\n")).0, 0, "{copied:?}");
        assert_eq!(fs::read_to_string(stage.folder().join("kith.key")).unwrap(), key, "{file}");
    }
    let outside = lines("docs/operate/deploying.md", "KITH_API_KEY_FILE=kith.key kith nodes");
    let (code, printed) = stage.shell(&outside.join("\n"));
    assert!(code == 0 && printed.contains(&stage.address(0)), "{outside:?}\n{printed}");
    let (code, printed) = stage.shell("kith nodes");
    assert!(code != 0 && printed.contains("a key or a token is needed"), "{printed}");
    assert!(!node.logged().contains(key.trim_end()));
    node.stop();
}
