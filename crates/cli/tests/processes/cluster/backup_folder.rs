//! Runs `kith backup` and `kith restore` with the configuration of a site's nodes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    cluster::site::{Site, command_with_relations},
    spawned::output_of,
};

/// A folder for the backups of a site with relations.
pub(crate) struct BackupFolder<'a> {
    site: &'a Site,
    folder: tempfile::TempDir,
}

impl<'a> BackupFolder<'a> {
    pub(crate) fn of(site: &'a Site) -> Self {
        Self { site, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command_with_relations(self.site, self.folder.path(), arguments)
    }

    /// Takes a backup. Returns its folder.
    pub(crate) fn back_up(&self) -> PathBuf {
        let report = self.succeeded(&["backup", "--to", self.folder.path().to_str().unwrap()]);
        let backup = PathBuf::from(report["path"].as_str().unwrap());
        assert_eq!(backup.parent(), Some(self.folder.path()));
        let manifest: Value =
            serde_json::from_slice(&fs::read(backup.join("manifest.json")).unwrap()).unwrap();
        assert_eq!(manifest["files"], report["files"]);
        backup
    }

    /// Restores a backup over what there is.
    pub(crate) fn restore(&self, backup: &Path) -> Value {
        self.succeeded(&["restore", backup.to_str().unwrap(), "--force"])
    }

    fn succeeded(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = output_of(self.command(&[arguments, &["-o", "json"]].concat()));
        assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
        serde_json::from_str(&out).unwrap()
    }
}
