//! Where the reason for a failed start is written, also if the configuration cannot be used.

use std::path::PathBuf;

use super::Sources;

const KEY: &str = "termination_log";
const VARIABLE: &str = "KITH_TERMINATION_LOG";

/// The file that the sources name, whatever else is wrong with them.
pub fn termination_log(sources: &Sources) -> Option<PathBuf> {
    let flag = sources.flags.iter().rev().find(|flag| flag.key == KEY).map(|flag| &flag.value);
    let variable = || sources.environment.iter().find(|(name, _)| name == VARIABLE).map(|(_, value)| value);
    let text = flag.or_else(variable).cloned().or_else(|| in_file(sources))?;
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn in_file(sources: &Sources) -> Option<String> {
    let text = std::fs::read_to_string(sources.file_path()).ok()?;
    Some(toml::from_str::<toml::Table>(&text).ok()?.get(KEY)?.as_str()?.to_owned())
}
