//! Texts in records: storage, comparison and checks.

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;

use crate::{
    Invalid,
    characters::{check_prose, check_single_line, has_visible, is_ignorable},
};

const ICON_CHARS_MAX: usize = 2048;

/// A text in a record. Up to 24 bytes are stored inline: names, numbers and most addresses need no
/// allocation, which is the largest cost when a store reads a record.
pub type Text = compact_str::CompactString;

/// A text's bytes outside its record.
pub(crate) fn heap_bytes(text: &Text) -> usize {
    if text.is_heap_allocated() { text.capacity() } else { 0 }
}

/// The form in which texts are compared: without invisible characters, NFKC and full case folding until the
/// result is stable, without white space at the ends. (Unicode, UAX #15 and section 3.13: `toNFKC_Casefold`.)
/// All Kith versions agree on it: Unicode never changes it for an assigned character, and names refuse the
/// others.
#[must_use]
pub fn fold(text: &str) -> String {
    let once = |text: &str| {
        let shown = text.chars().filter(|c| !is_ignorable(*c));
        shown.nfkc().default_case_fold().filter(|c| !is_ignorable(*c)).nfkc().collect::<String>()
    };
    let (mut before, mut folded) = (once(text), String::new());
    // Two rounds are enough for every present character; the bound covers future characters.
    for _ in 0..4 {
        folded = once(&before);
        if folded == before {
            break;
        }
        before.clone_from(&folded);
    }
    folded.trim().to_owned()
}

/// Checks a text with one line: a shown name, a label, a reference. At most `chars_max` characters, no
/// control character and no invisible character, except joiners and variation selectors where a script or an
/// emoji needs them. White space at the ends is kept.
///
/// # Errors
/// Returns the limit and the length if it is longer, the first character that is not allowed, or that no
/// character is visible. An empty text is valid.
pub fn single_line(text: &str, chars_max: usize) -> Result<Text, Invalid> {
    check_length(text, chars_max)?;
    check_single_line(text)?;
    if !text.is_empty() && !has_visible(text) {
        return Err(nothing_visible());
    }
    Ok(text.into())
}

/// Checks the address of a picture: one line with at most 2048 characters. May be empty.
///
/// # Errors
/// Fails like [`single_line`].
pub fn icon(text: &str) -> Result<Text, Invalid> {
    single_line(text, ICON_CHARS_MAX)
}

/// Checks a text with several lines: at most `chars_max` characters, no control character besides tab and
/// line break, no bidirectional override. Direction marks, joiners and other invisible characters are kept.
///
/// # Errors
/// Returns the limit and the length if it is longer, or the first character that is not allowed.
pub fn prose(text: &str, chars_max: usize) -> Result<Text, Invalid> {
    check_length(text, chars_max)?;
    check_prose(text)?;
    Ok(text.into())
}

/// Checks a text's length as it was given, in characters (Unicode code points).
pub(crate) fn check_length(text: &str, chars_max: usize) -> Result<(), Invalid> {
    let length = text.chars().count();
    if length > chars_max {
        return Err(Invalid::new(format!("must have at most {chars_max} characters; it has {length}")));
    }
    Ok(())
}

pub(crate) const fn nothing_visible() -> Invalid {
    Invalid::fixed("must have a visible character")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_twice_changes_nothing() {
        for c in ('\0'..=char::MAX).step_by(7) {
            let folded = fold(&c.to_string());
            assert_eq!(fold(&folded), folded, "{c:?}");
        }
    }

    #[test]
    fn folding_drops_what_shows_nothing() {
        assert_eq!(fold("a\u{200C}\u{FE0F}\u{202A}b\u{3164}\u{AD}c"), "abc");
        assert_eq!(fold("e\u{200D}\u{301}"), "é");
        assert_eq!(fold("\u{200B}\u{FEFF}"), "");
    }

    #[test]
    fn blank_text_of_one_line_is_refused() {
        for blank in [" ", "\u{3000}\u{A0}"] {
            assert_eq!(single_line(blank, 64).unwrap_err().to_string(), "must have a visible character");
        }
        assert!(single_line("\u{200B}", 64).is_err());
        assert_eq!(single_line("", 64).unwrap(), "");
    }

    #[test]
    fn length_is_counted_in_characters_as_given() {
        let error = prose(&"é".repeat(201), 200).unwrap_err().to_string();
        assert_eq!(error, "must have at most 200 characters; it has 201");
        assert!(single_line(&"ß".repeat(64), 64).is_ok());
    }

    #[test]
    fn prose_keeps_lines_that_names_refuse() {
        assert_eq!(prose("a\nb\u{200F}", 64).unwrap(), "a\nb\u{200F}");
        assert!(single_line("a\nb", 64).is_err());
    }
}
