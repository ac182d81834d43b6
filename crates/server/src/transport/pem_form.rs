//! Explains from the form of a certificate or key file why it cannot be served, and what to do.

/// Why a file holds no certificate that can be read, as words that follow its path. `None`: its form is
/// right.
#[must_use]
pub fn certificate_fault(bytes: &[u8]) -> Option<&'static str> {
    if is_binary(bytes) {
        return Some("is binary (DER or PKCS #12), and must be PEM; convert it: openssl x509 -inform der");
    }
    if holds(bytes, "CERTIFICATE-----") {
        return None;
    }
    Some(if holds(bytes, "PRIVATE KEY-----") {
        "holds a private key and no certificate: tls.cert_file and tls.key_file are exchanged"
    } else {
        "holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"
    })
}

/// Why a file holds no private key that can be read, as words that follow its path. `None`: its form is
/// right.
#[must_use]
pub fn key_fault(bytes: &[u8]) -> Option<&'static str> {
    if is_binary(bytes) {
        return Some("is binary (DER or PKCS #12), and must be PEM; convert it: openssl pkey -inform der");
    }
    if holds(bytes, "ENCRYPTED") {
        return Some("is encrypted, and a node has no passphrase; decrypt it: openssl pkey -in OLD -out NEW");
    }
    if holds(bytes, "PRIVATE KEY-----") {
        return None;
    }
    Some(if holds(bytes, "CERTIFICATE-----") {
        "holds a certificate and no private key; give the file of the key as tls.key_file"
    } else {
        "holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----"
    })
}

/// Why a chain and a key that were read cannot be served.
pub(super) fn pair_fault(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key in tls.key_file is not that of the first certificate in tls.cert_file".to_owned()
        }
        // The library has no error for a key that it cannot use.
        rustls::Error::General(_) => "tls.key_file: the key has an unsupported kind; use ECDSA on P-256 or \
                                      P-384, Ed25519, or RSA of 2048 bits or more (P-521 is not supported)"
            .to_owned(),
        other => format!("tls: certificate and key do not serve: {other}"),
    }
}

/// Every structure in DER begins with this byte. A comment before PEM may, too, but it is text.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x30) && std::str::from_utf8(bytes).is_err()
}

fn holds(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|part| part == words.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    const KEY: &[u8] = b"-----BEGIN EC PRIVATE KEY-----\nMA==\n-----END EC PRIVATE KEY-----\n";
    const DER: &[u8] = &[0x30, 0x82, 0x01, 0xff];

    #[test]
    fn certificate_of_another_form_says_what_it_is() {
        assert_eq!(certificate_fault(CERTIFICATE), None);
        assert_eq!(certificate_fault(&[b"0 comment\n", CERTIFICATE].concat()), None);
        for (bytes, words) in [(DER, "is binary"), (KEY, "are exchanged"), (b"".as_slice(), "no certificate")]
        {
            assert!(certificate_fault(bytes).unwrap().contains(words), "{words}");
        }
    }

    #[test]
    fn key_file_of_another_form_says_what_it_is() {
        assert_eq!(key_fault(KEY), None);
        let old = b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMA==\n".as_slice();
        let new = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n".as_slice();
        for (bytes, words) in [
            (DER, "is binary"),
            (CERTIFICATE, "holds a certificate"),
            (old, "is encrypted"),
            (new, "is encrypted"),
            (b"".as_slice(), "no private key"),
        ] {
            assert!(key_fault(bytes).unwrap().contains(words), "{words}");
        }
    }
}
