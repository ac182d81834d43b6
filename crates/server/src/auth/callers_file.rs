//! The callers file: TOML that holds digests alone, so that it may be shown.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
    time::SystemTime,
};

use kith_service::rpc::rights::CallerId;
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
    value::Datetime,
};

use super::{
    callers::{CallerKey, CallerSet},
    key::Digest,
    scope::parse_scopes,
};

/// Most keys for one caller: the key in use, the next key, and some to spare.
pub const KEYS_MAX: usize = 8;
/// Longest caller name.
const NAME_MAX: usize = 64;
/// Longest field name that is repeated. Keys are longer.
const FIELD_SHOWN_MAX: usize = 24;

type TomlValue<'a> = Spanned<DeValue<'a>>;

/// Parses all callers' keys, in the order of the file. The file is taken as a whole or not at all.
///
/// # Errors
/// Returns the first mistake: the file is no TOML, has no caller or no key, a field is unknown or has another
/// type, a name or digest is used twice, a scope is unknown, a date is none.
pub fn parse(text: &str) -> Result<CallerSet, WrongFile> {
    let callers = entries(text)?;
    Ok(callers.into_iter().flat_map(|caller| caller.keys).map(|(key, _)| key).collect())
}

/// Like [`parse`], with the places of callers and keys in the text.
pub(super) fn entries(text: &str) -> Result<Vec<CallerEntry>, WrongFile> {
    let reader = CallersFileReader { text };
    let table = DeTable::parse(text)
        .map_err(|error| reader.error(error.span().map_or(0, |span| span.start), "", "is no TOML"))?;
    let table = table.get_ref();
    reader.refuse_unknown(table, "", &["caller"])?;
    let Some(callers) = table.get("caller") else {
        return Err(reader.error(
            0,
            "",
            "has no [[caller]]; to let everybody call, leave auth.callers_file out",
        ));
    };
    let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
    for (at, caller) in reader.array(callers, "caller")?.iter().enumerate() {
        let entry = reader.caller(caller, &format!("caller[{at}]"))?;
        let start = caller.span().start;
        names.insert(entry.name.clone()).then_some(()).ok_or_else(|| {
            reader.error(start, &format!("caller[{at}].name"), "is the name of a caller above")
        })?;
        entries.push(entry);
    }
    let keys = || entries.iter().flat_map(|entry| &entry.keys).map(|(key, _)| key);
    check_distinct(keys()).map_err(|why| reader.error(0, "caller", why))?;
    if keys().next().is_none() {
        return Err(reader.error(0, "caller", "has no key at all, so that nothing could call"));
    }
    Ok(entries)
}

/// Makes sure that each key and each id belongs to one caller.
///
/// # Errors
/// Says what is used twice.
pub(crate) fn check_distinct<'a>(set: impl IntoIterator<Item = &'a CallerKey>) -> Result<(), &'static str> {
    let (mut digests, mut ids) = (BTreeSet::new(), BTreeMap::new());
    for key in set {
        if !digests.insert(key.digest.to_hex()) {
            return Err("has a key twice");
        }
        if *ids.entry(CallerId::of_name(&key.name)).or_insert(&key.name) != &key.name {
            return Err("has two names with the same id; choose another for one of them");
        }
    }
    Ok(())
}

/// Makes sure that a text can be a caller's name: 1 to 64 characters from a-z, 0-9 and `-`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// When a date or a time in UTC is; a date begins at midnight.
#[must_use]
pub fn time(value: &Datetime) -> Option<SystemTime> {
    value.date?;
    let text = value.to_string();
    let whole = if value.time.is_some() { text } else { format!("{text}T00:00:00Z") };
    humantime::parse_rfc3339_weak(&whole).ok()
}

/// Where a file is wrong and what is wrong there. Repeats nothing that could be a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongFile {
    line: usize,
    field: String,
    what: Cow<'static, str>,
}

impl fmt::Display for WrongFile {
    /// Follows the path to the file: `:3: caller[0].name is no text`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.field.is_empty() { "" } else { " " };
        write!(f, ":{}: {}{space}{}", self.line, self.field, self.what)
    }
}

impl std::error::Error for WrongFile {}

/// Digest, when it was made, when it expires.
type KeyFields = (Digest, Option<SystemTime>, Option<SystemTime>);

/// One caller in the file.
pub(super) struct CallerEntry {
    pub(super) name: String,
    /// Each with its place in the text.
    pub(super) keys: Vec<(CallerKey, Range<usize>)>,
    /// The brackets around the keys, and all between.
    pub(super) list: Range<usize>,
}

/// Reads values with their places. A reader by types (serde) would repeat values in its errors.
struct CallersFileReader<'a> {
    text: &'a str,
}

