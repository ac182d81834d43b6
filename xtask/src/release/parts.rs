//! Lists the crates that are compiled into the program: their licences for people, and a bill of materials in
//! the form of CycloneDX for scanners. Both come from `cargo metadata`, so no tool decides what the program
//! has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{VERSION, output};
use crate::process::cargo;

/// The crate that builds the program.
const PROGRAM: &str = "kith-cli";
/// The beginnings of names of files with a licence's text, in capitals.
const TEXTS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
/// Parts that are no crates.
const OTHERS: &str = "Parts that are no crates: the standard library of Rust (MIT OR Apache-2.0), compiler-rt and libunwind of LLVM\n\
                      (Apache-2.0 WITH LLVM-exception), SQLite (public domain).\n";

/// A crate, and the crates that it uses.
#[derive(Debug)]
struct Part {
    id: String,
    crate_data: Value,
    uses: Vec<String>,
}

/// Returns the licences of all crates: a list, then each text once with the crates that have it.
pub(super) fn licences(source: &Path) -> Result<String> {
    let (mut list, mut texts) = (String::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for part in foreign(source)? {
        list.push_str(&format!("{} {}\n", part.title(), part.field("license")));
        let manifest = part.field("manifest_path");
        let folder = Path::new(manifest).parent().context("a crate has a folder")?;
        collect(folder, &part.title(), &mut texts)?;
    }
    let texts = texts.into_iter().map(|(text, crates)| {
        let crates = crates.into_iter().collect::<Vec<_>>().join(", ");
        format!("\n{}\n{crates}\n\n{text}\n", "=".repeat(80))
    });
    let texts: String = texts.collect();
    Ok(format!(
        "The program kith contains these crates, each under the named licence.\n\n{list}\n{OTHERS}{texts}"
    ))
}

/// Returns the bill of materials. It has no time and no random number, so that equal builds have equal bills.
pub(super) fn bill(source: &Path) -> Result<String> {
    let (parts, checksums) = (parts(source)?, checksums(&fs::read_to_string(source.join("Cargo.lock"))?));
    let purls: BTreeMap<&str, String> = parts.iter().map(|part| (part.id.as_str(), part.purl())).collect();
    let (mut components, mut dependencies) = (Vec::new(), Vec::new());
    for part in &parts {
        let uses: BTreeSet<&String> = part.uses.iter().filter_map(|id| purls.get(id.as_str())).collect();
        dependencies.push(json!({ "ref": part.purl(), "dependsOn": uses }));
        if part.field("name") != PROGRAM {
            components.push(part.component(&checksums));
        }
    }
    let program =
        parts.iter().find(|part| part.field("name") == PROGRAM).context("the program is no part")?;
    let kith = json!({ "type": "application", "bom-ref": program.purl(), "name": "kith", "version": VERSION,
        "licenses": [{ "expression": "Apache-2.0" }] });
    let bill = json!({ "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": kith }, "components": components, "dependencies": dependencies });
    Ok(format!("{bill:#}\n"))
}

impl Part {
    fn field(&self, name: &str) -> &str {
        self.crate_data[name].as_str().unwrap_or_default()
    }

    fn title(&self) -> String {
        format!("{} {}", self.field("name"), self.field("version"))
    }

    /// Returns the crate's address in the form that scanners of packages share.
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.field("name"), self.field("version"))
    }

    fn component(&self, checksums: &BTreeMap<String, String>) -> Value {
        // Old crates have a slash for OR.
        let licence = self.field("license").replace('/', " OR ");
        let mut component = json!({ "type": "library", "bom-ref": self.purl(), "purl": self.purl(),
            "name": self.field("name"), "version": self.field("version"),
            "licenses": [{ "expression": licence }] });
        if let Some(checksum) = checksums.get(&self.title()) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    }
}

/// Returns the crates that others have written.
fn foreign(source: &Path) -> Result<Vec<Part>> {
    Ok(parts(source)?.into_iter().filter(|part| !part.crate_data["source"].is_null()).collect())
}

/// Returns all crates that the program is compiled from for this machine, ordered by name and version.
fn parts(source: &Path) -> Result<Vec<Part>> {
    let host = output(Command::new("rustc").args(["--print", "host-tuple"]).current_dir(source))?;
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    let metadata = output(metadata.arg(String::from_utf8(host)?.trim()).current_dir(source))?;
    Ok(reached(&serde_json::from_slice(&metadata)?))
}

/// Returns the program's crate and the crates that it uses in turn. Crates that only a build or a test uses
/// are left out.
fn reached(metadata: &Value) -> Vec<Part> {
    let crates = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let program = crates.values().find(|one| one["name"] == PROGRAM);
    let mut waiting: Vec<String> = program.iter().filter_map(|one| text(&one["id"])).collect();
    let (mut seen, mut parts) = (BTreeSet::new(), Vec::new());
    while let Some(id) = waiting.pop() {
        let (Some(crate_data), Some(node)) = (crates.get(&id), nodes.get(&id)) else { continue };
        if !seen.insert(id.clone()) {
            continue;
        }
        let uses = node["deps"].as_array().into_iter().flatten();
        let uses = uses.filter(|used| is_compiled_in(used)).filter_map(|used| text(&used["pkg"]));
        let uses: Vec<String> = uses.collect();
        waiting.extend(uses.iter().cloned());
        parts.push(Part { id, crate_data: (*crate_data).clone(), uses });
    }
    parts.sort_by_key(Part::title);
    parts
}

fn is_compiled_in(used: &Value) -> bool {
    let kinds = used["dep_kinds"].as_array();
    kinds.into_iter().flatten().any(|kind| kind["kind"].is_null())
}

fn by_id(list: &Value) -> BTreeMap<String, &Value> {
    list.as_array().into_iter().flatten().filter_map(|one| Some((text(&one["id"])?, one))).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns the checksums in a lock file by name and version.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let packages = lock.split("[[package]]\n");
    let pairs = packages.filter_map(|package| {
        let title = format!("{} {}", value(package, "name")?, value(package, "version")?);
        Some((title, value(package, "checksum")?))
    });
    pairs.collect()
}

/// Collects the texts of licences in a crate's folder, and of the C libraries in folders below it.
fn collect(folder: &Path, title: &str, texts: &mut BTreeMap<String, BTreeSet<String>>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), title, texts)?;
        } else if TEXTS.iter().any(|beginning| name.starts_with(beginning)) {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
            texts.entry(text.trim().to_owned()).or_default().insert(title.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_the_program_is_compiled_from() {
        let uses = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0" });
        let metadata = json!({
            "packages": [package(PROGRAM), package("used"), package("deep"), package("tested"), package("other")],
            "resolve": { "nodes": [
                { "id": PROGRAM, "deps": [uses("used", Value::Null), uses("tested", json!("dev"))] },
                { "id": "used", "deps": [uses("deep", Value::Null), uses("used", Value::Null)] },
                { "id": "deep", "deps": [] }, { "id": "tested", "deps": [] }, { "id": "other", "deps": [] },
            ] },
        });
        let titles: Vec<String> = reached(&metadata).iter().map(Part::title).collect();
        assert_eq!(titles, ["deep 1.0.0", "kith-cli 1.0.0", "used 1.0.0"]);
    }

    #[test]
    fn checksums_are_found_by_name_and_version() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nchecksum = \"ab\"\n\n[[package]]\nname = \"b\"\n\
                    version = \"1.0.0\"\n";
        let expected = BTreeMap::from([("a 1.2.3".to_owned(), "ab".to_owned())]);
        assert_eq!(checksums(lock), expected);
    }
}
