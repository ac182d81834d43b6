//! The schemas of Kubernetes' resources, from a Python wheel: no check needs the network once it is there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::tools::{fetched, unpack_wheel};

const WHEEL: &str = "kubernetes-validate==1.37.0";
/// The folder with a folder for each version, in the wheel.
const INSIDE: &str = "kubernetes_validate/kubernetes-json-schema";
/// The oldest version that `Chart.yaml` allows, and the newest in the wheel.
pub(super) const VERSIONS: [&str; 2] = ["1.25.0", "1.37.0"];

/// Returns a folder with the strict schemas for [`VERSIONS`], which know every field and refuse others.
pub(super) fn fetch() -> Result<PathBuf> {
    let is_whole = |folder: &Path| VERSIONS.iter().all(|version| folder.join(strict(version)).is_dir());
    fetched(&WHEEL.replace("==", "-"), is_whole, fill)
}

/// Keeps the folders for [`VERSIONS`] alone.
fn fill(folder: &Path) -> Result<()> {
    unpack_wheel(WHEEL, folder)?;
    for version in VERSIONS {
        let name = strict(version);
        fs::rename(folder.join(INSIDE).join(&name), folder.join(&name))
            .context("the wheel lacks a version")?;
        for entry in fs::read_dir(folder.join(name))? {
            let file = entry?.path();
            fs::write(&file, local(&fs::read_to_string(&file)?))?;
        }
    }
    fs::remove_dir_all(folder.join("kubernetes_validate")).context("other versions stay")
}

fn strict(version: &str) -> String {
    format!("v{version}-local-strict")
}

/// A schema's identity is an address, below which its definitions would be fetched. Without it, they are in
/// the folder.
fn local(schema: &str) -> String {
    schema.replace("\"$id\":", "\"$comment\":").replace("\"/api/_definitions.json", "\"_definitions.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_in_the_folder() {
        let schema = r##"{"$ref": "/api/_definitions.json#/$defs/a", "$id": "https://kubernetes.io/api/a"}"##;
        let expected =
            r##"{"$ref": "_definitions.json#/$defs/a", "$comment": "https://kubernetes.io/api/a"}"##;
        assert_eq!(local(schema), expected);
    }
}
