//! An issuer's keys, as it publishes them (JWKS, RFC 7517).

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::TokenAlgorithm;

/// Bytes in an RSA modulus: 2048 to 8192 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;
/// Most bytes in an RSA exponent.
const EXPONENT_MAX: usize = 4;
/// Bytes in a P-256 coordinate, and in an Ed25519 key.
const COORDINATE: usize = 32;

/// An issuer's public key.
pub(super) struct PublicKey {
    material: KeyMaterial,
    /// Cancelled when the key is removed.
    pub(super) ended: CancellationToken,
}

#[derive(PartialEq, Eq)]
enum KeyMaterial {
    Ed25519(Vec<u8>),
    /// An uncompressed point.
    P256(Vec<u8>),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

#[derive(Deserialize)]
struct JwkSet<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    /// The private half.
    d: Option<IgnoredAny>,
}

/// An issuer's keys.
#[derive(Debug)]
pub(super) struct KeySet {
    pub(super) keys: BTreeMap<Box<str>, Arc<PublicKey>>,
    /// Says what is wrong with each key that is left out, in words that follow the file's name. Contains no
    /// part of a key.
    pub(super) odd: Vec<String>,
}

/// Parses the keys that sign by one of these algorithms. Others are left out: issuers publish keys for more
/// than this. A key that cannot be used is left out too: it must not keep the other keys, or the end of an
/// old key, from taking effect.
///
/// # Errors
/// Says what is wrong with the file, in words that follow its name. Contains no part of a key.
pub(super) fn parse(jwks: &[u8], algorithms: &[TokenAlgorithm]) -> Result<KeySet, String> {
    let set: JwkSet<'_> = serde_json::from_slice(jwks).map_err(|error| {
        format!(":{}:{} is no set of keys ({{\"keys\": [...]}})", error.line(), error.column())
    })?;
    let mut found = KeySet { keys: BTreeMap::new(), odd: Vec::new() };
    for (at, jwk) in set.keys.iter().enumerate() {
        if let Err(why) = found.add(jwk, algorithms) {
            found.odd.push(format!(": key {} {why}", at + 1));
        }
    }
    if found.keys.is_empty() {
        let none = " has no key that signs by auth.issuers.algorithms";
        return Err(found.odd.into_iter().next().unwrap_or_else(|| none.to_owned()));
    }
    Ok(found)
}

impl KeySet {
    /// Adds a key if its algorithm is among these.
    fn add(&mut self, jwk: &RawValue, algorithms: &[TokenAlgorithm]) -> Result<(), &'static str> {
        let jwk = Jwk::read(jwk)?;
        jwk.refuse_secret()?;
        let Some(algorithm) = jwk.algorithm().filter(|algorithm| algorithms.contains(algorithm)) else {
            return Ok(());
        };
        let id = jwk.kid.as_deref().filter(|id| !id.is_empty()).ok_or("has no kid")?;
        let material = jwk.material(algorithm).ok_or("is not one of its kind")?;
        match self.keys.entry(id.into()) {
            Entry::Occupied(_) => Err("has the kid of one before it"),
            Entry::Vacant(free) => {
                free.insert(Arc::new(PublicKey { material, ended: CancellationToken::new() }));
                Ok(())
            }
        }
    }
}