impl CallersFileReader<'_> {
    fn caller(&self, value: &TomlValue<'_>, field: &str) -> Result<CallerEntry, WrongFile> {
        let table = self.table(value, field)?;
        self.refuse_unknown(table, field, &["name", "scopes", "keys"])?;
        let of = |name: &str| self.required(value, table, field, name);
        let name = self.string(of("name")?, &format!("{field}.name"))?;
        if !is_name(name) {
            let what = "must be 1 to 64 of a-z, 0-9 and -";
            return Err(self.error(of("name")?.span().start, &format!("{field}.name"), what));
        }
        let rights = {
            let (scopes, field) = (of("scopes")?, format!("{field}.scopes"));
            let texts: Vec<&str> = self
                .array(scopes, &field)?
                .iter()
                .map(|text| self.string(text, &field))
                .collect::<Result<_, _>>()?;
            if texts.is_empty() {
                return Err(self.error(scopes.span().start, &field, "is empty: name presets or scopes"));
            }
            parse_scopes(texts)
                .map_err(|unknown| self.error(scopes.span().start, &field, format!("has an {unknown}")))?
        };
        let (keys, field) = (of("keys")?, format!("{field}.keys"));
        let listed = self.array(keys, &field)?;
        if listed.len() > KEYS_MAX {
            return Err(self.error(keys.span().start, &field, "has more than 8 keys; remove old ones"));
        }
        let key = |(at, key): (usize, &TomlValue<'_>)| -> Result<(CallerKey, Range<usize>), WrongFile> {
            let (digest, made, expires) = self.key(key, &format!("{field}[{at}]"))?;
            Ok((CallerKey { name: name.to_owned(), rights, digest, made, expires }, key.span()))
        };
        let entries = listed.iter().enumerate().map(key).collect::<Result<_, _>>()?;
        Ok(CallerEntry { name: name.to_owned(), keys: entries, list: keys.span() })
    }

    fn key(&self, value: &TomlValue<'_>, field: &str) -> Result<KeyFields, WrongFile> {
        let table = self.table(value, field)?;
        self.refuse_unknown(table, field, &["sha256", "made", "expires"])?;
        let hex = self.required(value, table, field, "sha256")?;
        let field_of = |name: &str| format!("{field}.{name}");
        let digest = Digest::from_hex(self.string(hex, &field_of("sha256"))?).ok_or_else(|| {
            let what =
                "must be the 64 hexadecimal digits of a SHA-256, not a key: kith keys create makes both";
            self.error(hex.span().start, &field_of("sha256"), what)
        })?;
        let date = |name: &str| table.get(name).map(|value| self.date(value, &field_of(name))).transpose();
        Ok((digest, date("made")?, date("expires")?))
    }

    fn date(&self, value: &TomlValue<'_>, field: &str) -> Result<SystemTime, WrongFile> {
        let found = value.get_ref().as_datetime().and_then(time);
        found.ok_or_else(|| {
            let what =
                "must be a date as 2027-05-25, or a time in UTC as 2027-05-25T10:00:00Z, without quotes";
            self.error(value.span().start, field, what)
        })
    }

    /// Refuses every field that is not in `known`.
    fn refuse_unknown(&self, table: &DeTable<'_>, field: &str, known: &[&str]) -> Result<(), WrongFile> {
        let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref())) else {
            return Ok(());
        };
        let name: &str = key.get_ref().as_ref();
        let shown =
            name.len() <= FIELD_SHOWN_MAX && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let name = if shown { format!(" `{name}`") } else { String::new() };
        let what = format!("has an unknown field{name}; there are {}", known.join(", "));
        Err(self.error(key.span().start, if field.is_empty() { "the file" } else { field }, what))
    }

    fn required<'v, 'i>(
        &self,
        whole: &TomlValue<'_>,
        table: &'v DeTable<'i>,
        field: &str,
        name: &str,
    ) -> Result<&'v TomlValue<'i>, WrongFile> {
        table.get(name).ok_or_else(|| self.error(whole.span().start, field, format!("has no {name}")))
    }

    fn table<'v, 'i>(&self, value: &'v TomlValue<'i>, field: &str) -> Result<&'v DeTable<'i>, WrongFile> {
        value.get_ref().as_table().ok_or_else(|| self.error(value.span().start, field, "is no table"))
    }

    fn array<'v, 'i>(&self, value: &'v TomlValue<'i>, field: &str) -> Result<&'v DeArray<'i>, WrongFile> {
        value.get_ref().as_array().ok_or_else(|| self.error(value.span().start, field, "is no list"))
    }

    fn string<'v>(&self, value: &'v TomlValue<'_>, field: &str) -> Result<&'v str, WrongFile> {
        value.get_ref().as_str().ok_or_else(|| self.error(value.span().start, field, "is no text"))
    }

    fn error(&self, at: usize, field: &str, what: impl Into<Cow<'static, str>>) -> WrongFile {
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        WrongFile { line, field: field.to_owned(), what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use kith_service::rpc::rights::{Rights, Scope};

    use super::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const OTHER: &str = "cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34";

    fn caller(name: &str, hex: &str) -> String {
        format!("[[caller]]\nname = \"{name}\"\nscopes = [\"watcher\"]\nkeys = [{{ sha256 = \"{hex}\" }}]\n")
    }

    fn why(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn callers_are_read_with_keys_rights_and_ends() {
        let text = format!(
            "# digests only\n[[caller]]\nname = \"chat-backend\"\nscopes = [\"watcher\", \"user:read\"]\nkeys = [\n  \
             {{ sha256 = \"{HEX}\", made = 2026-11-25, expires = 2027-05-25 }},\n  {{ sha256 = \"{OTHER}\", expires = \
             2027-05-25T10:00:00Z }},\n]\n"
        );
        let set = parse(&text).unwrap();
        let rights = Rights::of(&[Scope::AdminRead, Scope::UserRead]);
        let ends =
            ["2027-05-25T00:00:00Z", "2027-05-25T10:00:00Z"].map(|end| humantime::parse_rfc3339(end).ok());
        for ((key, hex), expires) in set.iter().zip([HEX, OTHER]).zip(ends) {
            let digest = Digest::from_hex(hex).unwrap();
            assert_eq!((key.name.as_str(), key.rights, key.digest), ("chat-backend", rights, digest));
            assert_eq!(key.expires, expires);
        }
        let made = humantime::parse_rfc3339("2026-11-25T00:00:00Z").ok();
        assert_eq!(set.iter().map(|key| key.made).collect::<Vec<_>>(), [made, None]);
    }

    #[test]
    fn short_file_or_one_without_key_is_refused() {
        for empty in ["", "\n# nothing\n"] {
            assert!(why(empty).contains("has no [[caller]]"), "{}", why(empty));
        }
        let whole = caller("a", HEX);
        for end in 1..whole.len() - 1 {
            assert!(parse(&whole[..end]).is_err(), "{:?}", &whole[..end]);
        }
        let without = "[[caller]]\nname = \"a\"\nscopes = [\"all\"]\nkeys = []\n";
        assert!(why(without).contains("no key at all"));
        assert!(
            parse(&format!("{without}{}", caller("b", HEX))).is_ok(),
            "all keys of one caller may be revoked"
        );
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let one = |from: &str, to: &str| why(&caller("a", HEX).replace(from, to));
        for (found, expected) in [
            (one("\"a\"", "\"A\""), ":2: caller[0].name must be 1 to 64"),
            (one("\"a\"", "7"), ":2: caller[0].name is no text"),
            (
                one("watcher", "wacher"),
                ":3: caller[0].scopes has an unknown scope `wacher`; did you mean `watcher`?",
            ),
            (one("\"watcher\"", ""), ":3: caller[0].scopes is empty"),
            (one("[\"watcher\"]", "\"watcher\""), ":3: caller[0].scopes is no list"),
            (one("sha256", "sha"), ":4: caller[0].keys[0] has an unknown field `sha`; there are sha256"),
            (one(HEX, &HEX[1..]), ":4: caller[0].keys[0].sha256 must be the 64"),
            (one(" }", ", expires = \"2027-05-25\" }"), ":4: caller[0].keys[0].expires must be a date"),
            (
                one(" }", ", expires = 2027-05-25T10:00:00+02:00 }"),
                ":4: caller[0].keys[0].expires must be a date",
            ),
            (one(" }", ", made = 07:32:00 }"), ":4: caller[0].keys[0].made must be a date"),
            (one("keys", "key"), "caller[0] has an unknown field `key`; there are name, scopes, keys"),
            (one("name = \"a\"", ""), "caller[0] has no name"),
            (one("[[caller]]", "[[callers]]"), ":1: the file has an unknown field `callers`"),
            (one("[[caller]]", "[caller]"), "caller is no list"),
            (one("]\nkeys", "\nkeys"), "is no TOML"),
        ] {
            assert!(found.contains(expected), "{found} and not {expected}");
        }
    }

    #[test]
    fn names_and_keys_are_of_one_caller() {
        assert!(
            why(&format!("{}{}", caller("a", HEX), caller("a", OTHER))).contains("name of a caller above")
        );
        assert!(why(&format!("{}{}", caller("a", HEX), caller("b", HEX))).contains("has a key twice"));
        let upper = HEX.to_uppercase();
        assert!(why(&format!("{}{}", caller("a", HEX), caller("b", &upper))).contains("has a key twice"));
        let nine = format!("{{ sha256 = \"{HEX}\" }}, ").repeat(9);
        let many = caller("a", HEX).replace(&format!("{{ sha256 = \"{HEX}\" }}"), &nine);
        assert!(why(&many).contains("more than 8"));
    }

    #[test]
    fn a_key_at_a_wrong_place_is_never_repeated() {
        let key = "kith_mzxw6ytboimzxw6ytboimzxw6ytboimzxw6ytboimzxw6ytboi77777777";
        let file = caller("a", HEX);
        for wrong in [
            file.replace(HEX, key),
            file.replace("watcher", key),
            file.replace("\"a\"", &format!("\"{key}\"")),
            file.replace("\"a\"", &format!("\"a\"\n{key} = 1")),
            file.replace("\"a\"", key),
            format!("{key}\n{file}"),
            format!("{file}\n[{key}]\n"),
            file.replace(" }", &format!(", expires = \"{key}\" }}")),
        ] {
            let error = parse(&wrong).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("mzxw"), "{error}");
        }
    }
}
