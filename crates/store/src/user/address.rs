//! Email addresses and phone numbers.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use crate::{
    Invalid,
    characters::{check_single_line, is_ignorable},
    fold,
    text::check_length,
};

/// The most characters in an email address (RFC 5321).
pub const EMAIL_CHARS_MAX: usize = 254;
/// The most bytes before the at sign (RFC 5321).
const LOCAL_BYTES_MAX: usize = 64;

/// An email address: a local part, an at sign, a host name. Compared without case, and by the host name's
/// ASCII form (IDNA): `ann@bücher.example` is `Ann@xn--bcher-kva.example`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Email {
    text: String,
    key: String,
}

impl Email {
    /// Parses an address with at most 254 characters, without quotes, comments and address literals.
    ///
    /// # Errors
    /// Returns which part is invalid.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        check_length(text, EMAIL_CHARS_MAX)?;
        check_single_line(text)?;
        let parts = text.split_once('@').filter(|(_, domain)| !domain.contains('@'));
        let Some((local, domain)) = parts else {
            return Err(Invalid::fixed("must be an email address: local part, one @, host name"));
        };
        let key = format!("{}@{}", local_key(local)?, domain_key(domain)?);
        Ok(Self { text: text.to_owned(), key })
    }

    /// The address as given.
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

/// The characters that HTML accepts in a local part, and letters from other scripts (RFC 6531).
fn local_key(local: &str) -> Result<String, Invalid> {
    let allowed = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => true,
        _ if c.is_ascii() => ".!#$%&'*+/=?^_`{|}~-".contains(c),
        _ => !c.is_whitespace(),
    };
    let key = fold(local);
    // Folding may bring an at sign or white space out of a character that looks like it.
    let fits = (1..=LOCAL_BYTES_MAX).contains(&local.len()) && !key.is_empty();
    if fits && local.chars().chain(key.chars()).all(allowed) {
        return Ok(key);
    }
    Err(Invalid::fixed(
        "must be an email address: before its @ 1 to 64 bytes of letters, digits and .!#$%&'*+/=?^_`{|}~-",
    ))
}

fn domain_key(domain: &str) -> Result<String, Invalid> {
    let ascii = Uts46::new().to_ascii(
        domain.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::CheckFirstLast,
        DnsLength::Verify,
    );
    match ascii {
        Ok(ascii) => Ok(ascii.to_ascii_lowercase()),
        Err(_) => {
            Err(Invalid::fixed("must be an email address: after its @ a host name such as example.org"))
        }
    }
}

/// A phone number: a plus sign and 7 to 15 digits (E.164).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Phone(String);

impl Phone {
    /// Parses a number in the form in which it is stored and compared.
    ///
    /// # Errors
    /// If it does not have that form; see [`Self::as_written`].
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let digits = text.strip_prefix('+').unwrap_or_default();
        let all_digits = digits.bytes().all(|c| c.is_ascii_digit());
        if !(7..=15).contains(&digits.len()) || !all_digits || digits.starts_with('0') {
            return Err(Invalid::fixed(
                "must be a plus sign and 7 to 15 digits, nothing between them (E.164)",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a number in international form as people write it: with `00` in place of the plus sign, with
    /// spaces, dashes, dots, slashes and parentheses, with a `(0)` that is only dialed within the country,
    /// and with invisible characters, which phones and office programs paste along. `None` if it is not a
    /// number, or lacks its country.
    #[must_use]
    pub fn as_written(text: &str) -> Option<Self> {
        let text: String = text.nfkc().filter(|c| !is_ignorable(*c)).collect();
        let digits: String = text.replacen("(0)", "", 1).chars().filter(|c| !separates_digits(*c)).collect();
        match digits.strip_prefix("00") {
            Some(number) => Self::new(&format!("+{number}")).ok(),
            None => Self::new(&digits).ok(),
        }
    }

    /// The form that is stored and compared.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

fn separates_digits(c: char) -> bool {
    c.is_whitespace()
        || c.general_category() == GeneralCategory::DashPunctuation
        || matches!(c, '.' | '/' | '(' | ')' | '\u{2212}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(email: &str) -> String {
        Email::new(email).unwrap().key().to_owned()
    }

    #[test]
    fn address_in_unicode_and_ascii_is_one() {
        assert_eq!(key("Ann@Bücher.Example"), "ann@xn--bcher-kva.example");
        assert_eq!(key("ann@XN--BCHER-KVA.example"), key("ann@bücher.example"));
        assert_eq!(key("ann@bu\u{308}cher。example"), key("ann@bücher.example"));
        assert_ne!(key("ann@straße.example"), key("ann@strasse.example"));
        assert_eq!(Email::new("Ann@Bücher.example").unwrap().text(), "Ann@Bücher.example");
    }

    #[test]
    fn addresses_are_taken() {
        for text in ["ann@example.org", "a.b+c/d='x'@e", "用户@例子.广告", "ann@localhost", "a..b@c.org"]
        {
            assert!(Email::new(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_addresses_are_refused() {
        for text in [
            "",
            "ann",
            "@",
            "a@",
            "@b",
            "a b@c",
            "a@b@c.org",
            "mailto:a@b.org",
            "<a@b.org>",
            "a@b,c@d.org",
            "\"a\"@b.org",
            "a@[127.0.0.1]",
            "a@b_c.org",
            "a@-b.org",
            "a@b..org",
            "a@b.org.",
            "a@b.org/x",
            "a\u{FF20}b@c.org",
            "a\u{200B}@b.org",
            "a@xn--a.org",
            "a\n@b.org",
        ] {
            assert!(Email::new(text).is_err(), "{text:?}");
        }
        assert!(Email::new(&format!("{}@b.org", "a".repeat(65))).is_err());
        assert!(Email::new(&format!("a@{}.org", "b".repeat(64))).is_err());
    }

    #[test]
    fn phones_are_stored_in_one_form() {
        assert!(Phone::new("+8613800138000").is_ok());
        for text in ["", "13800138000", "+", "+123456", "+1234567890123456", "+12345a7", "+0123456789"] {
            assert!(Phone::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn phones_are_read_as_people_write_them() {
        for text in [
            "+491701234567",
            "+49 170 1234567",
            "0049 170 1234567",
            "+49-170-1234567",
            "+49 (0)170 / 123 45 67",
            "+49\u{A0}170\u{2011}1234567",
            "\u{202A}+49 170 1234567\u{202C}",
            "＋４９ １７０ １２３４５６７",
        ] {
            let phone = Phone::as_written(text);
            assert_eq!(phone.as_ref().map(Phone::text), Some("+491701234567"), "{text:?}");
        }
        for text in
            ["", "0170 1234567", "491701234567", "+49 170 12345x7", "++491701234567", "+49170+1234567"]
        {
            assert_eq!(Phone::as_written(text), None, "{text:?}");
        }
    }
}
