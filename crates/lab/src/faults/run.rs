//! One row from its beginning to its end.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    actions::FaultState,
    calls::UserCall,
    cassandra::{Cassandra, CassandraAccess},
    client::{CallerId, Client, ClientConfig, ClientState, HOT},
    dump::dump,
    figure::Figure,
    messages::{self, MessageClient, MessageState},
    mix::Mix,
    relation_client::{RelationClient, RelationMix},
    relation_dump,
    rows::Row,
    site::{NAME, Plan, Site},
};
use crate::history::{Event, Fault, NodeStart, Outcome, Recorder, UserRequest};

/// Pause without calls before the final content is read.
const QUIET: Duration = Duration::from_secs(3);
/// Rarely called users, in rows about relations.
const COLD_OF_FRIENDS: i64 = 50;
/// Users that are made together.
const AT_ONCE: usize = 64;
const AT_ONCE_SLOW: usize = 8;
const TRIES: u32 = 10;
/// Nodes through which clients send messages.
const NODES_FOR_MESSAGES: u32 = 3;
/// Longer than a row's messages take in a healthy laboratory.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// The load during a run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients that stay with one node.
    pub pinned: u32,
    /// Clients that go from node to node.
    pub roaming: u32,
    /// Calls before the fault.
    pub before: Duration,
    /// How long a fault is on; `None`: as long as its row says.
    pub lasts: Option<Duration>,
    /// How long calls continue after it. By the end, the cluster must be as before the fault. `None`: as long
    /// as the row says.
    pub after: Option<Duration>,
    /// Rarely called users, besides the often called users.
    pub cold: i64,
    /// The mix of calls.
    pub mix: Mix,
    /// The minimum number of node ends, however long they take, in rows in which nodes end repeatedly.
    pub deaths: u64,
    /// The minimum number of acknowledged messages, however long they take, in rows in which clients send
    /// messages. `None`: as many as the row says.
    pub sends: Option<u64>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            pinned: 6,
            roaming: 2,
            before: Duration::from_secs(3),
            lasts: None,
            after: None,
            cold: 2_000,
            mix: Mix::WRITING,
            deaths: 0,
            sends: None,
        }
    }
}

/// A run's summary.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The number of calls by all clients.
    pub calls: u64,
    /// How long the run took, in seconds.
    pub seconds: f64,
    /// How long the run took before a client's first call, in seconds: the cluster started, and was filled.
    pub starting: f64,
    /// How often something died, ended or was replaced; 0 where the row is not about that.
    pub deaths: u64,
    /// Further figures.
    pub figures: Vec<Figure>,
}

/// A fault in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedFault {
    pub(super) row: Row,
    /// Calls before it.
    pub(super) before: Duration,
    /// How long the fault lasts.
    pub(super) lasts: Duration,
    /// Calls after it.
    pub(super) after: Duration,
    /// See [`Load::deaths`].
    pub(super) deaths: u64,
    /// See [`Load::sends`].
    pub(super) sends: u64,
}

/// Starts a cluster, runs the row's fault, and records the clients' history.
///
/// # Errors
/// When the cluster does not start, does not come back after the fault, or the history cannot be written.
pub async fn run(row: &Row, plan: &Plan, load: Load, history: &Path) -> Result<RunSummary> {
    let (lasts, after) = (load.lasts.unwrap_or(row.lasts), load.after.unwrap_or_else(|| row.after()));
    // A row that sends no messages does not wait for any.
    let sends = if row.sends == 0 { 0 } else { load.sends.unwrap_or(row.sends) };
    let fault = PlannedFault { row: *row, before: load.before, lasts, after, deaths: load.deaths, sends };
    run_faults(&[fault], plan, load, history, |_, _| {}).await
}

