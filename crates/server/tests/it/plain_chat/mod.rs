//! Compares conversations with a small, plain model: read and unread messages, and listed conversations.

mod model;
mod steps;

use futures::future::join_all;
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{group_calls::chat, message_calls::direct, node::TestNode};

use model::{Model, group_id};
use steps::Step;

/// Makes random steps in several worlds on one node at the same time, and compares the users' view with the
/// model after each step.
pub async fn run(worlds: u64, steps: usize) {
    let node = TestNode::start_with_relations(|_| {}).await;
    let worlds = (0..worlds).map(|seed| run_world(&node, seed, steps));
    join_all(worlds).await;
}

async fn run_world(node: &TestNode, seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut users = Vec::new();
    for number in 0..4 {
        users.push(node.user(&format!("w{seed}u{number}")).await.user_id);
    }
    let mut model = Model::new(users.clone());
    for _ in 0..2 {
        let group = chat(node, users[0], &users[1..3]).await;
        model.found(&group_id(group), &users[..3]);
        model.event(node, &group_id(group)).await;
    }
    for (one, other) in [(0, 1), (0, 2), (1, 3), (2, 2)] {
        model.direct(&direct(users[one], users[other]), &[users[one], users[other]]);
    }
    for at in 0..steps {
        let step = Step::any(&mut random, &model);
        step.make(node, &mut model).await;
        let user = model.any_user(&mut random);
        model.check(node, user, &format!("seed {seed}, step {at}: {step:?}")).await;
    }
}
