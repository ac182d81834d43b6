//! Tests token verification: signatures, algorithms, headers, claims, lifetimes and key rotation. The issuers
//! have fixed keys and a fixed time.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::*;

/// The time in all tests, in seconds.
const NOW: u64 = 1_800_000_000;

/// A test issuer, which can sign.
struct Signer {
    name: &'static str,
    key_id: &'static str,
    pair: Ed25519KeyPair,
}

fn signer(name: &'static str, key_id: &'static str, seed: u8) -> Signer {
    Signer { name, key_id, pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap() }
}

impl Signer {
    fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": self.key_id, "x": x})
    }

    fn config(&self) -> IssuerConfig {
        IssuerConfig {
            issuer: self.name.to_owned(),
            audience: vec!["kith".to_owned()],
            algorithms: TokenAlgorithm::ALL.to_vec(),
            jwks_file: Some("jwks.json".into()),
            jwks_url: None,
            jwks_ca_file: None,
            user_claim: "sub".to_owned(),
            lifetime_max: Duration::from_secs(3600),
        }
    }

    fn issuer(&self) -> Issuer {
        Issuer::new(self.config(), json!({"keys": [self.jwk()]}).to_string().as_bytes()).unwrap()
    }

    fn header(&self) -> Value {
        json!({"alg": "EdDSA", "kid": self.key_id, "typ": "JWT"})
    }

    fn claims(&self) -> Value {
        json!({"iss": self.name, "aud": "kith", "sub": "7", "iat": NOW, "exp": NOW + 600})
    }

    fn sign(&self, header: &str, claims: &str) -> String {
        let signed = [header, claims].map(|text| URL_SAFE_NO_PAD.encode(text)).join(".");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn token(&self) -> String {
        self.sign(&self.header().to_string(), &self.claims().to_string())
    }

    fn with_header(&self, name: &str, value: Value) -> String {
        self.sign(&changed(self.header(), name, value).to_string(), &self.claims().to_string())
    }

    fn with_claim(&self, name: &str, value: Value) -> String {
        self.sign(&self.header().to_string(), &changed(self.claims(), name, value).to_string())
    }
}

/// A null value removes the field.
fn changed(mut object: Value, name: &str, value: Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    if value.is_null() {
        fields.remove(name)
    } else {
        fields.insert(name.to_owned(), value)
    };
    object
}

async fn user_at(tokens: &Tokens, token: &str, seconds: u64) -> Result<i64, TokenRefusal> {
    let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let found = tokens.find_at(token.as_bytes(), Digest::of(token.as_bytes()), Instant::now(), clock)?;
    match found {
        TokenLookup::User(user) => Ok(user.id.get()),
        TokenLookup::Unverified(unverified) => unverified.verify().await.map(|user| user.id.get()),
    }
}

async fn user(tokens: &Tokens, token: &str) -> Result<i64, TokenRefusal> {
    user_at(tokens, token, NOW).await
}

async fn check(token: String) -> Result<i64, TokenRefusal> {
    user(&Tokens::new(vec![signer("one", "a", 1).issuer()]), &token).await
}

#[tokio::test]
async fn a_token_of_a_configured_issuer_is_its_users() {
    let one = signer("one", "a", 1);
    assert_eq!(check(one.token()).await, Ok(7));
    for typ in [json!("at+jwt"), json!("AT+JWT"), Value::Null] {
        assert_eq!(check(one.with_header("typ", typ)).await, Ok(7));
    }
    for ignored in ["jku", "x5u", "jwk", "x5c"] {
        assert_eq!(check(one.with_header(ignored, json!("http://evil.test/"))).await, Ok(7));
    }
    assert_eq!(check(one.with_claim("aud", json!(["other", "kith"]))).await, Ok(7));
    assert_eq!(check(one.with_claim("sub", json!(7))).await, Ok(7));
    assert_eq!(check(one.with_claim("exp", json!(1_800_000_600.5))).await, Ok(7));
}

