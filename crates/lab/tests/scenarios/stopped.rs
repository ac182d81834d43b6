use std::{path::Path, time::Duration};

use kith_lab::peers::{Apart, apart};
use tokio::time::sleep;

use crate::stage::{BOUND, size, stage, told, turn, until, warm, writes};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_stopped_answers_right_from_its_first_answer_on() {
    let _turn = turn().await;
    let (peers, keys, stopped) = (stage(1).await, 500, Duration::from_secs(size(5, 30)));
    warm(&peers, keys).await;
    let store = peers.store.serve().await.unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_kith-lab"));
    let node = Apart::start(program, peers.redis.address(), store, keys).unwrap();
    until("it reads", SOON, async || node.answers().len() > 10).await;
    node.stop().unwrap();
    let refused = writes(peers.peer(0), 0..keys, stopped.saturating_sub(BOUND)).await;
    assert_eq!(refused, 0);
    told(peers.peer(0)).await;
    sleep(BOUND).await;
    drop(node.answers());
    let went_on = apart::now_us();
    node.go_on().unwrap();
    sleep(BOUND).await;
    let answers: Vec<_> = node.answers().into_iter().filter(|answer| answer.began_us >= went_on).collect();
    let old = answers.iter().filter(|answer| answer.version.is_none_or(|version| version < 2)).count();
    println!("a node stopped {stopped:?} under load: {old} of {} first answers old", answers.len());
    assert!(answers.len() > 100);
    assert_eq!(old, 0);
}
