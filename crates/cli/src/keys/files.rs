//! Writes keys and caller files atomically.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use kith_server::auth::{
    callers_edit::EditError,
    secret_file::{self, Content},
};

/// The permissions of a key file: only its owner may read it.
const OF_KEY: u32 = 0o600;
/// The permissions of a caller file: digests may be seen.
const OF_CALLERS: u32 = 0o644;

/// Writes a key to a new file. Returns false, and changes nothing, if the file exists. A killed process
/// leaves no partial key under the name. Fails when the file cannot be written.
pub(in super::super) fn create(path: &Path, key: &str) -> Result<bool> {
    let unwritable = || format!("{} cannot be written", path.display());
    let sibling = sibling(path);
    let written = create_new(&sibling, OF_KEY).and_then(|mut file| {
        file.write_all(key.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    });
    // A link does not replace an existing file, as a rename would.
    let linked = written.and_then(|()| fs::hard_link(&sibling, path));
    drop(fs::remove_file(&sibling));
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).with_context(unwritable),
    }
}

/// Changes a caller file; an absent file is an empty text. A node that reads it meanwhile sees the old file
/// or the new file. If two commands run at the same time, one may fail. Fails when the file cannot be read or
/// written, `change` refuses it, or it was changed meanwhile.
pub(super) fn edit(path: &Path, change: impl FnOnce(&str) -> Result<String, EditError>) -> Result<()> {
    // A link's target is replaced, not the link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = text(path)?;
    let after = change(before.as_deref().unwrap_or_default())
        .map_err(|why| anyhow::anyhow!("{}{why}", path.display()))?;
    let sibling = sibling(path);
    let replaced = write_sibling(&sibling, path, &after).and_then(|()| {
        if text(path)? != before {
            bail!("{} was changed by another program; try again", path.display());
        }
        fs::rename(&sibling, path).with_context(|| format!("{} cannot be written", path.display()))
    });
    if replaced.is_err() {
        drop(fs::remove_file(&sibling));
    }
    replaced
}

fn write_sibling(sibling: &Path, path: &Path, text: &str) -> Result<()> {
    let written = create_new(sibling, OF_CALLERS).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if let Ok(data) = fs::metadata(path) {
            file.set_permissions(data.permissions())?;
        }
        file.sync_all()
    });
    written.with_context(|| format!("{} cannot be written", sibling.display()))
}

/// Reads a file; `None` if there is no file.
fn text(path: &Path) -> Result<Option<String>> {
    path.exists().then(|| read(path)).transpose()
}

/// Reads a caller file.
pub(super) fn read(path: &Path) -> Result<String> {
    let bytes = secret_file::read(path, Content::Public)?.bytes;
    let text = std::str::from_utf8(&bytes).ok().with_context(|| format!("{} is no text", path.display()))?;
    Ok(text.to_owned())
}

/// Names a file in the same folder, so that it can replace the other atomically.
fn sibling(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

#[cfg(unix)]
fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // The mode must hold, whatever the umask is.
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

#[cfg(not(unix))]
fn create_new(path: &Path, _mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn key_file_is_new_and_of_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kith.key");
        assert!(create(&path, "sesame").unwrap());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("sesame\n", 0o600));
        assert!(!create(&path, "other").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "sesame\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        let error = create(&folder.path().join("absent/kith.key"), "sesame").unwrap_err();
        assert!(!format!("{error:#}").contains("sesame"), "{error:#}");
    }

    #[test]
    fn callers_file_is_replaced_and_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("callers.toml");
        edit(&path, |text| Ok(format!("{text}one"))).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("one", 0o644));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        edit(&path, |text| Ok(format!("{text} two"))).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("one two", 0o640));
        edit(&path, |_| Err(EditError::NotFound)).unwrap_err();
        let raced = edit(&path, |text| {
            fs::write(&path, "by another").unwrap();
            Ok(text.to_owned())
        });
        assert!(raced.unwrap_err().to_string().contains("another program"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "by another");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
    }
}
