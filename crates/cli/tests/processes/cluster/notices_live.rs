//! Notices change on several nodes: totals on streams, bitmaps for new slots, and a publisher that is killed.

use std::time::{Duration, Instant};

use kith_proto::{
    message::v1::{NoticeTotals, ReceiveRequest, ReceiveResponse, delivery::What},
    notice::v1::{DeleteNoticeRequest, GetNoticeRequest, Notice, UpdateNoticeRequest},
};
use tonic::Streaming;

use crate::{
    cluster::{
        notice_calls::{audience, client, count, mark, notice, publish},
        redis::{Redis, ask},
        redis_proxy::{RedisProxy, following, serve},
        site::{Peer, Site, stop, variable, with_relations},
        windows::{DirectChat, acting, pair},
    },
    polls::until,
};

/// How soon other nodes see a commit by a node that has died.
const VISIBLE_WITHIN: Duration = Duration::from_secs(11);
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the bitmap keys in audience 1's first section.
async fn bitmap_keys(redis: &Redis) -> Vec<String> {
    let keys = ask(&redis.url(), "KEYS *:notice:1:0}:*:of:*").await;
    keys.split(' ').filter(|word| word.contains(":of:")).map(str::to_owned).collect()
}

/// Bea's stream, which brings the totals in audience 1.
struct Totals(Streaming<ReceiveResponse>);

impl Totals {
    async fn open(node: &Peer, chat: DirectChat) -> Self {
        let request = ReceiveRequest { now: true, notice_audiences: vec![1], ..ReceiveRequest::default() };
        Self(node.messages().receive(acting(chat.bea, request)).await.unwrap().into_inner())
    }

