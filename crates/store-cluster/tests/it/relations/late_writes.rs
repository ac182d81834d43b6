//! Conditional writes that a server has received and not begun: it makes them later, after the node has
//! looked and found no effect.

use std::time::Duration;

use kith_store::{GroupId, MemberChange, Outcome};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{mpsc, watch},
};

use super::{
    BOUND, Stage,
    forgotten_requests::{SERVICE, request},
    now, user,
};
use crate::server::cql_address;

const EXECUTE: u8 = 0x0A;
const BATCH: u8 = 0x0D;
const LOCAL_SERIAL: [u8; 2] = [0, 9];
const HEADER: usize = 9;

/// A server that leaves frames for later.
struct LateServer {
    address: String,
    phase: watch::Sender<Phase>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Everything passes, and what was left is made.
    Open,
    /// The next batch with this text is left.
    Armed(&'static str),
    /// The batch is left; what comes up to the serial read passes.
    Left,
    /// No statement is executed.
    Stopped,
}

impl LateServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, phase) = (listener.local_addr().unwrap().to_string(), watch::Sender::new(Phase::Open));
        let of_all = phase.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(cql_address()).await.unwrap();
                let (mut answers, to_server) = server.into_split();
                let (requests, mut to_client) = client.into_split();
                tokio::spawn(async move { copy(&mut answers, &mut to_client).await });
                let (sender, frames) = mpsc::channel(64);
                tokio::spawn(read_frames(requests, sender));
                tokio::spawn(pass(frames, to_server, of_all.clone()));
            }
        });
        Self { address, phase }
    }
}

/// Version 4 frames: nine bytes, whose last four are the length of the rest.
async fn read_frames(mut from: OwnedReadHalf, to: mpsc::Sender<Vec<u8>>) {
    loop {
        let mut frame = vec![0; HEADER];
        if from.read_exact(&mut frame).await.is_err() {
            return;
        }
        let length = u32::from_be_bytes(frame[5..].try_into().unwrap());
        frame.resize(HEADER + usize::try_from(length).unwrap(), 0);
        if from.read_exact(&mut frame[HEADER..]).await.is_err() || to.send(frame).await.is_err() {
            return;
        }
    }
}

async fn pass(mut frames: mpsc::Receiver<Vec<u8>>, mut server: OwnedWriteHalf, phases: watch::Sender<Phase>) {
    let (mut left, mut phase) = (Vec::new(), phases.subscribe());
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else { return };
                if is_left(&frame, &phases) {
                    left.push(frame);
                } else if server.write_all(&frame).await.is_err() {
                    return;
                }
            }
            _changed = phase.changed() => {
                if *phase.borrow_and_update() == Phase::Open {
                    for frame in left.drain(..) {
                        drop(server.write_all(&frame).await);
                    }
                }
            }
        }
    }
}

fn is_left(frame: &[u8], phases: &watch::Sender<Phase>) -> bool {
    let (code, body) = (frame[4], &frame[HEADER..]);
    let mut is_left = false;
    phases.send_if_modified(|phase| {
        let next = match phase {
            Phase::Armed(text) if code == BATCH && has(body, text) => Phase::Left,
            Phase::Left if code == EXECUTE && is_serial(body) => Phase::Stopped,
            Phase::Stopped => {
                is_left = [EXECUTE, BATCH].contains(&code);
                return false;
            }
            _ => return false,
        };
        is_left = next == Phase::Left;
        *phase = next;
        true
    });
    is_left
}

fn has(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The consistency is behind the statement's id.
fn is_serial(body: &[u8]) -> bool {
    let id = usize::from(u16::from_be_bytes([body[0], body[1]]));
    body.get(2 + id..4 + id) == Some(&LOCAL_SERIAL)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn write_that_a_server_makes_later_is_not_denied() {
    let (stage, late, group) = (Stage::open().await, LateServer::start().await, GroupId::new(7).unwrap());
    let (stores, _node) = stage
        .node(|cql| {
            cql.contact_points = vec![late.address.clone()];
            cql.request = Duration::from_secs(2);
        })
        .await;
    let make = |change, write| stores.members.change_members(group, change, SERVICE, write);
    make(MemberChange::AddFounder(user(1)), now()).await.unwrap();
    make(MemberChange::Join(user(2)), request("join", 7)).await.unwrap();

    late.phase.send_replace(Phase::Armed("late#"));
    let leave = || make(MemberChange::Leave(user(2)), request("late", 7));
    let failed = leave().await.unwrap_err();
    assert_eq!(*late.phase.borrow(), Phase::Stopped, "the serial read was answered");
    assert_eq!(failed.outcome(), Outcome::Unknown, "{failed:?}");

    late.phase.send_replace(Phase::Open);
    let count = async || stage.stores.members.rosters(&[group]).await.unwrap()[0].count;
    let left = async {
        while count().await > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BOUND, left).await.expect("the server makes it");
    let again = leave().await.unwrap();
    assert!(again.replayed, "the first answer: {:?}", again.record);
}
