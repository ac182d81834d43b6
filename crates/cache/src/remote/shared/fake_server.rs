//! A shared server within the process, for tests and simulations.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::Instant,
};

use crate::testing::rules;

use super::{
    Acquired, Cell, CellKind, CellWrite, Cells, ChangeAnswer, Confirmation, FillResult, Frame, Frames,
    Header, Heartbeat, Log, LogEntry, News, NextState, Peer, PeerPosition, ProbeAnswer, Registry, Retention,
    SharedError,
};

/// Frames that a slow subscriber may be behind before it loses some.
const BEHIND_MAX: usize = 256;
/// A message that no node has sent.
const FOREIGN_MESSAGE: [u8; 40] = [0; 40];

/// A shared server in memory, by the rules of [`Cell`]. Its clones are one server. It uses tokio's time, so
/// that it can be paused. It can be emptied, restored to an earlier state, and set to refuse writes.
#[derive(Clone, Debug)]
pub struct FakeServer {
    state: Arc<Mutex<ServerState>>,
    retention: Retention,
}

/// The contents of the server at one moment, see [`FakeServer::snapshot`].
#[derive(Clone, Debug)]
pub struct Snapshot(ServerState);

#[derive(Clone, Debug, Default)]
struct ServerState {
    cells: HashMap<String, (Cell, Instant)>,
    logs: HashMap<u64, BTreeMap<u64, Frame>>,
    channels: HashMap<u64, Channel>,
    nodes: HashMap<u64, BTreeMap<u64, (Heartbeat, Instant)>>,
    epoch: u64,
    starts: u64,
    refuses_writes: bool,
    flooded: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct Channel(broadcast::Sender<(Option<u64>, News)>);

impl FakeServer {
    /// Starts without cells, log or registry.
    #[must_use]
    pub fn new(retention: Retention) -> Self {
        Self { state: Arc::default(), retention }
    }

    /// From now on it refuses writes, or accepts them again.
    pub fn refuse_writes(&self, refuses: bool) {
        self.state.lock().refuses_writes = refuses;
    }

    /// From now on outsiders publish more than any node can read, or stop: there is always something to read.
    /// Needs real time, since virtual time does not advance meanwhile.
    pub fn flood(&self, flooded: bool) {
        self.state.lock().flooded.store(flooded, Ordering::Relaxed);
    }

    /// Drops a cell, as a server short of memory does.
    pub fn evict(&self, key: &str) {
        self.state.lock().cells.remove(key);
    }

    /// Its present contents.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state.lock().clone())
    }

    /// Another server takes its place, with earlier contents: an old dump, or a replica that lacks the last
    /// writes. Subscriptions end. `hidden`: it reports the previous server's name.
    pub fn replace(&self, snapshot: &Snapshot, hidden: bool) {
        let mut state = self.state.lock();
        let starts = state.starts + u64::from(!hidden);
        *state = ServerState { starts, channels: HashMap::new(), ..snapshot.0.clone() };
    }

    /// Falls back to an earlier state without closing connections: a replica that is filled again.
    pub fn fall_back(&self, snapshot: &Snapshot) {
        let mut state = self.state.lock();
        let (channels, starts) = (std::mem::take(&mut state.channels), state.starts);
        *state = ServerState { starts, channels, ..snapshot.0.clone() };
    }

    /// The name of the present server; see [`ProbeAnswer::server`].
    #[must_use]
    pub fn name(&self) -> String {
        self.state.lock().starts.to_string()
    }

    /// Ends all subscriptions, as a cut connection does.
    pub fn cut(&self) {
        self.state.lock().channels.clear();
    }

