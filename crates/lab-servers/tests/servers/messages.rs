//! Published messages are lost, repeated and held back; answers never are.

use std::time::Duration;

use kith_lab_servers::{
    proxy::{Mode, Proxy, Tampering},
    redis_server::RedisServer,
    resp::{self, Value},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(5);

struct Subscriber {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Subscriber {
    async fn new(proxy: &Proxy, version: &str) -> Self {
        let stream = TcpStream::connect(proxy.address()).await.unwrap();
        let mut subscriber = Self { stream, bytes: Vec::new() };
        subscriber.send(&["HELLO", version]).await;
        subscriber.send(&["SUBSCRIBE", "news"]).await;
        subscriber
    }

    async fn send(&mut self, words: &[&str]) -> Value {
        self.stream.write_all(&resp::command(words)).await.unwrap();
        self.next().await
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some((value, length)) = resp::parse(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                return value;
            }
            let read = timeout(SOON, self.stream.read_buf(&mut self.bytes)).await.unwrap().unwrap();
            assert_ne!(read, 0, "the connection ended");
        }
    }

    /// The numbers received until the message that ends them.
    async fn numbers(&mut self) -> Vec<u32> {
        let mut numbers = Vec::new();
        loop {
            let value = self.next().await;
            assert!(value.is_message(), "{value:?}");
            let (Value::List(parts) | Value::Push(parts)) = value else { unreachable!() };
            match parts[2].text().unwrap().parse() {
                Ok(number) => numbers.push(number),
                Err(_) => return numbers,
            }
        }
    }
}

async fn stage() -> (RedisServer, Proxy) {
    let server = RedisServer::start(&[]).await.unwrap();
    let proxy = Proxy::for_pubsub(server.address(), 7).await.unwrap();
    (server, proxy)
}

/// Publishes numbers under the tampering, and a last message after it has ended.
async fn publish_numbers(server: &RedisServer, proxy: &Proxy, tampering: Tampering, count: u32) {
    proxy.tamper(tampering);
    for number in 0..count {
        server.ask(&["PUBLISH", "news", &number.to_string()]).await.unwrap();
    }
    // Held messages come first, and the proxy has read all by then.
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.tamper(Tampering::Nothing);
    server.ask(&["PUBLISH", "news", "end"]).await.unwrap();
}

#[tokio::test]
async fn messages_pass_in_resp2_and_resp3_in_slices() {
    let (server, proxy) = stage().await;
    for version in ["2", "3"] {
        let mut subscriber = Subscriber::new(&proxy, version).await;
        proxy.set(Mode::Slice(5));
        publish_numbers(&server, &proxy, Tampering::Nothing, 50).await;
        assert_eq!(subscriber.numbers().await, (0..50).collect::<Vec<_>>());
        proxy.set(Mode::Pass);
    }
    assert_eq!(proxy.tampered(), 0);
}

#[tokio::test]
async fn some_messages_are_lost_and_answers_are_not() {
    let (server, proxy) = stage().await;
    let mut subscriber = Subscriber::new(&proxy, "3").await;
    publish_numbers(&server, &proxy, Tampering::Lose(4), 200).await;
    let numbers = subscriber.numbers().await;
    assert!(numbers.len() > 100 && numbers.len() < 190, "{} of 200", numbers.len());
    assert_eq!(proxy.tampered(), 200 - u64::try_from(numbers.len()).unwrap());
    proxy.tamper(Tampering::Lose(1));
    assert_eq!(subscriber.send(&["PING"]).await, Value::Text(b"PONG".to_vec()));
}

#[tokio::test]
async fn every_message_comes_several_times() {
    let (server, proxy) = stage().await;
    let mut subscriber = Subscriber::new(&proxy, "2").await;
    publish_numbers(&server, &proxy, Tampering::Repeat(3), 20).await;
    let numbers = subscriber.numbers().await;
    assert_eq!(numbers, (0..20).flat_map(|number| [number; 3]).collect::<Vec<_>>());
}

#[tokio::test]
async fn messages_overtake_each_other_and_none_is_lost() {
    let (server, proxy) = stage().await;
    let mut subscriber = Subscriber::new(&proxy, "3").await;
    publish_numbers(&server, &proxy, Tampering::Reorder(3, Duration::from_millis(50)), 100).await;
    let mut numbers = subscriber.numbers().await;
    assert!(!numbers.is_sorted());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

/// Whether the connection answers.
async fn answers(stream: &mut TcpStream, words: &[&str]) -> bool {
    let asked = stream.write_all(&resp::command(words)).await;
    let read = timeout(SOON, stream.read(&mut [0; 256])).await.expect("an answer or an end");
    asked.is_ok() && read.is_ok_and(|length| length > 0)
}

#[tokio::test]
async fn refusing_subscriptions_resets_only_those() {
    let redis = RedisServer::start(&[]).await.unwrap();
    let link = Proxy::for_pubsub(redis.address(), 7).await.unwrap();
    let connect = || TcpStream::connect(link.address());
    let (mut asks, mut subscribed) = (connect().await.unwrap(), connect().await.unwrap());
    assert!(answers(&mut asks, &["PING"]).await && answers(&mut subscribed, &["SUBSCRIBE", "news"]).await);
    link.set_subscriptions(Mode::Refuse);
    let received = timeout(SOON, subscribed.read(&mut [0; 256])).await.unwrap();
    assert!(!received.is_ok_and(|length| length > 0), "the subscription goes on");
    assert!(answers(&mut asks, &["PING"]).await);
    let mut reconnected = connect().await.unwrap();
    assert!(answers(&mut reconnected, &["PING"]).await);
    // The text may arrive before the connection ends.
    reconnected.write_all(&resp::command(&["SUBSCRIBE", "news"])).await.unwrap();
    let ended = async { while reconnected.read(&mut [0; 256]).await.is_ok_and(|length| length > 0) {} };
    timeout(SOON, ended).await.expect("the new subscription ends");
    link.set_subscriptions(Mode::Pass);
    assert!(answers(&mut connect().await.unwrap(), &["SUBSCRIBE", "news"]).await);
}
