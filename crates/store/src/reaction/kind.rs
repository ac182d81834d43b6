//! Kinds of reactions.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use unicode_normalization::is_nfc;

use crate::{Invalid, Text, single_line};

/// The most bytes in a kind.
pub const REACTION_KIND_BYTES_MAX: usize = 32;

/// What a reaction shows: an emoji, or a name that the product chose. 1 to [`REACTION_KIND_BYTES_MAX`] bytes
/// in the form NFC, on one line, with a visible character. Made by parsing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct ReactionKind(Text);

impl ReactionKind {
    /// The kind as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ReactionKind {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if !(1..=REACTION_KIND_BYTES_MAX).contains(&text.len()) {
            let why = format!("must have 1 to {REACTION_KIND_BYTES_MAX} bytes; it has {}", text.len());
            return Err(Invalid::new(why));
        }
        if !is_nfc(text) {
            return Err(Invalid::fixed("must be in the Unicode normalization form NFC"));
        }
        single_line(text, REACTION_KIND_BYTES_MAX).map(Self)
    }
}

impl TryFrom<Text> for ReactionKind {
    type Error = Invalid;

    fn try_from(text: Text) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<ReactionKind> for Text {
    fn from(kind: ReactionKind) -> Self {
        kind.0
    }
}

impl fmt::Display for ReactionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        text.parse::<ReactionKind>().unwrap_err().to_string()
    }

    #[test]
    fn emoji_and_names_are_kinds() {
        for kind in ["👍", "❤\u{FE0F}", "👩\u{200D}💻", "👍🏽", "thumbs_up", "+1", "é", &"x".repeat(32)]
        {
            assert_eq!(kind.parse::<ReactionKind>().unwrap().as_str(), kind);
        }
    }

    #[test]
    fn other_kinds_are_refused_by_reason() {
        assert_eq!(why(""), "must have 1 to 32 bytes; it has 0");
        assert_eq!(why(&"é".repeat(17)), "must have 1 to 32 bytes; it has 34");
        assert_eq!(why("e\u{301}"), "must be in the Unicode normalization form NFC");
        assert_eq!(why("a\u{7}"), "must not hold U+0007 (control character) at character 2");
        assert_eq!(why("a\u{200B}"), "must not hold U+200B (invisible character) at character 2");
        assert_eq!(why(" "), "must have a visible character");
    }
}