/// A43: no algorithm that needs no private key, and none that its issuer or its key does not have.
#[tokio::test]
async fn algorithm_must_match_issuer_and_key() {
    let one = signer("one", "a", 1);
    for alg in ["none", "None", "HS256", "EdDSA ", "eddsa", "ES384", ""] {
        assert_eq!(check(one.with_header("alg", json!(alg))).await, Err(TokenRefusal::Algorithm), "{alg}");
    }
    // The algorithm is the issuer's, but not this key's.
    assert_eq!(check(one.with_header("alg", json!("RS256"))).await, Err(TokenRefusal::Algorithm));
    let only_rsa = Issuer {
        config: IssuerConfig { algorithms: vec![TokenAlgorithm::Rs256], ..one.config() },
        ..one.issuer()
    };
    assert_eq!(user(&Tokens::new(vec![only_rsa]), &one.token()).await, Err(TokenRefusal::Algorithm));
    let unsigned = one.with_header("alg", json!("none"));
    let unsigned = &unsigned[..=unsigned.rfind('.').unwrap()];
    assert_eq!(check(unsigned.to_owned()).await, Err(TokenRefusal::Algorithm));
    let empty = one.token();
    let empty = &empty[..=empty.rfind('.').unwrap()];
    assert_eq!(check(empty.to_owned()).await, Err(TokenRefusal::Signature));
}

/// A43: the public key is used as an HMAC secret.
#[tokio::test]
async fn a_public_key_signs_nothing() {
    let one = signer("one", "a", 1);
    let header = changed(one.header(), "alg", json!("HS256")).to_string();
    let signed = [header, one.claims().to_string()].map(|text| URL_SAFE_NO_PAD.encode(text)).join(".");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, one.pair.public_key().as_ref());
    let forged = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes())));
    assert_eq!(check(forged).await, Err(TokenRefusal::Algorithm));
}

/// A45: a key id is a name in a table.
#[tokio::test]
async fn ids_of_keys_are_names_alone() {
    let one = signer("one", "a", 1);
    for id in ["b", "", "../jwks.json", "/etc/passwd", "http://evil.test/jwks", "a' OR '1'='1", "A", "a\u{0}"]
    {
        assert_eq!(check(one.with_header("kid", json!(id))).await, Err(TokenRefusal::Key), "{id}");
    }
    assert_eq!(check(one.with_header("kid", json!("x".repeat(129)))).await, Err(TokenRefusal::Key));
    assert_eq!(check(one.with_header("kid", json!("x".repeat(10 << 10)))).await, Err(TokenRefusal::Size));
    for form in [Value::Null, json!(7), json!(["a"])] {
        assert_eq!(check(one.with_header("kid", form)).await, Err(TokenRefusal::Header));
    }
}

