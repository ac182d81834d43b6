//! Checks that a test's name gives its case and its result in at most 45 characters.

use crate::tree::{declaration, identifier, text, tracked};

/// The most characters in a name.
const LONGEST: usize = 45;

#[test]
fn no_test_name_is_long() {
    let mut looked_at = 0;
    for file in tracked(".rs") {
        let tests = tests_of(&file, &text(&file));
        let long: Vec<_> = tests.iter().filter(|test| test.len() > LONGEST).collect();
        assert!(long.is_empty(), "{file}: {long:?}");
        looked_at += tests.len();
    }
    assert!(looked_at > 1_000, "the tests are found: {looked_at}");
}

#[test]
fn names_of_tests_are_found() {
    let found = |text: &str| tests_of("src/presence.rs", text);
    assert_eq!(found("#[test]\nfn a() {}\nfn b() {}"), ["a"]);
    assert_eq!(found("    #[tokio::test(start_paused = true)]\n    #[ignore]\n    async fn a() {\n"), ["a"]);
    assert_eq!(
        found("#[tokio::test(\n    flavor = \"multi_thread\"\n)]\n// fn b\npub async fn a() {}"),
        ["a"]
    );
    assert_eq!(found("#[test]\nfn a(b in any::<u8>()) {}\n#[test]\nfn c() {}"), ["a", "c"]);
    for other in ["fn a() {}", "#[tokio::main]\nasync fn a() {}", "// #[test]\nfn a() {}"] {
        assert_eq!(found(other), [""; 0], "{other}");
    }
}

#[test]
fn every_async_function_of_a_suite_is_found() {
    let source = "pub async fn a(stores: Stores) {}\nasync fn b() {}\nfn c() {}\n#[test]\nfn d() {}";
    for suite in ["src/conformance/user.rs", "src/inbox/conformance/mod.rs", "tests/it/conformance.rs"] {
        assert_eq!(tests_of(suite, source), ["a", "b", "d"], "{suite}");
    }
    for other in ["src/user.rs", "tests/it/conformance_of_file.rs"] {
        assert_eq!(tests_of(other, source), ["d"], "{other}");
    }
}

/// Returns the names of a source file's tests, in their order. In a conformance suite, whose cases are listed
/// by macros, every async function counts as a test.
fn tests_of(file: &str, text: &str) -> Vec<String> {
    let is_suite = file.split('/').any(|part| part == "conformance" || part == "conformance.rs");
    let (mut tests, mut is_test) = (Vec::new(), false);
    for code in text.lines().map(str::trim_start) {
        is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
        is_test |= is_suite && code.strip_prefix("pub ").unwrap_or(code).starts_with("async fn ");
        let Some(name) = function(code).filter(|_| is_test) else { continue };
        tests.push(name);
        is_test = false;
    }
    tests
}

/// Returns the function that a line defines.
fn function(code: &str) -> Option<String> {
    let code = declaration(code);
    let name = code.strip_prefix("async ").unwrap_or(code).strip_prefix("fn ")?;
    Some(identifier(name).to_owned())
}
