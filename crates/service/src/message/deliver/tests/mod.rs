//! Deliveries over inboxes in memory that fail or hang when a test says so; time is virtual.

mod abandoned;
mod announced;
mod resumed;
mod two_stages;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use kith_cache::remote::SharedError;
use kith_delivery::{Entry, FanOutNotes, InboxKeeper as _, OpenedInbox, ReadFrom, ReadOutcome, WakeEvent};
use kith_store::{
    Appended, DueNote, FanOutNote, FanOutNoteStore, GroupId, NewMessage, NodeName, Roster, StoreError,
    Version,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    super::{
        faulty_inboxes::{FaultyInboxes, InboxFault},
        logs::LogAdditions,
        sample::{group, message, stored},
    },
    recipients::GroupMembers,
    *,
};
use crate::sample::{self, user};

#[derive(Debug, Default)]
struct FakeMembers {
    roster: Mutex<Roster>,
    users: Mutex<Vec<UserId>>,
    reads: AtomicUsize,
}

impl FakeMembers {
    fn change(&self, version: i64, count: u32, users: &[i64]) {
        let version = Version::new(version).unwrap();
        *self.roster.lock() = Roster { version, count, ..Roster::default() };
        *self.users.lock() = sample::users(users);
    }
}

#[async_trait]
impl GroupMembers for FakeMembers {
    async fn roster(&self, _group: GroupId) -> Result<Roster, Error> {
        Ok(*self.roster.lock())
    }

    async fn members(&self, _group: GroupId, _most: usize) -> Result<Vec<UserId>, Error> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self.users.lock().clone())
    }

    async fn members_among(&self, _group: GroupId, users: Vec<UserId>) -> Result<Vec<UserId>, Error> {
        let members = self.users.lock();
        Ok(users.into_iter().filter(|user| members.contains(user)).collect())
    }
}

/// Notes that all have the age that a test gives.
#[derive(Debug, Default)]
struct FakeNotes {
    notes: Mutex<HashSet<FanOutNote>>,
    age: Mutex<Duration>,
    is_away: AtomicBool,
    /// Calls that removed notes.
    ends: AtomicUsize,
}

#[async_trait]
impl FanOutNotes for FakeNotes {
    async fn begin(&self, notes: &[FanOutNote]) -> Result<(), SharedError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(SharedError::Unavailable);
        }
        self.notes.lock().extend(notes.iter().cloned());
        Ok(())
    }

    async fn end(&self, notes: &[FanOutNote]) -> Result<(), SharedError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(SharedError::Unavailable);
        }
        self.ends.fetch_add(1, Ordering::Relaxed);
        self.notes.lock().retain(|note| !notes.contains(note));
        Ok(())
    }

    async fn due(&self, age: Duration, _most: usize) -> Result<Vec<DueNote>, SharedError> {
        let aged = *self.age.lock();
        let all: Vec<FanOutNote> = self.notes.lock().iter().cloned().collect();
        let due = all.into_iter().map(|note| DueNote { note, age: aged });
        Ok(due.filter(|due| due.age >= age).collect())
    }
}

#[async_trait]
impl FanOutNoteStore for FakeNotes {
    async fn keep_fan_out_note(&self, note: &FanOutNote) -> Result<(), StoreError> {
        self.notes.lock().insert(note.clone());
        Ok(())
    }

    async fn remove_fan_out_notes(&self, notes: &[FanOutNote]) -> Result<(), StoreError> {
        self.notes.lock().retain(|note| !notes.contains(note));
        Ok(())
    }

    async fn due_fan_out_notes(&self, age: Duration, most: usize) -> Result<Vec<DueNote>, StoreError> {
        Ok(self.due(age, most).await.unwrap_or_default())
    }
}

struct DeliveryFixture {
    keeper: Arc<FaultyInboxes>,
    members: Arc<FakeMembers>,
    notes: Arc<FakeNotes>,
    in_store: Arc<FakeNotes>,
    delivery: Delivery,
}

impl DeliveryFixture {
    /// Creates the fixture with a group that has users 1 and 2, who receive.
    async fn new() -> Self {
        Self::with(None).await
    }

    async fn with(offline: Option<OfflineLogs>) -> Self {
        let limits = InboxLimits::default();
        let keeper = Arc::new(FaultyInboxes::new());
        let (members, notes) = (Arc::<FakeMembers>::default(), Arc::<FakeNotes>::default());
        members.change(1, 2, &[1, 2]);
        let inboxes = Inboxes::new(Arc::<FaultyInboxes>::clone(&keeper), node());
        let recipients = Recipients::new(Arc::<FakeMembers>::clone(&members), 3);
        let in_store = Arc::<FakeNotes>::default();
        let step_notes =
            StepNotes::new(Arc::<FakeNotes>::clone(&notes), Arc::<FakeNotes>::clone(&in_store), node());
        let delivery = Delivery::new(inboxes, limits, recipients, Some(step_notes), offline);
        let this = Self { keeper, members, notes, in_store, delivery };
        for id in [1, 2, 3] {
            this.open(id).await;
        }
        this
    }

