//! Compares random histories with one bit for each message and member, through the service.

use std::collections::BTreeMap;

use kith_proto::message::v1::{MarkReadRequest, SendMessageRequest, send_message_request::To};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::dialog_calls::{mark, to_hide, to_mark, to_mark_ranges};
use crate::group_calls::{add, chat, leave};
use crate::message_calls::*;
use crate::node::{SERVICE, TestNode};
use crate::receipt_calls::{bits, counts};
use crate::relation_calls::with_users;

/// A message and, by ordinal, each user's stay at that time and whether it has read the message.
struct MessageReads {
    seq: i64,
    sender: i64,
    members: Vec<Option<(usize, bool)>>,
}

/// A bit for each message and member.
#[derive(Default)]
struct Matrix {
    rows: Vec<MessageReads>,
    users: Vec<i64>,
    stays: BTreeMap<i64, (usize, bool)>,
}

impl Matrix {
    fn join(&mut self, user: i64) {
        if !self.stays.contains_key(&user) {
            self.users.push(user);
        }
        let stay = self.stays.entry(user).or_default();
        *stay = (stay.0 + 1, true);
    }

    fn is_in(&self, user: i64) -> bool {
        self.stays.get(&user).is_some_and(|stay| stay.1)
    }

    fn send(&mut self, seq: i64, sender: i64) {
        let place = |user: &i64| self.is_in(*user).then(|| (self.stays[user].0, false));
        let members = self.users.iter().map(place).collect();
        self.rows.push(MessageReads { seq, sender, members });
    }

    fn read(&mut self, user: i64, first: i64, last: i64) {
        let Some(at) = self.users.iter().position(|one| *one == user) else { return };
        let stay = self.stays[&user].0;
        for row in self.rows.iter_mut().filter(|row| (first..=last).contains(&row.seq)) {
            if let Some(Some((of, has_read))) = row.members.get_mut(at) {
                *has_read |= *of == stay;
            }
        }
    }

    fn expected(&self, row: &MessageReads) -> (Vec<u8>, [i64; 3]) {
        let (mut read, mut quit, mut counts) = (0_u8, 0_u8, [0; 3]);
        for (at, member) in row.members.iter().enumerate() {
            let user = self.users[at];
            match member {
                None => quit |= 1 << at,
                Some(_) if row.sender == user => {}
                Some((_, true)) => {
                    read |= 1 << at;
                    counts[0] += 1;
                }
                Some((stay, false)) if self.stays[&user] == (*stay, true) => counts[1] += 1,
                Some(_) => counts[2] += 1,
            }
        }
        (vec![u8::try_from(row.members.len()).unwrap(), 0, 0, 0, read, quit], counts)
    }
}

/// Makes a random step. Each marked number exists.
async fn step(node: &TestNode, group: i64, users: &[i64], matrix: &mut Matrix, rng: &mut StdRng) {
    let (id, user) = (format!("g{group}"), users[1 + rng.random_range(0..users.len() - 1)]);
    let is_in = matrix.is_in(user);
    match rng.random_range(0..10) {
        0 | 1 if is_in => {
            leave(node, group, user).await;
            matrix.stays.get_mut(&user).unwrap().1 = false;
        }
        0..=2 if !is_in => {
            add(node, group, &[user]).await;
            matrix.join(user);
        }
        3..=5 => {
            let sender = if is_in { user } else { users[0] };
            let text =
                SendMessageRequest { keep_unread: true, sender_id: sender, ..text(To::GroupId(group), "x") };
            let seq = send(node, SERVICE, text).await.unwrap().seq;
            matrix.send(seq, sender);
        }
        6.. if is_in => {
            let end = end(node, &id).await;
            let pick = |share: usize| 1 + end * i64::try_from(share).unwrap() / 1_000;
            let (one, other) =
                (pick(rng.random_range(0..1_000)).min(end), pick(rng.random_range(0..1_000)).min(end));
            let (first, last) = (one.min(other), one.max(other));
            let request: MarkReadRequest = match rng.random_range(0..3) {
                0 => to_mark(&id, last),
                1 => to_hide(&id, last),
                _ => to_mark_ranges(&id, &[(first, last)]),
            };
            let (is_hidden, from) = (request.hidden, if request.up_to > 0 { 1 } else { first });
            mark(node, user, request).await.unwrap();
            if !is_hidden {
                matrix.read(user, from, last);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn receipts_equal_a_bit_matrix() {
    let (node, users) = with_users::<6>().await;
    for seed in 1..=6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut matrix, group) = (Matrix::default(), chat(&node, users[0], &[]).await);
        matrix.join(users[0]);
        for at in 0..60 {
            step(&node, group, &users, &mut matrix, &mut rng).await;
            if at % 6 == 5 {
                assert_equal(&node, group, &matrix, seed).await;
            }
        }
        assert!(matrix.rows.len() > 5, "{} messages", matrix.rows.len());
    }
}

async fn assert_equal(node: &TestNode, group: i64, matrix: &Matrix, seed: u64) {
    let id = format!("g{group}");
    for row in &matrix.rows {
        let (packed, counted) = matrix.expected(row);
        assert_eq!(bits(node, &id, row.seq).await, packed, "seed {seed}, message {}", row.seq);
        assert_eq!(counts(node, SERVICE, &id, row.seq).await.unwrap(), counted, "seed {seed}, {}", row.seq);
    }
}
