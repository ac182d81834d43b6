//! The form of keys: how a key is made, and which keys are too weak.

use std::{collections::BTreeSet, fmt};

use rand::{TryRngCore as _, rngs::OsRng};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Every key that Kith makes begins with it, so that scanners for secrets find keys in code and logs.
pub const PREFIX: &str = "kith_";

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Digits for 256 bits.
const SECRET: usize = 52;
/// Digits for 30 bits.
const CHECKSUM: usize = 6;
/// Fewest characters in a key that a person chose.
const CHARACTERS_MIN: usize = 32;
/// Longest key. The edge refuses larger headers in any case.
const CHARACTERS_MAX: usize = 1024;
/// Fewest different characters.
const DIFFERENT_MIN: usize = 10;
/// These texts are in no random key, but in example keys. They are compared without case and separators.
const DEFAULTS: [&str; 14] = [
    "replaceme",
    "changeme",
    "changethis",
    "yourkey",
    "yourapikey",
    "yoursecret",
    "apikeyhere",
    "insertkey",
    "mysecret",
    "supersecret",
    "password",
    "0123456789abcdef",
    "1234567890",
    "abcdefghijklmnopqrstuvwxyz",
];

/// Generates a key with 256 random bits: `kith_`, 52 base32 digits, 6 for the checksum. Overwritten when
/// dropped.
///
/// # Errors
/// When the system gives no random bytes.
pub fn generate() -> Result<Zeroizing<String>, rand::rand_core::OsError> {
    let mut bits = Zeroizing::new([0; 32]);
    OsRng.try_fill_bytes(bits.as_mut_slice())?;
    // It has its final size from the start: a text that grows leaves parts of the key behind.
    let mut key = Zeroizing::new(String::with_capacity(PREFIX.len() + SECRET + CHECKSUM));
    key.push_str(PREFIX);
    push_digits(&mut key, bits.as_slice(), SECRET);
    let checksum = Sha256::digest(key.as_bytes());
    push_digits(&mut key, &checksum, CHECKSUM);
    Ok(key)
}

/// Makes sure that a key cannot be guessed: a key that Kith made has its checksum, and any other is long and
/// varied enough.
///
/// # Errors
/// Says why the key is refused, without any part of it.
pub fn check(key: &str) -> Result<(), WeakKey> {
    let plain: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let plain = Zeroizing::new(plain);
    if key.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(WeakKey::Characters);
    }
    if key.starts_with(['"', '\'']) {
        return Err(WeakKey::Quoted);
    }
    if key.split_once('=').is_some_and(|(name, _)| is_variable(name)) {
        return Err(WeakKey::Named);
    }
    if let Some(digits) = key.strip_prefix(PREFIX) {
        return if is_whole(key, digits) { Ok(()) } else { Err(WeakKey::Checksum) };
    }
    match key.len() {
        _ if DEFAULTS.iter().any(|default| plain.contains(default)) => Err(WeakKey::Default),
        length if length < CHARACTERS_MIN => Err(WeakKey::Short),
        _ if key.bytes().collect::<BTreeSet<_>>().len() < DIFFERENT_MIN => Err(WeakKey::Uniform),
        ..=CHARACTERS_MAX => Ok(()),
        _ => Err(WeakKey::Long),
    }
}

/// Whether a text names a variable for a key, such as `KITH_API_KEY`.
fn is_variable(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && ["key", "token", "secret"].into_iter().any(|word| lower.ends_with(word))
}

fn is_whole(key: &str, digits: &str) -> bool {
    if digits.len() != SECRET + CHECKSUM || digits.bytes().any(|digit| !ALPHABET.contains(&digit)) {
        return false;
    }
    let (body, given) = key.split_at(PREFIX.len() + SECRET);
    let mut checksum = String::with_capacity(CHECKSUM);
    push_digits(&mut checksum, &Sha256::digest(body), CHECKSUM);
    checksum == given
}

/// Pushes `digits` base32 digits, from the first bits on. Missing bits at the end are 0.
fn push_digits(to: &mut String, bytes: &[u8], digits: usize) {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    for digit in 0..digits {
        let value = (digit * 5..digit * 5 + 5).fold(0, |value, at| value << 1 | bit(at));
        to.push(char::from(ALPHABET[value]));
    }
}

