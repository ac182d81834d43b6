//! Finds the line of a key in a file.

use std::collections::BTreeMap;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Each key's line in the file.
#[derive(Debug, Default)]
pub(super) struct SourceLines {
    file: String,
    lines: BTreeMap<String, usize>,
}

impl SourceLines {
    /// Finds the lines in a file that can be read as TOML. Empty for any other file.
    pub(super) fn of(file: &str, text: &str) -> Self {
        let mut lines = BTreeMap::new();
        if let Ok(table) = DeTable::parse(text) {
            record_lines(table.get_ref(), "", text, &mut lines);
        }
        Self { file: file.to_owned(), lines }
    }

    /// The origin, with the line where it is this file.
    pub(super) fn line(&self, origin: &str, path: &str) -> String {
        match self.lines.get(path) {
            Some(line) if origin == self.file => format!("{origin}:{line}"),
            Some(_) | None => origin.to_owned(),
        }
    }
}

fn record_lines(table: &DeTable<'_>, above: &str, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
        if let DeValue::Table(inner) = value.get_ref() {
            record_lines(inner, &path, text, lines);
        }
        lines.insert(path, line(key, text));
    }
}

fn line<T>(at: &Spanned<T>, text: &str) -> usize {
    1 + text.bytes().take(at.span().start).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::SourceLines;

    #[test]
    fn keys_have_the_line_on_which_they_stand() {
        let places =
            SourceLines::of("f.toml", "listen = 'a'\n\n[limits]\n# more\ntokens = 3\ncache.ttl = 4\n");
        assert_eq!(places.line("f.toml", "listen"), "f.toml:1");
        assert_eq!(places.line("f.toml", "limits.tokens"), "f.toml:5");
        assert_eq!(places.line("f.toml", "limits.cache.ttl"), "f.toml:6");
        assert_eq!(places.line("KITH_LISTEN", "listen"), "KITH_LISTEN");
        assert_eq!(places.line("f.toml", "nothing"), "f.toml");
    }
}
