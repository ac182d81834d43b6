//! Frames on their way to a node: late, lost, repeated, reordered, or forged.

use std::collections::VecDeque;

use async_trait::async_trait;
use kith_cache::remote::{Frame, Frames, News};
use tokio::sync::watch;

use crate::{
    faults::Fault,
    wire::{Link, Wire},
};

/// How many of the last frames can come again.
const REMEMBERED: usize = 8;

/// A subscription over a wire.
#[derive(Debug)]
pub(crate) struct Subscription {
    wire: Wire,
    frames: Box<dyn Frames>,
    cuts: watch::Receiver<u64>,
    /// Frames that are received before the server's next frame.
    ahead: VecDeque<News>,
    /// A frame that was overtaken.
    overtaken: Option<News>,
    received: VecDeque<Frame>,
}

impl Subscription {
    pub(crate) fn new(wire: &Wire, frames: Box<dyn Frames>, cuts: watch::Receiver<u64>) -> Self {
        let (ahead, received) = (VecDeque::new(), VecDeque::new());
        Self { wire: wire.clone(), frames, cuts, ahead, overtaken: None, received }
    }

    /// Adds what is received because this message arrived.
    fn arrive(&mut self, news: News) {
        let chance = self.wire.client.chance.clone();
        if let News::Entry(bytes) = &news {
            if self.wire.link() == Link::Frozen || self.wire.loses_entry() {
                return;
            }
            self.remember(bytes);
        }
        if self.wire.client.faults.has(Fault::Forged) && chance.one_in(10) {
            self.ahead.push_back(News::Entry(self.forged()));
        }
        if self.wire.client.faults.has(Fault::Jumbled) && chance.one_in(8) && self.overtaken.is_none() {
            self.overtaken = Some(news);
            return;
        }
        if self.wire.client.faults.has(Fault::Jumbled) && chance.one_in(8) {
            self.ahead.push_back(news.clone());
        }
        self.ahead.push_back(news);
        self.ahead.extend(self.overtaken.take());
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.received.extend(Frame::from_bytes(bytes));
        if self.received.len() > REMEMBERED {
            self.received.pop_front();
        }
    }

    /// Bytes that no node sent like this: another message under a known name, the right message under another
    /// number, a message from long ago, noise.
    fn forged(&self) -> Vec<u8> {
        let chance = &self.wire.client.chance;
        let Some(frame) = self.received.back().cloned() else { return vec![0; 40] };
        let forged = match chance.below(5) {
            0 => Frame {
                number: frame.number + 1,
                nonce: chance.below(u64::MAX),
                before: frame.nonce,
                ..frame
            },
            1 => Frame { message: vec![7; 40], ..frame },
            2 => Frame { number: frame.number.saturating_sub(chance.below(4)), ..frame },
            3 => self.received.front().cloned().unwrap_or(frame),
            _ => return frame.to_bytes().split_off(usize::try_from(chance.below(30)).unwrap()),
        };
        forged.to_bytes()
    }
}

#[async_trait]
impl Frames for Subscription {
    async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.ahead.pop_front() {
                return Some(news);
            }
            let news = tokio::select! {
                biased;
                _cut = self.cuts.changed() => return None,
                news = self.frames.next() => news?,
            };
            self.wire.stalled().await;
            self.arrive(news);
        }
    }
}