#[tokio::test]
async fn headers_that_mean_something_else_are_refused() {
    let one = signer("one", "a", 1);
    for typ in ["dpop+jwt", "JOSE", "secevent+jwt", ""] {
        assert_eq!(check(one.with_header("typ", json!(typ))).await, Err(TokenRefusal::Type), "{typ}");
    }
    for crit in [json!(["exp"]), json!([]), json!(false)] {
        assert_eq!(check(one.with_header("crit", crit)).await, Err(TokenRefusal::Critical));
    }
    let null = r#"{"alg":"EdDSA","kid":"a","crit":null}"#;
    assert_eq!(check(one.sign(null, &one.claims().to_string())).await, Err(TokenRefusal::Critical));
    let twice = r#"{"alg":"none","kid":"a","alg":"EdDSA"}"#;
    assert_eq!(check(one.sign(twice, &one.claims().to_string())).await, Err(TokenRefusal::Header));
    assert_eq!(
        check(one.sign(r#"["EdDSA","a",null,false]"#, &one.claims().to_string())).await,
        Err(TokenRefusal::Form)
    );
}

#[tokio::test]
async fn claims_must_be_there_and_right() {
    let one = signer("one", "a", 1);
    let of = async |name: &str, value: Value| check(one.with_claim(name, value)).await.unwrap_err();
    for (required, rule) in [
        ("iss", TokenRefusal::NoIssuer),
        ("aud", TokenRefusal::NoAudience),
        ("exp", TokenRefusal::NoExpiry),
        ("iat", TokenRefusal::NoIssueTime),
    ] {
        assert_eq!(of(required, Value::Null).await, rule, "{required}");
        assert_eq!(of(required, json!({"a": 7})).await, rule, "{required}");
    }
    assert_eq!(of("aud", json!(["kith", 7])).await, TokenRefusal::NoAudience);
    for audience in [json!("other"), json!(""), json!([]), json!("kith "), json!(["Kith"])] {
        assert_eq!(of("aud", audience).await, TokenRefusal::Audience);
    }
    assert_eq!(of("iss", json!("two")).await, TokenRefusal::Issuer);
    assert_eq!(of("exp", json!("1800000600")).await, TokenRefusal::NoExpiry);
    assert_eq!(of("exp", json!(NOW + 3601)).await, TokenRefusal::Lifetime);
    assert_eq!(of("exp", json!(1e300)).await, TokenRefusal::Lifetime);
    assert_eq!(of("iat", json!(NOW - 3001)).await, TokenRefusal::Lifetime);
    assert_eq!(of("iat", json!(NOW + 31)).await, TokenRefusal::IssuedAhead);
    for not_yet in [json!(NOW + 31), json!("1800000000")] {
        assert_eq!(of("nbf", not_yet).await, TokenRefusal::NotBefore);
    }
    for user in
        [json!("0"), json!("-7"), json!("+7"), json!("07"), json!("7 "), json!("ann"), json!(7.5), json!([7])]
    {
        assert_eq!(of("sub", user).await, TokenRefusal::User);
    }
    assert_eq!(of("sub", Value::Null).await, TokenRefusal::User);
}

#[tokio::test]
async fn claim_that_is_there_twice_is_refused() {
    let one = signer("one", "a", 1);
    let claims = one.claims().to_string();
    let sign = |claims: &str| one.sign(&one.header().to_string(), claims);
    assert_eq!(check(sign(&claims)).await, Ok(7));
    for more in
        [r#""exp":1800000060"#, r#""sub":"8""#, r#""s\u0075b":"8""#, r#""iss":"one""#, r#""x":1,"x":2"#]
    {
        for twice in
            [format!("{{{more},{}", &claims[1..]), format!("{},{more}}}", &claims[..claims.len() - 1])]
        {
            assert_eq!(check(sign(&twice)).await, Err(TokenRefusal::Claims), "{twice}");
        }
    }
}

#[tokio::test]
async fn clocks_may_be_30_seconds_apart() {
    let (one, tokens) = (signer("one", "a", 1), || Tokens::new(vec![signer("one", "a", 1).issuer()]));
    let end = NOW + 600;
    assert_eq!(user_at(&tokens(), &one.token(), end + 29).await, Ok(7));
    assert_eq!(user_at(&tokens(), &one.token(), end + 30).await, Err(TokenRefusal::Expired));
    assert_eq!(user_at(&tokens(), &one.token(), NOW - 30).await, Ok(7));
    assert_eq!(user_at(&tokens(), &one.token(), NOW - 31).await, Err(TokenRefusal::IssuedAhead));
    let later = one.with_claim("nbf", json!(NOW + 30));
    assert_eq!(user_at(&tokens(), &later, NOW).await, Ok(7));
}

#[tokio::test]
async fn each_issuer_signs_for_itself_alone() {
    // The key id is the same, as many issuers have it.
    let (one, two) = (signer("one", "a", 1), signer("two", "a", 2));
    let tokens = Tokens::new(vec![one.issuer(), two.issuer()]);
    assert_eq!(user(&tokens, &one.token()).await, Ok(7));
    assert_eq!(user(&tokens, &two.token()).await, Ok(7));
    assert_eq!(user(&tokens, &two.with_claim("iss", json!("one"))).await, Err(TokenRefusal::Signature));
    assert_eq!(user(&tokens, &one.with_claim("iss", json!("three"))).await, Err(TokenRefusal::Issuer));
    assert_eq!(user(&tokens, &one.with_claim("iss", json!("ONE"))).await, Err(TokenRefusal::Issuer));
}

#[tokio::test]
async fn texts_of_another_form_are_refused() {
    let one = signer("one", "a", 1);
    let token = one.token();
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    for wrong in [
        String::new(),
        "..".to_owned(),
        header.to_owned(),
        format!("{header}.{claims}"),
        format!("{token}.{signature}"),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}="),
        format!(" {token}"),
        format!("{token}\u{0}"),
        format!("{header}=.{claims}.{signature}"),
        format!("{token}, {token}"),
        format!("{header}..{signature}"),
        token.replacen('.', ":", 1),
    ] {
        assert_eq!(check(wrong.clone()).await, Err(TokenRefusal::Form), "{wrong:?}");
    }
    let deep = "[".repeat(5000);
    assert_eq!(check(one.sign(&one.header().to_string(), &deep)).await, Err(TokenRefusal::Form));
}

#[tokio::test]
async fn a_token_has_at_most_8_kib() {
    let one = signer("one", "a", 1);
    let padded = |bytes: usize| {
        let mut filled = (5000..).map(|count| one.with_claim("more", json!("x".repeat(count))));
        filled.find(|token| token.len() >= bytes).unwrap()
    };
    let fits = padded(TOKEN_BYTES_MAX - 1);
    assert!(fits.len() <= TOKEN_BYTES_MAX);
    assert_eq!(check(fits).await, Ok(7));
    assert_eq!(check(padded(TOKEN_BYTES_MAX + 1)).await, Err(TokenRefusal::Size));
}

#[tokio::test]
async fn a_token_of_which_a_byte_is_changed_is_refused() {
    let one = signer("one", "a", 1);
    let other = one.with_claim("sub", json!("8"));
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (mine, theirs) = (parts(&one.token()), parts(&other));
    let mixed = format!("{}.{}.{}", mine[0], theirs[1], mine[2]);
    assert_eq!(check(mixed).await, Err(TokenRefusal::Signature));
}

#[tokio::test]
async fn a_token_is_verified_once_in_its_time() {
    let one = signer("one", "a", 1);
    let (tokens, token) = (Tokens::new(vec![one.issuer()]), one.token());
    let find = |now: Instant| {
        let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        tokens.find_at(token.as_bytes(), Digest::of(token.as_bytes()), now, clock).unwrap()
    };
    assert!(matches!(find(Instant::now()), TokenLookup::Unverified(_)));
    assert_eq!(user(&tokens, &token).await, Ok(7));
    assert!(matches!(find(Instant::now()), TokenLookup::User(_)));
    assert!(matches!(find(Instant::now() + KNOWN_FOR), TokenLookup::Unverified(_)), "for 5 min at most");
    // A wrong signature over the same claims is no hit.
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    assert_eq!(user(&tokens, &forged).await, Err(TokenRefusal::Signature));
}

#[tokio::test]
async fn a_known_token_ends_with_its_expiry() {
    let one = signer("one", "a", 1);
    let (tokens, token) = (Tokens::new(vec![one.issuer()]), one.with_claim("exp", json!(NOW + 10)));
    assert_eq!(user(&tokens, &token).await, Ok(7));
    let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(NOW + 41);
    let later = Instant::now() + Duration::from_secs(41);
    let found = tokens.find_at(token.as_bytes(), Digest::of(token.as_bytes()), later, clock);
    assert_eq!(found.err(), Some(TokenRefusal::Expired));
}

#[tokio::test]
async fn removed_key_ends_its_tokens_and_streams() {
    let (old, new, other) = (signer("one", "a", 1), signer("one", "b", 2), signer("two", "c", 3));
    let both = |signers: &[&Signer]| {
        let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
        Issuer::new(old.config(), json!({"keys": keys}).to_string().as_bytes()).unwrap()
    };
    let tokens = Tokens::new(vec![both(&[&old]), other.issuer()]);
    let ended = async |signer: &Signer| {
        user(&tokens, &signer.token()).await.unwrap();
        let token = signer.token();
        match tokens.find(token.as_bytes(), Digest::of(token.as_bytes()), Instant::now()) {
            Ok(TokenLookup::User(user)) => user.ended.clone(),
            _ => panic!("it was verified"),
        }
    };
    let (first, foreign) = (ended(&old).await, ended(&other).await);
    assert!(!tokens.replace(vec![both(&[&old]), other.issuer()]), "nothing has changed");
    assert!(tokens.replace(vec![both(&[&old, &new]), other.issuer()]));
    assert_eq!(user(&tokens, &old.token()).await, Ok(7));
    let second = ended(&new).await;
    assert!(tokens.replace(vec![both(&[&new]), other.issuer()]));
    assert_eq!(user(&tokens, &old.token()).await, Err(TokenRefusal::Key), "also one that was known");
    assert_eq!(user(&tokens, &new.token()).await, Ok(7));
    let ended = [&first, &second, &foreign].map(|ended| ended.is_cancelled());
    assert_eq!(ended, [true, false, false]);
    // Another key under the same id is another key.
    let swapped = signer("one", "b", 9);
    assert!(tokens.replace(vec![both(&[&swapped]), other.issuer()]));
    assert!(second.is_cancelled() && !foreign.is_cancelled());
}

/// Keys in a file are read periodically: a look for each wrong token would change nothing.
#[tokio::test]
async fn unknown_key_of_an_address_asks_for_a_look() {
    let (by_file, by_url) = (signer("one", "a", 1), signer("two", "b", 2));
    let url = serde_json::from_value(json!("https://id.example/")).unwrap();
    let config = IssuerConfig { jwks_file: None, jwks_url: Some(url), ..by_url.config() };
    let tokens = Tokens::new(vec![by_file.issuer(), Issuer { config, ..by_url.issuer() }]);
    let mut missed = Box::pin(tokens.key_missed());
    let unknown = |signer: &Signer| signer.with_header("kid", json!("x"));
    assert!(futures::poll!(&mut missed).is_pending());
    assert_eq!(user(&tokens, &unknown(&by_file)).await, Err(TokenRefusal::Key));
    assert_eq!(user(&tokens, &by_url.token()).await, Ok(7));
    assert!(futures::poll!(&mut missed).is_pending());
    assert_eq!(user(&tokens, &unknown(&by_url)).await, Err(TokenRefusal::Key));
    assert!(futures::poll!(&mut missed).is_ready());
}

#[tokio::test]
async fn known_token_does_not_wait_for_verification() {
    let one = signer("one", "a", 1);
    let tokens = Tokens::new(vec![one.issuer()]);
    assert_eq!(user(&tokens, &one.token()).await, Ok(7));
    let all = u32::try_from(tokens.verify_permits.available_permits()).unwrap();
    let taken = tokens.verify_permits.acquire_many(all).await.unwrap();
    assert_eq!(user(&tokens, &one.token()).await, Ok(7));
    let unknown = one.with_claim("sub", json!("8"));
    let mut waits = Box::pin(user(&tokens, &unknown));
    assert!(futures::poll!(&mut waits).is_pending());
    drop(taken);
    assert_eq!(waits.await, Ok(8));
}

proptest::proptest! {
    #[test]
    fn any_text_is_refused(text in r"[A-Za-z0-9_.{}:,-]{0,200}") {
        let tokens = Tokens::new(vec![signer("one", "a", 1).issuer()]);
        assert!(tokens.find(text.as_bytes(), Digest::of(text.as_bytes()), Instant::now()).is_err());
    }

    #[test]
    fn any_header_and_claims_are_read_or_refused(header in r#"\{("(alg|kid|typ|crit)":|["a{}\[\]:,0-9]){0,20}\}"#, claims in r#"\{("(iss|aud|exp|iat|sub)":|["a{}\[\]:,0-9]){0,20}\}"#) {
        let one = signer("one", "a", 1);
        let tokens = Tokens::new(vec![one.issuer()]);
        let token = one.sign(&header, &claims);
        assert!(tokens.find(token.as_bytes(), Digest::of(token.as_bytes()), Instant::now()).is_err());
    }
}

#[test]
fn at_most_a_quarter_of_the_processors_verify() {
    let verify_permits = Tokens::none().verify_permits.available_permits();
    let cores = thread::available_parallelism().unwrap().get();
    assert_eq!(verify_permits, (cores / 4).max(1));
}
