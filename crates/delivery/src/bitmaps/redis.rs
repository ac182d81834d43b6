//! Reader bitmaps in Redis, changed only by scripts. A fill is refused if a bitmap in its section was
//! invalidated after the fill began, or if the fill took too long.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply, ScriptCall, ScriptRunner},
};
use kith_store::{ReaderOrdinal, Slot};

use super::{BitmapFill, FillTicket, ReaderBitmaps, ReaderSection, SectionBits};
use crate::{
    EpochSource,
    redis::{
        arguments::{milliseconds, number},
        fenced::FencedRunner,
        values::{self, MALFORMED, list},
    },
};

/// How many bitmaps a call has.
const AT_ONCE: usize = 100;
/// How long an incomplete bitmap keeps marks.
const INCOMPLETE_KEPT: Duration = Duration::from_secs(30);
/// How long a fill may run. Shorter than incomplete bitmaps are kept: a mark that its scan missed is still
/// there.
const FILL_MAX: Duration = Duration::from_secs(20);
/// How long a generation is kept: longer than a fill may run.
const GENERATION_KEPT: Duration = Duration::from_secs(60);

/// Bitmaps in Redis, in the epoch that the node follows: other epochs have other keys. Only answers of that
/// epoch's server count.
pub struct RedisBitmaps {
    runner: FencedRunner,
    tag: String,
    mark: RedisScript,
    invalidate: RedisScript,
    count: RedisScript,
    begin: RedisScript,
    fill: RedisScript,
}

impl RedisBitmaps {
    /// Creates it over a runner's connections, which others may use too.
    #[must_use]
    pub fn over(runner: Arc<ScriptRunner>, epochs: Arc<dyn EpochSource>) -> Self {
        let tag = runner.tag();
        Self {
            runner: FencedRunner::over(runner, epochs),
            tag,
            mark: RedisScript::new(include_str!("lua/mark.lua")),
            invalidate: RedisScript::new(include_str!("lua/invalidate.lua")),
            count: RedisScript::new(include_str!("lua/count.lua")),
            begin: RedisScript::new(include_str!("lua/begin.lua")),
            fill: RedisScript::new(include_str!("lua/fill.lua")),
        }
    }

    /// Creates it with scripts that `edit` has changed.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_scripts(self, edit: impl Fn(&'static str) -> &'static str) -> Self {
        Self {
            mark: RedisScript::new(edit(include_str!("lua/mark.lua"))),
            invalidate: RedisScript::new(edit(include_str!("lua/invalidate.lua"))),
            count: RedisScript::new(edit(include_str!("lua/count.lua"))),
            begin: RedisScript::new(edit(include_str!("lua/begin.lua"))),
            fill: RedisScript::new(edit(include_str!("lua/fill.lua"))),
            ..self
        }
    }

    /// All keys in a section have one hash tag: they are in one cluster slot.
    fn key(&self, section: ReaderSection, epoch: u64, part: &str) -> String {
        format!("{{{}:notice:{}:{}}}:{epoch}:{part}", self.tag, section.audience, section.number)
    }

    fn bitmaps(&self, section: ReaderSection, epoch: u64, slots: &[Slot]) -> Vec<String> {
        slots.iter().map(|slot| self.key(section, epoch, &format!("of:{slot}"))).collect()
    }

    fn generation(&self, section: ReaderSection, epoch: u64) -> String {
        self.key(section, epoch, "gen")
    }
}

