//! Builds the files that people install: an archive with the program, a Debian package, the list of parts,
//! and their digests.

mod package;
mod parts;
mod program;
mod trial;

use std::{
    env::consts::{ARCH, OS},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    debian,
    process::{root, succeed, target},
    tools::on_path,
};

pub(crate) use trial::{archive, check};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The shells with completions, and the file that each shell looks for.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "kith"), ("zsh", "_kith"), ("fish", "kith.fish")];
/// The files of the repository in an archive, and their places there.
const FILES: [(&str, &str); 3] = [
    ("LICENSE", "LICENSE"),
    ("deploy/systemd/kith.service", "systemd/kith.service"),
    ("deploy/package/kith.toml", "systemd/kith.toml"),
];

/// Returns the folder with the files of a release.
pub(crate) fn folder() -> PathBuf {
    target().join("release-files")
}

/// Builds a release in [`folder`]. A given program is packed as it is.
///
/// # Errors
/// Fails if the program or a file cannot be built.
pub(crate) fn build(given: Option<&Path>) -> Result<()> {
    let source = root();
    let program =
        given.map_or_else(|| program::build(&source, &target()), |program| Ok(program.to_owned()))?;
    pack(&source, &program, &folder())
}

/// Packs the program into these files. Their bytes follow from the program and the last commit of `source`.
fn pack(source: &Path, program: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let name = format!("kith-{VERSION}-{ARCH}-{OS}");
    let staged = folder.join(&name);
    stage(source, program, &staged)?;
    if OS == "linux" {
        debian::install("pigz", "pigz")?;
    }
    let time = git(source, "%ct")?;
    let archive = format!("{name}.tar.gz");
    succeed(tar(folder, &time).args(["-cf", &archive, &name]))?;
    let parts = format!("{name}.cdx.json");
    fs::write(folder.join(&parts), parts::bill(source)?)?;
    let mut files = vec![archive, parts];
    if OS == "linux" {
        files.push(package::build(source, &staged, VERSION, &time)?);
    }
    fs::remove_dir_all(&staged)?;
    fs::write(folder.join(format!("{name}.sha256")), digests(folder, &files)?)?;
    println!("release: {}", folder.display());
    Ok(())
}

/// Fills the folder that is packed.
fn stage(source: &Path, program: &Path, staged: &Path) -> Result<()> {
    fs::create_dir_all(staged.join("systemd"))?;
    fs::create_dir_all(staged.join("completions"))?;
    let kith = staged.join("kith");
    fs::copy(program, &kith).with_context(|| format!("{} cannot be packed", program.display()))?;
    for (from, to) in FILES {
        fs::copy(source.join(from), staged.join(to)).with_context(|| from.to_owned())?;
    }
    fs::write(staged.join("THIRD-PARTY.txt"), parts::licences(source)?)?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(&kith).args(["completions", shell, "--output", "plain"]))?;
        fs::write(staged.join("completions").join(file), script)?;
    }
    output(Command::new(&kith).args(["man", "--dir"]).arg(staged.join("man1")))?;
    Ok(())
}

/// Returns a tar command whose archives depend on the packed files' content alone. It runs GNU tar, which
/// macOS has under another name. By pigz archives are 3 % smaller than by gzip, and take minutes.
fn tar(folder: &Path, time: &str) -> Command {
    let mut tar = Command::new(on_path("gtar").unwrap_or_else(|| "tar".into()));
    tar.current_dir(folder).args([
        "--format=ustar",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.args(["--mode=u=rwX,go=rX", "--use-compress-program=pigz -n -11 -p 2"])
        .arg(format!("--mtime=@{time}"));
    tar
}

fn digests(folder: &Path, files: &[String]) -> Result<Vec<u8>> {
    output(Command::new("sha256sum").args(files).current_dir(folder))
}

/// Returns a fact about the last commit.
pub(crate) fn git(source: &Path, format: &str) -> Result<String> {
    let mut log = Command::new("git");
    log.arg("-C").arg(source).args(["log", "-1", "--abbrev=10", &format!("--format={format}")]);
    Ok(String::from_utf8(output(&mut log)?)?.trim().to_owned())
}

/// Runs to the end. Returns what the program prints.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} does not start"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}
