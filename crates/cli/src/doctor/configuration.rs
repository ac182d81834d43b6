//! Checks that the configuration is valid, with the loader's errors.

use std::{fs, path::Path};

use kith_server::start_error::StartError;

use super::{Finding, environment};

/// The default file in the working folder.
const FILE: &str = "kith.toml";

/// Reports a valid configuration whose file is readable by too many users.
pub(super) fn findings(file: Option<&Path>) -> Vec<Finding> {
    let file = file.unwrap_or(Path::new(FILE));
    let Ok(text) = fs::read_to_string(file) else { return Vec::new() };
    let secret = ["mongodb://", "mongodb+srv://", "invite_code_key ", "invite_code_key="];
    if !secret.iter().any(|secret| text.contains(secret)) || !readable_by_all(file) {
        return Vec::new();
    }
    let path = file.display();
    let finding = format!("{path} holds a secret and everybody on this machine may read it");
    vec![Finding::new(finding, format!("chmod o= {path}"))]
}

/// Turns the loader's error into a finding.
pub(super) fn error_finding(error: &StartError, file: Option<&Path>) -> Finding {
    let message = error.to_string();
    let path = file.unwrap_or(Path::new(FILE)).display().to_string();
    let run = match message.split(':').next() {
        Some(name) if name.starts_with("KITH_") && message.contains("quote characters around it") => {
            environment::export_line(name)
        }
        Some(name) if name.starts_with("KITH_") => format!("unset {name}"),
        _ if message.contains("may not be read by this user") => {
            format!("ls -l {path}; id  # chmod u+r {path}")
        }
        _ if message.starts_with(&path) && message.contains("cannot be read") => format!("ls -l {path}"),
        _ if message.starts_with(&path) => format!("${{EDITOR:-vi}} {path}; kith config --check"),
        _ => "kith config --check".to_owned(),
    };
    Finding::new(message, run)
}

#[cfg(unix)]
fn readable_by_all(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|data| data.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn readable_by_all(_file: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_configuration_has_a_line_to_run() {
        for (message, run) in [
            (
                "KITH_LISTEN: the value has quote characters around it; write it without quotes",
                "export KITH_LISTEN=",
            ),
            ("KITH_LISTN: unknown key `listn`; did you mean `listen`?", "unset KITH_LISTN"),
            ("kith.toml:3: unknown key `token`", "${EDITOR:-vi} kith.toml; kith config --check"),
            ("kith.toml: ./kith.toml may not be read by this user; name another", "ls -l kith.toml; id"),
            ("--set a: say KEY=VALUE", "kith config --check"),
        ] {
            let finding = error_finding(&StartError::new(message), None);
            assert!(finding.finding == message && finding.run.starts_with(run), "{finding:?}");
        }
    }
}
