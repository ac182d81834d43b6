//! Marks and unmarks notices at random through three nodes while Redis is emptied, and compares them with a
//! plain model: no mark is lost, and reader counts become exact. Published schemes have two faults: marks
//! that only Redis has, and a rebuild that loses marks made meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kith_proto::notice::v1::{notice_service_client::NoticeServiceClient, *};
use kith_server::config::Config;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::{sync::mpsc, task::JoinSet};
use tonic::transport::Channel;

use crate::{
    cluster::{
        redis::{Redis, ask},
        site::{Peer, Site, stop, strong, until_all_follow},
    },
    polls::until,
};

/// The numbers in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Platforms. A reader id in another platform means another reader.
    pub(crate) audiences: i32,
    /// The number of readers in each audience.
    pub(crate) readers: i64,
    /// The number of notices; each is for all audiences.
    pub(crate) notices: i64,
    /// How many call at the same time, each for its own readers.
    pub(crate) callers: i64,
    /// How many marks and unmarks each reader makes.
    pub(crate) calls: usize,
}

const NODES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// How often Redis is emptied.
const EMPTIED: i64 = 3;
const REGISTERED_AT_ONCE: usize = 1_000;
/// The number of readers on a page.
const PAGE: i32 = 1_000;
/// Every 97th reader is asked for the notices that it has read.
const ASKED_EVERY: i64 = 97;
/// Counts may be 10 s old, and after Redis was emptied all sections are scanned again.
const COUNTED_WITHIN: Duration = Duration::from_secs(60);

/// An audience, and a reader id in it.
type ReaderKey = (i32, i64);
/// The notices that each reader has read.
type Model = BTreeMap<ReaderKey, BTreeSet<i64>>;

fn client(channel: &Channel) -> NoticeServiceClient<Channel> {
    NoticeServiceClient::new(channel.clone())
}

/// Plays random calls, and compares all final answers with the model.
pub(crate) async fn random_marks_equal_a_plain_model(size: Size) {
    let redis = Redis::start(&[]).await;
    let site = Site::new(Some(redis.url()));
    // A machine may be busy.
    let patient = |config: &mut Config| {
        (config.limits.deadline_default, config.limits.deadline_max) = (PATIENCE, PATIENCE);
    };
    let peers: [Peer; NODES] = site.nodes(patient).await;
    let channels: Arc<[Channel]> = peers.iter().map(Peer::channel).collect();
    prepare(&channels, size).await;
    let model = play(&channels, size, &redis).await;
    until_all_follow(&peers).await;
    for audience in 1..=size.audiences {
        compare_lists(&channels, size, audience, &model).await;
        compare_counts(&channels, size, audience, &model).await;
    }
    compare_totals(&channels, size, &model).await;
    stop(peers).await;
}

/// Registers half the readers, and publishes the notices through all nodes.
async fn prepare(channels: &[Channel], size: Size) {
    let since = Some(prost_types::Timestamp::default());
    for audience_id in 1..=size.audiences {
        let audience =
            Audience { audience_id, name: format!("audience {audience_id}"), ..Audience::default() };
        let request = RegisterAudienceRequest { audience: Some(audience), ..Default::default() };
        client(&channels[0]).register_audience(request).await.unwrap();
        let readers: Vec<_> = (1..=size.readers / 2).map(|reader_id| Reader { reader_id, since }).collect();
        for readers in readers.chunks(REGISTERED_AT_ONCE) {
            let request = RegisterReadersRequest { audience_id, readers: readers.to_vec() };
            client(&channels[1]).register_readers(request).await.unwrap();
        }
    }
    for notice_id in 1..=size.notices {
        let audience_ids = (1..=size.audiences).collect();
        let notice = Notice { notice_id, title: "News".to_owned(), audience_ids, ..Notice::default() };
        let request = PublishNoticeRequest { notice: Some(notice), ..PublishNoticeRequest::default() };
        let node = usize::try_from(notice_id).unwrap() % channels.len();
        client(&channels[node]).publish_notice(request).await.unwrap();
    }
}

/// Lets all callers act at once. Redis is emptied after a quarter, a half and three quarters of all calls.
async fn play(channels: &Arc<[Channel]>, size: Size, redis: &Redis) -> Model {
    let (made, mut calls) = mpsc::unbounded_channel();
    let mut callers = JoinSet::new();
    for caller in 0..size.callers {
        callers.spawn(call(Arc::clone(channels), size, caller, made.clone()));
    }
    drop(made);
    let all = size.readers * i64::from(size.audiences) * i64::try_from(size.calls).unwrap();
    let (mut done, mut emptied) = (0, 0);
    while calls.recv().await.is_some() {
        done += 1;
        if done * (EMPTIED + 1) > all * (emptied + 1) && emptied < EMPTIED {
            assert_eq!(ask(&redis.url(), "FLUSHALL").await, "+OK");
            // Bitmaps are filled while marks are made.
            count(&channels[usize::try_from(emptied).unwrap() % channels.len()], size, 1).await;
            emptied += 1;
        }
    }
    assert_eq!((done, emptied), (all, EMPTIED));
    callers.join_all().await.into_iter().flatten().collect()
}

