//! Checks an embedded node's data folder.

use std::{
    fs::{self, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use kith_server::{
    config::{Backend, Config},
    node::store::data_file,
};

use super::{Finding, mount};

/// Below this, a node with some users soon has no space left.
const FREE_LEAST: u64 = 256 << 20;

/// Checks folder and file. The node creates a missing folder, so its parent is checked.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    if config.store.backend != Backend::Sqlite {
        return Vec::new();
    }
    let folder = &config.data_dir;
    let mut found = Vec::new();
    match fs::metadata(folder) {
        Ok(data) if !data.is_dir() => {
            let run = format!("ls -ld {}", folder.display());
            return vec![Finding::new(format!("{} is no folder", folder.display()), run)];
        }
        Ok(data) => found.extend(owner(folder, &data).or_else(|| unwritable(folder))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            found.extend(unwritable(&nearest_existing(folder)))
        }
        Err(error) => return vec![denied(folder, &error)],
    }
    found.extend(remote(&nearest_existing(folder)));
    found.extend(file(&data_file(config)));
    found.extend(room(&nearest_existing(folder)));
    found
}

/// Returns the nearest existing parent folder.
fn nearest_existing(folder: &Path) -> PathBuf {
    let above = folder.ancestors().find(|above| !above.as_os_str().is_empty() && above.exists());
    above.unwrap_or(Path::new(".")).to_owned()
}

/// Reports a remote file system: SQLite keeps its log index in memory that is mapped from a file.
fn remote(folder: &Path) -> Option<Finding> {
    let kind = mount::remote(folder)?;
    let finding = format!(
        "{} is on {kind}, where locks and shared memory of SQLite do not hold: data can be damaged",
        folder.display()
    );
    Some(Finding::new(finding, "kith serve --data-dir DIR  # on a local disk"))
}

fn denied(path: &Path, error: &io::Error) -> Finding {
    let run = format!("ls -ld {}", nearest_existing(path).display());
    Finding::new(format!("{} cannot be looked at: {error}", path.display()), run)
}

/// Reports files that belong to another user, which would later prevent the node from using its data.
fn owner(path: &Path, data: &Metadata) -> Option<Finding> {
    let me = fs::metadata("/proc/self").ok()?.uid();
    (data.uid() != me).then(|| {
        let path = path.display();
        let finding = format!("{path} belongs to user {} and you are user {me}", data.uid());
        Finding::new(finding, format!("sudo -u '#{}' kith doctor --data-dir {path}", data.uid()))
    })
}

/// Writes a probe: permissions are not the only obstacle (a disk mounted read-only, a quota).
fn unwritable(folder: &Path) -> Option<Finding> {
    let probe = folder.join(format!(".kith-doctor-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    let error = made.and_then(|file| file.set_len(1)).err();
    fs::remove_file(&probe).ok();
    let (error, folder) = (error?, folder.display());
    let run = match error.kind() {
        io::ErrorKind::PermissionDenied => format!("chmod u+rwx {folder}  # or --data-dir DIR"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("df -h {folder}"),
        _ => format!("mount | grep \"$(df -P {folder} | awk 'END {{ print $6 }}')\""),
    };
    Some(Finding::new(format!("{folder} cannot be written: {error}"), run))
}

fn file(file: &Path) -> Vec<Finding> {
    let data = match fs::metadata(file) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![denied(file, &error)],
    };
    let shown = file.display();
    let mut found: Vec<_> = owner(file, &data).into_iter().collect();
    if data.permissions().mode() & 0o077 != 0 {
        let finding = format!("{shown} may be read by other users of this machine");
        found.push(Finding::new(finding, format!("chmod go= {shown}*")));
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open(file) {
        let run = format!("chmod u+rw {shown}*");
        found.push(Finding::new(format!("{shown} cannot be written: {error}"), run));
    }
    found
}

/// Runs `df`, since the standard library has no function for it. Without `df` there is no finding.
fn room(folder: &Path) -> Option<Finding> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    let free = free_bytes(&String::from_utf8(output.stdout).ok()?)?;
    (free < FREE_LEAST).then(|| {
        let finding = format!("only {} MiB are free where {} lies", free >> 20, folder.display());
        Finding::new(
            finding,
            format!("df -h {}; du -xh {} | sort -h | tail", folder.display(), folder.display()),
        )
    })
}

fn free_bytes(df: &str) -> Option<u64> {
    df.lines().nth(1)?.split_whitespace().nth(3)?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folder: &Path) -> Vec<Finding> {
        findings(&Config { data_dir: folder.to_owned(), ..Config::default() })
    }

    #[test]
    fn absent_folder_is_no_finding_and_stays_absent() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("data/deeper");
        assert_eq!(of(&folder).iter().filter(|finding| !finding.finding.contains("MiB")).count(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "neither folder nor probe is left");
    }

    #[test]
    fn readable_file_and_file_as_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = data_file(&Config { data_dir: dir.path().to_owned(), ..Config::default() });
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let found = of(dir.path());
        assert!(found.iter().any(|one| one.run == format!("chmod go= {}*", file.display())), "{found:?}");
        assert!(of(&file)[0].finding.ends_with("is no folder"));
    }

    #[test]
    fn free_room_is_read_from_df() {
        let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x 100 40 60 40% /\n";
        assert_eq!(free_bytes(df), Some(60 * 1024));
        assert_eq!(free_bytes("nothing"), None);
    }
}
