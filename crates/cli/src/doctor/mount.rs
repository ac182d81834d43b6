//! Finds the type of a folder's file system.

use std::{fs, path::Path};

/// Remote file systems, on which file locks and shared memory are not local.
const REMOTE: [&str; 16] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ocfs2",
    "gfs2",
    "ncpfs",
    "coda",
];
/// The prefix of FUSE file systems, which are mostly remote. The second list has those that are not.
const OF_PROGRAMS: &str = "fuse.";
const LOCAL: [&str; 3] = ["fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.bindfs"];

/// Returns the type of this folder's file system, if it is remote and known.
pub(super) fn remote(folder: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = kind(&mounts, &fs::canonicalize(folder).ok()?)?;
    is_remote(kind).then(|| kind.to_owned())
}

/// Returns the type at the nearest mount point. If there are several, the last mount hides the others.
fn kind<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = plain(before.split(' ').nth(4)?);
        folder.starts_with(&point).then_some((point.len(), after.split(' ').next()?))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Decodes the escapes that `/proc` uses in a name: blanks, tabs, newlines and backslashes in octal.
fn plain(point: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(point.to_owned(), |point, (escape, plain)| point.replace(escape, plain))
}

fn is_remote(kind: &str) -> bool {
    REMOTE.contains(&kind) || (kind.starts_with(OF_PROGRAMS) && !LOCAL.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 27 0:40 / /srv rw,relatime shared:1 - nfs4 host:/export rw,vers=4.2\n\
        41 40 0:41 / /srv/fast\\040disk rw - xfs /dev/vdb rw\n\
        42 27 0:42 / /mnt rw - ext4 /dev/vdc rw\n\
        43 42 0:43 / /mnt rw - fuse.sshfs host: rw\n";

    #[test]
    fn nearest_mount_gives_the_file_system() {
        for (folder, expected) in [
            ("/var/lib/kith", "ext4"),
            ("/srv/kith", "nfs4"),
            ("/srv/fast disk/kith", "xfs"),
            ("/srvother", "ext4"),
            ("/mnt/kith", "fuse.sshfs"),
        ] {
            assert_eq!(kind(MOUNTS, Path::new(folder)), Some(expected), "{folder}");
        }
    }

    #[test]
    fn file_systems_of_other_machines_are_remote() {
        for remote in ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs", "fuse.s3fs"] {
            assert!(is_remote(remote), "{remote}");
        }
        for local in ["ext4", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs"] {
            assert!(!is_remote(local), "{local}");
        }
    }
}
