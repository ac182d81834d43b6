//! Generates the conformance suite's macros from its source files, so that no list of cases is needed.

#![expect(clippy::unwrap_used, reason = "a failure ends the build")]

use std::{collections::BTreeMap, env, fs, path::Path};

const SUITE: &str = "src/conformance";

fn main() {
    println!("cargo::rerun-if-changed={SUITE}");
    let macros = ["records", "relations", "shared"].map(macro_of_folder).concat();
    let target = Path::new(&env::var_os("OUT_DIR").unwrap()).join("conformance.rs");
    fs::write(target, macros).unwrap();
}

/// Generates the macro that makes a test from every case in a folder.
fn macro_of_folder(folder: &str) -> String {
    let modules: String =
        sources(folder).iter().map(|(file, source)| tests_of_file(folder, file, source)).collect();
    format!(
        "/// Makes a test of every case of [`{folder}`], as `conformance!` does.
#[macro_export]
macro_rules! {folder}_conformance {{
    ($open:ident $(, #[$attribute:meta])*) => {{
{modules}    }};
}}
"
    )
}

/// Generates the module with a file's tests. Each public asynchronous function is a case.
fn tests_of_file(folder: &str, file: &str, source: &str) -> String {
    let cases = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
    let tests: Vec<_> = cases
        .map(|case| format!("$crate::conformance_case!($open, [$($attribute),*], {folder}, {file}, {case});"))
        .collect();
    assert!(!tests.is_empty(), "{folder}/{file}.rs has no case");
    format!("        mod {file} {{ {} }}\n", tests.join(" "))
}

/// Reads the files in a folder except `mod.rs`, by name without extension.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let paths = fs::read_dir(Path::new(SUITE).join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.map(|path| {
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
    });
    files.filter(|(name, _)| name != "mod").collect()
}
