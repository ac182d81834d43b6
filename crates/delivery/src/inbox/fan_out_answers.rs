//! A fan-out's answers, put together for each node.

use std::collections::BTreeMap;

use kith_cache::remote::SharedError;
#[cfg(feature = "redis")]
use kith_cache::remote::redis::Reply;
use kith_store::{NodeName, UserId};

#[cfg(feature = "redis")]
use super::Generation;
use super::{FanOutResult, NodeWake, SentMessages, Wake, WokenUser};
#[cfg(feature = "redis")]
use crate::redis::values::{MALFORMED, ReplyResult, list, nodes_at, number, parsed, size, unsigned};

/// How the recipients' inboxes answer a fan-out, by node.
#[derive(Debug, Default)]
pub(super) struct FanOutAnswers {
    nodes: BTreeMap<NodeName, (Vec<WokenUser>, Vec<UserId>)>,
    without_receiver: Vec<UserId>,
    failed: Option<SharedError>,
    entries: u64,
    #[cfg(feature = "redis")]
    ended: u64,
}

impl FanOutAnswers {
    /// A user's inbox has the entry. `nodes` have receivers for the user.
    pub(super) fn entered(&mut self, nodes: Vec<NodeName>, woken: WokenUser) {
        self.entries += 1;
        self.unchanged(woken.user, !nodes.is_empty());
        for node in nodes {
            self.nodes.entry(node).or_default().0.push(woken);
        }
    }

    /// A user's inbox has ended.
    #[cfg(feature = "redis")]
    fn lost(&mut self, nodes: Vec<NodeName>, user: UserId) {
        self.ended += 1;
        self.unchanged(user, !nodes.is_empty());
        for node in nodes {
            self.nodes.entry(node).or_default().1.push(user);
        }
    }

    /// A user's inbox is unchanged, or the user has none.
    pub(super) fn unchanged(&mut self, user: UserId, has_receiver: bool) {
        if !has_receiver {
            self.without_receiver.push(user);
        }
    }

    /// Some inboxes did not answer.
    #[cfg(feature = "redis")]
    pub(super) fn failed(&mut self, why: SharedError) {
        self.failed.get_or_insert(why);
    }

    /// Entries that were written.
    pub(super) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Inboxes that have ended.
    #[cfg(feature = "redis")]
    pub(super) const fn ended(&self) -> u64 {
        self.ended
    }

    /// Makes the result, with one wake for each node.
    pub(super) fn into_result(self, sent: &SentMessages) -> FanOutResult {
        let wake = |(node, (woken, lost))| NodeWake {
            node,
            wake: Wake::Messages { sent: sent.clone(), woken, lost },
        };
        FanOutResult {
            wakes: self.nodes.into_iter().map(wake).collect(),
            without_receiver: self.without_receiver,
            failed: self.failed,
        }
    }
}

#[cfg(feature = "redis")]
impl FanOutAnswers {
    /// Reads how one run of the script answers for these users. Returns how many of them it has handled, from
    /// the first and at least one, and how many of the others have an inbox.
    ///
    /// # Errors
    /// The answer has an invalid form. What was read before counts.
    pub(super) fn read(&mut self, reply: Reply, epoch: u64, users: &[UserId]) -> ReplyResult<(usize, usize)> {
        let mut values = list(reply)?.into_iter();
        let mut next = || values.next().ok_or(MALFORMED);
        let (now, handled, left) = (number(&next()?)?, size(&next()?)?, size(&next()?)?);
        if !(1..=users.len()).contains(&handled) || (handled < users.len() && left == 0) {
            return Err(MALFORMED);
        }
        let mut first = 0;
        while let Some(index) = values.next() {
            let index = size(&index)?.checked_sub(1).filter(|index| (first..handled).contains(index));
            let (index, answer) = (index.ok_or(MALFORMED)?, values.next().ok_or(MALFORMED)?);
            users[first..index].iter().for_each(|user| self.unchanged(*user, false));
            self.read_inbox(answer, now, epoch, users[index])?;
            first = index + 1;
        }
        users[first..handled].iter().for_each(|user| self.unchanged(*user, false));
        Ok((handled, left))
    }

