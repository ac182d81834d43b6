//! Marks a notice as read through a node, over what a service would do by hand.

use anyhow::Result;
use kith_proto::notice::v1::MarkReadRequest;
use kith_store_sqlite::SqliteOptions;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    notices::{NoticeClient, publish, register_audience, register_readers},
    stage::ReaderStage,
};
use crate::{
    claims::{NOTICE_MARK_MONGODB, NOTICE_MARK_SQLITE, Plan},
    ratio::{Pair, Side},
    results::Results,
    rows::{
        latency::compare_medians,
        raw_writer::{RawWriter, open_durable},
    },
    served::ServerProcess,
};

const AUDIENCE: i32 = 1;
/// All notices are in one word of the readers.
const NOTICES: i64 = 60;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if plan.wants(&NOTICE_MARK_MONGODB)
        && let Some(stage) = ReaderStage::start(plan, "notice_marks").await?
    {
        let mut client = NoticeClient::new(stage.channel());
        let marks = Marks::begin(plan, &mut client).await?;
        stage.raw.insert_readers(marks.readers).await?;
        let by_hand =
            async |(reader, notice): (i64, i64)| stage.raw.mark_notice(reader, i32::try_from(notice)?).await;
        results.add(&NOTICE_MARK_MONGODB, &marks.measure(plan, &client, by_hand).await?)?;
        stage.remove(plan).await?;
    }
    if plan.wants(&NOTICE_MARK_SQLITE) {
        let kith = ServerProcess::kith(plan)?;
        let mut client = NoticeClient::new(kith.connect().await?);
        let marks = Marks::begin(plan, &mut client).await?;
        let raw = RawMarkWriter::start()?;
        let by_hand = async |(reader, notice): (i64, i64)| raw.mark(reader, notice).await;
        results.add(&NOTICE_MARK_SQLITE, &marks.measure(plan, &client, by_hand).await?)?;
    }
    Ok(())
}

/// Marks, each for another notice or another reader.
struct Marks {
    calls: usize,
    readers: i64,
}

impl Marks {
    /// Registers readers for all rounds, and publishes notices that no reader has read.
    async fn begin(plan: &Plan, client: &mut NoticeClient) -> Result<Self> {
        let calls = plan.size(300, 10);
        let readers = i64::try_from((plan.rounds * calls).div_ceil(usize::try_from(NOTICES)?))?;
        register_audience(client, AUDIENCE).await?;
        register_readers(client, AUDIENCE, readers).await?;
        for notice in 1..=NOTICES {
            publish(client, AUDIENCE, notice).await?;
        }
        Ok(Self { calls, readers })
    }

    /// Microseconds that the median mark takes.
    async fn measure(
        &self,
        plan: &Plan,
        client: &NoticeClient,
        by_hand: impl AsyncFn((i64, i64)) -> Result<()>,
    ) -> Result<Vec<Pair<f64>>> {
        // Each side marks all pairs once.
        let (mut kith, mut bare) = (pairs(), pairs());
        compare_medians(plan.rounds, self.calls, async |side| match side {
            Side::Baseline => by_hand(bare.next().unwrap_or_default()).await,
            Side::Kith => mark_read(client, kith.next().unwrap_or_default()).await,
        })
        .await
    }
}

/// Readers and notices; the notices for one reader come together.
fn pairs() -> impl Iterator<Item = (i64, i64)> {
    (1..).flat_map(|reader| (1..=NOTICES).map(move |notice| (reader, notice)))
}

async fn mark_read(client: &NoticeClient, mark: (i64, i64)) -> Result<()> {
    let (reader_id, notice) = mark;
    let (audience_id, notice_ids) = (AUDIENCE, vec![notice]);
    let request = MarkReadRequest { audience_id, reader_id, notice_ids, ..Default::default() };
    let answer = client.clone().mark_read(request).await?.into_inner();
    let read = i64::from(answer.totals.unwrap_or_default().read);
    anyhow::ensure!(read == notice, "a reader has read {read} notices after {notice} marks");
    Ok(())
}

/// Commits readers' words sequentially.
#[derive(Debug)]
struct RawMarkWriter {
    writer: RawWriter<[i64; 2], ()>,
    _folder: TempDir,
}

impl RawMarkWriter {
    fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        let connection = open_durable(&SqliteOptions::new(folder.path().join("raw.db")))?;
        connection.execute(
            "CREATE TABLE words (reader INTEGER, page INTEGER, word INTEGER, PRIMARY KEY (reader, page)) WITHOUT ROWID",
            [],
        )?;
        Ok(Self { writer: RawWriter::start(connection, 1, 1, mark_all), _folder: folder })
    }

    async fn mark(&self, reader: i64, bit: i64) -> Result<()> {
        self.writer.write([reader, 1 << bit]).await
    }
}

/// Marks readers, each with a word.
fn mark_all(connection: &Connection, batch: &[[i64; 2]]) -> Result<Vec<()>> {
    let mut mark = connection
        .prepare_cached("INSERT INTO words VALUES (?1, 0, ?2) ON CONFLICT DO UPDATE SET word = word | ?2")?;
    for words in batch {
        mark.execute(*words)?;
    }
    Ok(vec![(); batch.len()])
}