    fn apply(&self, state: &mut ServerState, key: &str, next: NextState) {
        let waited = state.cell(key).is_some_and(|cell| cell.header.waited);
        match next {
            NextState::Keep => return,
            NextState::Await => {
                if let Some((cell, _)) = state.cells.get_mut(key) {
                    cell.header.waited = true;
                }
                return;
            }
            NextState::Delete => drop(state.cells.remove(key)),
            NextState::Set(cell) => {
                let until = Instant::now() + cell.ttl(self.ttl_of(cell.header.kind));
                state.cells.insert(key.to_owned(), (Cell { ttl_max: None, ..cell }, until));
            }
        }
        if waited {
            state
                .channels
                .keys()
                .for_each(|epoch| state.publish(*epoch, None, News::LeaseEnded(key.to_owned())));
        }
    }

    /// Remaining time for which a lease belongs to its load alone.
    fn lease_left(&self, state: &ServerState, key: &str) -> Duration {
        let until = state.cells.get(key).map_or_else(Instant::now, |(_, until)| *until);
        let rest = until.saturating_duration_since(Instant::now());
        (rest + self.retention.takeover).saturating_sub(self.retention.leases)
    }

    /// How long ago this key's lease was taken; zero without a lease.
    fn lease_age(&self, state: &ServerState, key: &str) -> Duration {
        let until = state.cells.get(key).filter(|(cell, _)| cell.header.kind == CellKind::Lease);
        let Some((_, until)) = until else { return Duration::ZERO };
        self.retention.leases.saturating_sub(until.saturating_duration_since(Instant::now()))
    }

    const fn ttl_of(&self, kind: CellKind) -> Duration {
        match kind {
            CellKind::Value => self.retention.copies,
            CellKind::Null => self.retention.absences,
            CellKind::Tomb => self.retention.tombs,
            CellKind::Lease => self.retention.leases,
        }
    }

    fn writable(&self) -> Result<parking_lot::MutexGuard<'_, ServerState>, SharedError> {
        let state = self.state.lock();
        if state.refuses_writes { Err(SharedError::Refused) } else { Ok(state) }
    }
}

impl ServerState {
    fn cell(&self, key: &str) -> Option<&Cell> {
        self.cells.get(key).filter(|(_, until)| Instant::now() < *until).map(|(cell, _)| cell)
    }

    /// Appends and publishes the entry, unless it is the last one already. Returns its number.
    fn append(&mut self, epoch: u64, entry: LogEntry<'_>, most: u32) -> u64 {
        let log = self.logs.entry(epoch).or_default();
        let (number, before) = log.last_key_value().map_or((0, 0), |(number, last)| (*number, last.nonce));
        if number > 0 && before == entry.nonce {
            return number;
        }
        let frame = Frame { number: number + 1, nonce: entry.nonce, before, message: entry.message.to_vec() };
        log.insert(frame.number, frame.clone());
        while log.len() > most as usize {
            log.pop_first();
        }
        self.publish(epoch, None, News::Entry(frame.to_bytes()));
        frame.number
    }

    /// Publishes to one node, or to all.
    fn publish(&self, epoch: u64, to: Option<u64>, news: News) {
        if let Some(Channel(sender)) = self.channels.get(&epoch) {
            // No listener is no error.
            drop(sender.send((to, news)));
        }
    }

    fn peers(&self, epoch: u64, silent: Duration) -> Vec<Peer> {
        let peer = |(heartbeat, at): &(Heartbeat, Instant)| Peer {
            node: heartbeat.node,
            applied: heartbeat.applied,
            silent: at.elapsed(),
            about: heartbeat.about.clone(),
        };
        let nodes = self.nodes.get(&epoch).into_iter().flat_map(BTreeMap::values);
        nodes.map(peer).filter(|peer| peer.silent < silent).collect()
    }

    fn positions(&self, epoch: u64, silent: Duration) -> Vec<PeerPosition> {
        let position =
            |peer: Peer| PeerPosition { node: peer.node, applied: peer.applied, silent: peer.silent };
        self.peers(epoch, silent).into_iter().map(position).collect()
    }
}

