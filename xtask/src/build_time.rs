//! How long people wait for builds: README quotes some figures of this table.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    node::Node,
    process::{cargo, outlive_ctrl_c, root, succeed, target},
};

/// The file that is edited: policy in one domain.
const EDITED: &str = "crates/service/src/user/users.rs";
/// The number in the line that an edit changes: a function in the file uses it.
const NUMBER: usize = 16;
const MEGABYTE: u64 = 1_000_000;
const LABORATORY: [&str; 2] = ["-p", "kith-lab"];

/// Builds from nothing in its own folder, then after an edit, and prints each time as a Markdown row when it
/// is known. Takes half an hour on two cores, and needs them idle.
///
/// # Errors
/// Fails if a build fails or the node does not serve.
pub(crate) fn run() -> Result<()> {
    outlive_ctrl_c(|| {})?;
    let folder = target().join("build-time");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let cores = thread::available_parallelism()?;
    println!("| what, on {cores} cores | measured |\n| --- | --- |");
    let full = folder.join("full");
    let begun = Instant::now();
    release(&full, &[])?;
    drop(Node::start(&full.join("release/kith"))?);
    row("`cargo run --release` from nothing until the node serves", &time(begun));
    row("size of the program", &size(&full.join("release/kith"))?);
    let mut edited = EditedFile::read()?;
    edited.edit()?;
    let begun = Instant::now();
    release(&full, &[])?;
    row("`cargo build --release` after an edit of one line in a domain", &time(begun));
    edited.edit()?;
    release(&full, &LABORATORY)?;
    edited.edit()?;
    let begun = Instant::now();
    release(&full, &LABORATORY)?;
    row("laboratory and node for release after an edit of one line in a domain", &time(begun));
    fs::remove_dir_all(&full)?;
    let embedded = folder.join("embedded");
    let begun = Instant::now();
    release(&embedded, &["--no-default-features", "--features", "embedded"])?;
    row("a release build for single-node mode alone, from nothing", &time(begun));
    fs::remove_dir_all(&embedded)?;
    let tests = folder.join("tests");
    until_first_test(&tests)?;
    edited.edit()?;
    let begun = Instant::now();
    until_first_test(&tests)?;
    row("`cargo test` of the crate of a domain after an edit, until the first test runs", &time(begun));
    fs::remove_dir_all(&folder).context("the folder of the builds stays")
}

fn row(what: &str, measured: &str) {
    println!("| {what} | {measured} |");
}

fn time(begun: Instant) -> String {
    let seconds = begun.elapsed().as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

fn size(program: &Path) -> Result<String> {
    Ok(format!("{} MB", fs::metadata(program)?.len().div_ceil(MEGABYTE)))
}

/// Builds the node, and the targets in further arguments.
fn release(folder: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = cargo();
    command.args(["build", "--release", "--quiet", "-p", "kith-cli", "--target-dir"]).arg(folder);
    succeed(command.args(arguments))
}

/// Returns the line that an edit changes, with this number.
fn line(number: usize) -> String {
    format!("const ID_TRIES: usize = {number};")
}

/// A product file that is edited, and put back when this is dropped.
struct EditedFile {
    path: PathBuf,
    original: String,
    edits: usize,
}

impl EditedFile {
    fn read() -> Result<Self> {
        let path = root().join(EDITED);
        let original = fs::read_to_string(&path)?;
        ensure!(original.contains(&line(NUMBER)), "{EDITED} has no line `{}`", line(NUMBER));
        Ok(Self { path, original, edits: 0 })
    }

    /// Changes the line, and moves all lines below it down.
    fn edit(&mut self) -> Result<()> {
        self.edits += 1;
        let edited = "\n".repeat(self.edits) + &line(NUMBER + self.edits);
        fs::write(&self.path, self.original.replace(&line(NUMBER), &edited))
            .context("the file cannot be edited")
    }
}

impl Drop for EditedFile {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.original) {
            eprintln!("{EDITED} stays edited: {error}");
        }
    }
}

/// Runs the crate's tests up to the first line that reports a running test.
fn until_first_test(folder: &PathBuf) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--quiet", "-p", "kith-service", "--target-dir"]).arg(folder);
    let mut tests = command.stdout(Stdio::piped()).spawn()?;
    let output = tests.stdout.take().context("the output is a pipe")?;
    let ran = BufReader::new(output).lines().map_while(Result::ok).any(|line| line.starts_with("running "));
    tests.kill()?;
    tests.wait()?;
    ensure!(ran, "no test ran");
    Ok(())
}
