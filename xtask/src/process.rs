//! Runs cargo and other programs in the workspace root.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Returns the workspace root.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Prefixes for variables that cargo sets for the running package, which is this package.
const OF_THIS_PACKAGE: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// Returns a cargo command in the root: the cargo that runs this task, if known.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    // Build scripts that read these variables would run again, and everything that depends on them would be
    // built again, at every change between a task and cargo by hand.
    for (name, _) in env::vars_os() {
        if OF_THIS_PACKAGE.iter().any(|beginning| name.to_string_lossy().starts_with(beginning)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs to the end with the output passed through.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let name = shown(command);
    eprintln!("$ {name}");
    let status = command.status().with_context(|| format!("could not start `{name}`"))?;
    if !status.success() {
        bail!("`{name}` failed ({status})");
    }
    Ok(())
}

/// Runs to the end, and passes each line on standard output to `see`. Returns whether the program succeeded.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let name = shown(command);
    eprintln!("$ {name}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("could not start `{name}`"))?;
    let output = child.stdout.take().context("the output is a pipe")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        see(&line);
    }
    Ok(child.wait()?.success())
}

/// Keeps ctrl-c from ending this process, so that its children are stopped in order. Programs in the
/// foreground get the signal all the same.
pub(crate) fn outlive_ctrl_c(on_ctrl_c: impl FnMut() + Send + 'static) -> Result<()> {
    ctrlc::set_handler(on_ctrl_c).context("could not watch for ctrl-c")
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    if let Some(file) = Path::new(&words[0]).file_name() {
        words[0] = file.to_string_lossy().into_owned();
    }
    words.join(" ")
}
