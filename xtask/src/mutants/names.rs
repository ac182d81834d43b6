/// Returns the rules' names in the source that lists them, in its order.
pub(super) fn of(source: &str) -> Vec<String> {
    let list = source.lines().skip_while(|line| *line != "guards! {").skip(1).take_while(|line| *line != "}");
    let name = |line: &str| {
        let name = line.trim().strip_suffix(';')?;
        let fits = name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        fits.then(|| name.to_owned())
    };
    list.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_between_braces_not_in_comments() {
        let source = "macro_rules! guards {\n    no;\n}\n\nguards! {\n    /// A rule;\n    one;\n    two_more;\n}\n    no;\n";
        assert_eq!(of(source), ["one", "two_more"]);
    }

    #[test]
    fn the_rules_of_the_cache_are_found() {
        let source = crate::process::root().join("crates/cache/src/testing/rules.rs");
        let names = of(&std::fs::read_to_string(source).unwrap());
        assert!(names.len() >= 20 && names.contains(&"trust_deadline".to_owned()), "{names:?}");
    }
}
