//! Restores that are refused, or killed.

use std::{fs, path::Path, process::Stdio, time::Duration};

use mongodb::{
    Client,
    bson::{Document, doc},
};
use serde_json::Value;

use crate::{
    cluster::{
        backup_folder::BackupFolder,
        site::{Site, variable, with_relations},
    },
    polls::until,
    spawned::{FREE, KilledOnDrop, output_of, refused},
};

/// Copies a backup, and changes the copy.
fn spoiled(folder: &BackupFolder<'_>, backup: &Path, name: &str, spoil: impl FnOnce(&Path)) -> String {
    let copy = folder.path().join(name);
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(backup).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    spoil(&copy);
    copy.to_str().unwrap().to_owned()
}

fn edit(manifest: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    change(&mut value);
    fs::write(manifest, value.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn unfit_backup_or_database_is_refused() {
    let site = Site::new(None);
    let (folder, node) = (BackupFolder::of(&site), site.node_with(with_relations).await);
    let ann = node.create("ann").await.user_id;
    let backup = folder.back_up();
    let whole = backup.to_str().unwrap();
    let restore = |from: &str, words: &[&str]| {
        let line = refused(folder.command(&["restore", from, "--force"]));
        assert!(words.iter().all(|word| line.contains(word)), "{line} should hold {words:?}");
    };
    restore(whole, &["nodes use", "stop all"]);
    node.stop().await;
    let line = refused(folder.command(&["restore", whole]));
    assert!(line.contains("holds data already") && line.contains("--force"), "{line}");
    let flip = |copy: &Path| {
        let file = copy.join("mongodb.users.bson.zst");
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(file, bytes).unwrap();
    };
    restore(&spoiled(&folder, &backup, "flipped", flip), &["mongodb.users", "SHA-256 differs"]);
    let remove = |copy: &Path| fs::remove_file(copy.join("cql.follows.bson.zst")).unwrap();
    restore(&spoiled(&folder, &backup, "short", remove), &["cql.follows", "it is missing"]);
    let fewer = |copy: &Path| edit(&copy.join("manifest.json"), |all| all["files"][0]["rows"] = 1.into());
    restore(&spoiled(&folder, &backup, "fewer", fewer), &["is not as it was backed up"]);
    for (name, field) in [("schema", "schema"), ("format", "format")] {
        let newer = |copy: &Path| {
            edit(&copy.join("manifest.json"), |all| (all[field], all["kith"]) = (99.into(), "9.9.9".into()));
        };
        restore(&spoiled(&folder, &backup, name, newer), &["kith 9.9.9", "or newer"]);
    }
    restore(folder.path().to_str().unwrap(), &["there is no backup of a cluster"]);
    let file = folder.path().join("kith.db");
    fs::write(&file, "").unwrap();
    restore(file.to_str().unwrap(), &["is a file", "store.backend is cluster"]);
    let mut embedded = folder.command(&["restore", whole]);
    embedded.env("KITH_STORE__BACKEND", "sqlite");
    let line = refused(embedded);
    assert!(line.contains("is a folder") && line.contains("store.backend is sqlite"), "{line}");
    let node = site.node_with(with_relations).await;
    assert_eq!(node.get(ann).await.user_name, "ann", "nothing was changed");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn killed_restore_is_repeated() {
    let site = Site::new(None);
    let (folder, node) = (BackupFolder::of(&site), site.node_with(with_relations).await);
    let ann = node.create("ann").await.user_id;
    let backup = folder.back_up();
    node.stop().await;
    let mut restore = folder.command(&["restore", backup.to_str().unwrap(), "--force"]);
    let restoring = KilledOnDrop(restore.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let client = Client::with_uri_str(variable("KITH_TEST_MONGODB")).await.unwrap();
    let migrations = client.database(&site.database).collection::<Document>("migrations");
    until(Duration::from_secs(60), async || {
        migrations.find_one(doc! { "_id": "restoring" }).await.unwrap().is_some()
    })
    .await;
    drop(restoring);
    let after_restore = ["epoch", "after-restore", "--backed-up-at", "2026-11-27T08:00:00Z"];
    for arguments in [&FREE[..], &["backup", "--to", "there"], &after_restore] {
        let (code, _, log) = output_of(folder.command(arguments));
        let line = log.lines().last().unwrap();
        assert_eq!(code, Some(2), "{log}");
        assert!(line.contains("a restore has begun") && line.contains("run kith restore again"), "{line}");
    }
    let report = folder.restore(&backup);
    assert_eq!(report["schema"], 21, "{report}");
    let node = site.node_with(with_relations).await;
    assert_eq!(node.get(ann).await.user_name, "ann");
    node.stop().await;
}
