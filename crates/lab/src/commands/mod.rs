//! The subcommands: the arguments of each, and what it does.

mod alerts;
mod bench;
mod check;
mod compare;
mod demo;
mod hunt;
mod mutants;
mod numbers;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

pub(crate) use self::{
    alerts::AlertsArguments, bench::BenchArguments, check::CheckArguments, compare::CompareArguments,
    demo::DemoArguments, hunt::HuntArguments, mutants::MutantsArguments, numbers::NumbersArguments,
};

/// The program of a node: the one that is said, else the one beside this program. Its path holds in every folder, since
/// nodes are started in folders of their own.
fn program(said: Option<PathBuf>) -> Result<PathBuf> {
    let own = || std::env::current_exe().context("the path of this program is not known");
    let program = said.map_or_else(|| Ok(own()?.with_file_name("kith")), Ok::<_, anyhow::Error>)?;
    std::path::absolute(&program).with_context(|| format!("{} is no path", program.display()))
}

/// # Errors
/// When one of those that are asked for is none of a kind (`fault`) that is known; it names all that are.
fn ensure_known<'a>(kind: &str, asked: &[String], known: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let known: Vec<&str> = known.into_iter().collect();
    match asked.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => bail!("no {kind} is named {name}; there are: {}", known.join(", ")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_knows_is_refused_with_those_that_there_are() {
        let asked = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            ensure_known("fault", &names, ["F10", "F11"])
        };
        assert!(asked(&[]).is_ok() && asked(&["F11", "F10"]).is_ok());
        let refused = asked(&["F10", "F1"]).expect_err("no fault has this name");
        assert_eq!(refused.to_string(), "no fault is named F1; there are: F10, F11");
    }

    #[test]
    fn a_program_that_is_said_by_a_path_from_here_is_found_from_everywhere() {
        let program = |said: Option<&str>| program(said.map(PathBuf::from)).expect("a path");
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(program(Some("target/broken/kith")), here.join("target/broken/kith"));
        assert_eq!(program(Some("/opt/kith")), PathBuf::from("/opt/kith"));
        assert!(program(None).is_absolute() && program(None).ends_with("kith"));
    }
}