impl Jwk {
    fn read(json: &RawValue) -> Result<Self, &'static str> {
        // A list would be taken for the fields in their order.
        let read = json.get().starts_with('{').then(|| serde_json::from_str(json.get()).ok());
        read.flatten().ok_or("is no key")
    }

    /// A private key in the file would let its readers sign tokens.
    fn refuse_secret(&self) -> Result<(), &'static str> {
        if self.kty == "oct" {
            return Err("is a shared secret (oct); use an issuer that signs by a private key");
        }
        if self.d.is_some() {
            return Err("is a private one; write its public half");
        }
        Ok(())
    }

    /// The algorithm by which it signs. `None`: it is for something else.
    fn algorithm(&self) -> Option<TokenAlgorithm> {
        let algorithm = match (self.kty.as_str(), self.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => TokenAlgorithm::EdDsa,
            ("EC", Some("P-256")) => TokenAlgorithm::Es256,
            ("RSA", None) => TokenAlgorithm::Rs256,
            _ => return None,
        };
        let signs = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let fits = self.alg.as_deref().is_none_or(|alg| alg == algorithm.name());
        (signs && fits).then_some(algorithm)
    }

    fn material(&self, algorithm: TokenAlgorithm) -> Option<KeyMaterial> {
        match algorithm {
            TokenAlgorithm::EdDsa => coordinate(self.x.as_deref()).map(KeyMaterial::Ed25519),
            TokenAlgorithm::Es256 => {
                let (x, y) = (coordinate(self.x.as_deref())?, coordinate(self.y.as_deref())?);
                Some(KeyMaterial::P256([&[4], x.as_slice(), y.as_slice()].concat()))
            }
            TokenAlgorithm::Rs256 => {
                let (modulus, exponent) = (number(self.n.as_deref())?, number(self.e.as_deref())?);
                let fits = MODULUS.contains(&modulus.len()) && exponent.len() <= EXPONENT_MAX;
                fits.then_some(KeyMaterial::Rsa { modulus, exponent })
            }
        }
    }
}

fn coordinate(text: Option<&str>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok().filter(|bytes| bytes.len() == COORDINATE)
}

/// Decodes a number without a leading zero, as ring takes it.
fn number(text: Option<&str>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok().filter(|bytes| bytes.first().is_some_and(|first| *first != 0))
}

impl PublicKey {
    pub(super) const fn algorithm(&self) -> TokenAlgorithm {
        match self.material {
            KeyMaterial::Ed25519(_) => TokenAlgorithm::EdDsa,
            KeyMaterial::P256(_) => TokenAlgorithm::Es256,
            KeyMaterial::Rsa { .. } => TokenAlgorithm::Rs256,
        }
    }

    /// Whether it has signed these bytes. Costs 50 to 150 us.
    pub(super) fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(signed, signature),
            KeyMaterial::P256(key) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(signed, signature)
            }
            KeyMaterial::Rsa { modulus: n, exponent: e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
        }
        .is_ok()
    }

    /// Whether the other key signs what this key does.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.material == other.material
    }
}

