//! Message numbers do not depend on Redis.

use kith_proto::message::v1::{Message, PullMessagesRequest, SendMessageRequest, send_message_request::To};

use crate::cluster::{
    redis::Redis,
    site::{Peer, Site, stop},
};

/// Sends a note from a user to itself. Returns its number.
async fn note(peer: &Peer, user: i64, body: &str) -> i64 {
    let request = SendMessageRequest {
        to: Some(To::UserId(user)),
        sender_id: user,
        client_message_id: body.to_owned(),
        body: body.to_owned().into(),
        ..Default::default()
    };
    peer.messages().send_message(request).await.unwrap().into_inner().seq
}

async fn notes(peer: &Peer, user: i64) -> Vec<Message> {
    let conversation_id = format!("d{user}-{user}");
    let request = PullMessagesRequest { conversation_id, limit: 1000, ..Default::default() };
    peer.messages().pull_messages(request).await.unwrap().into_inner().messages
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn emptied_redis_changes_no_number() {
    let mut redis = Redis::start(&[]).await;
    let site = Site::new(Some(redis.url()));
    let (a, b) = site.pair().await;
    let user = a.create("ann").await.user_id;
    let mut next = 1;
    for round in 0..3 {
        for peer in [&a, &b] {
            for number in 0..4 {
                let body = format!("{round}-{next}-{number}");
                assert_eq!(note(peer, user, &body).await, next, "{body}");
                next += 1;
            }
        }
        // Redis is away first, then replaced by an empty server.
        redis.kill();
        assert_eq!(note(&a, user, &format!("{round}-away")).await, next);
        next += 1;
        redis.run().await;
        assert_eq!(note(&b, user, &format!("{round}-back")).await, next);
        next += 1;
    }
    for peer in [&a, &b] {
        let seqs: Vec<i64> = notes(peer, user).await.iter().map(|message| message.seq).collect();
        assert_eq!(seqs, (1..next).collect::<Vec<_>>());
    }
    stop([a, b]).await;
}
