//! The subcommands: each with its arguments and its function.

mod alerts;
mod check;
mod clients;
mod demo;
mod hunt;
mod mutants;

use anyhow::{Result, bail};

pub(crate) use self::{
    alerts::AlertsArguments, check::CheckArguments, clients::ClientsArguments, demo::DemoArguments,
    hunt::HuntArguments, mutants::MutantsArguments,
};

/// # Errors
/// If a requested name is not a known `kind` (such as `fault`). The error names all known names.
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
    fn unknown_name_is_refused_with_known_names() {
        let asked = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            ensure_known("fault", &names, ["F10", "F11"])
        };
        assert!(asked(&[]).is_ok() && asked(&["F11", "F10"]).is_ok());
        let refused = asked(&["F10", "F1"]).expect_err("no fault has this name");
        assert_eq!(refused.to_string(), "no fault is named F1; there are: F10, F11");
    }
}
