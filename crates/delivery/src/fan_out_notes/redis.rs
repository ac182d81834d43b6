//! Notes in Redis, in sorted sets by time. They have no expiry, so that no policy evicts them, and are shared
//! by all epochs: the node that left a note may have died with its epoch.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
};
use kith_store::{DueNote, FanOutNote};

use super::FanOutNotes;
use crate::{
    EpochSource,
    redis::{
        arguments::{milliseconds, number as argument},
        fenced::FencedRunner,
        names::number_of,
        values::{MALFORMED, list, number, text},
    },
};

/// The parts of the conversations; each has a key.
const PARTS: usize = 16;

/// Notes in Redis. Only answers from the followed epoch's server count.
pub struct RedisFanOutNotes {
    runner: FencedRunner,
    tag: String,
    begin: RedisScript,
    end: RedisScript,
    due: RedisScript,
}

impl RedisFanOutNotes {
    /// Creates it over a runner's connections, which others may use too.
    #[must_use]
    pub fn over(runner: Arc<ScriptRunner>, epochs: Arc<dyn EpochSource>) -> Self {
        let tag = runner.tag();
        Self {
            runner: FencedRunner::over(runner, epochs),
            tag,
            begin: RedisScript::new(include_str!("lua/begin.lua")),
            end: RedisScript::new(include_str!("lua/end.lua")),
            due: RedisScript::new(include_str!("lua/due.lua")),
        }
    }

    fn key(&self, part: u64) -> String {
        format!("{{{}:fan:{part}}}", self.tag)
    }

    /// Runs a script for all these notes: once on a single server, else once for each part.
    fn calls<'a>(&self, script: &'a RedisScript, notes: &[FanOutNote]) -> Vec<ScriptCall<'a>> {
        let mut parts: BTreeMap<u64, Vec<Bytes>> = BTreeMap::new();
        for note in notes {
            parts.entry(number_of(note.conversation) % PARTS as u64).or_default().push(text_of(note));
        }
        let parts: Vec<_> = parts.into_iter().collect();
        let call = |parts: &[(u64, Vec<Bytes>)]| {
            let keys = parts.iter().map(|(part, _)| self.key(*part)).collect();
            let with_count = |notes: &Vec<Bytes>| [&[argument(notes.len())], &notes[..]].concat();
            ScriptCall::new(script, keys, parts.iter().flat_map(|(_, notes)| with_count(notes)))
        };
        parts.chunks(self.parts_a_run()).map(call).collect()
    }

    fn parts_a_run(&self) -> usize {
        if self.runner.has_slots() { 1 } else { PARTS }
    }

    async fn run(&self, calls: &[ScriptCall<'_>]) -> Result<Vec<Reply>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        self.runner.run(&epoch, calls).await.into_iter().collect()
    }
}

#[async_trait]
impl FanOutNotes for RedisFanOutNotes {
    async fn begin(&self, notes: &[FanOutNote]) -> Result<(), SharedError> {
        self.run(&self.calls(&self.begin, notes)).await.map(drop)
    }

    async fn end(&self, notes: &[FanOutNote]) -> Result<(), SharedError> {
        self.run(&self.calls(&self.end, notes)).await.map(drop)
    }

    async fn due(&self, age: Duration, most: usize) -> Result<Vec<DueNote>, SharedError> {
        let keys: Vec<String> = (0..).take(PARTS).map(|part| self.key(part)).collect();
        let arguments = || [milliseconds(age), argument(most)];
        let runs = keys.chunks(self.parts_a_run());
        let calls: Vec<_> = runs.map(|keys| ScriptCall::new(&self.due, keys.to_vec(), arguments())).collect();
        let mut due = Vec::new();
        for reply in self.run(&calls).await? {
            due.extend(read(reply)?);
        }
        Ok(due)
    }
}

impl fmt::Debug for RedisFanOutNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFanOutNotes").field("tag", &self.tag).finish_non_exhaustive()
    }
}

fn text_of(FanOutNote { conversation, node, step }: &FanOutNote) -> Bytes {
    format!("{conversation} {node} {step}").into()
}

fn read(reply: Reply) -> Result<Vec<DueNote>, SharedError> {
    let mut values = list(reply)?.into_iter();
    let mut due = Vec::with_capacity(values.len() / 2);
    while let Some(value) = values.next() {
        let age = number(&values.next().ok_or(MALFORMED)?)?;
        let age = Duration::from_millis(u64::try_from(age).unwrap_or_default());
        // A later program version's notes are left to it.
        due.extend(note_of(&text(value)?).map(|note| DueNote { note, age }));
    }
    Ok(due)
}

fn note_of(text: &[u8]) -> Option<FanOutNote> {
    let mut parts = std::str::from_utf8(text).ok()?.split(' ');
    let conversation = parts.next()?.parse().ok()?;
    let (node, step) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(FanOutNote { conversation, node, step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_comes_back_from_its_text() {
        let note = FanOutNote {
            conversation: "d7-8".parse().unwrap(),
            node: "node-1".parse().unwrap(),
            step: u64::MAX,
        };
        assert_eq!(note_of(&text_of(&note)), Some(note));
        for wrong in ["", "d7-8", "d7-8 a", "x a 1", "d7-8 a x", "d7-8 a 1 2"] {
            assert_eq!(note_of(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
