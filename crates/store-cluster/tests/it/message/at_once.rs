//! Several nodes that append to one conversation.

use std::collections::{HashMap, HashSet};

use kith_store::{Appended, NewMessage, Seq, Stores};
use kith_store_cluster::{MongoOptions, connect};
use tokio::task::JoinHandle;

use super::{batch, log, read};
use crate::server;

/// The ids of messages, and the numbers that they got.
type Acknowledged = Vec<(String, Seq)>;

async fn node(options: &MongoOptions) -> Stores {
    connect(options.clone()).await.unwrap().stores()
}

fn id(message: &NewMessage) -> String {
    message.client_message_id.as_ref().unwrap().as_str().to_owned()
}

/// Appends in steps with a given size, one after the other.
fn append(stores: Stores, name: String, steps: usize, size: usize) -> JoinHandle<Acknowledged> {
    tokio::spawn(async move {
        let all = batch(&name, steps * size);
        let mut acknowledged = Acknowledged::new();
        for step in all.chunks(size) {
            for (message, appended) in step.iter().zip(stores.messages.append(log(), step).await.unwrap()) {
                let Appended::New(seq) = appended else { panic!("{appended:?}") };
                acknowledged.push((id(message), seq));
            }
        }
        acknowledged
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn steps_of_three_nodes_are_all_at_their_numbers() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let mut running = Vec::new();
    for (size, steps) in [(7, 120), (33, 40), (100, 20)] {
        running.push(append(node(&options).await, format!("steps-of-{size}"), steps, size));
    }
    let mut acknowledged = HashMap::new();
    for one in running {
        acknowledged.extend(one.await.unwrap());
    }
    let found = read(&stores).await;
    assert_eq!(found.len(), 120 * 7 + 40 * 33 + 20 * 100);
    assert_eq!(acknowledged.len(), found.len());
    for message in found {
        let id = message.client_message_id.unwrap();
        assert_eq!(acknowledged.get(id.as_str()), Some(&message.seq), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn id_sent_through_two_nodes_is_one_message() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let all = batch("m", 450);
    let send = |stores: Stores, size: usize| {
        let all = all.clone();
        tokio::spawn(async move {
            let mut results = Vec::new();
            for step in all.chunks(size) {
                results.extend(stores.messages.append(log(), step).await.unwrap());
            }
            results
        })
    };
    let tasks = [send(node(&options).await, 30), send(node(&options).await, 70), send(stores.clone(), 9)];
    let mut numbers: Vec<HashSet<Seq>> = vec![HashSet::new(); all.len()];
    let mut new = 0;
    for task in tasks {
        for (numbers, appended) in numbers.iter_mut().zip(task.await.unwrap()) {
            match appended {
                Appended::New(seq) => {
                    new += 1;
                    numbers.insert(seq)
                }
                Appended::Replayed { seq, .. } => numbers.insert(seq),
                Appended::OtherContent => panic!("the content is the same"),
            };
        }
    }
    assert_eq!(new, all.len(), "of each message one send is the first");
    assert!(numbers.iter().all(|numbers| numbers.len() == 1), "{numbers:?}");
    assert_eq!(read(&stores).await.len(), all.len());
}
