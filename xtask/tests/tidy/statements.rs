use crate::tree::{text, tracked};

/// The folders that run database statements and Redis scripts.
const RUN: [&str; 3] =
    ["crates/store-cluster/src/cql/", "crates/store-sqlite/src/", "crates/cache/src/remote/redis/"];
/// This statement makes the keyspace with the configured replication, whose text is checked.
const MADE_OF_CONFIGURATION: &str = "CREATE KEYSPACE";
const VERBS: [&str; 7] = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "ALTER ", "DROP "];
/// The placeholders that a text may have: the code fills them with numbers of marks and with its own column
/// names.
const FIXED: [&str; 4] = ["{}", "{select}", "{columns}", "{table}"];

/// Returns the pieces of code that begin with `format!(`, each up to the end of its statement.
fn formatted(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("format!(").map(|(at, _)| {
        let rest = &text[at..];
        rest.find(';').map_or(rest, |end| &rest[..end])
    })
}

#[test]
fn statements_contain_no_names_or_caller_values() {
    let mut statements = 0;
    let runs = |file: &String| RUN.iter().any(|run| file.starts_with(run)) && !file.contains("/tests");
    for file in tracked(".rs").into_iter().filter(runs) {
        let text = text(&file);
        statements += VERBS.iter().map(|verb| text.matches(&format!("\"{verb}")).count()).sum::<usize>();
        for piece in formatted(&text).filter(|piece| VERBS.iter().any(|verb| piece.contains(verb))) {
            let fixed = FIXED.iter().fold(piece.to_owned(), |piece, mark| piece.replace(mark, ""));
            let named = fixed.trim_start_matches("format!(").contains('{');
            assert!(!named || piece.contains(MADE_OF_CONFIGURATION), "{file}: {piece}");
        }
    }
    assert!(statements > 60, "found only {statements}");
}

#[test]
fn redis_scripts_are_files_run_in_one_place() {
    // The benchmarks run some statements by hand, as baselines for their ratios.
    let is_served = |file: &String| {
        file.starts_with("crates/") && file.contains("/src/") && !file.starts_with("crates/bench/")
    };
    for file in tracked(".rs").into_iter().filter(is_served) {
        let text = text(&file);
        let runs = [".eval(", ".eval::<", "Script::from_lua("].iter().any(|call| text.contains(call));
        assert!(
            !runs || file == "crates/cache/src/remote/redis/scripts.rs",
            "{file} runs a script of its own"
        );
    }
    let scripts = text("crates/cache/src/remote/redis/scripts.rs");
    assert!(scripts.contains("include_str!"), "scripts are texts of files");
}
