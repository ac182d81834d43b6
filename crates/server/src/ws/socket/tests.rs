use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    config::{LimitsConfig, WsConfig},
    edge::{Edge, Routes},
    health::Reporter,
    places::{PlaceKind, Places, RemotePeer},
    ws::{SocketShutdown, Sockets, TaskTracker},
};

/// A pong without content, as clients mask it.
const PONG: [u8; 6] = [0x8A, 0x80, 0, 0, 0, 0];

fn shared(ping_every: Duration) -> Arc<SocketsShared> {
    let config = WsConfig { enabled: true, trusted: true, ping_every, ..WsConfig::default() };
    let limits = LimitsConfig::default();
    let edge = Edge::new(Routes::default(), &limits);
    let (closing, abort) = (CancellationToken::new(), CancellationToken::new());
    let life = SocketShutdown { tasks: TaskTracker::new(), closing, abort };
    Sockets::new(edge, &limits, &config, life, Reporter::new()).unwrap().shared
}

async fn ends(io: DuplexStream, ping_every: Duration) -> SocketEnd {
    let (place, _) = Places::new(PlaceKind::Sockets, 1).take(&RemotePeer::internal()).unwrap();
    Socket::new(io, &shared(ping_every), place).await.run().await
}

async fn peer(io: DuplexStream) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

#[tokio::test(start_paused = true)]
async fn peer_that_says_no_hello_is_disconnected() {
    let (io, other) = duplex(1024);
    let begun = Instant::now();
    let mut peer = peer(other).await;
    let reads = tokio::spawn(async move {
        let mut texts = Vec::new();
        loop {
            match peer.next().await.unwrap().unwrap() {
                Message::Close(Some(close)) => return (u16::from(close.code), texts),
                Message::Text(text) => texts.push(text),
                _ => {}
            }
        }
    });
    assert_eq!(ends(io, Duration::from_secs(3)).await, SocketEnd::Close(Close::NoHello));
    assert!((HELLO..HELLO + closing::LIMIT).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let (code, texts) = reads.await.unwrap();
    assert_eq!((code, texts.len()), (1008, 1));
    assert!(texts[0].contains(r#""reason":"CREDENTIALS_MISSING""#), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn peer_that_answers_no_ping_is_disconnected() {
    let (io, _other) = duplex(1024);
    let begun = Instant::now();
    assert_eq!(ends(io, Duration::from_secs(1)).await, SocketEnd::Close(Close::Silent));
    assert!(begun.elapsed() >= Duration::from_millis(2_400), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn peer_that_does_not_read_is_disconnected() {
    let (io, other) = duplex(64);
    let (unread, mut writes) = tokio::io::split(other);
    let begun = Instant::now();
    tokio::spawn(async move {
        while writes.write_all(&PONG).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(ends(io, Duration::from_millis(10)).await, SocketEnd::Close(Close::Unread));
    assert!(begun.elapsed() >= UNREAD, "{:?}", begun.elapsed());
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn peer_that_closes_gets_its_close_frame_back() {
    let (io, other) = duplex(1024);
    let mut peer = peer(other).await;
    let closes = tokio::spawn(async move {
        peer.close(None).await.unwrap();
        peer.next().await
    });
    assert_eq!(ends(io, Duration::from_secs(25)).await, SocketEnd::Closed);
    assert!(matches!(closes.await.unwrap(), Some(Ok(Message::Close(_)))));
}

#[tokio::test(start_paused = true)]
async fn peer_that_is_gone_ends_it() {
    let (io, other) = duplex(1024);
    drop(other);
    assert_eq!(ends(io, Duration::from_secs(25)).await, SocketEnd::Gone);
}

#[tokio::test(start_paused = true)]
async fn early_hello_is_asked_to_come_again() {
    for hello in [r#"{"hello":{"user":7}}"#, r#"{"hello":{"user":7,"session":""}}"#] {
        let (io, other) = duplex(64 << 10);
        let mut peer = peer(other).await;
        peer.send(Message::text(hello)).await.unwrap();
        assert_eq!(ends(io, Duration::from_secs(25)).await, SocketEnd::Close(Close::Later));
        let error = peer.next().await.unwrap().unwrap().into_text().unwrap();
        assert!(error.contains(r#""reason":"STARTING""#), "{error}");
        let Some(Ok(Message::Close(Some(close)))) = peer.next().await else { panic!("it is closed") };
        assert_eq!(u16::from(close.code), 1013);
    }
}
