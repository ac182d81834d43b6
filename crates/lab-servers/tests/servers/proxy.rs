use std::{net::SocketAddr, time::Duration};

use kith_lab_servers::proxy::{Mode, Proxy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

/// Long enough for an answer on a busy machine.
const SOON: Duration = Duration::from_secs(5);
/// How long silence is listened to.
const SILENCE: Duration = Duration::from_millis(150);

/// A server that sends back what it receives.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                drop(tokio::io::copy(&mut from, &mut to).await);
            });
        }
    });
    address
}

/// A proxy before a server, and a connection through it.
async fn stage() -> (Proxy, TcpStream) {
    let proxy = Proxy::start(echo().await, 1).await.unwrap();
    let open = connected(&proxy).await;
    (proxy, open)
}

async fn connected(proxy: &Proxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    assert_eq!(exchange(&mut stream, b"hello").await, b"hello");
    stream
}

async fn exchange(stream: &mut TcpStream, words: &[u8]) -> Vec<u8> {
    stream.write_all(words).await.unwrap();
    receive(stream, words.len()).await
}

async fn receive(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    timeout(SOON, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(SILENCE, stream.read_u8()).await.is_err()
}

/// Whether the other side ends the connection soon.
async fn ends(stream: &mut TcpStream) -> bool {
    let read = timeout(SOON, stream.read(&mut [0; 8])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn bytes_pass_and_connections_are_counted() {
    let proxy = Proxy::start(echo().await, 1).await.unwrap();
    let (mut one, two) = (connected(&proxy).await, connected(&proxy).await);
    let much = vec![7; 300_000];
    let (mut from, mut to) = one.split();
    let mut back = vec![0; much.len()];
    let (written, read) = tokio::join!(to.write_all(&much), timeout(SOON, from.read_exact(&mut back)));
    written.unwrap();
    read.unwrap().unwrap();
    assert!(back == much);
    assert_eq!((proxy.accepted(), proxy.open()), (2, 2));
    drop((one, two));
    let give_up = Instant::now() + SOON;
    while proxy.open() > 0 {
        assert!(Instant::now() < give_up, "a connection that ended is still open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn refusal_ends_new_and_open_connections() {
    let (proxy, mut open) = stage().await;
    proxy.set(Mode::Refuse);
    assert!(ends(&mut open).await);
    if let Ok(mut new) = TcpStream::connect(proxy.address()).await {
        assert!(ends(&mut new).await);
    }
    proxy.set(Mode::Pass);
    drop(connected(&proxy).await);
}

#[tokio::test]
async fn a_cut_ends_connections_and_new_ones_pass() {
    let (proxy, mut open) = stage().await;
    proxy.cut();
    assert!(ends(&mut open).await);
    drop(connected(&proxy).await);
}

#[tokio::test]
async fn a_frozen_link_is_silent_and_ends_nothing() {
    let (proxy, mut open) = stage().await;
    proxy.set(Mode::Freeze);
    open.write_all(b"held").await.unwrap();
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    new.write_all(b"new").await.unwrap();
    assert!(is_silent(&mut open).await && is_silent(&mut new).await);
    proxy.set(Mode::Pass);
    assert_eq!(receive(&mut open, 4).await, b"held");
    assert_eq!(receive(&mut new, 3).await, b"new");
}

#[tokio::test]
async fn a_frozen_link_holds_no_more_than_a_bound() {
    let (proxy, mut open) = stage().await;
    proxy.set(Mode::Freeze);
    let endless = async {
        loop {
            open.write_all(&[0; 65_536]).await.unwrap();
        }
    };
    assert!(timeout(SILENCE, endless).await.is_err(), "the sender finds its way blocked");
}

#[tokio::test]
async fn held_answers_do_not_reach_client() {
    let (proxy, mut open) = stage().await;
    proxy.set(Mode::HoldAnswers);
    open.write_all(b"there").await.unwrap();
    assert!(is_silent(&mut open).await);
    proxy.set(Mode::Pass);
    assert_eq!(receive(&mut open, 5).await, b"there");
}

#[tokio::test]
async fn answers_come_late_and_in_their_order() {
    let (proxy, mut open) = stage().await;
    proxy.set(Mode::Late(Duration::from_millis(20), Duration::from_millis(60)));
    let began = Instant::now();
    for number in 0..20 {
        open.write_all(&[number]).await.unwrap();
    }
    let answers = receive(&mut open, 20).await;
    assert_eq!(answers, (0..20).collect::<Vec<u8>>());
    assert!(began.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn slices_are_small_and_whole_together() {
    let (proxy, mut open) = stage().await;
    proxy.set(Mode::Slice(3));
    open.write_all(b"one two three four").await.unwrap();
    let (mut whole, mut reads) = (Vec::new(), 0);
    while whole.len() < 18 {
        timeout(SOON, open.read_buf(&mut whole)).await.unwrap().unwrap();
        reads += 1;
    }
    assert_eq!(whole, b"one two three four");
    assert!(reads > 1);
}

#[tokio::test]
async fn connections_to_come_go_to_another_server() {
    let proxy = Proxy::start("127.0.0.1:1".parse().unwrap(), 1).await.unwrap();
    let mut lost = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(ends(&mut lost).await, "nobody listens there");
    proxy.aim(echo().await);
    drop(connected(&proxy).await);
}

#[tokio::test]
async fn subscription_can_be_frozen_or_refused_alone() {
    let proxy = Proxy::start(echo().await, 1).await.unwrap();
    let subscribe = b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n";
    let (mut data, mut subscribed) = (connected(&proxy).await, connected(&proxy).await);
    assert_eq!(exchange(&mut subscribed, subscribe).await, subscribe);
    proxy.set_subscriptions(Mode::Freeze);
    subscribed.write_all(b"later").await.unwrap();
    assert!(is_silent(&mut subscribed).await);
    assert_eq!(exchange(&mut data, b"at once").await, b"at once");
    proxy.set_data(Mode::Freeze);
    proxy.set_subscriptions(Mode::Pass);
    assert_eq!(receive(&mut subscribed, 5).await, b"later");
    data.write_all(b"later").await.unwrap();
    assert!(is_silent(&mut data).await);
    proxy.set_data(Mode::Pass);
    assert_eq!(receive(&mut data, 5).await, b"later");
    proxy.set_subscriptions(Mode::Refuse);
    assert!(ends(&mut subscribed).await);
    assert_eq!(exchange(&mut data, b"still").await, b"still");
}
