//! Parameters that users and groups have.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::{Invalid, Text};

/// The most parameters that a record may have.
pub const PARAMS_MAX: usize = 256;
/// The most bytes that all keys and values in a record may have together.
pub const PARAMS_BYTES_MAX: usize = 64 * 1024;
const KEY_CHARS_MAX: usize = 64;

/// A record's further parameters: at most [`PARAMS_MAX`], at most [`PARAMS_BYTES_MAX`] together. A key begins
/// with a letter and has at most 64 characters out of `A-Z a-z 0-9 _ -`, so that no key is an operator or a
/// path in any backend. Values hold no NUL.
///
/// Stored as a sorted list: a tree node would have room for eleven, and most records have two or three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Box<[(Text, Text)]>);

impl Params {
    /// Checks and takes a map.
    ///
    /// # Errors
    /// If a key or a value is not allowed, or they are too many or too large.
    pub fn new(map: BTreeMap<String, String>) -> Result<Self, Invalid> {
        for (key, value) in &map {
            Self::check_key(key)?;
            check_value(value)?;
        }
        let params: Self = map.into_iter().collect();
        if !params.fits() {
            return Err(Invalid::new(format!(
                "must hold at most {PARAMS_MAX} parameters of {PARAMS_BYTES_MAX} bytes together"
            )));
        }
        Ok(params)
    }

    /// Checks one key.
    ///
    /// # Errors
    /// If it is not allowed.
    pub fn check_key(key: &str) -> Result<(), Invalid> {
        let first = key.bytes().next().is_some_and(|c| c.is_ascii_alphabetic());
        let rest = key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
        if first && rest && key.len() <= KEY_CHARS_MAX {
            return Ok(());
        }
        Err(Invalid::new(format!(
            "must have keys that begin with a letter and have at most {KEY_CHARS_MAX} characters out of A-Z a-z 0-9 _ -"
        )))
    }

    /// Whether count and bytes are within the limits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.len() <= PARAMS_MAX && self.bytes() <= PARAMS_BYTES_MAX
    }

    /// Counts the bytes in all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// Approximate size in memory besides the record, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of_val(&*self.0) + self.bytes()
    }

    /// Counts the parameters.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the parameters as a map.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Changes single parameters, or replaces all.
    pub fn apply(&mut self, patch: &ParamsPatch) {
        if patch.is_empty() {
            return;
        }
        let kept = self.0.iter().filter(|(key, _)| !patch.replace && !patch.unset.contains(key.as_str()));
        *self = kept.chain(&patch.set.0).cloned().collect();
    }
}

/// Takes a backend's stored form without checks; if keys are equal, the last counts.
impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Params {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut list: Vec<(Text, Text)> = Vec::new();
        for (key, value) in pairs {
            let (key, value) = (key.into(), value.into());
            // The input is sorted in most cases.
            match list.last().map(|(last, _)| last.cmp(&key)) {
                None | Some(Ordering::Less) => list.push((key, value)),
                Some(_) => match list.binary_search_by(|(other, _)| other.cmp(&key)) {
                    Ok(at) => list[at].1 = value,
                    Err(at) => list.insert(at, (key, value)),
                },
            }
        }
        Self(list.into())
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs)
    }
}

/// Deserializes a map from any format.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Params;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
        std::iter::from_fn(|| map.next_entry::<Text, Text>().transpose()).collect()
    }
}

fn check_value(value: &str) -> Result<(), Invalid> {
    if value.contains('\0') {
        return Err(Invalid::new("must have values without NUL"));
    }
    Ok(())
}

/// A change to parameters. A key is in `set` or in `unset`, not in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamsPatch {
    /// Whether all parameters that are not in `set` are removed.
    pub replace: bool,
    /// Parameters to be set.
    pub set: Params,
    /// Keys to be removed; absent ones are ignored.
    pub unset: BTreeSet<String>,
}

impl ParamsPatch {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.replace && self.set.is_empty() && self.unset.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(pairs: &[(&str, &str)]) -> Params {
        Params::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
            .unwrap()
    }

