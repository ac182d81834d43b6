//! Kills an import before its end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Kills an import after it has recorded that it passed this line.
pub(crate) fn killed_midway(mut import: Command, file: &Path, behind: u64) {
    let mut running = import.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let kept = PathBuf::from(format!("{}.kith-progress", file.display()));
    let begun = Instant::now();
    let noted = || {
        let progress: Value = serde_json::from_slice(&fs::read(&kept).ok()?).ok()?;
        progress["at"]["line"].as_u64().filter(|line| *line > behind)
    };
    while noted().is_none() {
        assert!(running.try_wait().unwrap().is_none(), "the import ended before it was killed");
        assert!(begun.elapsed() < Duration::from_secs(60), "the import does not come forward");
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(kept.is_file());
}
