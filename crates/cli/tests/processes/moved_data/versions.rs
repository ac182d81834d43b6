//! Files that earlier versions wrote are read by this version. `CONTRIBUTING.md` says when files are added.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use serde_json::{Value, json};

use super::{
    checklist::Caller,
    export,
    filled::{fill, list_notices, notices},
    import,
};
use crate::{
    backup::node::{backup, restore},
    process::{Node, root},
};

/// The folder for this version's files, if they are to be kept.
const FOLDER: &str = "KITH_TEST_VERSION_FILES";
/// An application ends by itself, so answers about applications differ in later years.
const ENDS: &str = "Application/";

type Answers = BTreeMap<String, Value>;

/// The files of a version: backups of a data file and of a cluster, what `kith export all` wrote, and the
/// nodes' answers.
pub(super) struct VersionFiles(PathBuf);

impl VersionFiles {
    /// Writes the files of this version that one node makes.
    async fn write(&self) {
        let node = Node::start();
        let mut caller = Caller::open(&node.grpc).await;
        fill(&mut caller).await;
        notices(&mut caller).await;
        assert_eq!(reserve(&mut caller).await, 1);
        let listed = list_notices(&mut caller, 2).await["notices"].clone();
        fs::write(self.path("notices.json"), listed.to_string()).unwrap();
        self.write_answers("answers.json", &mut caller).await;
        export(&node.grpc, &self.path("export"));
        backup(&node.data(), &self.path("backup.db"));
    }

    pub(super) async fn write_answers(&self, name: &str, caller: &mut Caller) {
        let mut answers = caller.settled().await;
        answers.retain(|call, _| !call.starts_with(ENDS));
        fs::write(self.path(name), serde_json::to_vec_pretty(&answers).unwrap()).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(super) fn answers(&self, name: &str) -> Answers {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// A node over the restored backup, and a node that has imported the export, answer as the version did.
    async fn assert_read(&self) {
        let folder = tempfile::tempdir().unwrap();
        restore(&self.path("backup.db"), &folder.path().join("data"));
        let restored = Node::start_with(folder, &[]);
        let mut caller = Caller::open(&restored.grpc).await;
        caller.until_answers(&self.answers("answers.json")).await;
        assert_eq!(list_notices(&mut caller, 2).await["notices"].to_string(), self.text("notices.json"));
        assert!(reserve(&mut caller).await > 1, "a number is given again");
        let filled = Node::start();
        let imported = import(&filled.grpc, &self.path("export"));
        assert_eq!(imported.code, 0, "{imported:?}");
        Caller::open(&filled.grpc).await.until_answers(&self.answers("answers.json")).await;
    }
}

/// Takes a number of a sequence.
async fn reserve(caller: &mut Caller) -> i64 {
    let reserved = caller.ok("Sequence/ReserveSeqs", json!({ "name": "room:9", "count": 1 })).await;
    reserved["ranges"][0]["first"].as_str().unwrap().parse().unwrap()
}

/// The files of all earlier versions.
pub(super) fn earlier_versions() -> Vec<VersionFiles> {
    let versions = fs::read_dir(root().join("crates/cli/tests/versions")).unwrap();
    let versions: Vec<_> = versions.map(|version| VersionFiles(version.unwrap().path())).collect();
    assert!(!versions.is_empty(), "files of a version are there");
    versions
}

/// The folder in which this version's files are kept, or a temporary folder.
pub(super) fn folder_of_this_version(temporary: &tempfile::TempDir) -> VersionFiles {
    let folder = env::var_os(FOLDER).map_or(temporary.path().join("files"), PathBuf::from);
    fs::create_dir_all(&folder).unwrap();
    VersionFiles(folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_earlier_versions_are_read() {
    for version in earlier_versions() {
        version.assert_read().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_this_version_are_read() {
    let temporary = tempfile::tempdir().unwrap();
    let files = folder_of_this_version(&temporary);
    files.write().await;
    files.assert_read().await;
}
