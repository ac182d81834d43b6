//! The program that runs a node.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// The program for nodes: `given`, else the file `kith` in the folder of this program. The path is absolute,
/// since each node is started in its own folder.
///
/// # Errors
/// If the path of this program is not known.
pub fn program(given: Option<PathBuf>) -> Result<PathBuf> {
    let own = || std::env::current_exe().context("the path of this program is not known");
    let program = given.map_or_else(|| Ok(own()?.with_file_name("kith")), Ok::<_, anyhow::Error>)?;
    std::path::absolute(&program).with_context(|| format!("{} is no path", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_becomes_absolute() {
        let program = |given: Option<&str>| program(given.map(PathBuf::from)).expect("a path");
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(program(Some("target/broken/kith")), here.join("target/broken/kith"));
        assert_eq!(program(Some("/opt/kith")), PathBuf::from("/opt/kith"));
        assert!(program(None).is_absolute() && program(None).ends_with("kith"));
    }
}
