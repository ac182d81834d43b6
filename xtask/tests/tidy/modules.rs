use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::tree::{declaration, packages, root, text, tracked};

const NAMES_THAT_SAY_NOTHING: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];

#[test]
fn no_module_has_a_name_that_says_nothing() {
    for file in tracked(".rs") {
        for part in Path::new(&file).with_extension("").components() {
            let part = part.as_os_str().to_string_lossy();
            assert!(!NAMES_THAT_SAY_NOTHING.contains(&part.as_ref()), "{file}");
        }
        for module in modules(&text(&file)) {
            assert!(!NAMES_THAT_SAY_NOTHING.contains(&module), "{file}: mod {module}");
        }
    }
}

#[test]
fn module_with_a_folder_is_its_mod_rs() {
    let files = tracked(".rs");
    for file in &files {
        let folder = format!("{}/", file.trim_end_matches(".rs"));
        assert!(!files.iter().any(|other| other.starts_with(&folder)), "{file} belongs into {folder}mod.rs");
    }
}

#[test]
fn every_source_file_is_in_module_or_target() {
    let mut reached = BTreeSet::new();
    for package in packages() {
        for target in package["targets"].as_array().unwrap() {
            let source = PathBuf::from(target["src_path"].as_str().unwrap());
            let folder = source.parent().unwrap().to_owned();
            reach(&source, &folder, &mut reached);
        }
    }
    for file in tracked(".rs") {
        assert!(reached.contains(&root().join(&file)), "no module names {file}");
    }
}

/// Adds `source`, whose modules are in `folder`, and all files that it reaches.
fn reach(source: &Path, folder: &Path, reached: &mut BTreeSet<PathBuf>) {
    if !reached.insert(source.to_owned()) {
        return;
    }
    let source_text = std::fs::read_to_string(source).unwrap_or_default();
    for module in modules(&source_text) {
        let below = folder.join(module);
        for file in [below.with_extension("rs"), below.join("mod.rs")] {
            if file.is_file() {
                reach(&file, &below, reached);
            }
        }
    }
}

/// Returns the modules that a text declares in separate files.
fn modules(text: &str) -> Vec<&str> {
    let declared = text.lines().filter_map(|line| declaration(line).strip_prefix("mod ")?.strip_suffix(';'));
    declared.collect()
}

#[test]
fn declarations_of_modules_are_found() {
    let text = "mod a;\npub mod b;\npub(crate) mod c;\n#[cfg(test)]\nmod tests {\n}\n// mod d;";
    assert_eq!(modules(text), ["a", "b", "c"]);
}