/// Why a key is refused. Contains no part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeakKey {
    /// It is not visible ASCII, so that no header can hold it.
    Characters,
    /// It is in quotes, which a shell would remove.
    Quoted,
    /// An assignment to a variable, as in a file with environment variables.
    Named,
    /// Begins like a key that Kith made, but has a wrong checksum.
    Checksum,
    /// A key from an example.
    Default,
    /// Fewer than 32 characters.
    Short,
    /// Fewer than 10 different characters.
    Uniform,
    /// More than 1,024 characters.
    Long,
}

impl fmt::Display for WeakKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Characters => "has a character that no key has: only visible ASCII without blanks is sent",
            Self::Quoted => "is in quotes, which would be part of it; write it without them",
            Self::Named => {
                "has the name of a variable and = before it, which would be part of it; write it alone"
            }
            Self::Checksum => {
                "begins with kith_ and has another checksum: it was cut or mistyped; copy it again"
            }
            Self::Default => "is one of an example, which everybody knows; make one: kith keys generate",
            Self::Short => "has fewer than 32 characters and could be guessed; make one: kith keys generate",
            Self::Uniform => {
                "has fewer than 10 different characters and could be guessed; make one: kith keys generate"
            }
            Self::Long => "has more than 1024 characters; make one: kith keys generate",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_with_quotes_or_name_is_refused() {
        let key = "correct-horse-battery-staple-one-key";
        for quote in ['"', '\''] {
            assert_eq!(check(&format!("{quote}{key}{quote}")), Err(WeakKey::Quoted));
        }
        let made = generate().unwrap();
        for name in ["KITH_API_KEY", "kith_key", "TOKEN"] {
            assert_eq!(check(&format!("{name}={key}")), Err(WeakKey::Named), "{name}");
            assert_eq!(check(&format!("{name}={}", *made)), Err(WeakKey::Named), "{name}");
        }
        assert_eq!(check("dGhlIGtleSBvZiBzb21lIG90aGVyIHByb2dyYW0K=="), Ok(()), "base64 ends with =");
    }

    #[test]
    fn a_new_key_is_strong_and_no_two_are_alike() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        for key in [&one, &other] {
            assert!(key.len() == 63 && key.starts_with("kith_"), "{}", key.len());
            assert_eq!(check(key), Ok(()));
        }
        assert_ne!(*one, *other);
    }

    #[test]
    fn digits_hold_all_bits_in_their_order() {
        let digits = |bytes: &[u8], count| {
            let mut text = String::new();
            push_digits(&mut text, bytes, count);
            text
        };
        // RFC 4648, section 10, in lower case and without padding.
        assert_eq!(digits(b"foobar", 10), "mzxw6ytboi");
        assert_eq!(digits(&[0xff; 32], 52), format!("{}q", "7".repeat(51)));
    }

    #[test]
    fn mistyped_or_cut_key_is_detected() {
        let key = generate().unwrap();
        let other = if key.ends_with('a') { 'b' } else { 'a' };
        let (cut, doubled) = (key[..62].to_owned(), format!("{}{}", *key, *key));
        let mistyped = [
            format!("{cut}{other}"),
            key.replacen('_', "_a", 1),
            key.to_uppercase().replacen("KITH", "kith", 1),
        ];
        for wrong in [cut, doubled].iter().chain(&mistyped) {
            assert_eq!(check(wrong), Err(WeakKey::Checksum), "{wrong}");
        }
        assert_eq!(check(&format!("{} ", *key)), Err(WeakKey::Characters));
    }

    #[test]
    fn chosen_key_is_long_varied_and_no_example() {
        assert_eq!(check("correct-horse-battery-staple-mfx"), Ok(()));
        for (key, why) in [
            ("", WeakKey::Short),
            ("correct-horse-battery-staple-mf", WeakKey::Short),
            ("abababababababababababababababababababab", WeakKey::Uniform),
            ("REPLACE_ME", WeakKey::Default),
            ("Change-Me-Change-Me-Change-Me-Change-Me", WeakKey::Default),
            ("0123456789abcdef0123456789abcdef", WeakKey::Default),
            ("correct-horse-battery-staple-mé-x", WeakKey::Characters),
            ("correct horse battery staple mfxy", WeakKey::Characters),
            ("correct-horse-battery-staple\0mfxy", WeakKey::Characters),
        ] {
            assert_eq!(check(key), Err(why), "{key}");
        }
        assert_eq!(check(&"abcdefghijk".repeat(94)), Err(WeakKey::Long));
    }
}
