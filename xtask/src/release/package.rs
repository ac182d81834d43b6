//! Builds the Debian package from the content of an archive.

use std::{env::consts::ARCH, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::program::GLIBC;
use crate::process::succeed;

/// The folder with the package's control files.
const CONTROL: &str = "deploy/package";
/// The scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// The files of an archive, and their places on a Debian system.
const PLACES: [(&str, &str); 8] = [
    ("kith", "usr/bin/kith"),
    ("systemd/kith.toml", "etc/kith/kith.toml"),
    ("systemd/kith.service", "lib/systemd/system/kith.service"),
    ("completions/kith", "usr/share/bash-completion/completions/kith"),
    ("completions/_kith", "usr/share/zsh/vendor-completions/_kith"),
    ("completions/kith.fish", "usr/share/fish/vendor_completions.d/kith.fish"),
    ("LICENSE", "usr/share/doc/kith/copyright"),
    ("THIRD-PARTY.txt", "usr/share/doc/kith/THIRD-PARTY.txt"),
];

/// Builds the package of this version beside the folder `staged`. Returns its name.
///
/// # Errors
/// Fails if `dpkg-deb` is missing or refuses a file.
pub(super) fn build(source: &Path, staged: &Path, version: &str, time: &str) -> Result<String> {
    let folder = staged.with_file_name("package");
    for (from, to) in PLACES {
        copy(&staged.join(from), &folder.join(to))?;
    }
    for page in fs::read_dir(staged.join("man1"))? {
        let page = page?;
        copy(&page.path(), &folder.join("usr/share/man/man1").join(page.file_name()))?;
    }
    let unit = folder.join("lib/systemd/system/kith.service");
    fs::write(&unit, fs::read_to_string(&unit)?.replace("/usr/local/bin/", "/usr/bin/"))?;
    let architecture = if ARCH == "aarch64" { "arm64" } else { "amd64" };
    control(&source.join(CONTROL), &folder.join("DEBIAN"), version, architecture)?;
    succeed(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&folder))?;
    let name = format!("kith_{version}_{architecture}.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&folder).arg(staged.with_file_name(&name));
    succeed(build.env("SOURCE_DATE_EPOCH", time))?;
    fs::remove_dir_all(folder)?;
    Ok(name)
}

/// Writes the files that dpkg itself reads.
fn control(from: &Path, to: &Path, version: &str, architecture: &str) -> Result<()> {
    fs::create_dir_all(to)?;
    let control = fs::read_to_string(from.join("control"))?;
    let control = control.replace("@VERSION@", version).replace("@ARCHITECTURE@", architecture);
    fs::write(to.join("control"), control.replace("@GLIBC@", GLIBC))?;
    copy(&from.join("conffiles"), &to.join("conffiles"))?;
    for script in SCRIPTS {
        copy(&from.join(script), &to.join(script))?;
        fs::set_permissions(to.join(script), PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("the file has a folder")?)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}
