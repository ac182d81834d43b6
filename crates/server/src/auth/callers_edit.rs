//! Edits the callers file and keeps everything else in it: comments, order, form.

use std::{fmt, ops::Range, time::SystemTime};

use super::{
    callers::CallerSet,
    callers_file::{self, CallerEntry, KEYS_MAX, WrongFile},
    key::{Digest, KeyId},
    scope::parse_scopes,
};

/// A key that is added.
#[derive(Clone, Debug)]
pub struct AddedKey<'a> {
    /// The name of the caller: a new caller, or a caller that gets another key.
    pub name: &'a str,
    /// Presets and scopes. For a caller that exists already, they must allow the same as before.
    pub scopes: &'a [String],
    /// The key's digest.
    pub digest: Digest,
    /// When it was made; written as a date.
    pub made: SystemTime,
    /// The time at which the key begins to be refused; written as a date.
    pub expires: Option<SystemTime>,
}

/// Selects the keys that are revoked in a file.
#[derive(Clone, Copy, Debug)]
pub enum RevokeTarget<'a> {
    /// Every key of the caller with this name.
    Caller(&'a str),
    /// Applies to a single key.
    Key(KeyId),
}

/// The reason why a file is left as it is.
#[derive(Debug, PartialEq, Eq)]
pub enum EditError {
    /// The file was wrong before.
    Wrong(WrongFile),
    /// The caller exists with other scopes.
    OtherScopes,
    /// The caller has as many keys as it may.
    TooManyKeys,
    /// The file has no such caller and no such key.
    NotFound,
    /// No key would be left. A node does not take such a file, so that the key would go on being valid.
    LastKey,
    /// The file has a form that is left to a person.
    Form,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(wrong) => wrong.fmt(f),
            Self::OtherScopes => f.write_str(": the caller is in it with other scopes; give the same, or change them by hand"),
            Self::TooManyKeys => write!(f, ": the caller has {KEYS_MAX} keys; revoke old ones first"),
            Self::NotFound => f.write_str(": there is no such caller and no such key"),
            Self::LastKey => f.write_str(
                ": it would have no key left, and a node does not take such a file; add another key first, or take the file out \
                 of the configuration",
            ),
            Self::Form => f.write_str(": it is written in a form that is not changed by this command; change it by hand"),
        }
    }
}

impl std::error::Error for EditError {}

/// Returns the text with one more key. An empty text is a new file.
///
/// # Errors
/// Says why the text cannot be changed. The text is parsed again after the change, so that only the key
/// differs.
pub fn add(text: &str, key: &AddedKey<'_>) -> Result<String, EditError> {
    let before = if text.trim().is_empty() { CallerSet::new() } else { parsed(text)? };
    let entry = entry(key);
    let own = before.iter().filter(|known| known.name == key.name);
    if own.clone().count() >= KEYS_MAX {
        return Err(EditError::TooManyKeys);
    }
    let added = match callers(text).iter().find(|caller| caller.name == key.name) {
        Some(caller) => {
            let rights = parse_scopes(key.scopes.iter().map(String::as_str)).map_err(|_| EditError::Form)?;
            if own.clone().any(|known| known.rights != rights) {
                return Err(EditError::OtherScopes);
            }
            with_entry(text, caller, &entry)
        }
        None => with_caller(text, key, &entry),
    };
    let after = parsed(&added)?;
    let is_whole = before.iter().all(|known| after.contains(known)) && after.len() == before.len() + 1;
    if is_whole && after.iter().any(|known| known.digest == key.digest) {
        Ok(added)
    } else {
        Err(EditError::Form)
    }
}

/// The text without the revoked keys, and their number.
///
/// # Errors
/// As [`add`], also when no key would be left.
pub fn revoke(text: &str, target: RevokeTarget<'_>) -> Result<(String, usize), EditError> {
    let before = parsed(text)?;
    let is_revoked = |name: &str, id: KeyId| match target {
        RevokeTarget::Caller(caller) => caller == name,
        RevokeTarget::Key(key) => key == id,
    };
    let left: CallerSet =
        before.iter().filter(|key| !is_revoked(&key.name, key.digest.key_id())).cloned().collect();
    if left.len() == before.len() {
        return Err(EditError::NotFound);
    }
    if left.is_empty() {
        return Err(EditError::LastKey);
    }
    let mut edited = text.to_owned();
    // Works from the last entry backwards, so that the other places stay right.
    for range in entries(text, is_revoked).into_iter().rev() {
        edited.replace_range(range, "");
    }
    let after = parsed(&edited)?;
    if after == left { Ok((edited, before.len() - left.len())) } else { Err(EditError::Form) }
}