#[async_trait]
impl ReaderBitmaps for RedisBitmaps {
    async fn mark(
        &self,
        reader: ReaderOrdinal,
        section: ReaderSection,
        slots: &[Slot],
    ) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let call = |slots: &[Slot]| {
            let keys = self.bitmaps(section, epoch.number, slots);
            let arguments = [number(ReaderSection::bit(reader)), milliseconds(INCOMPLETE_KEPT)];
            ScriptCall::new(&self.mark, keys, arguments)
        };
        let calls: Vec<_> = slots.chunks(AT_ONCE).map(call).collect();
        self.runner.run(&epoch, &calls).await.into_iter().try_for_each(|reply| reply.map(drop))
    }

    async fn invalidate(&self, section: ReaderSection, slots: &[Slot]) -> Result<(), SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let call = |slots: &[Slot]| {
            let mut keys = vec![self.generation(section, epoch.number)];
            keys.extend(self.bitmaps(section, epoch.number, slots));
            ScriptCall::new(&self.invalidate, keys, [milliseconds(GENERATION_KEPT)])
        };
        let calls: Vec<_> = slots.chunks(AT_ONCE).map(call).collect();
        self.runner.run(&epoch, &calls).await.into_iter().try_for_each(|reply| reply.map(drop))
    }

    async fn count(
        &self,
        sections: &[ReaderSection],
        slots: &[Slot],
    ) -> Result<Vec<Vec<Option<u64>>>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let chunks = || slots.chunks(AT_ONCE);
        let call = |section: &ReaderSection, slots: &[Slot]| {
            ScriptCall::new(&self.count, self.bitmaps(*section, epoch.number, slots), Vec::<Bytes>::new())
        };
        let calls: Vec<_> =
            sections.iter().flat_map(|section| chunks().map(move |slots| call(section, slots))).collect();
        let mut replies = self.runner.run(&epoch, &calls).await.into_iter();
        let mut counts = Vec::with_capacity(sections.len());
        for _ in sections {
            let mut of_section = Vec::with_capacity(slots.len());
            for slots in chunks() {
                of_section.extend(counted(replies.next().ok_or(MALFORMED)??, slots.len())?);
            }
            counts.push(of_section);
        }
        Ok(counts)
    }

    async fn begin_fill(&self, section: ReaderSection) -> Result<FillTicket, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        let keys = vec![self.generation(section, epoch.number)];
        let call = ScriptCall::new(&self.begin, keys, Vec::<Bytes>::new());
        let values = list(self.runner.one(&epoch, call).await?)?;
        let [generation, began] = &values[..] else { return Err(MALFORMED) };
        let (generation, began_ms) = (values::number(generation)?, values::number(began)?);
        Ok(FillTicket { generation, began_ms, epoch: epoch.number })
    }

    async fn fill(
        &self,
        section: ReaderSection,
        ticket: &FillTicket,
        bitmaps: Vec<(Slot, SectionBits)>,
        kept: Duration,
    ) -> Result<Vec<BitmapFill>, SharedError> {
        let epoch = self.runner.followed_epoch()?;
        if epoch.number != ticket.epoch {
            return Ok(vec![BitmapFill::Changed; bitmaps.len()]);
        }
        let call = |(slot, bits): (Slot, SectionBits)| {
            let mut keys = self.bitmaps(section, epoch.number, &[slot]);
            keys.push(self.generation(section, epoch.number));
            keys.push(self.key(section, epoch.number, "scratch"));
            let began = [number(ticket.generation), number(ticket.began_ms), milliseconds(FILL_MAX)];
            let arguments = began.into_iter().chain([bits.into_bytes(), milliseconds(kept)]);
            ScriptCall::new(&self.fill, keys, arguments)
        };
        let calls: Vec<_> = bitmaps.into_iter().map(call).collect();
        self.runner.run(&epoch, &calls).await.into_iter().map(|reply| filled(&reply?)).collect()
    }
}

impl fmt::Debug for RedisBitmaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBitmaps").field("runner", &self.runner).finish_non_exhaustive()
    }
}

fn counted(reply: Reply, expected: usize) -> Result<Vec<Option<u64>>, SharedError> {
    let values = list(reply)?;
    if values.len() != expected {
        return Err(MALFORMED);
    }
    values.iter().map(|value| Ok(u64::try_from(values::number(value)?).ok())).collect()
}

fn filled(reply: &Reply) -> Result<BitmapFill, SharedError> {
    Ok(match values::number(reply)? {
        -1 => BitmapFill::Late,
        -2 => BitmapFill::Changed,
        count => BitmapFill::Filled(u64::try_from(count).map_err(|_| MALFORMED)?),
    })
}
