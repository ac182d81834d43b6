use kith_cache::{Position, Token, TokenError};

#[test]
fn token_bytes_are_stable() {
    let token = Token::new(Position { partition: 0, epoch: 7, number: 300 });
    assert_eq!(token.to_string(), "AQAHrAI");
    let largest = Token::new(Position { partition: u16::MAX, epoch: u64::MAX, number: u64::MAX });
    assert_eq!(largest.to_string(), "Af__A____________wH___________8B");
}

#[test]
fn token_round_trips() {
    for text in ["AQAHrAI", "Af__A____________wH___________8B", "AQ"] {
        assert_eq!(text.parse::<Token>().unwrap().to_string(), text);
    }
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
        let error = text.parse::<Token>().unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(text.is_empty() || !error.to_string().contains(text));
    }
    assert_eq!("A".repeat(100_000).parse::<Token>(), Err(TokenError::TooLong));
}
