//! TLS, and connections that are used again.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use kith_forward::{AddressRule, Answer, Receiver, ReceiverUrl, Secrets};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{RootCertStore, ServerConfig, crypto::ring::default_provider, pki_types::PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::{
    receiver::{Reaction, TestReceiver},
    stage::{SECRET, tls, to},
};

const LIMIT: Duration = Duration::from_secs(5);

/// Starts a receiver with a certificate for this name; returns what trusts the certificate.
async fn secured(name: &str) -> (TestReceiver, RootCertStore) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    (TestReceiver::start_at(any, Some(acceptor), |_| Reaction::Status(200)).await, roots)
}

async fn post(receiver: &TestReceiver, roots: RootCertStore) -> Answer {
    post_within(receiver, roots, LIMIT).await
}

async fn post_within(receiver: &TestReceiver, roots: RootCertStore, limit: Duration) -> Answer {
    let url = ReceiverUrl::parse(&format!("https://localhost:{}/", receiver.address.port()), false).unwrap();
    let receiver = Receiver::new(url, Secrets::parse(SECRET).unwrap(), tls(roots), AddressRule::Any);
    receiver.post("1", Bytes::from_static(b"{}"), limit).await
}

#[tokio::test]
async fn only_trusted_certificates_get_events() {
    let (receiver, roots) = secured("localhost").await;
    assert!(matches!(post(&receiver, roots).await, Answer::Status { .. }));
    assert_eq!(receiver.ids().len(), 1);
    let answer = post(&receiver, RootCertStore::empty()).await.to_string();
    assert!(answer.contains("certificate that is not trusted"), "{answer}");
    let (other, roots) = secured("other.example").await;
    let answer = post(&other, roots).await.to_string();
    assert!(answer.contains("of another name"), "{answer}");
    assert_eq!(other.ids().len(), 0);
}

#[tokio::test]
async fn receiver_without_tls_gets_nothing() {
    let receiver = TestReceiver::start(|_| Reaction::Status(200)).await;
    let answer = post_within(&receiver, RootCertStore::empty(), LIMIT / 10).await;
    assert_eq!(answer, Answer::None("does not answer in time"));
    assert!(receiver.ids().is_empty(), "{answer:?}");
}

#[tokio::test]
async fn connection_is_used_again() {
    let receiver = TestReceiver::start(|request| match request.id().as_str() {
        "3" => Reaction::Close,
        _ => Reaction::Status(200),
    })
    .await;
    let sender = to(&receiver);
    for id in ["1", "2"] {
        assert!(matches!(sender.post(id, Bytes::from_static(b"{}"), LIMIT).await, Answer::Status { .. }));
    }
    // A kept connection that ends is followed by a new one at once.
    let answer = sender.post("3", Bytes::from_static(b"{}"), LIMIT).await;
    assert_eq!(answer.to_string(), "the receiver closes the connection without an answer");
    assert_eq!(receiver.ids(), ["1", "2", "3", "3"]);
}

#[tokio::test]
async fn connection_is_used_for_a_minute() {
    let receiver = TestReceiver::start(|_| Reaction::Status(200)).await;
    let sender = to(&receiver);
    for (id, connections) in [("1", 1), ("2", 1), ("3", 2)] {
        assert!(matches!(sender.post(id, Bytes::from_static(b"{}"), LIMIT).await, Answer::Status { .. }));
        assert_eq!(receiver.connections(), connections, "{id}");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(40)).await;
        tokio::time::resume();
    }
}

#[tokio::test]
async fn rest_of_an_answer_has_bounds() {
    for reaction in [Reaction::Large, Reaction::HangInBody] {
        let react = reaction.clone();
        let receiver = TestReceiver::start(move |_| react.clone()).await;
        let sender = to(&receiver);
        for id in ["1", "2"] {
            let post = sender.post(id, Bytes::from_static(b"{}"), LIMIT);
            let answer = tokio::time::timeout(LIMIT, post).await;
            assert!(matches!(answer, Ok(Answer::Status { .. })), "{reaction:?}: {answer:?}");
        }
        assert_eq!(receiver.connections(), 2, "{reaction:?}: a connection with a rest is closed");
    }
}
