//! Runs `kith top` on a terminal, over three nodes.

use std::time::Duration;

use kith_proto::user::v1::{GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient};
use tokio::{task::spawn_blocking, time::interval};
use tonic::transport::Channel;
use vt100::Screen;

use crate::{
    cluster::{
        redis::Redis,
        site::{Site, stop},
    },
    terminal::Terminal,
};

/// Colors in a terminal's palette.
const RED: u8 = 1;
const GREEN: u8 = 2;
const YELLOW: u8 = 3;

/// Reads a user on each node, and changes it now and then, until it is aborted. Calls may fail while Redis is
/// away.
async fn call(mut nodes: Vec<UserServiceClient<Channel>>, user_id: i64) {
    let mut pace = interval(Duration::from_millis(5));
    for round in 0_u64.. {
        for (at, node) in (0..).zip(&mut nodes) {
            pace.tick().await;
            node.get_user(GetUserRequest { user_id, consistency: None }).await.ok();
            if (round + at).is_multiple_of(8) {
                node.update_user(renamed(user_id, round)).await.ok();
            }
        }
    }
}

/// Counts the samples that have a bar in the lowest bar line.
fn bars(screen: &Screen) -> usize {
    screen
        .contents()
        .lines()
        .nth(9)
        .map_or(0, |line| line.split_whitespace().collect::<String>().chars().count())
}

fn renamed(user_id: i64, round: u64) -> UpdateUserRequest {
    let user = Some(User { user_id, nick_name: format!("n{round}"), ..User::default() });
    let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
    UpdateUserRequest { user, update_mask, ..UpdateUserRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn top_shows_three_nodes_with_and_without_redis() {
    let mut redis = Redis::start(&[]).await;
    let [a, b, c] = Site::new(Some(redis.url())).nodes(|_| {}).await;
    let user = a.create("ann").await.user_id;
    let calls = tokio::spawn(call([&a, &b, &c].map(|peer| peer.users()).into(), user));
    let mut top = Terminal::start(14, 120, &format!("top --addr {} --interval 500ms", a.address()));
    let seen = spawn_blocking(move || {
        top.until(|screen| screen.contents().matches("healthy").count() == 3);
        for name in ["trusted", "epoch", "calls/s", "inval/s", "busy", "breaker"] {
            assert!(top.text().contains(name), "{}", top.text());
        }
        assert_eq!(top.words_in(GREEN), ["healthy"; 3]);
        let samples = if Terminal::makes_pictures() { 50 } else { 4 };
        top.until(|screen| bars(screen) >= samples);
        top.picture("kith-top");
        redis.kill();
        top.until(|screen| screen.contents().matches("degraded").count() == 3);
        assert_eq!(top.words_in(YELLOW).iter().filter(|word| *word == "degraded").count(), 3);
        top.picture("kith-top-without-redis");
        top.press("d");
        top.until_text("memory not trusted");
        (top, redis)
    });
    let (mut top, _redis) = seen.await.unwrap();
    b.stop().await;
    let ended = spawn_blocking(move || {
        top.press("\x1b");
        // The word is in the title, and in the node's row.
        top.until(|screen| screen.contents().matches("unreachable").count() == 2);
        assert_eq!(top.words_in(RED), ["unreachable"]);
        top.press("q");
        assert_eq!(top.ended(), Some(0));
    });
    ended.await.unwrap();
    calls.abort();
    stop([c, a]).await;
}
