//! A TCP proxy whose links can be cut, frozen, slowed or made to lie at any moment. There is one for each
//! node and purpose, so that a fault meets exactly what it is meant for.

mod messages;
mod pipe;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

pub use messages::Tampering;
use pipe::{Direction, Pipe};

/// How a proxy treats bytes on present and future connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Bytes pass unchanged.
    Pass,
    /// Connections are reset; those to come at once.
    Refuse,
    /// No data flow either way, and connections stay open: half open. New connections are accepted and held.
    /// All held data is sent afterwards.
    Freeze,
    /// Requests reach the server, and its answers are held. All held data is sent afterwards.
    HoldAnswers,
    /// Answers come later by a time between these, at random, in their order; as many as come.
    Late(Duration, Duration),
    /// Bytes pass in pieces with at most this many bytes.
    Slice(usize),
}

impl Mode {
    fn flows(self, direction: Direction) -> bool {
        match self {
            Self::Freeze | Self::Refuse => false,
            Self::HoldAnswers => direction == Direction::ToServer,
            Self::Pass | Self::Late(..) | Self::Slice(_) => true,
        }
    }
}

/// A proxy on its own port. Dropping it takes its connections down.
pub struct Proxy {
    address: SocketAddr,
    link: Arc<Link>,
    accepting: JoinHandle<()>,
}

/// How connections are treated, by their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modes {
    /// The mode for connections that send commands.
    data: Mode,
    /// The mode for connections that have subscribed.
    subscriptions: Mode,
}

impl Modes {
    const fn of(self, subscribed: bool) -> Mode {
        if subscribed { self.subscriptions } else { self.data }
    }
}

/// The state that a proxy's connections share.
struct Link {
    target: Mutex<SocketAddr>,
    modes: watch::Sender<Modes>,
    /// Increases when all existing connections must end.
    cuts: watch::Sender<u64>,
    /// `None`: the proxy does not look for published messages.
    tampering: Mutex<Option<Tampering>>,
    random: Mutex<SmallRng>,
    accepted: AtomicU64,
    open: AtomicU64,
    tampered: AtomicU64,
}

impl Proxy {
    /// Listens on the loopback and passes on to the target. All that happens at random follows from the seed.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(target: SocketAddr, seed: u64) -> io::Result<Self> {
        Self::listen(target, seed, None).await
    }

    /// Like [`Self::start`], but for connections that subscribe: published messages can be tampered with.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn for_pubsub(target: SocketAddr, seed: u64) -> io::Result<Self> {
        Self::listen(target, seed, Some(Tampering::Nothing)).await
    }

    async fn listen(target: SocketAddr, seed: u64, tampering: Option<Tampering>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let link = Arc::new(Link {
            target: Mutex::new(target),
            modes: watch::Sender::new(Modes { data: Mode::Pass, subscriptions: Mode::Pass }),
            cuts: watch::Sender::new(0),
            tampering: Mutex::new(tampering),
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            tampered: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&link)));
        Ok(Self { address, link, accepting })
    }

    /// The address that the proxy listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode for all connections from now on.
    pub fn set(&self, mode: Mode) {
        self.link.modes.send_replace(Modes { data: mode, subscriptions: mode });
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    /// Like [`Self::set`], but only for connections that have subscribed, or do so later.
    pub fn set_subscriptions(&self, mode: Mode) {
        self.link.modes.send_modify(|modes| modes.subscriptions = mode);
    }

    /// Like [`Self::set`], but only for connections that do not subscribe.
    pub fn set_data(&self, mode: Mode) {
        self.link.modes.send_modify(|modes| modes.data = mode);
    }

    /// Resets all existing connections. New connections follow the mode.
    pub fn cut(&self) {
        self.link.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Tampers with published messages from now on. Has no effect on a proxy that was not made for it.
    pub fn tamper(&self, with: Tampering) {
        if let Some(tampering) = self.link.tampering.lock().as_mut() {
            *tampering = with;
        }
    }

    /// Connects new connections to this target. Existing connections stay.
    pub fn aim(&self, target: SocketAddr) {
        *self.link.target.lock() = target;
    }

    /// Connections accepted so far, those reset at once too.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.link.accepted.load(Ordering::Relaxed)
    }

    /// The number of existing connections.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.link.open.load(Ordering::Relaxed)
    }

    /// Published messages that were lost, repeated or held back so far.
    #[must_use]
    pub fn tampered(&self) -> u64 {
        self.link.tampered.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .field("modes", &*self.link.modes.borrow())
            .finish_non_exhaustive()
    }
}

impl Link {
    fn random_delay(&self, times: Range<Duration>) -> Duration {
        if times.is_empty() { times.start } else { self.random.lock().random_range(times) }
    }
}

async fn accept(listener: TcpListener, link: Arc<Link>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of files: the next connection may find room.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        link.accepted.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(connection(client, Arc::clone(&link), link.cuts.subscribe()));
    }
}

async fn connection(mut client: TcpStream, link: Arc<Link>, mut cuts: watch::Receiver<u64>) {
    link.open.fetch_add(1, Ordering::Relaxed);
    let refused = link.modes.borrow().data == Mode::Refuse;
    let orderly = if refused {
        false
    } else {
        tokio::select! {
            biased;
            _ = cuts.changed() => false,
            relayed = relay(&mut client, &link) => relayed.is_ok(),
        }
    };
    if !orderly {
        // The connection may be gone already.
        drop(client.set_zero_linger());
    }
    link.open.fetch_sub(1, Ordering::Relaxed);
}

/// Relays until one side has closed its connection, and all that it sent has arrived.
async fn relay(client: &mut TcpStream, link: &Link) -> io::Result<()> {
    let mut modes = link.modes.subscribe();
    // Fails never: the link holds the sender.
    drop(modes.wait_for(|modes| modes.data.flows(Direction::ToServer)).await);
    let target = *link.target.lock();
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let subscribed = AtomicBool::new(false);
    tokio::select! {
        there = Pipe::new(link, Direction::ToServer, &subscribed).run(from_client, to_server) => there,
        back = Pipe::new(link, Direction::ToClient, &subscribed).run(from_server, to_client) => back,
    }
}
