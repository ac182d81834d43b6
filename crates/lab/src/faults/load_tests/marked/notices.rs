//! Callers who mark notices, and what they know.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use kith_proto::notice::v1::{
    Audience, MarkReadRequest, MarkUnreadRequest, Notice, PublishNoticeRequest, Reader,
    RegisterAudienceRequest, RegisterReadersRequest, notice_service_client::NoticeServiceClient,
};
use rand::{Rng as _, rngs::SmallRng, seq::IndexedRandom as _};
use tonic::{Request, Response, Status, transport::Channel};

use super::{CALLERS, Workload, acknowledge};
use crate::faults::answered::call;

pub(super) const AUDIENCE: i32 = 1;
/// All notices' bits are in one word.
pub(super) const NOTICES: i64 = 40;
const READERS: i64 = 480;
/// The most notices in one call.
const AT_ONCE: usize = 3;

/// The notices that each reader has read.
pub(super) type NoticeModel = BTreeMap<i64, BTreeSet<i64>>;

/// A caller with its own readers.
#[derive(Debug)]
pub(super) struct Marker {
    state: Arc<Workload>,
    random: SmallRng,
    readers: Vec<i64>,
    read: NoticeModel,
    /// Readers and notices whose last change was sent more than once, and may come once more: they are left
    /// alone from then on.
    open: BTreeSet<(i64, i64)>,
}

/// Publishes the notices in sequence, and registers the readers.
pub(super) async fn publish(node: &Channel) -> Result<()> {
    let mut client = NoticeServiceClient::new(node.clone());
    let audience = Audience { audience_id: AUDIENCE, name: "all".to_owned(), ..Audience::default() };
    let request = RegisterAudienceRequest { audience: Some(audience), ..Default::default() };
    client.register_audience(request).await?;
    let since = Some(prost_types::Timestamp::default());
    let readers = (1..=READERS).map(|reader_id| Reader { reader_id, since }).collect();
    client.register_readers(RegisterReadersRequest { audience_id: AUDIENCE, readers }).await?;
    for notice_id in 1..=NOTICES {
        let (title, audience_ids) = ("notice".to_owned(), vec![AUDIENCE]);
        let notice = Notice { notice_id, title, audience_ids, ..Notice::default() };
        client.publish_notice(PublishNoticeRequest { notice: Some(notice), ..Default::default() }).await?;
    }
    Ok(())
}

impl Marker {
    pub(super) fn new(state: &Arc<Workload>, caller: i64) -> Self {
        Self {
            state: Arc::clone(state),
            random: state.random(caller),
            readers: (1..=READERS).filter(|reader| reader % CALLERS == caller).collect(),
            read: NoticeModel::new(),
            open: BTreeSet::new(),
        }
    }

    /// Marks at random until it is over. Returns what its readers have read.
    pub(super) async fn work(mut self) -> Result<NoticeModel> {
        while !self.state.progress.is_ended() {
            let reader = *self.readers.choose(&mut self.random).context("a caller has readers")?;
            if self.random.random_ratio(4, 5) {
                self.mark(reader).await?
            } else {
                self.unmark(reader).await?
            }
        }
        Ok(self.read)
    }

    async fn mark(&mut self, reader_id: i64) -> Result<()> {
        let some: BTreeSet<i64> = (0..AT_ONCE).map(|_| self.random.random_range(1..=NOTICES)).collect();
        let is_left_alone = |notice: &i64| self.open.contains(&(reader_id, *notice));
        let notice_ids: Vec<i64> = some.into_iter().filter(|notice| !is_left_alone(notice)).collect();
        if notice_ids.is_empty() {
            return Ok(());
        }
        let audience_id = AUDIENCE;
        let request =
            MarkReadRequest { audience_id, reader_id, notice_ids: notice_ids.clone(), ..Default::default() };
        self.read.entry(reader_id).or_default().extend(&notice_ids);
        self.send(reader_id, &notice_ids, request, call!(NoticeServiceClient::mark_read)).await
    }

    async fn unmark(&mut self, reader_id: i64) -> Result<()> {
        let read = self.read.entry(reader_id).or_default();
        let found = read.iter().find(|notice| !self.open.contains(&(reader_id, **notice)));
        let Some(notice) = found.copied() else { return Ok(()) };
        read.remove(&notice);
        let (audience_id, notice_ids) = (AUDIENCE, vec![notice]);
        let request = MarkUnreadRequest { audience_id, reader_id, notice_ids };
        self.send(reader_id, &[notice], request, call!(NoticeServiceClient::mark_unread)).await
    }

    /// Sends a call to one node after the other until it is acknowledged.
    async fn send<Q, A, F>(
        &mut self,
        reader_id: i64,
        notice_ids: &[i64],
        request: Q,
        call: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<()>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let first = self.random.random_range(0..self.state.nodes.len());
        let (marked, sends) = self.state.call(first, request, call).await;
        marked.with_context(|| format!("the marks of reader {reader_id}"))?;
        acknowledge(&self.state, notice_ids.len(), sends);
        if sends > 1 {
            self.open.extend(notice_ids.iter().map(|notice| (reader_id, *notice)));
        }
        Ok(())
    }
}
