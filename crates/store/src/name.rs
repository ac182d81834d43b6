//! Names and texts: how they are compared, and which characters they may not hold.

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use crate::Invalid;

/// Largest number of characters of a user name, also in its normalised form.
pub const NAME_CHARS_MAX: usize = 64;
/// Largest number of characters of an email address (RFC 5321).
pub const EMAIL_CHARS_MAX: usize = 254;

/// A text of a record. Up to 24 bytes lie in the record itself: names, numbers and most addresses need no
/// memory of their own, which is what reading a record from a store costs most.
pub type Text = compact_str::CompactString;

/// Bytes that a text takes beside its record.
pub(crate) fn heap_bytes(text: &Text) -> usize {
    if text.is_heap_allocated() { text.capacity() } else { 0 }
}

/// The form in which texts are compared: NFKC and full case folding until nothing changes any more,
/// without white space at the ends. (Unicode, UAX #15 and section 3.13: `toNFKC_Casefold` without the
/// removal of invisible characters, which names refuse.)
#[must_use]
pub fn fold(text: &str) -> String {
    let once = |text: &str| text.nfkc().default_case_fold().nfkc().collect::<String>();
    let (mut before, mut folded) = (once(text), String::new());
    // Two rounds are enough for every character there is; the bound is for those to come.
    for _ in 0..4 {
        folded = once(&before);
        if folded == before {
            break;
        }
        before.clone_from(&folded);
    }
    folded.trim().to_owned()
}

/// Takes a text that is shown to people: at most `chars_max` characters, none that controls a terminal or
/// reorders its neighbours. White space at the ends is kept.
///
/// # Errors
/// When it is longer or holds such a character.
pub fn text(text: &str, chars_max: usize) -> Result<Text, Invalid> {
    if text.chars().count() > chars_max {
        return Err(Invalid::new(format!("must have at most {chars_max} characters")));
    }
    if text.chars().any(misleads) {
        return Err(Invalid::new("must not hold control characters or characters that reorder text"));
    }
    Ok(text.into())
}

/// The name of a user, as given and in the form in which it is unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserName {
    text: String,
    key: String,
}

impl UserName {
    /// Takes a name: 1 to 64 characters, none invisible, none that controls or reorders, no white space
    /// at the ends.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.chars().any(|c| misleads(c) || invisible(c)) {
            return Err(Invalid::new("must not hold control characters or invisible characters"));
        }
        let key = fold(text);
        let (given, folded) = (text.chars().count(), key.chars().count());
        if key.is_empty() || given > NAME_CHARS_MAX || folded > NAME_CHARS_MAX {
            return Err(Invalid::new(format!("must have 1 to {NAME_CHARS_MAX} characters")));
        }
        if text.trim() != text {
            return Err(Invalid::new("must not begin or end with white space"));
        }
        Ok(Self { text: text.to_owned(), key })
    }

    /// As given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As compared.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// What a text looks like: two texts with one skeleton can be taken for each other (UTS #39). Never shown
/// and never stored.
#[must_use]
pub fn skeleton(text: &str) -> String {
    fold(&unicode_security::skeleton(&fold(text)).collect::<String>())
}

/// An email address: something, an at sign, something. Compared without case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Email {
    text: String,
    key: String,
}

impl Email {
    /// Takes an address of at most 254 characters.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let parts = text.rsplit_once('@');
        let whole = parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
        if !whole || text.chars().any(|c| c.is_whitespace() || misleads(c) || invisible(c)) {
            return Err(Invalid::new("must be an email address"));
        }
        if text.chars().count() > EMAIL_CHARS_MAX {
            return Err(Invalid::new(format!("must have at most {EMAIL_CHARS_MAX} characters")));
        }
        Ok(Self { text: text.to_owned(), key: fold(text) })
    }

    /// As given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As compared.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A phone number: a plus sign and 7 to 15 digits (E.164).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Phone(String);

impl Phone {
    /// Takes a number.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let digits = text.strip_prefix('+').unwrap_or_default();
        let all_digits = digits.bytes().all(|c| c.is_ascii_digit());
        if !(7..=15).contains(&digits.len()) || !all_digits || digits.starts_with('0') {
            return Err(Invalid::new("must be a plus sign and 7 to 15 digits (E.164)"));
        }
        Ok(Self(text.to_owned()))
    }

    /// As given and as compared.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// What users are searched by: a whole name, email or phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyword {
    folded: String,
}

impl Keyword {
    /// Takes a keyword of 1 to 254 characters. Nothing in it is an operator or a pattern.
    ///
    /// # Errors
    /// When it is empty or longer.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let folded = fold(text);
        if folded.is_empty() || text.chars().count() > EMAIL_CHARS_MAX {
            return Err(Invalid::new(format!("must have 1 to {EMAIL_CHARS_MAX} characters")));
        }
        Ok(Self { folded })
    }

    /// What is compared with [`UserName::key`], [`Email::key`] and [`Phone::text`].
    #[must_use]
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

/// Control characters, unassigned and private ones, line separators, and those that reorder text.
fn misleads(c: char) -> bool {
    let reorders =
        matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}');
    let category = matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Unassigned
            | GeneralCategory::PrivateUse
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    reorders || category
}

/// Characters that show nothing: the format characters and the rest of `Default_Ignorable_Code_Point`.
fn invisible(c: char) -> bool {
    c.general_category() == GeneralCategory::Format
        || matches!(
            c,
            '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{2800}'
                | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FFA0}' | '\u{E0000}'..='\u{E0FFF}'
        )
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
    fn names_with_hidden_or_controlling_characters_are_refused() {
        for name in ["", " ", "a\u{200B}b", "a\u{FEFF}", "a\0b", "a\u{202E}b", "a\nb", " a", "a\u{00AD}b"] {
            assert!(UserName::new(name).is_err(), "{name:?}");
        }
        assert!(UserName::new(&"a".repeat(65)).is_err());
        assert!(UserName::new(&"a".repeat(64)).is_ok());
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for c in ('\0'..=char::MAX).step_by(7) {
            let folded = fold(&c.to_string());
            assert_eq!(fold(&folded), folded, "{c:?}");
        }
    }

    #[test]
    fn a_name_that_looks_like_another_is_known() {
        let cyrillic = UserName::new("аdmin").unwrap();
        assert_ne!(cyrillic.key(), "admin");
        assert_eq!(skeleton(cyrillic.key()), skeleton("admin"));
        assert_eq!(skeleton("ADMIN"), skeleton("admin"));
        assert_ne!(skeleton("adam"), skeleton("admin"));
    }

    #[test]
    fn emails_and_phones_are_checked() {
        assert!(Email::new("ann@example.org").is_ok());
        for text in ["", "ann", "@", "a@", "@b", "a b@c"] {
            assert!(Email::new(text).is_err(), "{text:?}");
        }
        assert!(Phone::new("+8613800138000").is_ok());
        for text in ["", "13800138000", "+", "+123456", "+1234567890123456", "+12345a7", "+0123456789"] {
            assert!(Phone::new(text).is_err(), "{text:?}");
        }
    }
}
