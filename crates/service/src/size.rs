//! Sizes in bytes: numbers, or texts as "256MiB".

use std::{fmt, marker::PhantomData};

use serde::{Deserializer, Serializer, de};

/// Writes a plain number.
///
/// # Errors
/// The serializer's errors.
pub fn serialize<T: Copy + TryInto<u64>, S: Serializer>(size: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64((*size).try_into().unwrap_or(u64::MAX))
}

/// Reads a number, or a text with a unit.
///
/// # Errors
/// If it is neither, below 0, or too large.
pub fn deserialize<'de, T: TryFrom<u64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(Size(PhantomData))
}

struct Size<T>(PhantomData<T>);

impl<T: TryFrom<u64>> de::Visitor<'_> for Size<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a text like \"256MiB\"")
    }

    fn visit_u64<E: de::Error>(self, size: u64) -> Result<T, E> {
        T::try_from(size).map_err(|_| E::custom("the size is too large"))
    }

    fn visit_i64<E: de::Error>(self, size: i64) -> Result<T, E> {
        let size = u64::try_from(size).map_err(|_| E::custom("a size cannot be below 0"))?;
        self.visit_u64(size)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let size = parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))?;
        self.visit_u64(size)
    }
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        assert_eq!(parse("12"), Some(12));
        assert_eq!(parse("256MiB"), Some(256 << 20));
        assert_eq!(parse("3 kB"), Some(3000));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "1.5MiB", "-1", "1XB", "99999999999999GiB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
