//! Bounds on what callers may ask for, with their defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use kith_service::size;

/// Limits for callers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// One message. Above 0.
    #[serde(with = "size")]
    pub message_bytes: usize,
    /// One message of a batch or an import. Above 0.
    #[serde(with = "size")]
    pub batch_message_bytes: usize,
    /// All headers of a call.
    #[serde(skip)]
    pub headers_bytes: u32,
    /// Calls at one time on one connection.
    #[serde(skip)]
    pub streams_per_connection: u32,
    /// Calls at one time on the node, open watches not counted; as many again may wait for at most
    /// `queue_wait`. Above 0.
    pub in_flight: usize,
    /// How long a call may wait to begin.
    #[serde(skip)]
    pub queue_wait: Duration,
    /// Writes in progress at the store; with MongoDB no more than `store.mongodb.pool_max`. Above 0.
    pub writes_in_flight: usize,
    /// How long a write may wait for its turn at the store. A write that would wait longer than half of it is
    /// refused at once.
    #[serde(skip)]
    pub write_wait: Duration,
    /// How long a call that writes waits for the store and for other nodes before it answers UNAVAILABLE
    /// with outcome `unknown`; the write continues. A call waits two fifths of its deadline if that is
    /// longer.
    #[serde(skip)]
    pub write_answer: Duration,
    /// Open streams of health `Watch` and of reflection, which do not count for `in_flight`. From four
    /// fifths on, a new one replaces the oldest without a credential.
    #[serde(skip)]
    pub health_watches: usize,
    /// Of them, those of one connection.
    #[serde(skip)]
    pub health_watches_per_connection: usize,
    /// Bytes of answers that peers have not read. Further answers of 1 KiB and more are refused.
    #[serde(skip)]
    pub unread_bytes: usize,
    /// Of them, those of one connection.
    #[serde(skip)]
    pub unread_bytes_per_connection: usize,
    /// How long a peer may leave an answer, or the next part of a stream, unread: its connection is
    /// closed after once to twice as long.
    #[serde(skip)]
    pub unread_max: Duration,
    /// Connections at one time. From four fifths on, a new one replaces the oldest without a credential, of
    /// the address with most of these; if there is none, the new one is closed. Above 0.
    pub connections: usize,
    /// Deadline of a call without one.
    #[serde(skip)]
    pub deadline_default: Duration,
    /// Longest deadline of a call; a later one counts as this.
    #[serde(with = "humantime_serde")]
    pub deadline_max: Duration,
    /// Maximum duration of a stream.
    #[serde(with = "humantime_serde")]
    pub stream_max: Duration,
    /// How long the handshake of a connection may take; over HTTP/1.1 also the headers of a request, from
    /// their first byte on.
    #[serde(with = "humantime_serde")]
    pub handshake: Duration,
    /// How long a connection of HTTP/1.1 may be idle between two requests. Set it longer than that of a load
    /// balancer, mostly 60 s: a request that crosses a close is lost. Above 0.
    #[serde(with = "humantime_serde")]
    pub connection_idle: Duration,
    /// Maximum age of a connection before it is asked to close (GOAWAY, over HTTP/1.1 `connection: close`
    /// with the next answer), less up to a tenth at random.
    #[serde(with = "humantime_serde")]
    pub connection_age: Duration,
    /// How long a connection that was asked to close may take.
    #[serde(skip)]
    pub connection_grace: Duration,
    /// Ids in one batch.
    #[serde(skip)]
    pub batch_ids: usize,
    /// Records in a page by default.
    #[serde(skip)]
    pub page_default: usize,
    /// Maximum records in a page.
    #[serde(skip)]
    pub page_max: usize,
    /// Records in one message of an import.
    #[serde(skip)]
    pub import_records: usize,
    /// Consistency tokens in one read.
    #[serde(skip)]
    pub tokens: usize,
    /// Searches of an acting user in a minute, on this node. Above 0.
    pub searches_per_minute: u32,
    /// Calls of a user by a token in a second, on this node; a stream is one. Each further 16 KiB of a
    /// request, unpacked, is one more. 0: any number.
    pub user_calls_per_second: u32,
    /// Of them, those that write or concern secrets. 0: as many as calls.
    pub user_writes_per_second: u32,
    /// Records that a user may read by a token in a minute, on this node. 0: any number; else at least 100,
    /// as many as a batch of a user may name.
    pub user_records_per_minute: u32,
    /// Callers that watch this node (`kith top`).
    #[serde(skip)]
    pub watchers: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            message_bytes: 256 << 10,
            batch_message_bytes: 1 << 20,
            headers_bytes: 16 << 10,
            streams_per_connection: 200,
            in_flight: 4096,
            queue_wait: Duration::from_millis(100),
            writes_in_flight: 256,
            write_wait: Duration::from_millis(500),
            write_answer: Duration::from_secs(2),
            health_watches: 1_000,
            health_watches_per_connection: 4,
            unread_bytes: 512 << 20,
            unread_bytes_per_connection: 64 << 20,
            unread_max: Duration::from_secs(60),
            connections: 10_000,
            deadline_default: Duration::from_secs(2),
            deadline_max: Duration::from_secs(10),
            stream_max: Duration::from_secs(60 * 60),
            handshake: Duration::from_secs(5),
            connection_idle: Duration::from_secs(75),
            connection_age: Duration::from_secs(30 * 60),
            connection_grace: Duration::from_secs(30),
            batch_ids: 1000,
            page_default: 50,
            page_max: 1000,
            import_records: 500,
            tokens: 16,
            searches_per_minute: 30,
            user_calls_per_second: 50,
            user_writes_per_second: 10,
            user_records_per_minute: 3_000,
            watchers: 8,
        }
    }
}
