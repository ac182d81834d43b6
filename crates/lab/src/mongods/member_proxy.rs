//! A proxy in front of a replica set member, for members and nodes alike.
//!
//! All of them know a member by the address in the set's configuration, so the proxy can treat them
//! differently only by their identity, which is in each connection's first message: nodes by the `appName` in
//! their connection string, and members, as long as test commands are enabled, by `hostInfo`.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A first message is far smaller.
const FIRST_MAX: usize = 64 * 1024;
/// A BSON text: its type, the field's name, and four bytes with the length before it begins.
const HOST_INFO: &[u8] = b"\x02hostInfo\0";
const APPLICATION: &[u8] = b"\x03application\0";
const NAME: &[u8] = b"\x02name\0";
const LENGTH: usize = 4;

/// The dialer that opened a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialer {
    /// The member that listens on this port.
    Member(u16),
    /// A client with this name.
    Named(String),
    /// An unknown dialer.
    Stranger,
}

/// Listens on its own port and passes on to a member. Dropping it ends its connections.
pub(super) struct MemberProxy {
    address: SocketAddr,
    blocked: watch::Sender<Vec<Dialer>>,
    accepting: JoinHandle<()>,
}

impl MemberProxy {
    /// # Errors
    /// When there is no port.
    pub(super) async fn start(member: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (blocked, shut) = watch::channel(Vec::new());
        Ok(Self { address, blocked, accepting: tokio::spawn(accept(listener, member, shut)) })
    }

    /// The address that the proxy listens on.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it holds back all data from these dialers, on existing and new connections, without
    /// closing them. It continues for all others.
    pub(super) fn block(&self, dialers: Vec<Dialer>) {
        self.blocked.send_replace(dialers);
    }
}

impl Drop for MemberProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for MemberProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberProxy")
            .field("address", &self.address)
            .field("blocked", &*self.blocked.borrow())
            .finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, member: SocketAddr, shut: watch::Receiver<Vec<Dialer>>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of files: the next connection may find room.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let shut = shut.clone();
        tokio::spawn(async move {
            // The client sees a failure here as its connection's end.
            drop(pass(client, member, shut).await);
        });
    }
}

/// Relays until one side has ended, or the proxy is gone.
async fn pass(
    mut client: TcpStream,
    member: SocketAddr,
    mut shut: watch::Receiver<Vec<Dialer>>,
) -> io::Result<()> {
    let first = first_message(&mut client).await?;
    let dialer = dialer(&first);
    until(&mut shut, &dialer, false).await?;
    let mut server = TcpStream::connect(member).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.write_all(&first).await?;
    let mut passing = pin!(copy_bidirectional(&mut client, &mut server));
    loop {
        until(&mut shut, &dialer, false).await?;
        // A paused connection holds its data.
        tokio::select! {
            passed = &mut passing => return passed.map(drop),
            held = until(&mut shut, &dialer, true) => held?,
        }
    }
}

async fn until(shut: &mut watch::Receiver<Vec<Dialer>>, dialer: &Dialer, is: bool) -> io::Result<()> {
    let changed = shut.wait_for(|shut| shut.contains(dialer) == is).await;
    changed.map(drop).map_err(io::Error::other)
}

/// Reads the first message. Its length is in its first four bytes.
async fn first_message(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; LENGTH];
    client.read_exact(&mut message).await?;
    let length = message.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if !(LENGTH..=FIRST_MAX).contains(&length) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.resize(length, 0);
    client.read_exact(&mut message[LENGTH..]).await?;
    Ok(message)
}

fn dialer(first: &[u8]) -> Dialer {
    let port = || text(after(first, HOST_INFO)?)?.rsplit(':').next()?.parse().ok();
    let named = || text(after(after(first, APPLICATION)?, NAME)?);
    let member = port().map(Dialer::Member);
    member.or_else(|| named().map(|name| Dialer::Named(name.to_owned()))).unwrap_or(Dialer::Stranger)
}