    /// Reads how a user's inbox answers.
    fn read_inbox(&mut self, answer: Reply, now: i64, epoch: u64, user: UserId) -> ReplyResult<()> {
        if let Reply::Text(_) = answer {
            self.unchanged(user, !nodes_at(&answer, now)?.is_empty());
            return Ok(());
        }
        match &list(answer)?[..] {
            [nodes] => self.lost(nodes_at(nodes, now)?, user),
            [nodes, generation, position, first] => {
                let generation = Generation { epoch, number: parsed(generation)? };
                let (position, first) = (unsigned(number(position)?)?, number(first)?);
                let first = (first > 0).then_some(first);
                self.entered(nodes_at(nodes, now)?, WokenUser { user, generation, position, first });
            }
            _ => return Err(MALFORMED),
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "redis")]
mod tests {
    use bytes::Bytes;

    use super::*;

    const EPOCH: u64 = 5;
    const NOW: Reply = Reply::Number(1_000);

    fn word(text: &'static str) -> Reply {
        Reply::Text(Bytes::from_static(text.as_bytes()))
    }

    fn users(count: i64) -> Vec<UserId> {
        (1..=count).map(|id| UserId::try_from(id).unwrap()).collect()
    }

    /// Reads an answer for this many users.
    fn read(values: &[Reply], count: i64) -> ReplyResult<((usize, usize), FanOutAnswers)> {
        let mut all = FanOutAnswers::default();
        let answer = Reply::List([&[NOW], values].concat());
        all.read(answer, EPOCH, &users(count)).map(|handled| (handled, all))
    }

    #[test]
    fn fan_out_is_read() {
        let (number, of) = (Reply::Number, |values: &[Reply]| Reply::List(values.to_vec()));
        let entered = of(&[word("1001 a 999 b 2000 c"), word("77"), number(3), number(57)]);
        let new = of(&[word(""), word("77"), number(1), number(0)]);
        let inboxes = [number(2), word("1001 a"), number(3), entered, number(5), new];
        let answers = [&[number(6), number(2)], &inboxes[..], &[number(6), of(&[word("1001 a")])]].concat();
        let (handled, all) = read(&answers, 9).unwrap();
        assert_eq!((handled, all.entries(), all.ended()), ((6, 2), 2, 1));
        let [first, _, third, fourth, fifth, sixth] = users(6).try_into().unwrap();
        let generation = Generation { epoch: EPOCH, number: 77 };
        let woken = WokenUser { user: third, generation, position: 3, first: Some(57) };
        assert_eq!(all.without_receiver, [first, fourth, fifth]);
        let node = |name: &str| name.parse().unwrap();
        let nodes = [(node("a"), (vec![woken], vec![sixth])), (node("c"), (vec![woken], Vec::new()))];
        assert_eq!(all.nodes, BTreeMap::from(nodes));
        assert_eq!(read(&answers, 5).unwrap_err(), MALFORMED, "of another user");
        for wrong in [word("x a"), word("1001"), of(&[]), number(1), Reply::Nothing] {
            let read = read(&[number(1), number(0), number(1), wrong.clone()], 1);
            assert_eq!(read.unwrap_err(), MALFORMED, "{wrong:?}");
        }
    }

    #[test]
    fn fan_out_answers_for_users_in_order() {
        let read = |values: &[Reply], count| read(values, count).map(|(handled, all)| (handled, all.entries));
        let numbers = |numbers: [i64; 2], count| read(&numbers.map(Reply::Number), count);
        assert_eq!(numbers([3, 0], 3), Ok(((3, 0), 0)));
        assert_eq!(numbers([3, 0], 4), Err(MALFORMED), "the fourth user is left out");
        assert_eq!(numbers([0, 1], 3), Err(MALFORMED), "it would go on for ever");
        let answers = |first, second| {
            let [first, second] = [first, second].map(Reply::Number);
            read(&[Reply::Number(3), Reply::Number(0), first, word(""), second, word("")], 3)
        };
        assert_eq!(answers(1, 3), Ok(((3, 0), 0)));
        for (first, second) in [(0, 1), (2, 2), (2, 1), (3, 4)] {
            assert_eq!(answers(first, second), Err(MALFORMED), "{first}, {second}");
        }
    }
}