    async fn open(&self, id: i64) -> OpenedInbox {
        let opened = self.keeper.open(&node(), &[user(id)]).await.pop().unwrap().unwrap();
        self.keeper.mark(user(id), opened.generation, &[], true).await.unwrap();
        opened
    }

    /// The last number in each inbox entry.
    async fn entries(&self, id: i64) -> Vec<Seq> {
        let generation = self.open(id).await.generation;
        let from = ReadFrom { user: user(id), generation, after: 0 };
        let read = self.keeper.read(&[from], 100).await.pop().unwrap().unwrap();
        let ReadOutcome::Entries(entries) = read else { panic!("{read:?}") };
        let last = |(_, entry): (_, Entry)| match entry {
            Entry::Range { last, .. } => last,
            other => panic!("{other:?}"),
        };
        entries.into_iter().map(last).collect()
    }

    async fn append(&self, seq: Seq) {
        self.deliver(message(&seq.to_string(), 5), Appended::New(seq), None).await;
    }

    /// Delivers a message whose append had this result.
    async fn deliver(&self, message: NewMessage, appended: Appended, nodes: Option<Vec<NodeName>>) {
        let step = self.delivery.begin(group(9)).await;
        step.appended(&LogAdditions::of(&[message], &[appended]), ready(nodes)).await;
        self.remove_ended().await;
    }

    /// Does what the node does every second.
    async fn remove_ended(&self) {
        self.delivery.0.notes.as_ref().unwrap().remove_ended().await;
    }

    fn noted(&self) -> usize {
        self.notes.notes.lock().len()
    }

    fn pending(&self) -> Vec<(ConversationId, Seq)> {
        let all = self.delivery.0.pending.all();
        all.into_iter().map(|(conversation, due)| (conversation, due.last)).collect()
    }
}

/// A delivery without a recipient.
pub(in crate::message) fn delivery_to_nobody() -> Delivery {
    let inboxes = Inboxes::new(Arc::new(FaultyInboxes::new()), node());
    let recipients = Recipients::new(Arc::<FakeMembers>::default(), 3);
    Delivery::new(inboxes, InboxLimits::default(), recipients, None, None)
}

