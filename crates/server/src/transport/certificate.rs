//! A certificate's validity period: reads the few X.509 fields that lead to it, without a library for the
//! rest. rustls verifies certificates, but does not return their times.

use std::time::{Duration, SystemTime};

use rustls::pki_types::{CertificateDer, pem::PemObject as _};

/// How long before its end a certificate is reported.
pub const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the first certificate in this PEM ends, up to a certificate that cannot be read. `None`: the first
/// certificate cannot be read.
pub(crate) fn first_end(pem: &[u8]) -> Option<SystemTime> {
    let ends = |der: Result<CertificateDer<'_>, _>| period(&der.ok()?).map(|(_from, until)| until);
    CertificateDer::pem_slice_iter(pem).map_while(ends).min()
}

/// When validity begins and ends. `None` if the times cannot be read.
#[must_use]
pub fn period(certificate: &[u8]) -> Option<(SystemTime, SystemTime)> {
    let (tag, certificate, _) = element(certificate)?;
    let (inner, body, _) = element(certificate)?;
    if (tag, inner) != (SEQUENCE, SEQUENCE) {
        return None;
    }
    // Version (absent in version 1), serial number, algorithm, issuer; then the times.
    let (first, _, rest) = element(body)?;
    let mut rest = if first == VERSION { element(rest)?.2 } else { rest };
    for _ in 0..2 {
        rest = element(rest)?.2;
    }
    let (tag, times, _) = element(rest)?;
    let (from_tag, from, rest) = element(times)?;
    let (until_tag, until, _) = element(rest)?;
    (tag == SEQUENCE).then_some(())?;
    Some((parse_time(from_tag, from)?, parse_time(until_tag, until)?))
}

/// Tag, content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        let wide = bytes.len() > 4;
        (!wide).then_some(())?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn parse_time(tag: u8, text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        // In X.509, years below 50 belong to this century.
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let century = if year.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        GENERALIZED_TIME => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2);
    let (month, day, hour, minute, second) = (two(0)?, two(2)?, two(4)?, two(6)?, two(8)?);
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_forms_are_read() {
        let at = |text: &str| humantime::parse_rfc3339(text).unwrap();
        assert_eq!(parse_time(UTC_TIME, b"250102030405Z"), Some(at("2025-01-02T03:04:05Z")));
        assert_eq!(parse_time(UTC_TIME, b"990102030405Z"), Some(at("1999-01-02T03:04:05Z")));
        assert_eq!(parse_time(GENERALIZED_TIME, b"20510102030405Z"), Some(at("2051-01-02T03:04:05Z")));
    }

    #[test]
    fn bytes_of_no_certificate_are_refused() {
        for der in [
            &b""[..],
            b"0",
            b"0\x82\xff\xff",
            b"0\x80",
            b"0\x84\xff\xff\xff\xff",
            b"0\x8a0000000000",
            &[0x30; 64],
        ] {
            assert_eq!(period(der), None);
        }
        for text in [&b""[..], b"Z", b"25010203Z", b"2501020304055", b"\xff\xffZ"] {
            assert_eq!(parse_time(UTC_TIME, text), None);
        }
    }
}
