//! Chooses the folder for the files of servers and tests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system in memory on Linux.
const IN_MEMORY: &str = "/dev/shm";
/// The least free space and free memory that all tests' files need there.
const NEEDED: u64 = 8 << 30;

/// Returns the folder for test files: in memory if there is enough, else the system's temporary folder. No
/// test depends on data that survives a reboot, and on a disk most test time is spent on waiting for writes.
pub(crate) fn for_tests() -> PathBuf {
    let in_memory = Path::new(IN_MEMORY);
    let enough =
        [free_space(in_memory), free_memory()].iter().all(|free| free.is_some_and(|free| free >= NEEDED));
    if enough { in_memory.to_owned() } else { env::temp_dir() }
}

/// Returns how many bytes may still be written there; `None` if that is unknown.
fn free_space(folder: &Path) -> Option<u64> {
    let mut free = Command::new("df");
    let output = free.args(["--output=avail", "--block-size=1"]).arg(folder).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().nth(1)?.trim().parse().ok()
}

/// Returns how many bytes programs may still allocate.
fn free_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}