fn node() -> NodeName {
    "node".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn message_is_in_all_inboxes_before_the_answer() {
    let stage = DeliveryFixture::new().await;
    stage.append(1).await;
    assert_eq!((stage.entries(1).await, stage.entries(2).await), (vec![1], vec![1]));
    assert_eq!(stage.entries(3).await, [0; 0]);
    assert_eq!((stage.noted(), stage.pending()), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn failed_fan_out_is_retried_until_it_succeeds() {
    let stage = DeliveryFixture::new().await;
    *stage.keeper.fault.lock() = InboxFault::Away;
    stage.append(1).await;
    stage.append(2).await;
    assert_eq!((stage.pending(), stage.noted()), (vec![(group(9), 2)], 2));
    let retries = FanOutRetries::new(stage.delivery.clone());
    retries.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.entries(1).await, [0; 0]);
    *stage.keeper.fault.lock() = InboxFault::None;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.entries(1).await, [2]);
    retries.stop().await;
    assert_eq!((stage.pending(), stage.noted()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn node_that_stops_tries_once_more() {
    let stage = DeliveryFixture::new().await;
    *stage.keeper.fault.lock() = InboxFault::Away;
    stage.append(1).await;
    *stage.keeper.fault.lock() = InboxFault::None;
    FanOutRetries::new(stage.delivery.clone()).stop().await;
    assert_eq!((stage.entries(1).await, stage.pending()), (vec![1], vec![]));
}

#[tokio::test(start_paused = true)]
async fn notes_of_ended_steps_go_once_a_second() {
    let stage = DeliveryFixture::new().await;
    let retries = FanOutRetries::new(stage.delivery.clone());
    retries.start();
    let end_steps = async |count: usize| {
        for _ in 0..count {
            stage.delivery.begin(group(9)).await.end();
        }
    };
    end_steps(20).await;
    tokio::time::sleep(Duration::from_millis(990)).await;
    assert_eq!(stage.noted(), 20);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!((stage.noted(), stage.notes.ends.load(Ordering::Relaxed)), (0, 1), "all in one call");
    // While Redis is away they wait.
    end_steps(3).await;
    stage.notes.is_away.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.noted(), 3);
    stage.notes.is_away.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((stage.noted(), stage.notes.ends.load(Ordering::Relaxed)), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn node_that_stops_leaves_no_ended_note() {
    let stage = DeliveryFixture::new().await;
    let retries = FanOutRetries::new(stage.delivery.clone());
    retries.start();
    let (ended, running) = (stage.delivery.begin(group(9)).await, stage.delivery.begin(group(9)).await);
    ended.end();
    assert_eq!(stage.noted(), 2);
    retries.stop().await;
    assert_eq!(stage.noted(), 1, "the step that has not ended");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn hung_fan_out_delays_a_send_within_a_bound() {
    let stage = DeliveryFixture::new().await;
    *stage.keeper.fault.lock() = InboxFault::Hangs;
    let began = Instant::now();
    stage.append(1).await;
    assert_eq!(began.elapsed(), FAN_OUT_WAIT);
    assert_eq!(stage.pending(), [(group(9), 1)]);
}

#[tokio::test(start_paused = true)]
async fn later_fan_out_delivers_what_was_pending() {
    let stage = DeliveryFixture::new().await;
    *stage.keeper.fault.lock() = InboxFault::Away;
    stage.append(1).await;
    *stage.keeper.fault.lock() = InboxFault::None;
    stage.append(2).await;
    assert_eq!((stage.entries(1).await, stage.pending(), stage.noted()), (vec![2], vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn changed_roster_makes_members_read_again() {
    let stage = DeliveryFixture::new().await;
    stage.append(1).await;
    stage.append(2).await;
    assert_eq!(stage.members.reads.load(Ordering::Relaxed), 1);
    stage.members.change(2, 2, &[2, 3]);
    stage.append(3).await;
    assert_eq!(stage.members.reads.load(Ordering::Relaxed), 2);
    assert_eq!((stage.entries(1).await, stage.entries(3).await), (vec![1, 2], vec![3]));
}

#[tokio::test(start_paused = true)]
async fn large_group_wakes_the_nodes_that_read_it() {
    let stage = DeliveryFixture::new().await;
    stage.members.change(2, 4, &[1, 2, 3, 4]);
    stage.keeper.register(&node(), &[group(9)]).await.unwrap();
    let mut wakes = stage.keeper.subscribe(&node());
    assert_eq!(wakes.next().await, WakeEvent::Interrupted);
    stage.append(1).await;
    let WakeEvent::Wake(Wake::Conversation(sent)) = wakes.next().await else { panic!("a wake of the group") };
    assert_eq!((sent.conversation, sent.last, sent.entries.len()), (group(9), 1, 1));
    assert_eq!(stage.entries(1).await, [0; 0]);
}

/// The window's script has named them: they are not looked up.
#[tokio::test(start_paused = true)]
async fn large_group_wakes_the_nodes_of_its_window() {
    let stage = DeliveryFixture::new().await;
    stage.members.change(2, 4, &[1, 2, 3, 4]);
    let mut wakes = stage.keeper.subscribe(&node());
    assert_eq!(wakes.next().await, WakeEvent::Interrupted);
    stage.deliver(message("x", 5), Appended::New(1), Some(vec![node()])).await;
    assert!(matches!(wakes.next().await, WakeEvent::Wake(Wake::Conversation(_))));
}

#[tokio::test(start_paused = true)]
async fn nothing_appended_leaves_no_note() {
    let stage = DeliveryFixture::new().await;
    stage.deliver(message("x", 5), Appended::OtherContent, None).await;
    assert_eq!(stage.noted(), 0);
    assert_eq!(stage.entries(1).await, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn replay_is_delivered_again() {
    let stage = DeliveryFixture::new().await;
    stage.deliver(message("x", 5), Appended::Replayed { seq: 7, sent: Timestamp(7) }, None).await;
    assert_eq!(stage.entries(1).await, [7]);
}

#[tokio::test(start_paused = true)]
async fn missing_note_does_not_stop_a_send() {
    let stage = DeliveryFixture::new().await;
    stage.notes.is_away.store(true, Ordering::Relaxed);
    stage.append(1).await;
    assert_eq!(stage.entries(1).await, [1]);
}

#[test]
fn last_entries_that_have_room_are_carried() {
    let messages: Vec<Message> = (1..=5).map(|seq| stored(seq, 10)).collect();
    let all = entries(&messages, usize::MAX);
    assert_eq!(all.len(), 5);
    let room: usize = all[3..].iter().map(Bytes::len).sum();
    assert_eq!(entries(&messages, room), all[3..]);
    assert_eq!(entries(&messages, room - 1), all[4..]);
    assert!(entries(&messages, 1).is_empty());
}