    fn one(key: &str, value: &str) -> Result<Params, Invalid> {
        Params::new(BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn keys_that_are_operators_or_paths_are_refused() {
        for key in
            ["$set", "$where", "a.b", "", "_id", "__proto__", ".", "-a", "0", "a b", "é", "a\0", "a\0b", "\0"]
        {
            assert!(Params::check_key(key).is_err(), "{key:?}");
            assert!(one(key, "v").is_err(), "{key:?}");
        }
        assert!(Params::check_key(&"a".repeat(65)).is_err());
    }

    #[test]
    fn last_of_equal_keys_is_kept() {
        let stored: Params =
            [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4"), ("b", "5")].into_iter().collect();
        assert!(stored.iter().eq([("a", "4"), ("b", "5"), ("c", "3")]));
        assert_eq!((stored.len(), stored.is_empty(), stored.bytes()), (3, false, 6));
    }

    #[test]
    fn they_are_written_down_as_a_map() {
        let given = params(&[("lang", "en"), ("theme", "dark")]);
        let text = serde_json::to_string(&given).unwrap();
        assert_eq!(text, r#"{"lang":"en","theme":"dark"}"#);
        assert_eq!(serde_json::from_str::<Params>(&text).unwrap(), given);
        assert!(
            serde_json::from_str::<Params>("[]").unwrap_err().to_string().contains("a map of parameters")
        );
    }

    #[test]
    fn keys_that_begin_with_a_letter_are_taken() {
        for key in ["a", "Z", "a0", "a_b", "a-b", "constructor", &"a".repeat(64)] {
            assert!(Params::check_key(key).is_ok(), "{key:?}");
        }
    }

    #[test]
    fn values_with_nul_are_refused() {
        assert!(one("a", "\0").is_err());
        assert!(one("a", "b\0c").is_err());
        assert!(one("a", "$set \u{10FFFF}\n").is_ok());
    }

    #[test]
    fn number_and_bytes_are_bounded() {
        let numbered = |count| Params::new((0..count).map(|at| (format!("k{at}"), String::new())).collect());
        assert!(numbered(PARAMS_MAX).is_ok());
        assert!(numbered(PARAMS_MAX + 1).is_err());
        assert!(numbered(10_001).is_err());
        assert!(one("a", &"v".repeat(PARAMS_BYTES_MAX - 1)).is_ok());
        assert!(one("a", &"v".repeat(PARAMS_BYTES_MAX)).is_err());
        // Bytes, not characters.
        assert!(one("a", &"é".repeat(PARAMS_BYTES_MAX / 2)).is_err());
    }

    #[test]
    fn a_refusal_does_not_repeat_the_key() {
        assert!(!Params::check_key("$needle").unwrap_err().to_string().contains("needle"));
    }

    #[test]
    fn a_patch_sets_and_unsets_single_parameters() {
        let mut changed = params(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let unset = BTreeSet::from(["b".to_owned(), "absent".to_owned()]);
        changed.apply(&ParamsPatch { replace: false, set: params(&[("c", "4"), ("d", "5")]), unset });
        assert_eq!(changed, params(&[("a", "1"), ("c", "4"), ("d", "5")]));
    }

    #[test]
    fn a_replacing_patch_leaves_what_it_sets_alone() {
        let mut changed = params(&[("a", "1"), ("b", "2")]);
        changed.apply(&ParamsPatch { replace: true, set: params(&[("b", "3")]), unset: BTreeSet::new() });
        assert_eq!(changed, params(&[("b", "3")]));
        changed.apply(&ParamsPatch { replace: true, ..ParamsPatch::default() });
        assert_eq!(changed, Params::default());
    }

    #[test]
    fn a_patch_that_does_anything_is_not_empty() {
        assert!(ParamsPatch::default().is_empty());
        assert!(!ParamsPatch { replace: true, ..ParamsPatch::default() }.is_empty());
        assert!(!ParamsPatch { set: params(&[("a", "")]), ..ParamsPatch::default() }.is_empty());
        assert!(
            !ParamsPatch { unset: BTreeSet::from(["a".to_owned()]), ..ParamsPatch::default() }.is_empty()
        );
    }
}
