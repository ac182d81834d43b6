//! Backups of clusters that earlier versions wrote are read by this version.

use std::{fs, path::Path};

use super::{
    checklist::Caller,
    filled::fill,
    versions::{VersionFiles, earlier_versions, folder_of_this_version},
};
use crate::cluster::{
    backup_folder::BackupFolder,
    site::{Site, with_relations},
};

/// Writes a backup and the node's answers of this version.
async fn write(files: &VersionFiles) {
    let site = Site::in_redis_of_tests();
    let (backups, node) = (BackupFolder::of(&site), site.node_with(with_relations).await);
    let mut calls = Caller::of(&node).await;
    fill(&mut calls).await;
    files.write_answers("cluster.json", &mut calls).await;
    node.stop().await;
    copy(&backups.back_up(), &files.path("cluster"));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// A node over the restored backup answers as the version did.
async fn assert_read(files: &VersionFiles) {
    let site = Site::in_redis_of_tests();
    BackupFolder::of(&site).restore(&files.path("cluster"));
    let node = site.node_with(with_relations).await;
    Caller::of(&node).await.until_answers(&files.answers("cluster.json")).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn clusters_of_earlier_versions_are_read() {
    for version in earlier_versions() {
        assert_read(&version).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn cluster_of_this_version_is_read() {
    let temporary = tempfile::tempdir().unwrap();
    let files = folder_of_this_version(&temporary);
    write(&files).await;
    assert_read(&files).await;
}
