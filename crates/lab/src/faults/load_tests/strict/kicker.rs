//! A caller that takes users into a group of its own on one node and puts them out again, and asks another node who is in it as
//! soon as that is acknowledged.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_proto::{
    group::v1::Group,
    member::v1::{
        AddMembersRequest, BatchIsMemberRequest, RemoveMembersRequest, Role, member_result,
        member_service_client::MemberServiceClient,
    },
    r#type::v1::{Consistency, consistency::Level},
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{CALLERS, StrictDesk, pair::Known, tally::Decided};
use crate::faults::{
    answered::make_group,
    calls::{failed, name_of, within},
};

/// Users whom each caller takes in and puts out.
const SEATS: i64 = 4;
/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts of a read of the store.
const TRIES: usize = 100;

/// A user of the group.
#[derive(Clone, Copy, Debug)]
struct KickedUser {
    user: i64,
    /// Whether it is in.
    known: Known<bool>,
}

/// What the nodes return for all seats of a group, in their order, or why they do not.
type SeatAnswers = Vec<Result<bool, String>>;

/// One caller, with a group of its own.
#[derive(Debug)]
pub(super) struct Kicker {
    desk: Arc<StrictDesk>,
    group: i64,
    seats: Vec<KickedUser>,
    random: SmallRng,
    sent: u64,
}

impl Kicker {
    /// The caller of this number; that is the group's, too.
    pub(super) fn new(desk: &Arc<StrictDesk>, number: i64, seed: u64) -> Self {
        let user = |step| (number + step - 1) % CALLERS + 1;
        let seat = |step| KickedUser { user: user(step), known: Known::nothing() };
        let random = SmallRng::seed_from_u64(seed.wrapping_add(number.cast_unsigned()));
        let seats = (1..=SEATS).map(seat).collect();
        Self { desk: Arc::clone(desk), group: number, seats, random, sent: 0 }
    }

    /// Calls until enough is acknowledged.
    pub(super) async fn work(mut self) -> Result<()> {
        let group = Group { group_id: self.group, name: "kicked".to_owned(), ..Group::default() };
        make_group(&self.desk.nodes, group, Vec::new()).await?;
        while !self.desk.is_over() {
            let at = self.random.random_range(0..self.seats.len());
            self.sent += 1;
            let comes = self.seats[at].known.value.map_or_else(|| self.random.random(), |is_in| !is_in);
            let named = self.random.random_ratio(1, self.desk.named_every);
            let request_id = if named { format!("{}-{}", self.group, self.sent) } else { String::new() };
            if !self.write(at, 0, comes, &request_id).await? && named {
                // As a caller that is not answered: the same again, on the other node.
                self.write(at, 1, comes, &request_id).await?;
            }
        }
        Ok(())
    }

    /// Writes on that node, and asks the other one. Returns whether the write was acknowledged.
    async fn write(&mut self, at: usize, node: usize, comes: bool, request_id: &str) -> Result<bool> {
        match self.send(at, node, comes, request_id).await {
            Ok(()) => {
                self.seats[at].known.value = Some(comes);
                self.desk.progress.add(1);
                self.ask(1 - node).await;
                Ok(true)
            }
            Err(status) => {
                self.seats[at].known.forget();
                self.desk.tally.lock().fail_write(&failed(&status, false).0);
                sleep(PAUSE).await;
                Ok(false)
            }
        }
    }

    async fn send(&self, at: usize, node: usize, comes: bool, request_id: &str) -> Result<(), Status> {
        let mut client = MemberServiceClient::new(self.desk.nodes[node].clone());
        let (group_id, user_ids) = (self.group, vec![self.seats[at].user]);
        let request_id = request_id.to_owned();
        if comes {
            let asked = AddMembersRequest { group_id, user_ids, request_id };
            client.add_members(within(asked)).await.map(drop)
        } else {
            let asked = RemoveMembersRequest { group_id, user_ids, request_id, ..Default::default() };
            client.remove_members(within(asked)).await.map(drop)
        }
    }

    /// Of whom the last write is not acknowledged nothing is judged.
    async fn ask(&self, node: usize) {
        let told = match self.told(node, None).await {
            Ok(told) => told,
            Err(status) => {
                self.desk.tally.lock().fail(&failed(&status, true).0);
                return sleep(PAUSE).await;
            }
        };
        for (at, told) in told.into_iter().enumerate() {
            match (told, self.seats[at].known.value) {
                (Ok(told), Some(known)) => self.judge(at, node, told, known).await,
                (Ok(_), None) => {}
                (Err(code), _) => self.desk.tally.lock().fail(&code),
            }
        }
    }

    /// What looks old may be by a write of unknown outcome that came after: that is what the store has.
    async fn judge(&self, at: usize, node: usize, told: bool, known: bool) {
        let seat = self.seats[at];
        let decided = if told == known {
            Decided::New
        } else if seat.known.is_open() && self.stored(at).await == Some(told) {
            Decided::Later
        } else {
            Decided::Old
        };
        self.desk.tally.lock().decide(decided, || {
            let (group, user) = (self.group, seat.user);
            format!("group {group}, user {user}: node {node} tells {told} after {known} was acknowledged")
        });
    }

    /// Whether the user of a seat is in by the store; `None`: it cannot be asked.
    async fn stored(&self, at: usize) -> Option<bool> {
        for node in (0..self.desk.nodes.len()).cycle().take(TRIES) {
            let strong = Consistency { level: Some(Level::Strong(true)) };
            match self.told(node, Some(strong)).await.map(|told| told.into_iter().nth(at)) {
                Ok(Some(Ok(told))) => return Some(told),
                _ => sleep(PAUSE).await,
            }
        }
        None
    }

    async fn told(&self, node: usize, consistency: Option<Consistency>) -> Result<SeatAnswers, Status> {
        let user_ids = self.seats.iter().map(|seat| seat.user).collect();
        let asked = BatchIsMemberRequest { group_id: self.group, user_ids, consistency };
        let mut client = MemberServiceClient::new(self.desk.nodes[node].clone());
        let said = client.batch_is_member(within(asked)).await?.into_inner();
        said.results.into_iter().map(|found| is_in(found.result)).collect()
    }
}

fn is_in(result: Option<member_result::Result>) -> Result<Result<bool, String>, Status> {
    match result {
        Some(member_result::Result::Role(role)) => Ok(Ok(role != i32::from(Role::Unspecified))),
        Some(member_result::Result::Error(error)) => Ok(Err(name_of(Code::from(error.code)))),
        None => Err(Status::internal("an answer without what was asked for")),
    }
}
