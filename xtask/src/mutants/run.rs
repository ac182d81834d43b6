//! Runs test programs, each to its first failure.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::process::root;

/// How many seeds the engine runs with each rule; a rule that needs more has its own script.
const SEEDS: &str = "100";
/// A program that takes longer does not end: a rule was missing, and something waits for ever.
const BOUND: Duration = Duration::from_secs(120);

/// The result when a program did not end, or was interrupted.
const NO_END: &str = "no end";

/// Returns the test program that a line in cargo's messages reports as built.
pub(super) fn program(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    let program = message.get("executable")?.as_str()?;
    is_test.then(|| PathBuf::from(program))
}

/// Returns the first test that fails without the rule; `None`: runs with all rules.
pub(super) fn first_failure(programs: &[PathBuf], mutant: Option<&str>) -> Result<Option<String>> {
    for program in programs {
        let mut passed_over = Vec::new();
        while let Some(test) = run(program, mutant, &arguments("--skip", &passed_over))? {
            // A test that fails now and then proves nothing: it has to fail again.
            if test == NO_END || run(program, mutant, &["--exact", &test])?.is_some() {
                return Ok(Some(format!("{} in {}", test, name(program))));
            }
            passed_over.push(test);
        }
    }
    Ok(None)
}

fn arguments<'a>(option: &'a str, values: &'a [String]) -> Vec<&'a str> {
    values.iter().flat_map(|value| [option, value.as_str()]).collect()
}

fn run(program: &Path, mutant: Option<&str>, arguments: &[&str]) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root().join("crates/cache")).env("KITH_SEEDS", SEEDS);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(mutant) = mutant {
        command.env("KITH_MUTANT", mutant);
    }
    let child = command.spawn().with_context(|| format!("could not start {}", program.display()))?;
    TestProcess(child).first_failure()
}

/// A program that ends with this value.
struct TestProcess(Child);

impl TestProcess {
    /// Waits for the first test that fails, or the end.
    fn first_failure(&mut self) -> Result<Option<String>> {
        let output = self.0.stdout.take().context("the output is a pipe")?;
        let (sender, lines) = mpsc::channel();
        // The thread ends with the program, because its output ends then.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let until = Instant::now() + BOUND;
        loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(test) = failed(&line) {
                        return Ok(Some(test));
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => return Ok(Some(NO_END.to_owned())),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        let succeeded = self.0.wait()?.success();
        Ok((!succeeded).then(|| NO_END.to_owned()))
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        // The program may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the test that an output line reports as failed.
fn failed(line: &str) -> Option<String> {
    let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    result.starts_with("FAILED").then(|| test.to_owned())
}

/// Returns the program's name without cargo's number.
fn name(program: &Path) -> String {
    let stem = program.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stem.rsplit_once('-').map_or_else(|| stem.clone(), |(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_test_is_distinguished_from_summary() {
        assert_eq!(failed("test a::b ... FAILED"), Some("a::b".to_owned()));
        assert_eq!(failed("test a::b ... ok"), None);
        assert_eq!(failed("test result: FAILED. 1 passed; 1 failed"), None);
    }

    #[test]
    fn only_message_of_test_build_names_program() {
        let line = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/engine-0f"}"#;
        assert_eq!(program(line), Some(PathBuf::from("/t/engine-0f")));
        assert_eq!(program(&line.replace("true", "false")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(name(Path::new("/t/kith_cache-0f")), "kith_cache");
    }
}