    /// Returns the next totals: read and unread.
    async fn next(&mut self) -> (i32, i32) {
        loop {
            let response =
                tokio::time::timeout(PATIENCE, self.0.message()).await.expect("totals come in time");
            let deliveries = response.unwrap().unwrap().deliveries.into_iter().rev();
            let totals = deliveries.filter_map(|delivery| match delivery.what {
                Some(What::NoticeTotals(NoticeTotals { read, unread, .. })) => Some((read, unread)),
                _ => None,
            });
            if let Some(totals) = totals.last() {
                return totals;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn totals_change_on_the_stream_of_another_node() {
    let (a, b) = pair(Site::in_redis_of_tests()).await;
    let chat = DirectChat::begin(&a).await;
    audience(&a.channel(), true).await;
    publish(&a.channel(), 1).await;
    let mut stream = Totals::open(&b, chat).await;
    assert_eq!(stream.next().await, (0, 1));
    for (expected, is_mark) in [((1, 0), true), ((1, 1), false)] {
        let begun = Instant::now();
        if is_mark {
            mark(&a.channel(), chat.bea, 1).await;
        } else {
            publish(&a.channel(), 2).await;
        }
        assert_eq!(stream.next().await, expected);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn bitmaps_of_new_slots_exist_before_a_count() {
    let redis = Redis::start(&[]).await;
    let (a, b) = Site::new(Some(redis.url())).pair().await;
    let bitmaps = async || bitmap_keys(&redis).await.len();
    audience(&a.channel(), true).await;
    let user = a.create("ann").await.user_id;
    publish(&a.channel(), 1).await;
    assert_eq!(bitmaps().await, 1);
    mark(&b.channel(), user, 1).await;
    assert_eq!(count(&b.channel(), 1).await, (1, false));
    let of = Notice { notice_id: 1, ..Notice::default() };
    let request =
        UpdateNoticeRequest { notice: Some(of), make_unread: true, ..UpdateNoticeRequest::default() };
    client(&b.channel()).update_notice(request).await.unwrap();
    assert_eq!(bitmaps().await, 2);
    assert_eq!(count(&b.channel(), 1).await, (0, false), "all have to read it again");
    mark(&b.channel(), user, 1).await;
    assert_eq!(count(&b.channel(), 1).await, (1, false));
    stop([a, b]).await;
}

/// Guards against a fault in published schemes: the reader id is the bit offset.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn largest_reader_id_uses_one_bit() {
    let redis = Redis::start(&[]).await;
    let (a, b) = Site::new(Some(redis.url())).pair().await;
    audience(&a.channel(), false).await;
    publish(&a.channel(), 1).await;
    mark(&a.channel(), i64::MAX, 1).await;
    assert_eq!(count(&b.channel(), 1).await, (1, false));
    let key = bitmap_keys(&redis).await.remove(0);
    let bytes = ask(&redis.url(), &format!("STRLEN {key}")).await;
    let bytes: usize = bytes.trim_start_matches(':').parse().unwrap();
    // A node's ordinals begin with a block of 64.
    assert!(bytes <= 1 + 64 / 8, "{bytes}");
    stop([a, b]).await;
}

/// Guards against a fault in published schemes: a mark after the removal recreates the key, which stays for
/// ever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn mark_of_deleted_notice_leaves_no_key() {
    let redis = Redis::start(&[]).await;
    let (a, b) = Site::new(Some(redis.url())).pair().await;
    audience(&a.channel(), true).await;
    let user = a.create("ann").await.user_id;
    publish(&a.channel(), 1).await;
    for key in bitmap_keys(&redis).await {
        ask(&redis.url(), &format!("DEL {key}")).await;
    }
    let request = DeleteNoticeRequest { notice_id: 1, ..DeleteNoticeRequest::default() };
    client(&a.channel()).delete_notice(request).await.unwrap();
    mark(&a.channel(), user, 1).await;
    mark(&b.channel(), user, 1).await;
    assert_eq!(bitmap_keys(&redis).await, Vec::<String>::new());
    publish(&a.channel(), 2).await;
    mark(&b.channel(), user, 2).await;
    for key in bitmap_keys(&redis).await {
        let lasts = ask(&redis.url(), &format!("PTTL {key}")).await;
        assert!(lasts.trim_start_matches(':').parse::<i64>().unwrap() > 0, "{key} {lasts}");
    }
    stop([a, b]).await;
}

/// The slots from a repeated change may have readers: zeros would hide them for an hour.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn repeated_publication_fills_no_bitmap() {
    let redis = Redis::start(&[]).await;
    let (a, b) = Site::new(Some(redis.url())).pair().await;
    audience(&a.channel(), true).await;
    let user = a.create("ann").await.user_id;
    client(&a.channel()).publish_notice(notice(1, "first")).await.unwrap();
    mark(&a.channel(), user, 1).await;
    let key = bitmap_keys(&redis).await.remove(0);
    assert_eq!(ask(&redis.url(), &format!("DEL {key}")).await, ":1");
    client(&a.channel()).publish_notice(notice(1, "first")).await.unwrap();
    assert_eq!(count(&b.channel(), 1).await, (1, false), "as the store has it");
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn notice_of_killed_publisher_is_visible() {
    let (site, proxy) = (Site::in_redis_of_tests(), RedisProxy::default());
    let other = site.node_with(with_relations).await;
    let redis = proxy.open(&variable("KITH_TEST_REDIS")).await;
    let folder = tempfile::tempdir().unwrap();
    let publisher = serve(folder.path(), &site, &redis);
    let channel = following(&publisher).await;
    other.until_following().await;
    let chat = DirectChat::begin(&other).await;
    audience(&other.channel(), true).await;
    publish(&channel, 1).await;
    let mut stream = Totals::open(&other, chat).await;
    until(Duration::from_secs(5), async || stream.next().await == (0, 1)).await;
    // The first command that names the audience's copy notifies other nodes about the commit.
    proxy.arm(":audience:1".to_owned());
    let publishing = tokio::spawn(async move { client(&channel).publish_notice(notice(2, "")).await });
    tokio::time::timeout(PATIENCE, proxy.until_cut()).await.expect("the change is committed");
    drop(publisher);
    let killed = Instant::now();
    assert!(publishing.await.unwrap().is_err(), "the publisher gets no answer");
    assert_eq!(stream.next().await, (0, 2));
    assert!(killed.elapsed() < VISIBLE_WITHIN, "{:?}", killed.elapsed());
    until(VISIBLE_WITHIN.saturating_sub(killed.elapsed()), async || {
        let request = GetNoticeRequest { notice_id: 2, consistency: None };
        client(&other.channel()).get_notice(request).await.is_ok()
    })
    .await;
    other.stop().await;
}