/// Like [`run`], but with several faults in sequence. Each is reported before it begins, with the calls so
/// far.
pub(super) async fn run_faults(
    faults: &[PlannedFault],
    plan: &Plan,
    load: Load,
    history: &Path,
    on_fault: impl Fn(&Row, u64),
) -> Result<RunSummary> {
    let began = Instant::now();
    let mut site = start(faults, plan).await?;
    let relation_mix = faults.iter().find_map(|fault| fault.row.relation_mix);
    let sending = faults.iter().find(|fault| fault.row.sends > 0);
    let users = match (relation_mix, sending) {
        (Some(_), _) => HOT + load.cold.min(COLD_OF_FRIENDS),
        (None, Some(_)) => messages::ALL_USERS,
        (None, None) => HOT + load.cold,
    };
    let state = Arc::new(ClientState::new(Recorder::create(history)?, site.channels(), users));
    fill(&state, site.cassandra.is_some()).await?;
    let messages = match sending {
        Some(fault) => Some(MessageState::prepare(&state, fault.sends, fault.row.name, plan.seed).await?),
        None => None,
    };
    let starting = began.elapsed().as_secs_f64();
    let mut clients = clients(&state, messages.as_ref(), relation_mix, load, plan.seed);
    if faults.iter().any(|fault| fault.row.watched) {
        watch(&mut clients, &state, load, plan.seed);
    }
    // A client's error ends the run at once: it might wait for what that client does.
    let injected = tokio::select! {
        injected = inject_all(faults, &mut site, &state, on_fault) => injected,
        error = first_error(&mut clients) => Err(error),
    };
    state.over.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let (deaths, mut figures) = injected?;
    site.until_trusted().await?;
    sleep(QUIET).await;
    dump(&state.recorder, &state.nodes, &state.all()).await?;
    if relation_mix.is_some() {
        figures.push(relation_dump::dump(&state.recorder, &state.nodes[0]).await?.of(faults[0].row.name));
    }
    if let Some(messages) = &messages {
        messages::dump(messages, &site.mongod.database(NAME).await?).await?;
        let sent = state.sent.load(Ordering::Relaxed);
        figures.push(Figure::count("messages acknowledged", sent).of(faults[0].row.name));
    }
    write_starts(&state.recorder, &site)?;
    state.recorder.finish()?;
    let (calls, seconds) = (state.calls.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
    Ok(RunSummary { calls, seconds, starting, deaths, figures })
}

/// The first error from any client; pending while no client has an error.
async fn first_error(clients: &mut JoinSet<Result<()>>) -> anyhow::Error {
    while let Some(ended) = clients.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(error) => return error.into(),
        }
    }
    std::future::pending().await
}

/// Records when nodes restarted.
fn write_starts(recorder: &Recorder, site: &Site) -> Result<()> {
    for (node, member) in (0..).zip(&site.members) {
        for at in member.node.starts().iter().filter_map(|start| recorder.at(*start)) {
            recorder.write(&Event::Started(NodeStart { node, at }))?;
        }
    }
    Ok(())
}

/// A cluster in which all these faults can happen.
async fn start(faults: &[PlannedFault], plan: &Plan) -> Result<Site> {
    let rows = || faults.iter().map(|fault| &fault.row);
    let own = rows().flat_map(|row| row.settings).map(|setting| (*setting).to_owned());
    let mut plan = Plan { settings: plan.settings.iter().cloned().chain(own).collect(), ..plan.clone() };
    if rows().any(|row| row.sends > 0) {
        plan.nodes = plan.nodes.min(NODES_FOR_MESSAGES);
    }
    let mut disk = None;
    for row in rows() {
        disk = row.action.disk().await?.or(disk);
    }
    let cassandra = match rows().find(|row| row.relation_mix.is_some() || row.sends > 0) {
        Some(row) if row.action.harms_cassandra() => {
            Some(CassandraAccess::Exclusive(Cassandra::lasting().await?))
        }
        Some(_) => Some(CassandraAccess::Shared(Cassandra::shared().await?)),
        None => None,
    };
    let mongods = rows().map(|row| row.mongods).max().unwrap_or(1);
    Site::start_over(&plan, mongods, disk, cassandra).await
}

/// Injects all faults. Returns how many deaths there were, and the figures.
async fn inject_all(
    faults: &[PlannedFault],
    site: &mut Site,
    state: &ClientState,
    on_fault: impl Fn(&Row, u64),
) -> Result<(u64, Vec<Figure>)> {
    let (mut deaths, mut figures) = (0, Vec::new());
    for fault in faults {
        site.until_trusted().await?;
        on_fault(&fault.row, state.calls.load(Ordering::Relaxed));
        let injected = inject(fault, site, state).await;
        let kept = injected.with_context(|| format!("{}: {}", fault.row.name, fault.row.what))?;
        deaths += kept.deaths;
        figures.extend(kept.figures);
    }
    Ok((deaths, figures))
}

