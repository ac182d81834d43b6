//! A node that has much to read from its server.

use std::{net::Ipv4Addr, time::Duration};

use futures::{future::join_all, poll};
use kith_cache::remote::{Heartbeat, Log as _, LogEntry, Registry as _, redis::RedisOptions};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    server::Server,
    stage::{PATIENCE, accepted, options},
};

/// The port of a link to a server over which each connection gets some MB a second.
async fn slow_link(server: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await.unwrap();
                let ((mut asks, answered), (answers, mut asked)) = (client.into_split(), server.into_split());
                tokio::join!(copy(&mut asks, &mut asked), pass_slowly(answers, answered)).0.ok();
            });
        }
    });
    port
}

async fn pass_slowly(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
#[ignore = "needs redis-server: run cargo xtask test"]
async fn probe_waits_behind_no_large_answer() {
    let server = Server::start(&[]);
    let url = format!("redis://127.0.0.1:{}", slow_link(server.port).await);
    let (command_timeout, unresponsive) = (2 * PATIENCE, 2 * PATIENCE);
    let shared = accepted(RedisOptions { command_timeout, unresponsive, ..options(&url) }).await;
    let message = vec![b'x'; 64 << 10];
    for nonce in 1..=64 {
        let entry = LogEntry { nonce, message: &message, strict: false };
        shared.change(1, &[], entry).await.unwrap();
    }
    let heartbeat = Heartbeat::default();
    let mut replays = Box::pin(join_all((0..4).map(|_| shared.replay(1, 1, 1_000))));
    assert!(poll!(&mut replays).is_pending());
    tokio::select! {
        biased;
        _pages = &mut replays => panic!("the probe has waited behind the log"),
        probed = shared.probe(1, &heartbeat) => assert_eq!(probed.unwrap().number, 64),
    }
    for page in replays.await {
        assert_eq!(page.unwrap().len(), 64);
    }
}
