//! Checks the process limits.

use kith_server::config::Config;

use super::{Finding, memory};

/// The files that a node needs besides its connections: data, logs, threads' pipes.
const BESIDE: usize = 256;

/// Checks this process's limits, which a node started from here would have.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let descriptors = descriptors(&text, config.limits.connections);
    descriptors.into_iter().chain(memory::findings(config)).collect()
}

fn descriptors(text: &str, connections: usize) -> Option<Finding> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let most: usize = line.split_whitespace().next()?.parse().ok()?;
    let needed = connections.saturating_add(BESIDE);
    (most < needed).then(|| {
        let finding = format!(
            "a process may open {most} files, fewer than limits.connections ({connections}) needs ({needed})"
        );
        let least = most.saturating_sub(BESIDE).max(1);
        Finding::new(finding, format!("ulimit -n {needed}  # or kith serve --set limits.connections={least}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_limit_of_open_files_is_found() {
        let line =
            |most: &str| format!("Max open files            {most}                 524288     files\n");
        let finding = descriptors(&line("1024"), 10_000).unwrap();
        assert!(finding.run.starts_with("ulimit -n 10256"), "{finding:?}");
        assert!(finding.run.ends_with("limits.connections=768"), "{finding:?}");
        assert_eq!(descriptors(&line("524288"), 10_000), None);
        assert_eq!(descriptors(&line("unlimited"), 10_000), None);
        assert_eq!(descriptors("", 10_000), None);
    }
}