/// Marks and unmarks at random through all nodes. Returns the notices that each reader has read then.
async fn call(channels: Arc<[Channel]>, size: Size, caller: i64, made: mpsc::UnboundedSender<()>) -> Model {
    let mut rng = StdRng::seed_from_u64(caller.unsigned_abs());
    let ids = (1..=size.readers).filter(|reader| reader % size.callers == caller);
    let readers = ids.flat_map(|reader| (1..=size.audiences).map(move |audience| (audience, reader)));
    let mut model: Model = readers.map(|reader| (reader, BTreeSet::new())).collect();
    for _ in 0..size.calls {
        for ((audience_id, reader_id), read) in &mut model {
            let (audience_id, reader_id) = (*audience_id, *reader_id);
            let mut node = client(channels.choose(&mut rng).unwrap());
            let notice_ids: Vec<i64> = (1..=size.notices).filter(|_| rng.random_bool(0.3)).collect();
            let left = if rng.random_bool(0.7) {
                read.extend(&notice_ids);
                let request =
                    MarkReadRequest { audience_id, reader_id, notice_ids, ..MarkReadRequest::default() };
                node.mark_read(request).await.unwrap().into_inner().totals
            } else {
                read.retain(|notice| !notice_ids.contains(notice));
                let request = MarkUnreadRequest { audience_id, reader_id, notice_ids };
                node.mark_unread(request).await.unwrap().into_inner().totals
            };
            assert_eq!(usize::try_from(left.unwrap().read).unwrap(), read.len(), "reader {reader_id}");
            made.send(()).unwrap();
        }
    }
    model
}

/// Compares the readers of each notice, as the store lists them.
async fn compare_lists(channels: &[Channel], size: Size, audience_id: i32, model: &Model) {
    for notice_id in 1..=size.notices {
        let node = &channels[usize::try_from(notice_id).unwrap() % channels.len()];
        let (mut found, mut page_token) = (BTreeSet::new(), String::new());
        loop {
            let state = ReaderState::Read.into();
            let request = ListReadersRequest { audience_id, notice_id, state, page_size: PAGE, page_token };
            let page = client(node).list_readers(request).await.unwrap().into_inner();
            for reader in page.reader_ids {
                assert!(found.insert(reader), "reader {reader} is listed twice");
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let of_notice = model
            .iter()
            .filter(|((audience, _), read)| *audience == audience_id && read.contains(&notice_id));
        let expected: BTreeSet<i64> = of_notice.map(|((_, reader), _)| *reader).collect();
        assert!(found == expected, "audience {audience_id}, notice {notice_id}");
    }
}

/// Compares how many have read each notice, by each node's bitmaps.
async fn compare_counts(channels: &[Channel], size: Size, audience_id: i32, model: &Model) {
    let of_notice = |notice: i64| {
        let read =
            model.iter().filter(|((audience, _), read)| *audience == audience_id && read.contains(&notice));
        i64::try_from(read.count()).unwrap()
    };
    let expected: Vec<i64> = (1..=size.notices).map(of_notice).collect();
    for channel in channels {
        until(COUNTED_WITHIN, async || count(channel, size, audience_id).await == (expected.clone(), false))
            .await;
    }
}

async fn count(channel: &Channel, size: Size, audience_id: i32) -> (Vec<i64>, bool) {
    let request = CountReadersRequest { audience_id, notice_ids: (1..=size.notices).collect() };
    let counted = client(channel).count_readers(request).await.unwrap().into_inner();
    (counted.counts.iter().map(|count| count.read).collect(), counted.incomplete)
}

/// Compares the notices that some readers have read, by their records.
async fn compare_totals(channels: &[Channel], size: Size, model: &Model) {
    let every = if size.readers < 10 * ASKED_EVERY { 1 } else { ASKED_EVERY };
    for ((audience_id, reader_id), read) in model.iter().filter(|((_, reader), _)| reader % every == 0) {
        let (audience_id, reader_id) = (*audience_id, *reader_id);
        let request = CountNoticesRequest { audience_id, reader_id, consistency: strong() };
        let totals = client(&channels[0]).count_notices(request).await.unwrap().into_inner().totals.unwrap();
        let expected = i32::try_from(read.len()).unwrap();
        let all = i32::try_from(size.notices).unwrap();
        assert_eq!((totals.read, totals.unread), (expected, all - expected), "reader {reader_id}");
    }
}
