//! Reads the sections' docstrings from the source that defines them, so that the documents match the code.

use std::collections::BTreeMap;

/// The files whose public structs are sections.
const FILES: [&str; 18] = [
    include_str!("../../../../server/src/config/sections.rs"),
    include_str!("../../../../server/src/config/limits.rs"),
    include_str!("../../../../server/src/config/cluster.rs"),
    include_str!("../../../../server/src/config/observer.rs"),
    include_str!("../../../../service/src/relation/config.rs"),
    include_str!("../../../../service/src/group/member/config.rs"),
    include_str!("../../../../service/src/presence/config.rs"),
    include_str!("../../../../service/src/application/config.rs"),
    include_str!("../../../../service/src/message/config.rs"),
    include_str!("../../../../service/src/notice/config.rs"),
    include_str!("../../../../service/src/receipt/config.rs"),
    include_str!("../../../../service/src/sequence/config.rs"),
    include_str!("../../../../service/src/change/config.rs"),
    include_str!("../../../../server/src/config/cql.rs"),
    include_str!("../../../../server/src/config/auth.rs"),
    include_str!("../../../../server/src/config/http.rs"),
    include_str!("../../../../server/src/config/ws.rs"),
    include_str!("../../../../server/src/config/ephemeral.rs"),
];

/// A public struct or enum in the configuration.
#[derive(Debug, Default)]
pub(super) struct Item {
    /// The type's docstring.
    pub(super) doc: String,
    /// Whether its members are the possible values.
    pub(super) is_enum: bool,
    /// Fields, or variants without a type, in their order.
    pub(super) members: Vec<Member>,
}

/// A field or a variant in an item.
#[derive(Debug)]
pub(super) struct Member {
    /// The form in a file: variants in snake_case.
    pub(super) name: String,
    /// The type in Rust; empty for variants.
    pub(super) kind: String,
    /// Its deserializer, if it is not the type's: `size`, `humantime_serde`.
    pub(super) with: String,
    /// The member's docstring.
    pub(super) doc: String,
}

/// Returns all items by their name in Rust.
pub(super) fn items() -> BTreeMap<String, Item> {
    let mut items = BTreeMap::new();
    for file in FILES {
        read(file, &mut items);
    }
    items
}

/// Reads line by line, which is enough for source that rustfmt has formatted.
fn read(source: &str, items: &mut BTreeMap<String, Item>) {
    let (mut doc, mut with) = (String::new(), String::new());
    let mut open: Option<(String, Item)> = None;
    for line in source.lines() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            doc += words;
            doc += "\n";
            continue;
        }
        if let Some(rest) = text.strip_prefix("#[serde(with = \"") {
            with = rest.split('"').next().unwrap_or_default().to_owned();
        }
        if text.starts_with("#[") {
            continue;
        }
        if line == "}" {
            items.extend(open.take());
        } else if let Some(name) = declared(text) {
            let is_enum = text.starts_with("pub enum");
            open = Some((name.to_owned(), Item { doc: std::mem::take(&mut doc), is_enum, members: vec![] }));
        } else if let Some((_, item)) = &mut open {
            let found = member(text, item.is_enum);
            item.members.extend(found.map(|(name, kind)| Member {
                name,
                kind,
                with: std::mem::take(&mut with),
                doc: std::mem::take(&mut doc),
            }));
        }
        doc.clear();
        with.clear();
    }
}

/// Returns `Config` for `pub struct Config {`.
fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "))?;
    rest.strip_suffix(" {")
}

/// Returns name and type for `pub listen: SocketAddr,`; name for `Sqlite,`.
fn member(line: &str, of_enum: bool) -> Option<(String, String)> {
    let line = line.strip_suffix(',')?;
    if of_enum {
        return Some((snake_case(line), String::new()));
    }
    let (name, kind) = line.strip_prefix("pub ")?.split_once(": ")?;
    Some((name.to_owned(), kind.to_owned()))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_variants_have_their_docstrings() {
        let source = "/// One.\n/// Two.\n#[derive(Debug)]\npub struct A {\n    /// Three.\n    \
                      #[serde(with = \"size\")]\n    pub b: u64,\n    pub c: Vec<String>,\n}\n\n/// E.\n\
                      pub enum E {\n    /// F.\n    #[default]\n    FooBar,\n}\n";
        let mut items = BTreeMap::new();
        read(source, &mut items);
        let (a, e) = (&items["A"], &items["E"]);
        assert_eq!(a.doc.trim(), "One.\n Two.");
        assert_eq!((a.members[0].name.as_str(), a.members[0].with.as_str()), ("b", "size"));
        assert_eq!(a.members[0].doc.trim(), "Three.");
        assert_eq!((a.members[1].kind.as_str(), a.members[1].doc.as_str()), ("Vec<String>", ""));
        assert_eq!((e.is_enum, e.members[0].name.as_str(), e.members[0].doc.trim()), (true, "foo_bar", "F."));
    }
}