/// Prints the algorithm alone.
impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.algorithm().name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7515, A.2: RS256.
    const RSA: &str = r#"{"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
    const RSA_SIGNED: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    const RSA_SIGNATURE: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    /// RFC 7515, A.3: ES256.
    const EC: &str = r#"{"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    const EC_SIGNED: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    const EC_SIGNATURE: &str =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    /// RFC 8037, A.4: EdDSA.
    const OKP: &str =
        r#"{"kty":"OKP","kid":"o","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    const OKP_SIGNED: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    const OKP_SIGNATURE: &str =
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

    fn keys(list: &[&str]) -> Result<BTreeMap<Box<str>, Arc<PublicKey>>, String> {
        key_set(list).map(|set| set.keys)
    }

    fn key_set(list: &[&str]) -> Result<KeySet, String> {
        parse(format!(r#"{{"keys":[{}]}}"#, list.join(",")).as_bytes(), &TokenAlgorithm::ALL)
    }

    #[test]
    fn standard_signatures_verify_by_their_keys() {
        let keys = keys(&[RSA, EC, OKP]).unwrap();
        let signed = [
            ("r", TokenAlgorithm::Rs256, RSA_SIGNED, RSA_SIGNATURE),
            ("e", TokenAlgorithm::Es256, EC_SIGNED, EC_SIGNATURE),
            ("o", TokenAlgorithm::EdDsa, OKP_SIGNED, OKP_SIGNATURE),
        ];
        for (id, algorithm, signed, signature) in signed {
            let mut signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert_eq!(keys[id].algorithm(), algorithm);
            for (other, key) in &keys {
                assert_eq!(key.has_signed(signed.as_bytes(), &signature), &**other == id, "{id} {other}");
            }
            assert!(!keys[id].has_signed(&signed.as_bytes()[1..], &signature), "{id}");
            signature[7] ^= 1;
            assert!(!keys[id].has_signed(signed.as_bytes(), &signature), "{id}");
            assert!(!keys[id].has_signed(signed.as_bytes(), &[]), "{id}");
        }
    }

    #[test]
    fn keys_for_something_else_are_left_out() {
        let encrypts = RSA.replace(r#""kid":"r""#, r#""kid":"x","use":"enc""#);
        let other = RSA.replace(r#""kid":"r""#, r#""kid":"y","alg":"PS256""#);
        let curve = EC.replace("P-256", "P-384");
        let found = keys(&[&encrypts, &other, &curve, OKP, r#"{"kty":"new"}"#]).unwrap();
        assert_eq!(found.keys().map(|id| &**id).collect::<Vec<_>>(), ["o"]);
        let only_rsa = format!(r#"{{"keys":[{OKP}]}}"#);
        let none = parse(only_rsa.as_bytes(), &[TokenAlgorithm::Rs256]).unwrap_err();
        assert!(none.contains("has no key that signs by"), "{none}");
    }

    #[test]
    fn an_odd_key_is_left_out_and_named() {
        let short = OKP.replace("11qYAYK", "").replace(r#""o""#, r#""short""#);
        let private = OKP.replace(r#""kty""#, r#""d":"nWGxne","kty""#).replace(r#""o""#, r#""private""#);
        let twice = EC.replace(r#""crv""#, r#""crv":"P-384","crv""#);
        for (odd, words) in [
            (r#"{"kty":"oct","kid":"s","k":"nWGxne"}"#, "key 2 is a shared secret"),
            (&private, "key 2 is a private one"),
            (&RSA.replace(r#""r""#, r#""o""#), "key 2 has the kid of one before it"),
            (&EC.replace(r#""kid":"e","#, ""), "key 2 has no kid"),
            (&short, "key 2 is not one of its kind"),
            (&twice, "key 2 is no key"),
            (r#""nWGxne""#, "key 2 is no key"),
            (r#"["OKP","x"]"#, "key 2 is no key"),
            ("7", "key 2 is no key"),
        ] {
            let found = key_set(&[OKP, odd, RSA]).unwrap();
            assert_eq!(found.keys.keys().map(|id| &**id).collect::<Vec<_>>(), ["o", "r"], "{words}");
            assert_eq!(found.keys["o"].algorithm(), TokenAlgorithm::EdDsa);
            assert!(matches!(&found.odd[..], [why] if why.contains(words)), "{words}: {:?}", found.odd);
        }
        assert!(key_set(&[OKP, EC, RSA]).unwrap().odd.is_empty());
    }

    #[test]
    fn wrong_key_sets_are_refused_without_content() {
        let short = OKP.replace("11qYAYK", "");
        let small = r#"{"kty":"RSA","kid":"r","n":"ofgWCuLj","e":"AQAB"}"#;
        let private = OKP.replace(r#""kty""#, r#""d":"nWGxne","kty""#);
        for (list, words) in [
            (&[r#"{"kty":"oct","kid":"s","k":"nWGxne"}"#][..], "key 1 is a shared secret"),
            (&[&private], "key 1 is a private one"),
            (&[&OKP.replace(r#""kid":"o","#, "")], "key 1 has no kid"),
            (&[&short], "key 1 is not one of its kind"),
            (&[small], "key 1 is not one of its kind"),
            (&[], "has no key that signs by"),
            (&[r#""nWGxne""#], "key 1 is no key"),
            (&["nWGxne"], "is no set of keys"),
        ] {
            let why = keys(list).unwrap_err();
            assert!(why.contains(words) && !why.contains("nWGxne"), "{why}");
        }
        for text in ["", "{}", "[]", r#"{"keys":7}"#, "\u{0}"] {
            assert!(parse(text.as_bytes(), &TokenAlgorithm::ALL).is_err(), "{text}");
        }
    }
}
