//! Names for users.

use crate::{
    Invalid,
    characters::{check_single_line, has_visible},
    fold,
    text::{check_length, nothing_visible},
};

/// The most characters in a user name as given. Its compared form may be longer: folding makes two letters
/// from `ß`, and at most eighteen from any character.
pub const NAME_CHARS_MAX: usize = 64;

/// A user's name, as given and in its unique form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserName {
    text: String,
    key: String,
}

impl UserName {
    /// Parses a name: 1 to 64 characters, no invisible characters except joiners and variation selectors
    /// where a script or an emoji needs them, no control or reordering characters, no white space at the
    /// ends. Its compared form is [`fold`]ed, which drops the invisible characters: with and without them it
    /// is the same name.
    ///
    /// # Errors
    /// Returns the violated rule; for a character, its code point, kind and position.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::new(format!("must have 1 to {NAME_CHARS_MAX} characters")));
        }
        check_length(text, NAME_CHARS_MAX)?;
        check_single_line(text)?;
        let key = fold(text);
        if key.is_empty() || !has_visible(text) {
            return Err(nothing_visible());
        }
        if text.trim() != text {
            return Err(Invalid::new("must not begin or end with white space"));
        }
        Ok(Self { text: text.to_owned(), key })
    }

    /// The name as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The form that is compared.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A text's visual form: two texts with the same skeleton look alike (UTS #39). Never shown and never stored.
#[must_use]
pub fn skeleton(text: &str) -> String {
    fold(&unicode_security::skeleton(&fold(text)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> String {
        UserName::new(name).unwrap().key().to_owned()
    }

    #[test]
    fn forms_of_one_name_share_a_key() {
        assert_eq!(key("Straße"), key("STRASSE"));
        assert_eq!(key("ｋｉｔｈ"), key("Kith"));
        assert_eq!(key("Jose\u{301}"), key("José"));
        assert_eq!(key("o\u{FB03}ce"), key("office"));
    }

    #[test]
    fn name_with_and_without_joiners_is_one() {
        assert_eq!(key("می\u{200C}خواهم"), key("میخواهم"));
        assert_eq!(key("👩\u{200D}💻"), key("👩💻"));
        assert_eq!(key("❤\u{FE0F}"), key("❤"));
    }

    #[test]
    fn names_with_control_characters_are_refused() {
        for name in ["", " ", "a\u{200B}b", "a\u{FEFF}", "a\0b", "a\u{202E}b", "a\nb", " a", "a\u{00AD}b"] {
            assert!(UserName::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn length_is_counted_before_folding() {
        assert_eq!(key(&"ß".repeat(40)), "s".repeat(80));
        assert!(UserName::new(&"ß".repeat(64)).is_ok());
        let error = UserName::new(&"ß".repeat(65)).unwrap_err().to_string();
        assert_eq!(error, "must have at most 64 characters; it has 65");
    }

    #[test]
    fn a_name_that_looks_like_another_is_known() {
        let cyrillic = UserName::new("аdmin").unwrap();
        assert_ne!(cyrillic.key(), "admin");
        assert_eq!(skeleton(cyrillic.key()), skeleton("admin"));
        assert_eq!(skeleton("ADMIN"), skeleton("admin"));
        assert_ne!(skeleton("adam"), skeleton("admin"));
    }
}
