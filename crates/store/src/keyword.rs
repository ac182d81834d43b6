//! Keywords in searches for users.

use crate::{Email, Invalid, Phone, characters::is_ignorable, fold, text::check_length};

/// The most characters in a keyword: as many as in an email address.
const CHARS_MAX: usize = crate::EMAIL_CHARS_MAX;

/// A whole name, email or phone, in the forms in which these are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyword {
    name: String,
    email: Option<String>,
    phone: Option<String>,
}

impl Keyword {
    /// Parses a keyword with 1 to 254 characters. It has no operators or patterns. White space at the ends
    /// and invisible characters, which programs paste along, are ignored.
    ///
    /// # Errors
    /// When it is longer, or has no visible character.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        check_length(text, CHARS_MAX)?;
        let name = fold(text);
        if name.is_empty() {
            return Err(Invalid::new(format!(
                "must have 1 to {CHARS_MAX} characters, of which one is visible"
            )));
        }
        // The text as given comes first: in host names some joiners matter.
        let shown = |text: &str| text.chars().filter(|c| !is_ignorable(*c)).collect::<String>();
        let email = Email::new(text.trim()).or_else(|_| Email::new(shown(text).trim())).ok();
        Ok(Self {
            name,
            email: email.map(|email| email.key().to_owned()),
            phone: Phone::as_written(text).map(|phone| phone.text().to_owned()),
        })
    }

    /// The form that is compared with [`UserName::key`](crate::UserName::key).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The form that is compared with [`Email::key`]; `None`: not an address.
    #[must_use]
    pub fn email(&self) -> Option<&str> {
        self.email.as_deref()
    }

    /// The form that is compared with [`Phone::text`]; `None`: not a number.
    #[must_use]
    pub fn phone(&self) -> Option<&str> {
        self.phone.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_keyword_is_read_as_what_is_seen() {
        let email = Keyword::new(" \u{202A}Ann@Bücher.example\u{202C}\u{FEFF} ").unwrap();
        assert_eq!(email.email(), Some("ann@xn--bcher-kva.example"));
        let phone = Keyword::new("\u{2068}0049 170 1234567\u{2069}").unwrap();
        assert_eq!((phone.phone(), phone.email()), (Some("+491701234567"), None));
        assert_eq!(Keyword::new("\u{200B}Ann").unwrap().name(), "ann");
    }

    #[test]
    fn keyword_without_visible_character_is_refused() {
        for text in ["", " ", "\u{200B}"] {
            assert!(Keyword::new(text).is_err(), "{text:?}");
        }
        let error = Keyword::new(&"a".repeat(255)).unwrap_err().to_string();
        assert_eq!(error, "must have at most 254 characters; it has 255");
    }

    #[test]
    fn joiner_of_a_host_name_counts() {
        let domain = "ann@نامه\u{200C}ای.example";
        assert_eq!(Keyword::new(domain).unwrap().email(), Some(Email::new(domain).unwrap().key()));
    }
}
