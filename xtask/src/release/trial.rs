//! Tries a release as a person would: two builds have one digest, and archive and package work on a machine
//! that has neither Rust nor anything of the project.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{VERSION, build, folder, git, output, pack, package, program, tar};
use crate::{
    debian,
    process::{root, succeed, target},
};

/// The most bytes of an archive.
const ARCHIVE_MAX: u64 = 28_000_000;
/// The highest exposure of the unit, in tenths of systemd's figure.
const EXPOSURE_MAX: u32 = 20;
const UNIT: &str = "deploy/systemd/kith.service";
/// The trials, each a script that runs in an empty Debian.
const TRIALS: [&str; 2] = [include_str!("archive.sh"), include_str!("package.sh")];

/// Runs every check; the first that fails ends it. A given program is packed twice, but not built.
///
/// # Errors
/// Fails if a check does. Needs Debian's packages and root.
pub(crate) fn check(given: Option<&Path>) -> Result<()> {
    build(given)?;
    ensure_reproducible(given)?;
    let archive = archive()?;
    let bytes = fs::metadata(&archive)?.len();
    // A given program may be from a faster build, which is larger.
    let is_small = bytes <= ARCHIVE_MAX || given.is_some();
    ensure!(is_small, "the archive has {bytes} bytes, at most {ARCHIVE_MAX} are allowed");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    output(
        Command::new("systemd-analyze")
            .args(["security", "--offline=true", &threshold, UNIT])
            .current_dir(root()),
    )
    .with_context(|| format!("{UNIT} is more exposed than {EXPOSURE_MAX} tenths"))?;
    let newer = newer_package(&archive)?;
    let mut files = files(&folder())?;
    files.push(newer);
    for trial in TRIALS {
        debian::run(&debian::empty()?, trial, &files)?;
    }
    let equal = if given.is_some() { "packings" } else { "builds" };
    println!("release: two {equal} are equal; archive and package work; {bytes} bytes");
    Ok(())
}

/// Returns the archive that was built last.
///
/// # Errors
/// Fails if there is none.
pub(crate) fn archive() -> Result<PathBuf> {
    file_ending(&folder(), ".tar.gz")
}

/// Builds the last commit again in another folder. Fails unless all files have the same digests.
fn ensure_reproducible(given: Option<&Path>) -> Result<()> {
    let again = target().join("release-again");
    if again.exists() {
        fs::remove_dir_all(&again)?;
    }
    let (source, files) = (again.join("source"), again.join("files"));
    succeed(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root()).arg(&source))?;
    let program = match given {
        Some(program) => program.to_owned(),
        None => program::build(&source, &again.join("target"))?,
    };
    pack(&source, &program, &files)?;
    let digests =
        |folder: &Path| Ok::<_, anyhow::Error>(fs::read_to_string(file_ending(folder, ".sha256")?)?);
    let (first, second) = (digests(&folder())?, digests(&files)?);
    ensure!(first == second, "two builds differ (is everything committed?):\n{first}\n{second}");
    Ok(fs::remove_dir_all(again)?)
}

/// Packs the archive's content as a package of a later version.
fn newer_package(archive: &Path) -> Result<PathBuf> {
    let unpacked = target().join("release-newer");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    let time = git(&root(), "%ct")?;
    succeed(tar(&unpacked, &time).arg("-xf").arg(fs::canonicalize(archive)?))?;
    let staged = files(&unpacked)?.pop().context("the archive has a folder")?;
    let name = package::build(&root(), &staged, &format!("{VERSION}+newer"), &time)?;
    Ok(unpacked.join(name))
}

fn file_ending(folder: &Path, end: &str) -> Result<PathBuf> {
    let mut files = files(folder)?.into_iter();
    files.find(|file| file.to_string_lossy().ends_with(end)).with_context(|| format!("no {end} is built"))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    entries.collect()
}
