//! Signatures are those of Standard Webhooks.

use kith_forward::{SecretError, Secrets};

use crate::{
    receiver::{Reaction, TestReceiver},
    source::MemorySource,
    stage::{MemoryState, Running, SECRET, settings, to, until},
};

const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The vector that implementations of Standard Webhooks share.
#[test]
fn published_vector_is_signed_alike() {
    let body = br#"{"test": 2432232314}"#;
    let secrets = Secrets::parse(OTHER).unwrap();
    let signature = secrets.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/// Written by `tests/vectors.py`, with Python's `hmac` alone.
#[test]
fn vectors_of_another_language_are_signed_alike() {
    let lines = include_str!("../vectors.tsv").lines().skip(1);
    let mut checked = 0;
    for line in lines {
        let [secrets, id, timestamp, body, signature] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("{line}")
        };
        let secrets = Secrets::parse(&secrets.replace(' ', "\n")).unwrap();
        assert_eq!(secrets.sign(id, timestamp.parse().unwrap(), body.as_bytes()), signature, "{line}");
        checked += 1;
    }
    assert!(checked >= 4);
}

#[tokio::test]
async fn each_try_is_signed_now() {
    let (receiver, state) = (TestReceiver::start(|_| Reaction::Status(500)).await, MemoryState::new());
    let running = Running::start(&MemorySource::with(["7"]), to(&receiver), &state, settings());
    until("it is parked", || !state.parked().is_empty()).await;
    running.stop().await;
    let secrets = Secrets::parse(SECRET).unwrap();
    let now =
        std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for request in receiver.requests.lock().iter() {
        let timestamp: u64 = request.header("webhook-timestamp").parse().unwrap();
        assert!((now - 60..=now).contains(&timestamp));
        // Header values are in lower case here.
        let signature = secrets.sign("1.a.0.0", timestamp, &request.body).to_lowercase();
        assert_eq!(request.header("webhook-signature"), signature);
    }
}

#[test]
fn secrets_have_their_form() {
    assert!(Secrets::parse(&format!("\n{SECRET}\r\n{OTHER}\n\n")).is_ok());
    let short = "whsec_c2hvcnQ=";
    for (text, why) in [
        ("", SecretError::Missing),
        (" \n", SecretError::Missing),
        (&*format!("{SECRET}\n{OTHER}\n{SECRET}"), SecretError::TooMany),
        (short, SecretError::Malformed),
        (SECRET.trim_start_matches("whsec_"), SecretError::Malformed),
        ("whsec_!", SecretError::Malformed),
        (&*format!("whsec_{}", "AAAA".repeat(22)), SecretError::Malformed),
    ] {
        assert_eq!(Secrets::parse(text).unwrap_err(), why, "{text}");
    }
    assert_eq!(format!("{:?}", Secrets::parse(SECRET).unwrap()), "Secrets { len: 1 }");
}
