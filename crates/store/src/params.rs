use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// Largest number of parameters of a record.
pub const PARAMS_MAX: usize = 256;
/// Largest sum of the bytes of all keys and values of a record.
pub const PARAMS_BYTES_MAX: usize = 64 * 1024;
const KEY_CHARS_MAX: usize = 64;

/// Further parameters of a record: at most [`PARAMS_MAX`], at most [`PARAMS_BYTES_MAX`] together. A key
/// begins with a letter and has at most 64 characters out of `A-Z a-z 0-9 _ -`, so that no key is an
/// operator or a path in any backend. Values hold no NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// Takes a map.
    ///
    /// # Errors
    /// When a key or a value is not allowed, or they are too many or too large.
    pub fn new(map: BTreeMap<String, String>) -> Result<Self, Invalid> {
        for (key, value) in &map {
            Self::check_key(key)?;
            check_value(value)?;
        }
        let params = Self(map);
        if !params.fits() {
            return Err(Invalid::new(format!(
                "must hold at most {PARAMS_MAX} parameters of {PARAMS_BYTES_MAX} bytes together"
            )));
        }
        Ok(params)
    }

    /// What a backend has stored, taken as it is.
    #[must_use]
    pub const fn from_stored(map: BTreeMap<String, String>) -> Self {
        Self(map)
    }

    /// Checks one key.
    ///
    /// # Errors
    /// When it is not allowed.
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

    /// Whether number and bytes are within the limits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.0.len() <= PARAMS_MAX && self.bytes() <= PARAMS_BYTES_MAX
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// The map.
    #[must_use]
    pub const fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The map, owned.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    /// Changes single parameters, or all of them.
    pub fn apply(&mut self, patch: &ParamsPatch) {
        if patch.replace {
            self.0.clear();
        }
        for key in &patch.unset {
            self.0.remove(key);
        }
        self.0.extend(patch.set.as_map().clone());
    }
}

fn check_value(value: &str) -> Result<(), Invalid> {
    if value.contains('\0') {
        return Err(Invalid::new("must have values without NUL"));
    }
    Ok(())
}

/// A change of parameters. A key is in `set` or in `unset`, not in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamsPatch {
    /// Whether all that is not in `set` goes.
    pub replace: bool,
    /// To be set.
    pub set: Params,
    /// To be removed; absent ones are passed over.
    pub unset: BTreeSet<String>,
}

impl ParamsPatch {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.replace && self.set.as_map().is_empty() && self.unset.is_empty()
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
