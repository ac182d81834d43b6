use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kith_cache::{Node, NodeConfig, Position, Token, TokenError, TokenIssuer};

const LARGEST: Position = Position { partition: u16::MAX - 2, epoch: u64::MAX, number: u64::MAX };

fn issuer() -> TokenIssuer {
    TokenIssuer::new(&[7; 32], || 1_800_000_000)
}

/// A node whose writes have tokens of this issuer.
fn node(tokens: TokenIssuer) -> Node {
    Node::new(NodeConfig { tokens, ..NodeConfig::local(7) })
}

/// The positions of a text, as a version reads it that knows neither times nor codes.
fn positions(text: &str) -> Vec<[u64; 3]> {
    let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
    let mut numbers = vec![(0, 0)];
    for byte in &bytes[1..] {
        let (number, shift) = numbers.pop().unwrap();
        let number = number | u64::from(byte & 0x7f) << shift;
        numbers.push((number, shift + 7));
        if byte & 0x80 == 0 {
            numbers.push((0, 0));
        }
    }
    let numbers: Vec<u64> = numbers.into_iter().map(|(number, _)| number).collect();
    assert_eq!((bytes[0], numbers.len() % 3), (1, 1));
    numbers.as_chunks().0.to_vec()
}

#[test]
fn token_bytes_are_stable() {
    let token = Token::new(Position { partition: 0, epoch: 7, number: 300 });
    assert_eq!(token.to_string(), "AQAHrAI");
    assert_eq!(Token::new(LARGEST).to_string(), "Af3_A____________wH___________8B");
    let issued = node(issuer()).token_of(300).to_string();
    assert_eq!(issued, "AQAHrAL-_wMAgKSn2gb__wOvz4uR-c-6_uYBlLnkzOfS3YBV");
}

#[test]
fn token_round_trips() {
    for text in ["AQAHrAI", "Af3_A____________wH___________8B", "AQ"] {
        let token = issuer().accept(text).unwrap();
        assert_eq!((token.to_string().as_str(), token.issued()), (text, None));
    }
    let issued = node(issuer()).token_of(u64::MAX);
    let accepted = issuer().accept(&issued.to_string()).unwrap();
    assert_eq!((&accepted, accepted.issued()), (&issued, Some(1_800_000_000)));
}

#[test]
fn version_before_reads_a_token_from_the_store() {
    let [demand, others @ ..] = &positions(&node(issuer()).token_of(300).to_string())[..] else { panic!() };
    assert_eq!(demand, &[0, 7, 300]);
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|[partition, ..]| (1..=u64::from(u16::MAX)).contains(partition)));
}

#[test]
fn no_bit_of_a_token_can_be_changed() {
    let issued = node(issuer()).token_of(300);
    let bytes = URL_SAFE_NO_PAD.decode(issued.to_string()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        // Without its code it is a token that anyone can have made.
        let accepted = issuer().accept(&URL_SAFE_NO_PAD.encode(forged));
        assert!(accepted.is_err() || accepted.is_ok_and(|token| token.issued().is_none()), "bit {bit}");
    }
    assert_eq!(TokenIssuer::random().accept(&issued.to_string()), Err(TokenError::Foreign));
}

#[test]
fn invalid_token_is_refused_without_repeating_it() {
    let cases = [
        ("", TokenError::Format),
        ("not base64!", TokenError::Encoding),
        ("AgAHrAI", TokenError::Format),
        ("AQAHrA", TokenError::Damaged),
        ("AQA", TokenError::Damaged),
        ("AYCABAcB", TokenError::Damaged),
        ("AQD_____________AQE", TokenError::Damaged),
    ];
    for (text, expected) in cases {
        let error = issuer().accept(text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(text.is_empty() || !error.to_string().contains(text));
    }
    assert_eq!(issuer().accept(&"A".repeat(100_000)), Err(TokenError::TooLong));
}
