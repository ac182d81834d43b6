//! Backups that cannot be made or restored are refused in one line with cause and fix, and change nothing.

use std::{fs, path::Path};

use kith_store_sqlite::backup::Manifest;
use serde_json::Value;

use crate::{
    backup::node::{Node, backup, command, filled, restore, succeeded},
    spawned,
};

/// Runs `kith`, and checks that it ends with one line that has all `words`.
#[track_caller]
fn refused(data: &Path, arguments: &[&str], words: &[&str]) {
    let line = spawned::refused(command(data, arguments));
    assert!(words.iter().all(|word| line.contains(word)), "{line} should hold {words:?}");
}

fn edit(manifest: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    change(&mut value);
    fs::write(manifest, value.to_string()).unwrap();
}

#[tokio::test]
async fn broken_or_newer_backup_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    filled(&data, 3).await;
    let place = folder.path().join("place");
    let case = |name: &str, spoil: &dyn Fn(&Path, &Path), words: &[&str]| {
        let file = folder.path().join(name);
        backup(&data, &file);
        spoil(&file, &Manifest::path_of(&file));
        refused(&place, &["restore", file.to_str().unwrap()], words);
        assert!(!place.join("kith.db").exists() && !place.join("kith.db.restoring").exists(), "{name}");
    };
    case(
        "no-manifest",
        &|_, manifest| fs::remove_file(manifest).unwrap(),
        &["is missing; a backup is two files"],
    );
    case("no-file", &|file, _| fs::remove_file(file).unwrap(), &["there is no backup at"]);
    case("not-json", &|_, manifest| fs::write(manifest, "{").unwrap(), &["is no backup made by kith"]);
    case("other-format", &|_, manifest| edit(manifest, |all| all["format"] = 2.into()), &["is no backup"]);
    case(
        "short",
        &|file, _| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(8192).unwrap(),
        &["is not as it was backed up", "take another copy"],
    );
    let flip = |file: &Path, _: &Path| {
        let mut bytes = fs::read(file).unwrap();
        bytes[100_000] ^= 1;
        fs::write(file, bytes).unwrap();
    };
    case("flipped", &flip, &["SHA-256 differs"]);
    let newer = |_: &Path, manifest: &Path| {
        edit(manifest, |all| (all["schema"], all["kith"]) = (99.into(), "9.9.9".into()));
    };
    case("newer", &newer, &["kith 9.9.9 at migration 99", env!("CARGO_PKG_VERSION"), "knows 21"]);
}

#[tokio::test]
async fn no_database_is_not_restored_by_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file, place) =
        (folder.path().join("data"), folder.path().join("backup.db"), folder.path().join("place"));
    filled(&data, 1).await;
    backup(&data, &file);
    // The SHA-256 of an empty file.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    fs::write(&file, "").unwrap();
    edit(&Manifest::path_of(&file), |all| (all["bytes"], all["sha256"]) = (0.into(), empty.into()));
    refused(&place, &["restore", file.to_str().unwrap()], &["is no backup made by kith"]);
    assert!(!place.join("kith.db").exists());
}

#[tokio::test]
async fn data_are_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("backup.db"));
    filled(&data, 3).await;
    backup(&data, &file);
    let before = fs::read(data.join("kith.db")).unwrap();
    let file = file.to_str().unwrap();
    refused(&data, &["restore", file], &["holds data already", "--force"]);
    assert!(fs::read(data.join("kith.db")).unwrap() == before);
    let node = Node::start(&data).await;
    refused(&data, &["restore", file, "--force"], &["another kith process (pid", "stop it"]);
    drop(node);
    let report =
        succeeded("restore", &command(&data, &["restore", file, "--force", "-o", "json"]).output().unwrap());
    let kept = Path::new(report["kept"].as_str().unwrap());
    assert!(kept.file_name().unwrap().to_str().unwrap().starts_with("kith.db.before-20"), "{kept:?}");
    assert!(kept.metadata().unwrap().len() > 0);
    Node::start(&data).await;
}

#[tokio::test]
async fn backup_without_data_or_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("backup.db"));
    let to = file.to_str().unwrap();
    refused(&data, &["backup", "--to", to], &["there are no data at", "--data-dir"]);
    assert!(!data.exists(), "a look makes no folder");
    filled(&data, 1).await;
    let nowhere = folder.path().join("absent/backup.db");
    refused(&data, &["backup", "--to", nowhere.to_str().unwrap()], &["there is no folder", "make it"]);
    backup(&data, &file);
    refused(&data, &["backup", "--to", to], &["exists already", "choose another name"]);
    let cluster = ["--set", "store.backend=cluster", "--set", "store.mongodb.uri=mongodb://127.0.0.1:1"];
    refused(&data, &[&["restore", to], &cluster[..]].concat(), &["is a file", "store.backend is cluster"]);
    refused(&data, &["restore", folder.path().to_str().unwrap()], &["is a folder", "is sqlite"]);
}

#[tokio::test]
async fn backup_into_a_folder_is_named_by_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    filled(&data, 2).await;
    fs::create_dir(&backups).unwrap();
    let report = backup(&data, &backups);
    let path = Path::new(report["path"].as_str().unwrap());
    assert_eq!(path.parent(), Some(backups.as_path()));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == "kith-20261121T080815Z.db".len() && name.starts_with("kith-20"), "{name}");
    assert_eq!(report["bytes"], path.metadata().unwrap().len());
    let manifest: Value = serde_json::from_slice(&fs::read(Manifest::path_of(path)).unwrap()).unwrap();
    for field in ["sha256", "users", "groups", "began", "ended", "schema", "epoch", "kith"] {
        assert_eq!(manifest[field], report[field], "{field}");
    }
    assert_eq!(restore(path, &folder.path().join("restored"))["kept"], Value::Null);
    let plain = folder.path().join("plain.db");
    let output = command(&data, &["backup", "--to", plain.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("field\tvalue\npath\t") && text.contains("\nusers\t2\ngroups\t0\n"), "{text}");
}
