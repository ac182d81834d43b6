//! Generates message histories: a correct store, and clients that send, send again, read and mark in few
//! conversations.

use std::collections::{BTreeMap, HashMap};

use kith_lab::history::{
    DialogEnd, Draft, Event, LogCopy, LoggedMessage, MessageCall, MessageOutcome, MessageRequest, Pages,
    ReceivedMessages, ReceivedRun, SendOutcome,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    plan::{CallProfile, PlannedCall, PlannedOutcome},
    world::{CLIENTS, MS, NODES},
};

const PROFILE: CallProfile =
    CallProfile { calls: 250, lasts: 8 * MS, pause: 3 * MS, again: 0.9, writes: 0.5, lost: 6 };
const CONVERSATIONS: [&str; 3] = ["d1-2", "g1", "g2"];
/// Messages in a batch have distinct values.
const OF_A_BATCH: u64 = 10;
const PAGE: usize = 5;

/// About 2000 calls, which follow from the seed.
pub(crate) fn history(seed: u64) -> Vec<Event> {
    let mut messages = MessageWorld {
        random: StdRng::seed_from_u64(seed ^ 0x7A1C),
        logs: BTreeMap::new(),
        marks: BTreeMap::new(),
        asked: HashMap::new(),
    };
    let plans = PROFILE.all_plans(&mut messages.random);
    let mut events: Vec<Event> = plans.iter().map(|plan| Event::Message(messages.call(plan))).collect();
    events.extend(messages.dump());
    events
}

/// A log: each message with the time when it was stored.
type Log = Vec<(u64, LoggedMessage)>;

struct MessageWorld {
    random: StdRng,
    logs: BTreeMap<String, Log>,
    marks: BTreeMap<(i64, String), u64>,
    asked: HashMap<u64, MessageRequest>,
}

impl MessageWorld {
    fn call(&mut self, plan: &PlannedCall) -> MessageCall {
        let request = self.ask(plan);
        let outcome = match plan.outcome {
            PlannedOutcome::Refused => MessageOutcome::Refused("RESOURCE_EXHAUSTED".to_owned()),
            PlannedOutcome::Open(effect) => {
                if effect {
                    self.effect(plan, &request);
                }
                MessageOutcome::Open("UNAVAILABLE".to_owned())
            }
            PlannedOutcome::Answered => self.effect(plan, &request),
        };
        let &PlannedCall { client, node, began, ended, .. } = plan;
        MessageCall { client, node, began, ended, request, outcome }
    }

    fn ask(&mut self, plan: &PlannedCall) -> MessageRequest {
        let Some(id) = plan.request else { return self.read(plan) };
        if let Some(asked) = self.asked.get(&id) {
            return asked.clone();
        }
        let user = i64::from(plan.client) + 1;
        let asked = if self.random.random_bool(0.7) {
            let count = if self.random.random_bool(0.2) { 4 } else { 1 };
            let drafts = (0..count).map(|number| Draft {
                conversation: self.conversation(),
                sender: user,
                value: id * OF_A_BATCH + number,
                silent: self.random.random_bool(0.2),
            });
            MessageRequest::Send(drafts.collect())
        } else {
            let conversation = self.conversation();
            let up_to = self.random.random_range(0..=self.end(&conversation));
            MessageRequest::Mark { user, conversation, up_to }
        };
        self.asked.insert(id, asked.clone());
        asked
    }

    fn read(&mut self, plan: &PlannedCall) -> MessageRequest {
        let conversation = self.conversation();
        let end = self.end(&conversation);
        let mut seq = || self.random.random_range(0..=end);
        let pages = match seq() % 3 {
            0 => Pages::From(seq()),
            1 => Pages::Before(seq()),
            _ => Pages::These((0..3).map(|_| seq() + 1).filter(|seq| *seq <= end).collect()),
        };
        let known = self.log(&conversation).iter().filter(|(at, _)| *at < plan.began).count();
        let at_least = if self.random.random_bool(0.3) { number(known) } else { 0 };
        MessageRequest::Read { user: i64::from(plan.client) + 1, conversation, pages, at_least }
    }

    fn effect(&mut self, plan: &PlannedCall, request: &MessageRequest) -> MessageOutcome {
        match request {
            MessageRequest::Send(drafts) => {
                let sent = drafts.iter().map(|draft| SendOutcome::At(self.append(plan.effect, draft)));
                MessageOutcome::Sent(sent.collect())
            }
            MessageRequest::Read { conversation, pages, at_least, .. } => {
                self.page(plan, conversation, pages, *at_least)
            }
            MessageRequest::Mark { user, conversation, up_to } => {
                MessageOutcome::Marked(self.mark(*user, conversation, *up_to))
            }
        }
    }

