//! Cache keys with two parts. The first part's text is preceded by its length, so that different keys always
//! have different texts; page keys use the same form.

use std::{fmt, str::FromStr};

/// Two keys that together name a relation, for example a membership or a block. The order matters.
///
/// A pair cache is a [`TieredCache`](crate::TieredCache) like any other: without a relation its loader
/// returns [`Loaded::Absent`](crate::Loaded::Absent), which is cached, and a write that creates the relation
/// goes through [`begin_write`](crate::TieredCache::begin_write), which invalidates that.
///
/// The text is the first key's length in bytes, a colon, the first key, the second key. Different pairs have
/// different texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair<A, B>(pub A, pub B);

impl<A: fmt::Display, B: fmt::Display> fmt::Display for Pair<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", LengthPrefixed(&self.0), self.1)
    }
}

impl<A: FromStr, B: FromStr> FromStr for Pair<A, B> {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let (first, second) = split_length_prefixed(text).ok_or(NotAKey)?;
        Ok(Self(first.parse().map_err(|_| NotAKey)?, second.parse().map_err(|_| NotAKey)?))
    }
}

/// The text is no key of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a key of this kind")]
pub struct NotAKey;

/// A text with its length in bytes before it, so that another may follow.
pub(super) struct LengthPrefixed<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for LengthPrefixed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        write!(f, "{}:{text}", text.len())
    }
}

/// The text that was [`LengthPrefixed`], and what follows it.
pub(super) fn split_length_prefixed(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(first: &str, second: &str) -> String {
        Pair(first.to_owned(), second.to_owned()).to_string()
    }

    #[test]
    fn pair_round_trips() {
        for (first, second) in [("", ""), ("a", ""), ("", "a"), ("1:2", ":"), ("東", "京"), ("3:ab", "c")] {
            let pair = Pair(first.to_owned(), second.to_owned());
            assert_eq!(pair.to_string().parse(), Ok(pair));
        }
        assert_eq!(Pair(7_u64, -3_i64).to_string(), "1:7-3");
        assert_eq!("1:7-3".parse(), Ok(Pair(7_u64, -3_i64)));
    }

    #[test]
    fn no_two_pairs_have_one_text() {
        assert_ne!(text("1", "12"), text("11", "2"));
        assert_ne!(text("a", ":b"), text("a:", "b"));
        assert_ne!(text("", "1:"), text("1:", ""));
        assert_ne!(Pair(1, 2).to_string(), Pair(2, 1).to_string());
    }

    #[test]
    fn other_texts_are_refused() {
        for other in ["", "7", "1:", "2:7", "1:77x", "x:7", "-1:7", "99999999999999999999:7", "1:東1"] {
            assert_eq!(other.parse::<Pair<u64, u64>>(), Err(NotAKey), "{other:?}");
        }
    }
}