#[async_trait::async_trait]
impl Cells for FakeServer {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        let state = self.state.lock();
        Ok(keys.iter().map(|key| state.cell(key).cloned()).collect())
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        let state = self.state.lock();
        Ok(keys.iter().map(|key| state.cell(key).map(|cell| cell.header)).collect())
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        let mut state = self.writable()?;
        let acquired = keys.iter().map(|key| {
            let (next, answer) = Cell::acquire(state.cell(key), token, self.lease_left(&state, key));
            self.apply(&mut state, key, next);
            answer
        });
        Ok(acquired.collect())
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<FillResult>, SharedError> {
        let mut state = self.writable()?;
        let filled = cells.iter().map(|(key, filling)| {
            let leased = self.lease_age(&state, key);
            let (next, answer) = match Cell::fill(state.cell(key), filling.clone()) {
                (NextState::Set(filling), FillResult::Stored) => match filling.aged(leased) {
                    Some(filling) => (NextState::Set(filling), FillResult::Stored),
                    None => (NextState::Delete, FillResult::Gone),
                },
                other => other,
            };
            self.apply(&mut state, key, next);
            answer
        });
        Ok(filled.collect())
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        let mut state = self.writable()?;
        for key in keys {
            let next = Cell::release(state.cell(key), token);
            self.apply(&mut state, key, next);
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Log for FakeServer {
    async fn change(
        &self,
        epoch: u64,
        writes: &[(String, CellWrite)],
        entry: LogEntry<'_>,
    ) -> Result<ChangeAnswer, SharedError> {
        let mut state = self.writable()?;
        for (key, write) in writes {
            let next = match write {
                CellWrite::Invalidate(version) => Cell::invalidate(state.cell(key), *version),
                CellWrite::Put(cell) => Cell::put(state.cell(key), cell.clone()),
            };
            self.apply(&mut state, key, next);
        }
        let number = state.append(epoch, entry, self.retention.log_max);
        let peers = if entry.strict { state.positions(epoch, self.retention.silent) } else { Vec::new() };
        Ok(ChangeAnswer { number, epoch: state.epoch, peers })
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        let state = self.state.lock();
        let log = state.logs.get(&epoch);
        Ok(log
            .into_iter()
            .flat_map(|log| log.range(from..))
            .map(|(_, frame)| frame.clone())
            .take(most)
            .collect())
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        let mut state = self.state.lock();
        let new = || Channel(broadcast::Sender::new(BEHIND_MAX));
        let receiver = state.channels.entry(epoch).or_insert_with(new).0.subscribe();
        let flooded = Arc::clone(&state.flooded);
        Ok(Box::new(FakeSubscription { node, receiver, flooded }))
    }

    async fn confirm(&self, epoch: u64, to: &[u64], confirmed: Confirmation) -> Result<(), SharedError> {
        let mut state = self.writable()?;
        let node = state.nodes.get_mut(&epoch).and_then(|nodes| nodes.get_mut(&confirmed.node));
        if let Some((heartbeat, _)) = node {
            heartbeat.applied = confirmed.number.max(heartbeat.applied);
        }
        for to in to {
            state.publish(epoch, Some(*to), News::Confirmed(confirmed));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Registry for FakeServer {
    async fn enter(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        {
            let mut state = self.writable()?;
            state.epoch = state.epoch.max(epoch);
        }
        self.probe(epoch, heartbeat).await
    }

    async fn probe(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        let mut state = if rules::probe_writes() { self.writable()? } else { self.state.lock() };
        let now = Instant::now();
        state.nodes.entry(epoch).or_default().insert(heartbeat.node, (heartbeat.clone(), now));
        let last = state.logs.get(&epoch).and_then(|log| log.last_key_value());
        let (number, nonce) = last.map_or((0, 0), |(number, frame)| (*number, frame.nonce));
        Ok(ProbeAnswer { number, nonce, epoch: state.epoch, server: state.starts.to_string() })
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError> {
        Ok(self.state.lock().peers(epoch, self.retention.silent))
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        let mut state = self.writable()?;
        state.nodes.get_mut(&epoch).map(|nodes| nodes.remove(&node));
        Ok(())
    }

    /// This is not needed for a server within the process: no other can answer in its place unnoticed. A
    /// proxy between a node and this server may check [`Self::name`].
    fn accept(&self, _server: &str) {}
}

#[derive(Debug)]
struct FakeSubscription {
    node: u64,
    receiver: broadcast::Receiver<(Option<u64>, News)>,
    flooded: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Frames for FakeSubscription {
    async fn next(&mut self) -> Option<News> {
        if self.flooded.load(Ordering::Relaxed) {
            // A read from a socket does this, too.
            tokio::task::coop::consume_budget().await;
            return Some(News::Entry(FOREIGN_MESSAGE.to_vec()));
        }
        loop {
            match self.receiver.recv().await {
                Ok((to, news)) if to.is_none_or(|to| to == self.node) => return Some(news),
                Ok(_) => {}
                Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    fn server() -> FakeServer {
        FakeServer::new(Retention { log_max: 3, ..Retention::default() })
    }

    fn value(version: u64, token: u64) -> Cell {
        Cell::bare(CellKind::Value, Version::new(version), token)
    }

    async fn append(server: &FakeServer, nonce: u64) -> u64 {
        server.change(1, &[], LogEntry { nonce, message: b"m", strict: false }).await.unwrap().number
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_and_a_copy_stays_longer() {
        let (server, key) = (server(), ["k".to_owned()]);
        assert_eq!(
            server.acquire(&key, 1).await.unwrap(),
            [Acquired::Leased { floor: Version::UNVERSIONED }]
        );
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(server.fill(&[("k".to_owned(), value(4, 1))]).await.unwrap(), [FillResult::Gone]);
        server.acquire(&key, 2).await.unwrap();
        assert_eq!(server.fill(&[("k".to_owned(), value(4, 2))]).await.unwrap(), [FillResult::Stored]);
        tokio::time::advance(Duration::from_secs(599)).await;
        assert_eq!(server.read(&key).await.unwrap(), [Some(value(4, 2))]);
    }

    #[tokio::test]
    async fn log_is_chained_trimmed_and_published() {
        let server = server();
        let mut frames = server.subscribe(1, 9).await.unwrap();
        for nonce in 11..=15 {
            append(&server, nonce).await;
        }
        let log = server.replay(1, 1, 10).await.unwrap();
        assert_eq!(
            log.iter().map(|frame| (frame.number, frame.before)).collect::<Vec<_>>(),
            [(3, 12), (4, 13), (5, 14)]
        );
        let Some(News::Entry(bytes)) = frames.next().await else { panic!("an entry was expected") };
        assert_eq!(Frame::from_bytes(&bytes).unwrap().nonce, 11);
        server.cut();
        for _ in 0..4 {
            frames.next().await.unwrap();
        }
        assert_eq!(frames.next().await, None);
    }

    #[tokio::test]
    async fn replaced_server_has_another_name() {
        let server = server();
        append(&server, 11).await;
        let (earlier, before) = (server.snapshot(), server.enter(1, &Heartbeat::default()).await.unwrap());
        append(&server, 12).await;
        server.replace(&earlier, false);
        let after = server.enter(1, &Heartbeat::default()).await.unwrap();
        assert_eq!((after.number, after.nonce), (1, 11));
        assert_ne!(after.server, before.server);
    }

    #[tokio::test]
    async fn full_server_serves_reads_and_refuses_probes() {
        let server = server();
        server.refuse_writes(true);
        assert!(server.read(&["k".to_owned()]).await.is_ok());
        assert_eq!(server.probe(1, &Heartbeat::default()).await, Err(SharedError::Refused));
    }
}
