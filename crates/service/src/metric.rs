//! Names and meanings of a node's metrics, except for cache and store metrics.

#![allow(missing_docs, reason = "each metric says what it means")]

pub use kith_cache::{Metric, MetricKind};

/// Defines the metrics, and lists them: each metric is described and documented by being in here.
macro_rules! metrics {
    ($(pub const $name:ident: Metric = $metric:expr;)*) => {
        /// All metrics of a node.
        pub const METRICS: [Metric; [$($name),*].len()] = [$($name),*];

        $(pub const $name: Metric = $metric;)*
    };
}

metrics! {
    pub const SERVING: Metric = Metric::gauge(
        "kith_serving",
        &[],
        "1 while the node serves, 0 while it starts, stops or its store is unavailable.",
    );
    pub const STORE_UP: Metric = Metric::gauge(
        "kith_store_up",
        &["store"],
        "1 while this store answers the node, 0 while it does not: `sqlite` or `mongodb`, `cql` if it is configured, `redis`.",
    );
    pub const RPC_REQUESTS: Metric = Metric::counter(
        "kith_rpc_requests_total",
        &["service", "method", "code"],
        "Calls answered, by gRPC code; CANCELLED if the caller went away first.",
    );
    pub const RPC_SECONDS: Metric = Metric::histogram(
        "kith_rpc_seconds",
        &["service", "method"],
        "Time from the head of a call to the end of its answer.",
    );
    pub const RPC_IN_FLIGHT: Metric = Metric::gauge(
        "kith_rpc_in_flight",
        &[],
        "Calls in progress, without health, reflection and open watches.",
    );
    pub const RPC_SHED: Metric =
        Metric::counter("kith_rpc_shed_total", &[], "Calls refused because too many were in flight.");
    pub const CONNECTIONS: Metric =
        Metric::gauge("kith_connections", &[], "Open connections of the gRPC port.");
    pub const CONNECTIONS_REFUSED: Metric = Metric::counter(
        "kith_connections_refused_total",
        &[],
        "Connections and sockets refused because of `limits.connections` or `ws.sockets`, or \
         because 1000 sockets wait for their hello.",
    );
    pub const PLACES_DISPLACED: Metric = Metric::counter(
        "kith_places_displaced_total",
        &["kind"],
        "Connections, sockets and health watches without a credential that newcomers replaced.",
    );
    pub const CONNECTIONS_UNREAD: Metric = Metric::counter(
        "kith_connections_unread_total",
        &[],
        "Connections closed because an answer was unread for a minute.",
    );
    pub const ANSWERS_UNREAD_BYTES: Metric = Metric::gauge(
        "kith_answers_unread_bytes",
        &[],
        "Bytes of answers that peers have not read; answers below 1 KiB are not counted.",
    );
    pub const ANSWERS_UNREAD_REFUSED: Metric = Metric::counter(
        "kith_answers_unread_refused_total",
        &[],
        "Answers refused because the connection or the node holds too many unread bytes.",
    );
    pub const WS_CONNECTIONS: Metric =
        Metric::gauge("kith_ws_connections", &[], "Open WebSockets; `kith_connections` includes them.");
    pub const ACCEPTS_FAILED: Metric = Metric::counter(
        "kith_accepts_failed_total",
        &[],
        "Failures to accept a connection, usually for lack of file descriptors.",
    );
    pub const AUTH_REFUSED: Metric = Metric::counter(
        "kith_auth_refused_total",
        &["cause"],
        "Calls refused because of their credential (`missing`, `malformed`, `several`, `unknown`, `expired`, `token`, `node_proof`) or of what the \
         caller may do (`scope`, `acting_user_refused`, `acting_user_needed`, `not_allowed`), or because their user is not let in (`suspended`, \
         `signed_out`).",
    );
    pub const CALLER_CALLS: Metric = Metric::counter(
        "kith_caller_calls_total",
        &["caller", "code"],
        "Calls by configured caller and code. `(user)`: users by their tokens; `(node)`: other nodes; \
         `(socket)`: this node, for its sockets; `(other)`: callers after the first 200. Calls that prove no \
         caller are not counted.",
    );
    pub const USER_QUOTA_REFUSED: Metric = Metric::counter(
        "kith_user_quota_refused_total",
        &["quota"],
        "Calls refused because of a user's quota of `calls`, `writes`, `records` or `searches`.",
    );
    pub const INSECURE_CALLERS: Metric = Metric::gauge(
        "kith_insecure_callers",
        &[],
        "1 if other machines may call without a key, else 0.",
    );
    pub const CALLERS_NOT_RELOADED: Metric = Metric::gauge(
        "kith_callers_not_reloaded",
        &[],
        "1 while a file of callers or an issuer's address cannot be used: its previous content stays valid; \
         else 0.",
    );
    pub const CREDENTIALS_EXPIRE_SECONDS: Metric = Metric::gauge(
        "kith_credentials_expire_seconds",
        &[],
        "Time until the first key of a caller expires; 0 once one has, infinite if none does.",
    );
    pub const MUTATIONS_IN_FLIGHT: Metric =
        Metric::gauge("kith_mutations_in_flight", &[], "Writes that have begun and not ended.");
    pub const MUTATIONS_SHED: Metric = Metric::counter(
        "kith_mutations_shed_total",
        &[],
        "Writes refused because they would have waited too long.",
    );
    pub const LOG_LINES_DROPPED: Metric = Metric::counter(
        "kith_log_lines_dropped_total",
        &[],
        "Log lines that were not read from the process in time.",
    );

    pub const STORE_DAMAGED: Metric = Metric::counter(
        "kith_store_damaged_total",
        &[],
        "Reads and writes that failed with STORE_DAMAGED.",
    );
    pub const STORE_FREE_BYTES: Metric = Metric::gauge(
        "kith_store_free_bytes",
        &[],
        "By how much the SQLite file can still grow: room on its disk, or the limit on file size.",
    );
    pub const STORE_FULL: Metric = Metric::gauge(
        "kith_store_full",
        &[],
        "1 while the SQLite file has no room left (STORE_FULL), else 0.",
    );
    pub const TLS_CERTIFICATE_EXPIRE_SECONDS: Metric = Metric::gauge(
        "kith_tls_certificate_expire_seconds",
        &["file"],
        "Time until the first certificate in the file (`tls.cert_file`, `cluster.ca_file`) ends; 0 once one has.",
    );
    pub const BUILD_INFO: Metric = Metric::gauge(
        "kith_build_info",
        &["version", "commit", "date"],
        "Always 1; labels: version, commit and its date, `unknown` if built without them.",
    );
    pub const PROCESS_CPU_SECONDS: Metric =
        Metric::counter("process_cpu_seconds_total", &[], "Processor time of the process, in whole seconds.");
    pub const PROCESS_RESIDENT_BYTES: Metric =
        Metric::gauge("process_resident_memory_bytes", &[], "Memory of the process that is in use.");
    pub const PROCESS_VIRTUAL_BYTES: Metric =
        Metric::gauge("process_virtual_memory_bytes", &[], "Address space of the process.");
    pub const PROCESS_THREADS: Metric = Metric::gauge("process_threads", &[], "Threads of the process.");
    pub const PROCESS_OPEN_FDS: Metric =
        Metric::gauge("process_open_fds", &[], "Open files and sockets of the process.");
    pub const PROCESS_MAX_FDS: Metric =
        Metric::gauge("process_max_fds", &[], "Files and sockets that the process may open.");
    pub const PROCESS_START_SECONDS: Metric = Metric::gauge(
        "process_start_time_seconds",
        &[],
        "When the process started, in seconds since 1970.",
    );

    pub const REDIS_BREAKER_OPENED: Metric = Metric::counter(
        "kith_redis_breaker_opened_total",
        &[],
        "Times that the circuit breaker opened because Redis did not answer.",
    );
    pub const REDIS_GARBLED: Metric = Metric::counter(
        "kith_redis_garbled_total",
        &[],
        "Ignored messages on channels that no node can have sent.",
    );

    pub const NODE_RECORDS_REFUSED: Metric = Metric::counter(
        "kith_node_records_refused_total",
        &[],
        "Unauthenticated registry entries in Redis, each time that a call read them.",
    );
    pub const OBSERVER_LAG: Metric = Metric::histogram(
        "kith_observer_lag_seconds",
        &[],
        "Time from the acknowledgement of a canary until another node served it.",
    );
    pub const OBSERVER_CHECKED: Metric = Metric::counter(
        "kith_observer_checked_total",
        &["after"],
        "Nodes that answered what they hold of a write of this node, by the age of the write; for the \
         canary, `observer.bound`. At `10s` also each time that this node's own copy of the canary without \
         broadcasts was too old.",
    );
    pub const OBSERVER_STALE: Metric = Metric::counter(
        "kith_observer_stale_total",
        &["after"],
        "Of these, nodes that trusted their memory and held an older version. Above 0 at 10s or 60s: a defect.",
    );

    pub const EDGES_CHECKED: Metric = Metric::counter(
        "kith_edges_checked_total",
        &[],
        "Follows and list entries that VerifyEdges and RepairEdges compared.",
    );
    pub const EDGE_DIFFERENCES: Metric = Metric::counter(
        "kith_edge_differences_total",
        &["kind"],
        "Follows and list entries that differ, each time they were found. Above 0: a damaged store or a \
         defect.",
    );
    pub const EDGE_COUNTS_CORRECTED: Metric = Metric::counter(
        "kith_edge_counts_corrected_total",
        &[],
        "Counts of lists of follows that RebuildCounts corrected.",
    );
    pub const EDGES_REMOVED: Metric = Metric::counter(
        "kith_edges_removed_total",
        &["kind"],
        "Follows and blocks ended because one of their users was deleted.",
    );

    pub const PRESENCE_GATEWAYS: Metric =
        Metric::gauge("kith_presence_gateways", &[], "Live gateways, as this node saw them last.");
    pub const PRESENCE_GATEWAYS_DEAD: Metric = Metric::gauge(
        "kith_presence_gateways_dead",
        &[],
        "Dead gateways with sessions not ended yet, as this node saw them last. Soon 0 again.",
    );
    pub const PRESENCE_SESSIONS_HELD: Metric = Metric::gauge(
        "kith_presence_sessions_held",
        &[],
        "Sessions that this node would restore if presence were lost.",
    );
    pub const PRESENCE_WATCHERS: Metric =
        Metric::gauge("kith_presence_watchers", &[], "Callers that watch presence on this node.");
    pub const PRESENCE_CHANGES: Metric = Metric::counter(
        "kith_presence_changes_total",
        &["change"],
        "Sessions that were opened, renewed and closed through this node.",
    );
    pub const PRESENCE_EVENTS: Metric = Metric::counter(
        "kith_presence_events_total",
        &[],
        "Presence events that this node received, from all nodes.",
    );
    pub const PRESENCE_FAN_OUTS: Metric = Metric::counter(
        "kith_presence_fan_outs_total",
        &[],
        "Users whose groups this node began to notify where they are online.",
    );
    pub const PRESENCE_FAN_OUTS_RESUMED: Metric = Metric::counter(
        "kith_presence_fan_outs_resumed_total",
        &[],
        "Of these, users with an earlier change of which not all groups had been notified.",
    );
    pub const PRESENCE_SWEPT: Metric = Metric::counter(
        "kith_presence_swept_total",
        &[],
        "Users who went offline at a gateway because it died or a session was not renewed.",
    );
    pub const PRESENCE_MOVES_DROPPED: Metric = Metric::counter(
        "kith_presence_moves_dropped_total",
        &[],
        "Joins and leaves that presence missed, because too many waited or Redis was away for half an hour.",
    );
    pub const APPLICATION_EFFECTS: Metric = Metric::counter(
        "kith_application_effects_total",
        &["outcome"],
        "Accepted applications: `done`, `refused` as impossible, `failed` and retried.",
    );
    pub const APPLICATIONS_RESUMED: Metric = Metric::counter(
        "kith_applications_resumed_total",
        &[],
        "Incomplete acceptances that this node resumed.",
    );

    pub const MESSAGES_SENT: Metric = Metric::counter(
        "kith_messages_sent_total",
        &["kind"],
        "Messages stored by this node, in `direct` conversations and of a `group`.",
    );
    pub const MESSAGES_REPLAYED: Metric = Metric::counter(
        "kith_messages_replayed_total",
        &[],
        "Sends of a message that was stored already.",
    );
    pub const MESSAGE_APPEND_SECONDS: Metric = Metric::histogram(
        "kith_message_append_seconds",
        &[],
        "Time to append the messages of one step to a conversation, with all attempts.",
    );
    pub const MESSAGE_APPEND_SIZE: Metric =
        Metric::histogram("kith_message_append_size", &[], "Messages that one step appended.");
    pub const MESSAGE_APPEND_RETRIES: Metric = Metric::counter(
        "kith_message_append_retries_total",
        &["why"],
        "Appends that were retried because the store was `unavailable`, or `overloaded` after an attempt with unknown \
         outcome.",
    );
    pub const MESSAGE_QUEUE: Metric = Metric::gauge(
        "kith_message_queue",
        &[],
        "Messages that wait on this node for their append to begin.",
    );
    pub const MESSAGE_EVENTS: Metric = Metric::counter(
        "kith_message_events_total",
        &["result"],
        "Events of groups that this node `appended` to their conversations, and those for which that `failed`.",
    );
    pub const MESSAGES_TRIMMED: Metric = Metric::counter(
        "kith_messages_trimmed_total",
        &[],
        "Messages that this node removed from the store because no user may read them.",
    );
    pub const MESSAGES_ERASED: Metric = Metric::counter(
        "kith_messages_erased_total",
        &[],
        "Messages that this node erased.",
    );
    pub const REACTIONS: Metric = Metric::counter(
        "kith_reactions_total",
        &["change"],
        "Reactions to messages that calls to this node `added` or `removed`.",
    );
    pub const OWN_MARKS_WAITING: Metric = Metric::gauge(
        "kith_own_marks_waiting",
        &[],
        "Dialogs whose user sent a message and is not marked yet as having read it. Rises while the store \
         fails.",
    );
    pub const REMOVALS_BEHIND: Metric = Metric::gauge(
        "kith_removals_behind_seconds",
        &[],
        "How far the time by which old data are removed is behind the clock.",
    );
    pub const CLOCK_AHEAD: Metric = Metric::gauge(
        "kith_clock_ahead_seconds",
        &[],
        "How far this machine's clock is ahead of the store's; negative: behind. 0 if the store has no \
         clock.",
    );
    pub const DIALOG_MARKS_SIZE: Metric =
        Metric::histogram("kith_dialog_marks_size", &[], "Read marks that one command of the store wrote.");
    pub const NOTICE_MARKS: Metric = Metric::counter(
        "kith_notice_marks_total",
        &["mark"],
        "Marks of readers of notices that this node wrote: read, unread, or unchanged (the store had it already).",
    );
    pub const NOTICE_COUNTS: Metric = Metric::counter(
        "kith_notice_counts_total",
        &["source"],
        "Counts of readers of notices: by bitmap alone, or with a scan of the store within the last 10 s.",
    );
    pub const NOTICE_BITMAP_FILLS: Metric = Metric::counter(
        "kith_notice_bitmap_fills_total",
        &["result"],
        "Bitmaps of readers that this node completed (filled), or did not: late (the scan took too long), changed (a \
         mark was taken back meanwhile).",
    );
    pub const NOTICE_BITMAPS_MISSED: Metric = Metric::counter(
        "kith_notice_bitmaps_missed_total",
        &[],
        "Bitmaps of readers not changed because Redis did not answer.",
    );
    pub const NOTICE_WATCHES: Metric = Metric::gauge(
        "kith_notice_watches",
        &[],
        "Audiences whose totals streams of Receive send, counted once for each stream.",
    );
    pub const NOTICE_WATCH_READS: Metric = Metric::counter(
        "kith_notice_watch_reads_total",
        &[],
        "Readers of notices read again for Receive because memory did not have them.",
    );
    pub const MESSAGES_UNDELIVERED: Metric = Metric::gauge(
        "kith_messages_undelivered",
        &[],
        "Conversations with messages not yet entered into inboxes, or for WatchOffline.",
    );
    pub const FAN_OUT_SECONDS: Metric = Metric::histogram(
        "kith_fan_out_seconds",
        &[],
        "Time to enter the messages of one step into the inboxes of their recipients, if that did not fail.",
    );
    pub const FAN_OUTS_RESUMED: Metric = Metric::counter(
        "kith_fan_outs_resumed_total",
        &["source"],
        "Incomplete fan-outs of other nodes that this node repeated, by a note in `redis` or the `store`.",
    );
    pub const RECEIVERS: Metric =
        Metric::gauge("kith_receivers", &[], "Streams of Receive that are open on this node.");
    pub const RECEIVE_RESETS: Metric = Metric::counter(
        "kith_receive_resets_total",
        &["why"],
        "Streams of Receive that could not continue: the inbox was `lost`, the stream was `behind` it, its `cursor` \
         was too old, or its `start` was not given.",
    );
    pub const RECEIVE_CATCH_UPS: Metric = Metric::counter(
        "kith_receive_catch_ups_total",
        &[],
        "Streams of Receive that began with positions and no usable cursor.",
    );
    pub const RECEIVE_LAG_SECONDS: Metric = Metric::histogram(
        "kith_receive_lag_seconds",
        &[],
        "Time from a send until a stream of this node has the message, if it came with a wake.",
    );
    pub const SIGNALS: Metric = Metric::counter(
        "kith_signals_total",
        &["kind"],
        "Signals that this node published: `typing`, `stopped`, `read`, `receipts`, `profile`, `reactions`.",
    );

    pub const RECEIPT_LOADS: Metric = Metric::counter(
        "kith_receipt_loads_total",
        &["what"],
        "Reads of whole conversations for receipts: all `members`, `changes` of members, or `marks`.",
    );
    pub const RECEIPT_NOTIFICATIONS: Metric = Metric::counter(
        "kith_receipt_notifications_total",
        &["outcome"],
        "Conversations whose senders were notified that messages were read: `sent`, `failed`, or `dropped` \
         because too many waited.",
    );
    pub const CHANGES_DELIVERED: Metric = Metric::counter(
        "kith_changes_delivered_total",
        &[],
        "Changes that ReadChanges returned; a change is counted for each of its readers.",
    );
    pub const CHANGES_AGE: Metric = Metric::gauge(
        "kith_changes_last_entry_age_seconds",
        &[],
        "Time since the newest kept change was written, as the node saw it that removes old ones. 0 on other nodes.",
    );
    pub const OFFLINE_ENTRIES: Metric = Metric::counter(
        "kith_offline_entries_total",
        &[],
        "Messages entered for WatchOffline; some may have been there already.",
    );
}

/// A count, as gauges and histograms take it.
pub(crate) fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Exports a counter from zero on, for each value of its label: else it were absent until it counts.
pub fn count_from_zero(metric: Metric, values: &[&'static str]) {
    match metric.labels {
        [] => drop(metrics::counter!(metric.name)),
        [label, ..] => values.iter().for_each(|value| drop(metrics::counter!(metric.name, *label => *value))),
    }
}
