//! Checks that types and parameters have clear names: no two modules in a crate define a type with the same
//! name, and no signature destructures a tuple.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{declaration, identifier, sources, text, tracked};

#[test]
fn crates_have_no_findings() {
    let crates = sources();
    assert!(crates.contains_key("cache"), "the crates are found");
    for (name, files) in crates {
        let texts: Vec<_> = files.iter().map(|file| (file.as_str(), text(file))).collect();
        assert_eq!(repeated_types(&texts), [""; 0], "crates/{name}");
    }
    let files = tracked(".rs");
    // The signatures in this file are examples.
    let files = files.iter().filter(|file| !file.ends_with("tidy/names.rs"));
    let texts: Vec<_> = files.map(|file| (file.as_str(), text(file))).collect();
    assert_eq!(tuple_parameters(&texts), [""; 0]);
}

#[test]
fn a_name_of_two_types_is_found() {
    let files = |second: &str| [("a.rs", "pub struct Row;".to_owned()), ("b.rs", second.to_owned())];
    assert_eq!(repeated_types(&files("pub(crate) enum Row {}")), ["Row: a.rs, b.rs"]);
    assert_eq!(repeated_types(&files("mod tests {\n    struct Row<T>(T);\n}")), ["Row: a.rs, b.rs"]);
    for other in ["struct Rows;", "// struct Row;", "impl A for B {\n    type Row = u8;\n}", "use a::Row;"] {
        assert_eq!(repeated_types(&files(other)), [""; 0], "{other}");
    }
}

#[test]
fn a_tuple_in_a_signature_is_found() {
    let found = |text: &str| !tuple_parameters(&[("a.rs", text.to_owned())]).is_empty();
    for tuple in [
        "fn f((a, b): (u8, u8)) {}",
        "fn f<T: Fn(u8) -> u8>(\n    &self,\n    first: T,\n    (a, _): &(u8, u8),\n) {}",
        "fn f(mut a: Vec<(u8, u8)>, &(b, c): &(u8, u8)) {}",
    ] {
        assert!(found(tuple), "{tuple}");
    }
    for other in [
        "fn f(a: (u8, u8), b: impl Fn((u8, u8)) -> u8) {}",
        "fn f((): &mut ()) {}",
        "fn f((a, b) in any::<(u8, u8)>()) {}",
        "fn f(Pair(a, b): Pair) {}",
        "// fn f((a, b): (u8, u8)) {}",
        "fn f() { g(|(a, b)| a) }",
    ] {
        assert!(!found(other), "{other}");
    }
}

/// Returns the types that several files define.
fn repeated_types(files: &[(&str, String)]) -> Vec<String> {
    let mut defined: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (file, text) in files {
        for name in text.lines().filter_map(defined_type) {
            defined.entry(name).or_default().insert(file);
        }
    }
    let repeated = defined.into_iter().filter(|(_, files)| files.len() > 1);
    repeated
        .map(|(name, files)| format!("{name}: {}", files.into_iter().collect::<Vec<_>>().join(", ")))
        .collect()
}

/// Returns the type that a line defines. An indented `type` belongs to a trait.
fn defined_type(line: &str) -> Option<String> {
    let (kind, rest) = declaration(line).split_once(' ')?;
    let defines = match kind {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let name = identifier(rest);
    (defines && !name.is_empty()).then(|| name.to_owned())
}

/// Returns the functions that destructure a tuple in their signature.
fn tuple_parameters(files: &[(&str, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files {
        let code: String =
            text.lines().flat_map(|line| [line.split("//").next().unwrap_or(line), "\n"]).collect();
        for (at, _) in code.match_indices("fn ") {
            let begins_word = !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
            let name = identifier(&code[at + 3..]);
            if !begins_word || name.is_empty() {
                continue;
            }
            if parameters(&code[at + 3 + name.len()..]).iter().any(|parameter| is_tuple(parameter)) {
                found.push(format!("{file}: fn {name}"));
            }
        }
    }
    found
}

/// Whether a parameter's pattern is a tuple with at least one part. Parameters in property tests (`PATTERN in
/// STRATEGY`) have no type.
fn is_tuple(parameter: &str) -> bool {
    let Some((pattern, _)) = parameter.split_once("):") else { return false };
    let pattern = pattern.trim_start_matches(['&', ' ', '\n']).trim_start_matches("mut ");
    pattern.starts_with('(') && pattern.len() > 1
}

/// Returns a signature's parameters. The text begins with its generics or its parameters.
fn parameters(text: &str) -> Vec<String> {
    let (mut depth, mut angles, mut before) = (0_u32, 0_u32, ' ');
    let mut parameters = vec![String::new()];
    for letter in text.chars() {
        match letter {
            '<' => angles += 1,
            '>' if before != '-' => angles = angles.saturating_sub(1),
            // Parentheses between the generics' angle brackets do not belong to the parameters.
            '(' if depth > 0 || angles == 0 => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ => {}
        }
        match (depth, letter) {
            (0, ')' | '{' | ';') if angles == 0 => break,
            (1, ',') if angles == 0 => parameters.push(String::new()),
            (1, '(') | (0, _) => {}
            _ => parameters.last_mut().unwrap().push(letter),
        }
        before = letter;
    }
    parameters.iter().map(|parameter| parameter.trim().to_owned()).collect()
}