/// The bytes after the first of these words.
fn after<'a>(message: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    let at = message.windows(words.len()).position(|here| here == words)?;
    message.get(at + words.len()..)
}

/// The text in a value that begins here.
fn text(value: &[u8]) -> Option<&str> {
    let text = value.get(LENGTH..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Document, RawDocumentBuf, doc};
    use tokio::time::timeout;

    use super::*;

    /// Long enough for an answer on a busy machine.
    const SOON: Duration = Duration::from_secs(5);
    /// How long silence is listened to.
    const SILENCE: Duration = Duration::from_millis(150);

    fn first(hello: &Document) -> Vec<u8> {
        let body = RawDocumentBuf::try_from(hello).unwrap();
        let length = u32::try_from(LENGTH + body.as_bytes().len()).unwrap();
        [&length.to_le_bytes()[..], body.as_bytes()].concat()
    }

    fn of_node(name: &str) -> Vec<u8> {
        let driver = doc! { "name": "mongo-rust-driver", "version": "3" };
        first(&doc! { "hello": 1, "client": { "driver": driver, "application": { "name": name } } })
    }

    fn of_member(port: u16) -> Vec<u8> {
        let client = doc! { "application": { "name": "OplogFetcher" } };
        first(&doc! { "hello": 1, "client": client, "hostInfo": format!("somewhere:{port}") })
    }

    /// A member that reports what it receives.
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

    async fn dial(proxy: &MemberProxy, first: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(first).await.unwrap();
        stream
    }

    async fn expect_received(stream: &mut TcpStream, what: &[u8]) {
        let mut bytes = vec![0; what.len()];
        timeout(SOON, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
        assert_eq!(bytes, what);
    }

    async fn is_silent(stream: &mut TcpStream) -> bool {
        timeout(SILENCE, stream.read_u8()).await.is_err()
    }

    #[test]
    fn members_are_known_by_port_and_nodes_by_name() {
        assert_eq!(dialer(&of_member(27_018)), Dialer::Member(27_018));
        assert_eq!(dialer(&of_node("node-1")), Dialer::Named("node-1".to_owned()));
        assert_eq!(dialer(&first(&doc! { "hello": 1 })), Dialer::Stranger);
    }

    #[tokio::test]
    async fn messages_of_blocked_dialers_wait() {
        let proxy = MemberProxy::start(echo().await).await.unwrap();
        let (one, other) = (of_node("node-1"), of_member(9));
        let (mut held, mut free) = (dial(&proxy, &one).await, dial(&proxy, &other).await);
        expect_received(&mut held, &one).await;
        expect_received(&mut free, &other).await;
        proxy.block(vec![Dialer::Named("node-1".to_owned()), Dialer::Member(8)]);
        held.write_all(b"later").await.unwrap();
        free.write_all(b"now").await.unwrap();
        let mut new = dial(&proxy, &one).await;
        expect_received(&mut free, b"now").await;
        assert!(is_silent(&mut held).await && is_silent(&mut new).await);
        proxy.block(Vec::new());
        expect_received(&mut held, b"later").await;
        expect_received(&mut new, &one).await;
    }

    #[tokio::test]
    async fn connection_ends_with_proxy_or_without_member() {
        let proxy = MemberProxy::start(echo().await).await.unwrap();
        let mut passing = dial(&proxy, &of_member(9)).await;
        expect_received(&mut passing, &of_member(9)).await;
        drop(proxy);
        assert_eq!(timeout(SOON, passing.read(&mut [0; 8])).await.unwrap().unwrap_or_default(), 0);
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let proxy = MemberProxy::start(unused).await.unwrap();
        let mut refused = dial(&proxy, &of_member(9)).await;
        assert_eq!(timeout(SOON, refused.read(&mut [0; 8])).await.unwrap().unwrap_or_default(), 0);
    }
}