    /// A message that is there already is not stored again.
    fn append(&mut self, now: u64, draft: &Draft) -> u64 {
        let log = self.logs.entry(draft.conversation.clone()).or_default();
        let stored = log.iter().find(|(_, message)| message.value == Some(draft.value));
        let seq = stored.map_or(number(log.len()) + 1, |(_, message)| message.seq);
        if stored.is_none() {
            let (value, sender, silent) = (Some(draft.value), draft.sender, draft.silent);
            log.push((now, LoggedMessage { seq, value, sender, silent }));
        }
        self.mark(draft.sender, &draft.conversation, seq);
        seq
    }

    fn mark(&mut self, user: i64, conversation: &str, up_to: u64) -> u64 {
        let mark = self.marks.entry((user, conversation.to_owned())).or_default();
        *mark = up_to.max(*mark);
        *mark
    }

    /// A page from the log as it was a little while ago.
    fn page(
        &mut self,
        plan: &PlannedCall,
        conversation: &str,
        pages: &Pages,
        at_least: u64,
    ) -> MessageOutcome {
        let then = plan.known(&mut self.random);
        let log = self.log(conversation);
        let end = number(log.iter().filter(|(at, _)| *at <= then).count()).max(at_least);
        let mut messages: Vec<LoggedMessage> = log.iter().map(|(_, message)| *message).collect();
        messages.retain(|message| message.seq <= end);
        match pages {
            Pages::From(first) => messages.retain(|message| message.seq >= *first),
            Pages::Before(before) => {
                messages.retain(|message| *before == 0 || message.seq < *before);
                messages.reverse();
            }
            Pages::These(seqs) => messages.retain(|message| seqs.contains(&message.seq)),
        }
        let more = messages.len() > PAGE;
        messages.truncate(PAGE);
        let range = (!matches!(pages, Pages::These(_))).then_some((1, end));
        MessageOutcome::Read { messages, range, more }
    }

    fn dump(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for conversation in CONVERSATIONS {
            let messages: Vec<LoggedMessage> =
                self.log(conversation).iter().map(|(_, message)| *message).collect();
            for node in [None].into_iter().chain((0..NODES).map(Some)) {
                let (conversation, messages) = (conversation.to_owned(), messages.clone());
                events.push(Event::Log(LogCopy { conversation, node, messages }));
            }
            for user in 1..=i64::from(CLIENTS) {
                events.extend((0..NODES).map(|node| Event::Dialog(self.dialog(user, conversation, node))));
                events.push(Event::Received(self.received(user, conversation)));
            }
        }
        events
    }

    /// A stream that was open all the while.
    fn received(&self, user: i64, conversation: &str) -> ReceivedMessages {
        let mut run = ReceivedRun::before(1);
        self.log(conversation).iter().for_each(|(_, message)| run.add(message.value));
        ReceivedMessages {
            receiver: u32::try_from(user).unwrap(),
            user,
            conversation: conversation.to_owned(),
            runs: vec![run],
            missed: Vec::new(),
            wrong: Vec::new(),
        }
    }

    fn dialog(&self, user: i64, conversation: &str, node: u32) -> DialogEnd {
        let read_seq = self.marks.get(&(user, conversation.to_owned())).copied().unwrap_or_default();
        let (min, max) = (1, self.end(conversation));
        let unread = |window: u64| {
            let counts = self.log(conversation).iter().map(|(_, message)| message);
            let counts = counts.filter(|message| message.seq > read_seq && message.seq + window > max);
            let counts = counts.filter(|message| message.sender != user && !message.silent);
            (number(counts.count()), read_seq + window < max)
        };
        let (unread, counted) = (unread(100), unread(1_000));
        DialogEnd { user, conversation: conversation.to_owned(), node, read_seq, min, max, unread, counted }
    }

    fn conversation(&mut self) -> String {
        CONVERSATIONS[self.random.random_range(0..CONVERSATIONS.len())].to_owned()
    }

    fn log(&self, conversation: &str) -> &[(u64, LoggedMessage)] {
        self.logs.get(conversation).map_or(&[], Vec::as_slice)
    }

    fn end(&self, conversation: &str) -> u64 {
        number(self.log(conversation).len())
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap()
}