fn parsed(text: &str) -> Result<CallerSet, EditError> {
    callers_file::parse(text).map_err(EditError::Wrong)
}

fn entry(key: &AddedKey<'_>) -> String {
    let expires = key.expires.map(|expires| format!(", expires = {}", date(expires))).unwrap_or_default();
    format!("{{ sha256 = \"{}\", made = {}{expires} }}", key.digest.to_hex(), date(key.made))
}

fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string().chars().take("2026-11-25".len()).collect()
}

fn with_caller(text: &str, key: &AddedKey<'_>, entry: &str) -> String {
    let scopes: Vec<_> = key.scopes.iter().map(|scope| format!("\"{scope}\"")).collect();
    let space = match text {
        "" => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let (name, scopes) = (key.name, scopes.join(", "));
    format!("{text}{space}[[caller]]\nname = \"{name}\"\nscopes = [{scopes}]\nkeys = [\n  {entry},\n]\n")
}

/// The entry goes to the start of the list, where neither a comment nor a last comma is in the way.
fn with_entry(text: &str, caller: &CallerEntry, entry: &str) -> String {
    let at = caller.list.start + 1;
    let comma = if caller.keys.is_empty() { "" } else { "," };
    let space = if text[at..].starts_with('\n') { "\n  " } else { " " };
    format!("{}{space}{entry}{comma}{}", &text[..at], &text[at..])
}

/// Returns no callers if the text is wrong.
fn callers(text: &str) -> Vec<CallerEntry> {
    callers_file::entries(text).unwrap_or_default()
}

/// The ranges of the revoked entries, each with the comma behind it or before it, in the order of the text.
fn entries(text: &str, is_revoked: impl Fn(&str, KeyId) -> bool) -> Vec<Range<usize>> {
    let callers = callers(text).into_iter();
    let revoked = callers.flat_map(|caller| caller.keys);
    let revoked = revoked.filter(|(key, _)| is_revoked(&key.name, key.digest.key_id()));
    let mut ranges: Vec<_> = revoked.map(|(_, range)| with_comma(text, range)).collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

fn with_comma(text: &str, entry: Range<usize>) -> Range<usize> {
    let behind = &text[entry.end..];
    let blank = behind.len() - behind.trim_start().len();
    if behind[blank..].starts_with(',') {
        let end = entry.end + blank + 1;
        // The line goes with it, if nothing else is in it.
        let indent = text[..entry.start].rfind(|c| c != ' ' && c != '\t').map_or(0, |at| at + 1);
        let alone = text[..indent].ends_with('\n') && text[end..].starts_with('\n');
        return if alone { indent..end + 1 } else { entry.start..end };
    }
    let before = text[..entry.start].trim_end();
    if before.ends_with(',') { before.len() - 1..entry.end } else { entry }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn added(text: &str, name: &str, scopes: &[&str], key: &str) -> Result<String, EditError> {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let made = humantime::parse_rfc3339("2026-11-25T13:14:15Z").unwrap();
        let digest = Digest::of(key.as_bytes());
        add(text, &AddedKey { name, scopes: &scopes, digest, made, expires: Some(made + 181 * DAY) })
    }

    fn names(text: &str) -> Vec<String> {
        callers_file::parse(text).unwrap().into_iter().map(|key| key.name).collect()
    }

    fn id(key: &str) -> KeyId {
        Digest::of(key.as_bytes()).key_id()
    }

    #[test]
    fn new_file_has_the_caller_and_its_digest() {
        let text = added("", "chat", &["backend", "presence:own"], "one").unwrap();
        let hex = Digest::of(b"one").to_hex();
        let expected = format!(
            "[[caller]]\nname = \"chat\"\nscopes = [\"backend\", \"presence:own\"]\nkeys = [\n  {{ sha256 = \"{hex}\", made = \
             2026-11-25, expires = 2027-05-25 }},\n]\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn added_key_or_caller_leaves_the_rest() {
        let one = format!("# ours\n{}", added("", "chat", &["backend"], "one").unwrap());
        let two = added(&one, "chat", &["backend"], "two").unwrap();
        let three = added(&two, "jobs", &["service"], "three").unwrap();
        assert_eq!(names(&three), ["chat", "chat", "jobs"]);
        assert!(three.starts_with("# ours\n") && three.contains("made = 2026-11-25"), "{three}");
        for flat in ["keys = []", "keys = [ ]", "keys = [\n]", "keys = [ # none\n]"] {
            let text = format!("{one}[[caller]]\nname = \"new\"\nscopes = [\"login\"]\n{flat}\n# end\n");
            let text = added(&text, "new", &["login"], "four").unwrap();
            assert!(names(&text) == ["chat", "new"] && text.ends_with("# end\n"), "{text}");
        }
    }

    #[test]
    fn edits_of_rights_or_wrong_files_are_refused() {
        let one = added("", "chat", &["backend"], "one").unwrap();
        assert_eq!(added(&one, "chat", &["all"], "two"), Err(EditError::OtherScopes));
        assert!(matches!(added(&one, "chat", &["backend"], "one"), Err(EditError::Wrong(_))));
        assert!(matches!(added("nonsense", "chat", &["backend"], "one"), Err(EditError::Wrong(_))));
        let full =
            (0..8).fold(String::new(), |text, at| added(&text, "chat", &["login"], &at.to_string()).unwrap());
        assert_eq!(added(&full, "chat", &["login"], "nine"), Err(EditError::TooManyKeys));
    }

    #[test]
    fn keys_are_revoked_by_id_or_caller_alone() {
        let text = added("# ours\n", "chat", &["backend"], "one");
        assert!(text.is_err(), "a file with nothing but a comment has no caller");
        let mut text = String::new();
        for (name, key) in [("chat", "one"), ("chat", "two"), ("chat", "three"), ("jobs", "four")] {
            text = added(&text, name, &["service"], key).unwrap();
        }
        for key in ["one", "two", "three"] {
            let (edited, count) = revoke(&text, RevokeTarget::Key(id(key))).unwrap();
            let left = callers_file::parse(&edited).unwrap();
            assert!(count == 1 && left.len() == 3 && left.iter().all(|left| left.digest.key_id() != id(key)));
        }
        let (edited, count) = revoke(&text, RevokeTarget::Caller("chat")).unwrap();
        assert_eq!((count, names(&edited)), (3, vec!["jobs".to_owned()]));
        assert!(edited.contains("name = \"chat\""), "its scopes stay for a next key");
        assert_eq!(revoke(&edited, RevokeTarget::Caller("jobs")), Err(EditError::LastKey));
        assert_eq!(revoke(&edited, RevokeTarget::Caller("chat")), Err(EditError::NotFound));
        assert_eq!(revoke(&edited, RevokeTarget::Key(id("one"))), Err(EditError::NotFound));
    }

    #[test]
    fn inline_lists_are_revoked_or_left_to_a_person() {
        let hex = |key: &str| Digest::of(key.as_bytes()).to_hex();
        let (one, two) = (hex("one"), hex("two"));
        let head = "[[caller]]\nname = \"a\"\nscopes = [\"all\"]\n";
        for keys in [
            format!("keys = [{{ sha256 = \"{one}\" }}, {{ sha256 = \"{two}\" }}]\n"),
            format!("keys = [ {{ sha256 = \"{one}\" }} , {{ sha256 = \"{two}\" }}, ]\n"),
            format!("keys = [ # first\n {{ sha256 = \"{one}\" }}, # second\n {{ sha256 = \"{two}\" }}\n ]\n"),
        ] {
            for key in ["one", "two"] {
                let (edited, _) = revoke(&format!("{head}{keys}"), RevokeTarget::Key(id(key))).unwrap();
                assert_eq!(names(&edited), ["a"], "{edited}");
            }
        }
        let tables =
            format!("{head}[[caller.keys]]\nsha256 = \"{one}\"\n[[caller.keys]]\nsha256 = \"{two}\"\n");
        assert_eq!(names(&tables), ["a", "a"]);
        assert!(revoke(&tables, RevokeTarget::Key(id("one"))).is_err());
        assert!(added(&tables, "a", &["all"], "three").is_err());
    }
}