async fn inject(fault: &PlannedFault, site: &mut Site, state: &ClientState) -> Result<FaultState> {
    let row = &fault.row;
    let mut kept = FaultState::with_deaths(fault.deaths);
    row.action.prepare(site, &mut kept).await?;
    sleep(fault.before).await;
    let record = |on| {
        let fault = Fault { at: state.recorder.now(), what: row.name.to_owned(), on };
        state.recorder.write(&Event::Fault(fault))
    };
    // Without a fault nothing begins.
    let is_fault = row.action.is_fault();
    if is_fault {
        record(true)?;
    }
    row.action.inject(site, &mut kept, fault.lasts).await?;
    let give_up = Instant::now() + LONGEST;
    while state.sent.load(Ordering::Relaxed) < fault.sends {
        ensure!(Instant::now() < give_up, "too few messages are acknowledged in {LONGEST:?}");
        row.action.inject(site, &mut kept, fault.lasts).await?;
    }
    if is_fault {
        record(false)?;
    }
    sleep(fault.after).await;
    Ok(kept)
}

/// Creates the run's users.
///
/// While a Cassandra starts, the machine may be slow: few at a time then, each until it is there.
async fn fill(state: &ClientState, slow: bool) -> Result<()> {
    let filling = stream::iter(1..=state.users).map(|user| create(state, user, slow));
    let at_once = if slow { AT_ONCE_SLOW } else { AT_ONCE };
    filling.buffer_unordered(at_once).try_collect::<Vec<()>>().await.map(drop)
}

async fn create(state: &ClientState, user_id: i64, slow: bool) -> Result<()> {
    let what = UserRequest::Create { name: format!("User {user_id}"), value: state.value() };
    let asked = UserCall { user_id, what, token: String::new(), request_id: format!("fill-{user_id}") };
    for _ in 0..if slow { TRIES } else { 0 } {
        // The request is the same, so that the recorded call gets the answer that this call got.
        if matches!(asked.send(state.nodes[0].clone()).await.outcome, Outcome::Done { .. }) {
            break;
        }
    }
    let outcome = state.call(CallerId { client: 0, pinned: false }, 0, &asked).await?.outcome;
    anyhow::ensure!(matches!(outcome, Outcome::Done { .. }), "user {user_id}: {outcome:?}");
    Ok(())
}

/// Clients that send messages, that make and break relations except the last client, or that call about
/// users.
fn clients(
    state: &Arc<ClientState>,
    messages: Option<&Arc<MessageState>>,
    relation_mix: Option<RelationMix>,
    load: Load,
    seed: u64,
) -> JoinSet<Result<()>> {
    let (mut clients, last) = (JoinSet::new(), load.pinned + load.roaming);
    for number in 1..=last {
        let node = usize::try_from(number).unwrap_or_default() % state.nodes.len();
        let pinned = (number <= load.pinned).then_some(node);
        let config = ClientConfig { number, pinned, seed: seed.wrapping_add(u64::from(number)) };
        match (relation_mix, messages) {
            (Some(relation_mix), _) if number < last => {
                clients.spawn(RelationClient::new(state, config, relation_mix).work())
            }
            (None, Some(messages)) => clients.spawn(MessageClient::new(messages, config).work()),
            _ => clients.spawn(Client::new(state, config, load.mix).work()),
        };
    }
    clients
}

/// Adds a client for each node that only makes strong reads.
fn watch(clients: &mut JoinSet<Result<()>>, state: &Arc<ClientState>, load: Load, seed: u64) {
    for (number, node) in (load.pinned + load.roaming + 1..).zip(0..state.nodes.len()) {
        let config = ClientConfig { number, pinned: Some(node), seed: seed.wrapping_add(u64::from(number)) };
        clients.spawn(Client::new(state, config, load.mix).watch());
    }
}
