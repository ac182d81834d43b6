//! Users react to messages and take reactions back, while messages are recalled, messages of a user are
//! erased, nodes are killed and stores stand still. Afterwards each node counts what is in the store, and no
//! reaction is left of a message without content.

mod ender;
mod judge;
mod reactor;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, bail};
use kith_proto::group::v1::Group;
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use self::{
    ender::{recall_messages, until_erased},
    judge::judge,
    reactor::Reactor,
};
use super::{Sizes, progress::disturb, site_fault::fail_stores, workload::Workload};
use crate::{
    faults::{Figure, Plan, Site, answered::make_group, messages::PreparedCall},
    history::{Draft, MessageOutcome, MessageRequest, SendOutcome},
};

const NODES: u32 = 3;
const GROUPS: i64 = 8;
/// Members in a group. All react, and the first one's messages are erased.
const MEMBERS: i64 = 8;
/// Messages in each group: more than two documents.
const MESSAGES: u64 = 240;
/// Messages in one call.
const BATCH: usize = 60;
/// There is one change of a reaction for this many writes in other rows.
const FEWER: u64 = 10;
/// Reads agree with the store this long after the last write.
const AGREES_WITHIN: Duration = Duration::from_secs(11);
const LOOK: Duration = Duration::from_millis(200);

/// A reaction is refused though its message has its content.
const REFUSED: &str = "reactions refused";

/// A reaction, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReactionRow {
    conversation: String,
    seq: i64,
    user: i64,
    kind: String,
}

/// A group with its messages.
#[derive(Clone, Debug)]
struct ReactedGroup {
    conversation: String,
    users: Vec<i64>,
    /// By rising number.
    messages: Vec<SentMessage>,
    /// The numbers of messages whose end was asked for, or is about to be.
    ending: Arc<Mutex<HashSet<i64>>>,
}

/// A message, whose number all nodes know.
#[derive(Clone, Copy, Debug)]
struct SentMessage {
    seq: i64,
    sender: i64,
}

/// Figures: reactions that were lost, left over, or counted wrongly.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, GROUPS * MEMBERS).await?;
    let goal = sizes.writes.div_ceil(FEWER);
    let state = Workload::new(site.channels(), plan.seed, "reactions are changed", goal);
    let mut groups = Vec::new();
    for number in 1..=GROUPS {
        groups.push(ReactedGroup::create(&state, number).await?);
    }
    let reacting = begin(&state, &groups);
    let faults = fail_stores(&mut site, &state.progress);
    let (mut figures, expected, took) = disturb(&state.progress, reacting, faults).await?;
    for group in &groups {
        until_erased(&state, group).await?;
    }
    let expected: BTreeSet<ReactionRow> = expected.into_iter().flatten().collect();
    figures.extend(judged(&site, &state, &groups, &expected).await?);
    figures.push(Figure::took(took));
    Ok(figures)
}

/// Each member reacts, and messages of each group are recalled. The tasks return the reactions that must be
/// there if their messages are.
fn begin(state: &Arc<Workload>, groups: &[ReactedGroup]) -> JoinSet<Result<BTreeSet<ReactionRow>>> {
    let mut tasks = JoinSet::new();
    for group in groups {
        for user in group.users.iter().copied() {
            tasks.spawn(Reactor::new(state, group, user).work());
        }
        tasks.spawn(recall_messages(Arc::clone(state), group.clone()));
    }
    tasks
}

/// Compares until all agree, or the time is over. Differences count when nothing is left to wait for.
async fn judged(
    site: &Site,
    state: &Workload,
    groups: &[ReactedGroup],
    expected: &BTreeSet<ReactionRow>,
) -> Result<Vec<Figure>> {
    let began = Instant::now();
    let found = loop {
        let found = judge(site, state, groups, expected).await?;
        if found.agrees() || began.elapsed() > AGREES_WITHIN {
            break found;
        }
        sleep(LOOK).await;
    };
    let mut figures =
        vec![state.done("changes"), Figure::within("agreement after", began.elapsed(), AGREES_WITHIN)];
    figures.extend(found.figures());
    figures.extend(state.violations([REFUSED]));
    figures.extend(state.failures());
    Ok(figures)
}

impl ReactedGroup {
    /// Makes the group with this number. Its members send messages in turn.
    async fn create(state: &Workload, number: i64) -> Result<Self> {
        let users: Vec<i64> = ((number - 1) * MEMBERS + 1..=number * MEMBERS).collect();
        let creator_id = users[0];
        let group = Group { group_id: number, name: "reacting".to_owned(), creator_id, ..Group::default() };
        make_group(&state.nodes, group, users[1..].to_vec()).await?;
        let conversation = format!("g{number}");
        let draft = |(value, sender): (u64, &i64)| Draft {
            conversation: conversation.clone(),
            sender: *sender,
            value,
            silent: false,
        };
        let drafts: Vec<Draft> = (1..=MESSAGES).zip(users.iter().cycle()).map(draft).collect();
        let mut messages = Vec::new();
        for drafts in drafts.chunks(BATCH) {
            let request = MessageRequest::Send(drafts.to_vec());
            let sent = PreparedCall { request, named: true }.send(state.nodes[0].clone()).await;
            let MessageOutcome::Sent(results) = sent else { bail!("messages are not sent: {sent:?}") };
            for (draft, result) in drafts.iter().zip(results) {
                let SendOutcome::At(seq) = result else { bail!("a message is not sent: {result:?}") };
                messages.push(SentMessage { seq: seq.cast_signed(), sender: draft.sender });
            }
        }
        Ok(Self { conversation, users, messages, ending: Arc::default() })
    }

    /// The member whose messages are erased.
    fn erased_user(&self) -> i64 {
        self.users[0]
    }
}
