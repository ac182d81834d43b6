//! Checks that the process may use its configured memory.

use std::{fs, path::Path};

use kith_server::config::{Backend, Config};

use super::Finding;

const MIB: u64 = 1 << 20;
/// The memory that a node needs besides its caches: code, connection buffers, calls in flight.
const ITSELF: u64 = 64 * MIB;
/// The SQLite cache for each connection, readers and the writer.
const SQLITE: u64 = 16 * MIB;
/// The smallest useful memory limit.
const CACHE_LEAST: u64 = 8 * MIB;

/// Checks the control group's limits, which are also a container's limits, and the machine's memory.
pub(super) fn findings(config: &Config) -> Option<Finding> {
    finding(config, memory_limit(Path::new("/"))?)
}

fn finding(config: &Config, granted: u64) -> Option<Finding> {
    let cache = config.cache.memory_bytes;
    let sqlite = match config.store.backend {
        Backend::Sqlite => {
            let readers = u64::try_from(config.store.sqlite.readers).unwrap_or(u64::MAX);
            SQLITE.saturating_mul(readers.saturating_add(1))
        }
        Backend::Cluster => 0,
    };
    let overhead = ITSELF.saturating_add(sqlite);
    let needed = cache.saturating_add(overhead);
    if granted >= needed {
        return None;
    }
    let (granted_mib, needed_mib) = (granted / MIB, needed / MIB);
    let finding = format!(
        "the process may use {granted_mib} MiB of memory and may come to need {needed_mib} MiB: {} MiB of \
         cache.memory_bytes, {} MiB of SQLite and {} MiB else; the system would kill it",
        cache / MIB,
        sqlite / MIB,
        ITSELF / MIB
    );
    let room = granted.saturating_sub(overhead);
    let run = if room >= CACHE_LEAST {
        format!("kith serve --set cache.memory_bytes={}MiB  # or grant {needed_mib} MiB", room / MIB)
    } else {
        format!("cat /proc/self/cgroup  # grant {needed_mib} MiB, or less with a smaller cache.memory_bytes")
    };
    Some(Finding::new(finding, run))
}

/// Returns the smallest limit among this process's groups; `None` if the system reports none.
fn memory_limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let machine = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    groups.lines().filter_map(|line| of_group(root, line)).chain(of_machine(&machine)).min()
}

/// Reads a line in `/proc/self/cgroup`, `0::/path` in version 2 and `9:memory:/path` in version 1, and
/// returns the smallest limit among the group and its ancestors. In a container the path may be the host's:
/// then only the root is found.
fn of_group(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let limit = |above: &Path| {
        let folder = root.join(mount).join(above.strip_prefix("/").unwrap_or(above));
        fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    Path::new(path).ancestors().filter_map(limit).min()
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a system with these files.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_is_found_in_both_versions() {
        for (files, expected) in [
            (&[][..], None),
            (&[("proc/meminfo", "MemTotal:     1024 kB\n")], Some(MIB)),
            (
                &[
                    ("proc/meminfo", "MemTotal: 16384000 kB\n"),
                    ("proc/self/cgroup", "0::/a/b\n"),
                    ("sys/fs/cgroup/a/memory.max", "100663296\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ],
                Some(96 * MIB),
            ),
            (
                &[
                    ("proc/self/cgroup", "9:memory:/docker/of-the-host\n8:cpu,cpuacct:/\n"),
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "100663296\n"),
                ],
                Some(96 * MIB),
            ),
            (&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "max\n")], None),
        ] {
            assert_eq!(memory_limit(system(files).path()), expected, "{files:?}");
        }
    }

    #[test]
    fn a_cache_beyond_the_limit_is_found() {
        let config = Config::default();
        let small = finding(&config, 96 * MIB).unwrap();
        assert!(
            small.finding.contains("may use 96 MiB") && small.finding.contains("256 MiB of cache"),
            "{small:?}"
        );
        assert!(small.run.contains("# grant 400 MiB"), "{small:?}");
        let half = finding(&config, 256 * MIB).unwrap();
        assert!(half.run.starts_with("kith serve --set cache.memory_bytes=112MiB"), "{half:?}");
        assert_eq!(finding(&config, 400 * MIB), None);
    }
}
