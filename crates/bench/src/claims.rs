//! What each row claims, and what a run is asked for.

use std::path::PathBuf;

use crate::ratio::{Better, Claim, Figure};

/// What to measure, and with what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rows to run; none named: all.
    pub only: Vec<String>,
    /// Rounds of each row.
    pub rounds: usize,
    /// Little data and few operations: shows that the rows work, and measures nothing.
    pub quick: bool,
    /// Connection string of a MongoDB replica set that may be filled.
    pub mongodb: Option<String>,
    /// Address of a Cassandra or ScyllaDB that may be filled.
    pub cql: Option<String>,
    /// Address of a Redis that may be filled.
    pub redis: Option<String>,
    /// The program of a node.
    pub kith: PathBuf,
    /// Where the results go.
    pub out: PathBuf,
}

impl Plan {
    /// Whether this row is asked for.
    pub(crate) fn wants(&self, claim: &Claim) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == claim.name)
    }

    /// A number of things to do: `full`, or `quick` where nothing is to be measured.
    pub(crate) const fn size<T: Copy>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

const fn ratio(name: &'static str, unit: &'static str, better: Better, target: Option<f64>) -> Claim {
    Claim { name, unit, better, figure: Figure::Ratio, target }
}

/// `TieredCache::get` of what is in memory / moka and a clone of the `Arc`.
pub(crate) const MEMORY_HIT: Claim = ratio("memory_hit", "ns", Better::Lower, Some(1.1));
/// Bytes of an entry, its value apart, over those that moka takes by itself.
pub(crate) const MEMORY_ENTRY_BYTES: Claim = Claim {
    name: "memory_entry_bytes",
    unit: "bytes",
    better: Better::Lower,
    figure: Figure::Difference,
    target: Some(48.0),
};
/// One user from the embedded store through the tiers / the same read by rusqlite on threads of its own.
pub(crate) const STORE_ONE_SQLITE: Claim = ratio("store_one_sqlite", "us", Better::Lower, Some(1.3));
/// A hundred users / one query of rusqlite.
pub(crate) const STORE_100_SQLITE: Claim = ratio("store_100_sqlite", "us", Better::Lower, Some(1.3));
/// Changes of 64 callers at once / group commit by rusqlite.
pub(crate) const UPDATE_SQLITE: Claim = ratio("update_sqlite", "writes/s", Better::Higher, Some(0.8));
/// One user from MongoDB through the tiers / `find_one`.
pub(crate) const STORE_ONE_MONGODB: Claim = ratio("store_one_mongodb", "us", Better::Lower, Some(1.2));
/// A hundred users / one `$in`.
pub(crate) const STORE_100_MONGODB: Claim = ratio("store_100_mongodb", "us", Better::Lower, Some(1.5));
/// A change without a request id / `findOneAndUpdate` with the same write concern.
pub(crate) const UPDATE_MONGODB: Claim = ratio("update_mongodb", "us", Better::Lower, Some(1.15));
/// Processor time that a node takes for `GetUser` from memory / a bare tonic server that answers the same request with the same
/// message.
pub(crate) const GET_USER_CPU: Claim = ratio("get_user_cpu", "us", Better::Lower, Some(1.15));
/// The same of a node that needs a key / a bare tonic server behind an interceptor that hashes the key and compares in constant time.
pub(crate) const GET_USER_KEY_CPU: Claim = ratio("get_user_key_cpu", "us", Better::Lower, Some(1.15));
/// The same of a node that needs a key / of one that is open.
pub(crate) const KEY_COST_CPU: Claim = ratio("key_cost_cpu", "us", Better::Lower, Some(1.04));
/// Time of all but the slowest hundredth of calls of `GetUser`, at half of what the node can do, while other connections hold all the
/// health watches that there may be / while there are none.
pub(crate) const WATCHES_HELD_P99: Claim = ratio("watches_held_p99", "us", Better::Lower, Some(2.0));
/// The same while a connection reads nothing of 200 answers.
pub(crate) const UNREAD_HELD_P99: Claim = ratio("unread_held_p99", "us", Better::Lower, Some(2.0));
/// Processor time that a node takes for `GetUser` from memory by a user whose token it knows / by a caller with a key.
pub(crate) const TOKEN_COST_CPU: Claim = ratio("token_cost_cpu", "us", Better::Lower, Some(1.08));
/// Tokens a second that a node sees for the first time / signatures that ring verifies.
pub(crate) const TOKEN_FIRST: Claim = ratio("token_first", "tokens/s", Better::Higher, Some(0.7));
/// Processor time of a message of a stream that is always sending, behind the edge of a node / a bare tonic server that sends the
/// same messages. It contains what the edge does before each frame: whether the stream has to end.
pub(crate) const STREAM_CHECK_CPU: Claim = ratio("stream_check_cpu", "us", Better::Lower, Some(1.15));
/// Calls a second of both when they have all that they can do.
pub(crate) const GET_USER_THROUGHPUT: Claim = ratio("get_user_throughput", "calls/s", Better::Higher, None);
/// Time of all but the slowest hundredth of calls, at half of that.
pub(crate) const GET_USER_P99: Claim = ratio("get_user_p99_at_half", "us", Better::Lower, None);

/// Processor time that a node of a cluster takes for `GetUser` from memory / a node without peers.
pub(crate) const CLUSTER_CPU: Claim = ratio("cluster_cpu", "us", Better::Lower, Some(1.05));
/// Median time of one user from Redis, decoded / GET and the same decoding, with the same bounds on waiting.
pub(crate) const REDIS_HIT: Claim = ratio("redis_hit", "us", Better::Lower, Some(1.15));
/// The same, all but the slowest hundredth.
pub(crate) const REDIS_HIT_P99: Claim = ratio("redis_hit_p99", "us", Better::Lower, Some(1.15));
/// A hundred users from Redis / MGET and the same decoding.
pub(crate) const REDIS_100: Claim = ratio("redis_100", "us", Better::Lower, Some(1.3));
/// One user that only MongoDB has, left in Redis and memory / `find_one`, GET and SET.
pub(crate) const MISS: Claim = ratio("miss", "us", Better::Lower, Some(1.2));
/// A change that is broadcast to every node / `findOneAndUpdate` and one script that sets, logs and publishes.
pub(crate) const WRITE_TOLD: Claim = ratio("write_told", "us", Better::Lower, Some(1.15));
/// From a commit on one node to its old value gone from the memory of another / from PUBLISH to its message.
pub(crate) const DROPPED: Claim = ratio("dropped", "us", Better::Lower, Some(1.5));
/// The same, all but the slowest hundredth.
pub(crate) const DROPPED_P99: Claim = ratio("dropped_p99", "us", Better::Lower, Some(3.0));
/// From the end of a write on one node to the first read of another that gives its value / from PUBLISH to its
/// message and a GET then.
pub(crate) const NEW_READ: Claim = ratio("new_read", "us", Better::Lower, Some(0.6));

/// Processor time of `CheckPermission` from memory / a bare tonic server for an echo of the answer.
pub(crate) const CHECK_PERMISSION_CPU: Claim = ratio("check_permission_cpu", "us", Better::Lower, Some(1.15));
/// The same of `BatchGetRelations` of fifty users.
pub(crate) const BATCH_RELATIONS_CPU: Claim = ratio("batch_relations_cpu", "us", Better::Lower, Some(1.15));
/// Follows a second of an import into SQLite / the same rows in transactions of as many.
pub(crate) const IMPORT_SQLITE: Claim = ratio("import_sqlite", "follows/s", Better::Higher, Some(0.8));
/// The last page of a million fans from SQLite / the first one.
pub(crate) const FANS_DEEP_SQLITE: Claim = ratio("fans_deep_sqlite", "us", Better::Lower, Some(1.2));

/// Follows a second of an import into CQL / the same rows, those of each follow in one logged batch, many at the same
/// time.
pub(crate) const IMPORT_CQL: Claim = ratio("import_cql", "follows/s", Better::Higher, Some(0.8));
/// The last page of a million fans from CQL / the first one.
pub(crate) const FANS_DEEP_CQL: Claim = ratio("fans_deep_cql", "us", Better::Lower, Some(1.2));
/// A follow in CQL / the same statements sent by the driver.
pub(crate) const FOLLOW_CQL: Claim = ratio("follow_cql", "us", Better::Lower, Some(1.25));
/// A follow in CQL / one logged batch of two rows.
pub(crate) const FOLLOW_TWO_ROWS_CQL: Claim = ratio("follow_two_rows_cql", "us", Better::Lower, None);
/// Follows a second of one user in CQL / of a thousand users.
pub(crate) const CELEBRITY_CQL: Claim = ratio("celebrity_cql", "follows/s", Better::Higher, Some(0.5));
/// All of two thousand friends from CQL by a node with an empty memory / both lists read by the driver.
pub(crate) const FRIENDS_COLD_CQL: Claim = ratio("friends_cold_cql", "ms", Better::Lower, Some(1.3));
/// Most memory that a node holds while it finds all whom two users follow, one of them 10,000 and the other a million, over
/// that while it reads all of the shorter list.
pub(crate) const COMMON_MEMORY: Claim = Claim {
    name: "common_following_memory",
    unit: "MiB",
    better: Better::Lower,
    figure: Figure::Difference,
    target: Some(16.0),
};
/// For how long Redis does nothing else, at most, meanwhile, over the same.
pub(crate) const COMMON_REDIS: Claim = Claim {
    name: "common_following_redis",
    unit: "ms",
    better: Better::Lower,
    figure: Figure::Difference,
    target: Some(10.0),
};

/// Joins a second of one group in CQL, of 64 callers / rows of one partition that one caller writes under a condition each.
pub(crate) const JOINS_CQL: Claim = ratio("joins_cql", "joins/s", Better::Higher, Some(5.0));
/// The last page of a hundred thousand members from CQL / the first one.
pub(crate) const MEMBERS_DEEP_CQL: Claim = ratio("members_deep_cql", "us", Better::Lower, Some(1.2));
/// The same from SQLite.
pub(crate) const MEMBERS_DEEP_SQLITE: Claim = ratio("members_deep_sqlite", "us", Better::Lower, Some(1.2));

/// An append of one message to a log in MongoDB / a bare push of the same element with the same concern.
pub(crate) const APPEND_MONGODB: Claim = ratio("append_mongodb", "us", Better::Lower, Some(1.5));
/// Time of all but the slowest hundredth of appends of 1 KiB at the end of a document / at its start, of one log.
pub(crate) const APPEND_END_1K: Claim = ratio("append_end_1k", "us", Better::Lower, Some(4.0));
/// The same of 64 KiB.
pub(crate) const APPEND_END_64K: Claim = ratio("append_end_64k", "us", Better::Lower, Some(4.0));
/// Messages a second of 64 callers that append to an embedded store / the same rows in group commits.
pub(crate) const APPEND_SQLITE: Claim = ratio("append_sqlite", "messages/s", Better::Higher, Some(0.8));
/// Commands for a thousand messages that 32 callers send to one group through one node, less those that store some.
pub(crate) const APPEND_OPERATIONS: Claim = Claim {
    figure: Figure::Difference,
    target: Some(2.0),
    ..ratio("append_operations", "commands", Better::Lower, None)
};
/// The same through three nodes at the same time.
pub(crate) const APPEND_OPERATIONS_OF_3: Claim =
    Claim { name: "append_operations_of_3", target: Some(60.0), ..APPEND_OPERATIONS };
/// The same in batches of a hundred.
pub(crate) const APPEND_OPERATIONS_STEPS: Claim =
    Claim { name: "append_operations_steps", target: Some(60.0), ..APPEND_OPERATIONS };
/// Median time of a message to a direct conversation / a bare push.
pub(crate) const SEND_DIRECT: Claim = ratio("send_direct", "us", Better::Lower, Some(1.5));
/// Messages a second of 32 callers to one group / of as many bare pushes into one log.
pub(crate) const SEND_ONE_GROUP: Claim = ratio("send_one_group", "messages/s", Better::Higher, Some(3.0));
/// The last 50 messages of a log / a find of their documents.
pub(crate) const PULL_RECENT: Claim = ratio("pull_recent", "us", Better::Lower, Some(1.3));
/// A thousand messages in the middle of a log / a find of their ten documents.
pub(crate) const PULL_1000: Claim = ratio("pull_1000", "us", Better::Lower, Some(1.3));
/// A list of 200 conversations / one find of the sizes of their last documents.
pub(crate) const LIST_200: Claim = ratio("list_200", "us", Better::Lower, Some(2.0));
/// Share of reads of messages that MongoDB has no part in: pages of conversations of uneven popularity, nine in ten of them among
/// the last hundred messages.
pub(crate) const RECENT_MIX: Claim =
    Claim { figure: Figure::Kith, target: Some(0.97), ..ratio("recent_mix", "share", Better::Higher, None) };
/// Processor time of a node in single-node mode for a message to one conversation, 50 at a time / for `SetDoNotDisturb`.
pub(crate) const SEND_CPU: Claim = ratio("send_cpu", "us", Better::Lower, Some(1.5));
/// The same for a list of 20 conversations with unread counts / for `GetUser`.
pub(crate) const LIST_20_CPU: Claim = ratio("list_20_cpu", "us", Better::Lower, Some(5.0));
/// Processor time of a node of a cluster for the last 20 messages of a conversation / of an LRANGE of them, decoded, and a bare tonic
/// server that echoes them.
pub(crate) const PULL_20_CPU: Claim = ratio("pull_20_cpu", "us", Better::Lower, Some(2.0));
/// The same for the ends of 20 conversations / of a bare tonic server that echoes them.
pub(crate) const MAX_SEQS_CPU: Claim = ratio("max_seqs_cpu", "us", Better::Lower, None);
/// Processor time of Redis for an entry of a fan-out to 500 inboxes / for a plain XADD in a pipeline.
pub(crate) const FAN_OUT_500: Claim = ratio("fan_out_500", "us", Better::Lower, Some(3.0));

/// The same for a message of four that go out at once.
pub(crate) const FAN_OUT_COALESCED: Claim = ratio("fan_out_coalesced", "us", Better::Lower, Some(1.0));
/// Memory of a node for each of 10,000 streams of Receive, in KiB; the baseline is that of a bare tonic server.
pub(crate) const RECEIVE_MEMORY: Claim =
    Claim { figure: Figure::Kith, target: Some(40.0), ..ratio("receive_memory", "KiB", Better::Lower, None) };
/// Time from the answer to the sender to the delivery, of 300 direct messages a second among 10,000 streams, all but the slowest
/// hundredth / from PUBLISH to SUBSCRIBE.
pub(crate) const DELIVER_P99: Claim = ratio("deliver_p99", "us", Better::Lower, Some(3.0));
/// Seconds from the death of a node with 10,000 streams until all are live on another one, while messages are sent.
pub(crate) const RECEIVE_AGAIN: Claim =
    Claim { figure: Figure::Kith, target: Some(30.0), ..ratio("receive_again", "s", Better::Lower, None) };
/// Reads of a user on the node that takes over, all but the slowest hundredth / before.
pub(crate) const RECEIVE_AGAIN_P99: Claim = ratio("receive_again_p99", "ms", Better::Lower, Some(3.0));
/// Seconds until one message to a group of 100,000 has reached 10,000 streams on two nodes; the baseline is two bare servers.
pub(crate) const GROUP_100K: Claim =
    Claim { figure: Figure::Kith, target: Some(1.0), ..ratio("group_100k", "s", Better::Lower, None) };
/// Processor time of the nodes for one of these deliveries / of bare tonic servers that send the same.
pub(crate) const GROUP_100K_CPU: Claim = ratio("group_100k_cpu", "us", Better::Lower, Some(1.5));

/// Processor time of a node for what a reader has read of ten notices, out of memory / of a bare tonic server that echoes it.
pub(crate) const COUNT_NOTICES_CPU: Claim = ratio("count_notices_cpu", "us", Better::Lower, Some(1.15));
/// The same for the receipt of a message in a group of 200.
pub(crate) const RECEIPT_CPU: Claim = ratio("receipt_cpu", "us", Better::Lower, Some(1.15));
/// Median time of what a reader has read of 1000 notices, out of memory / of ten.
pub(crate) const NOTICE_TOTALS_FLAT: Claim = ratio("notice_totals_flat", "us", Better::Lower, Some(1.5));
/// Median time of what a reader has read of ten notices, by its record from Redis / a GET of the same bytes.
pub(crate) const NOTICE_TOTALS_10: Claim = ratio("notice_totals_10", "us", Better::Lower, Some(1.3));
/// The same of a hundred notices.
pub(crate) const NOTICE_TOTALS_100: Claim = Claim { name: "notice_totals_100", ..NOTICE_TOTALS_10 };
/// The same of a thousand.
pub(crate) const NOTICE_TOTALS_1000: Claim = Claim { name: "notice_totals_1000", ..NOTICE_TOTALS_10 };
/// The same of ten / by the script that looks at a bitmap of each notice, beside a thousand other keys.
pub(crate) const NOTICE_TOTALS_10_SCRIPT: Claim = ratio("notice_totals_10_script", "us", Better::Lower, None);
/// The same of a hundred.
pub(crate) const NOTICE_TOTALS_100_SCRIPT: Claim =
    Claim { name: "notice_totals_100_script", ..NOTICE_TOTALS_10_SCRIPT };
/// The same of a thousand.
pub(crate) const NOTICE_TOTALS_1000_SCRIPT: Claim =
    Claim { name: "notice_totals_1000_script", ..NOTICE_TOTALS_10_SCRIPT };
/// Median time of a mark through a node / of a bare `findOneAndUpdate`, then a script that publishes it and SETBIT.
pub(crate) const NOTICE_MARK_MONGODB: Claim = ratio("notice_mark_mongodb", "us", Better::Lower, Some(1.3));
/// The same of a node in single-node mode / of a bare commit.
pub(crate) const NOTICE_MARK_SQLITE: Claim = ratio("notice_mark_sqlite", "us", Better::Lower, Some(1.3));
/// Median time of counting who has read a notice, of 100,000 readers / of two BITCOUNT in one pipeline.
pub(crate) const NOTICE_READERS: Claim = ratio("notice_readers", "us", Better::Lower, Some(1.3));
/// Bytes of the bitmaps of a notice with 100,000 readers; the baseline is one bit for each.
pub(crate) const NOTICE_BYTES: Claim = Claim {
    figure: Figure::Kith,
    target: Some(12_600.0),
    ..ratio("notice_bytes", "bytes", Better::Lower, None)
};
/// Median time of the receipts of 50 messages in a group of 200, out of memory / of a GET of its read marks.
pub(crate) const RECEIPTS_50: Claim = ratio("receipts_50", "us", Better::Lower, Some(1.5));
/// The same of one receipt in a group of 100,000 / of GET of its 98 blocks of read marks in one pipeline.
pub(crate) const RECEIPT_100K: Claim = ratio("receipt_100k", "us", Better::Lower, Some(2.0));
/// Median time of marking 500 unread messages through a node / of a bare `$max`, then a script that publishes it and SETRANGE.
pub(crate) const RECEIPT_MARK_500: Claim = ratio("receipt_mark_500", "us", Better::Lower, Some(1.3));
/// The same / of a bit for each message and an update of their documents.
pub(crate) const RECEIPT_MARK_500_BITS: Claim = ratio("receipt_mark_500_bits", "us", Better::Lower, None);
/// Marks a second of 64 callers in 200 groups / of commands with up to 250 bare `$max`.
pub(crate) const RECEIPT_MARKS: Claim = ratio("receipt_marks", "marks/s", Better::Higher, Some(0.6));

/// Processors that Redis takes for renewing 100,000 sessions once a minute / for the same changes as plain commands.
pub(crate) const PRESENCE_RENEW: Claim = ratio("presence_renew", "cores", Better::Lower, None);
/// The same, of the node alone.
pub(crate) const PRESENCE_RENEW_CORE: Claim = Claim {
    figure: Figure::Kith,
    target: Some(0.05),
    ..ratio("presence_renew_core", "cores", Better::Lower, None)
};
/// Processors that the node takes for it / the client that sends the plain commands.
pub(crate) const PRESENCE_RENEW_NODE: Claim = ratio("presence_renew_node", "cores", Better::Lower, None);
/// Commands a second of Redis, those that scripts call among them.
pub(crate) const PRESENCE_RENEW_COMMANDS: Claim =
    ratio("presence_renew_commands", "commands/s", Better::Lower, None);
/// Median time of opening a session of a user in 500 groups, until all of them know / plain commands in one pipeline.
pub(crate) const OPEN_SESSION: Claim = ratio("open_session_500", "ms", Better::Lower, None);
/// The same, of the node alone.
pub(crate) const OPEN_SESSION_TIME: Claim = Claim {
    figure: Figure::Kith,
    target: Some(20.0),
    ..ratio("open_session_500_time", "ms", Better::Lower, None)
};

/// Median time of one number of a sequence / INCR over a connection of the same kind.
pub(crate) const TAKE: Claim = ratio("take", "us", Better::Lower, Some(1.3));
/// The same, all but the slowest hundredth.
pub(crate) const TAKE_P99: Claim = ratio("take_p99", "us", Better::Lower, Some(2.0));
/// Numbers a second of 32 callers of one sequence / of as many that use INCR.
pub(crate) const TAKE_32: Claim = ratio("take_32", "numbers/s", Better::Higher, Some(0.7));
/// The longest wait of one of them, blocks from the store among it.
pub(crate) const TAKE_LONGEST_WAIT: Claim = Claim {
    figure: Figure::Kith,
    target: Some(20.0),
    ..ratio("take_longest_wait", "ms", Better::Lower, None)
};

/// Every row, in the order of the table.
pub(crate) const ALL: [&Claim; 95] = [
    &GET_USER_CPU,
    &GET_USER_THROUGHPUT,
    &GET_USER_P99,
    &GET_USER_KEY_CPU,
    &KEY_COST_CPU,
    &WATCHES_HELD_P99,
    &UNREAD_HELD_P99,
    &TOKEN_COST_CPU,
    &TOKEN_FIRST,
    &STREAM_CHECK_CPU,
    &MEMORY_HIT,
    &MEMORY_ENTRY_BYTES,
    &STORE_ONE_SQLITE,
    &STORE_100_SQLITE,
    &UPDATE_SQLITE,
    &STORE_ONE_MONGODB,
    &STORE_100_MONGODB,
    &UPDATE_MONGODB,
    &CLUSTER_CPU,
    &REDIS_HIT,
    &REDIS_HIT_P99,
    &REDIS_100,
    &MISS,
    &WRITE_TOLD,
    &DROPPED,
    &DROPPED_P99,
    &NEW_READ,
    &CHECK_PERMISSION_CPU,
    &BATCH_RELATIONS_CPU,
    &IMPORT_SQLITE,
    &FANS_DEEP_SQLITE,
    &IMPORT_CQL,
    &FANS_DEEP_CQL,
    &FOLLOW_CQL,
    &FOLLOW_TWO_ROWS_CQL,
    &CELEBRITY_CQL,
    &FRIENDS_COLD_CQL,
    &COMMON_MEMORY,
    &COMMON_REDIS,
    &JOINS_CQL,
    &MEMBERS_DEEP_CQL,
    &MEMBERS_DEEP_SQLITE,
    &APPEND_MONGODB,
    &APPEND_END_1K,
    &APPEND_END_64K,
    &APPEND_SQLITE,
    &APPEND_OPERATIONS,
    &APPEND_OPERATIONS_OF_3,
    &APPEND_OPERATIONS_STEPS,
    &SEND_DIRECT,
    &SEND_ONE_GROUP,
    &PULL_RECENT,
    &PULL_1000,
    &LIST_200,
    &RECENT_MIX,
    &SEND_CPU,
    &LIST_20_CPU,
    &PULL_20_CPU,
    &MAX_SEQS_CPU,
    &FAN_OUT_500,
    &FAN_OUT_COALESCED,
    &RECEIVE_MEMORY,
    &DELIVER_P99,
    &RECEIVE_AGAIN,
    &RECEIVE_AGAIN_P99,
    &GROUP_100K,
    &GROUP_100K_CPU,
    &COUNT_NOTICES_CPU,
    &RECEIPT_CPU,
    &NOTICE_TOTALS_FLAT,
    &NOTICE_TOTALS_10,
    &NOTICE_TOTALS_100,
    &NOTICE_TOTALS_1000,
    &NOTICE_TOTALS_10_SCRIPT,
    &NOTICE_TOTALS_100_SCRIPT,
    &NOTICE_TOTALS_1000_SCRIPT,
    &NOTICE_MARK_MONGODB,
    &NOTICE_MARK_SQLITE,
    &NOTICE_READERS,
    &NOTICE_BYTES,
    &RECEIPTS_50,
    &RECEIPT_100K,
    &RECEIPT_MARK_500,
    &RECEIPT_MARK_500_BITS,
    &RECEIPT_MARKS,
    &PRESENCE_RENEW,
    &PRESENCE_RENEW_CORE,
    &PRESENCE_RENEW_NODE,
    &PRESENCE_RENEW_COMMANDS,
    &OPEN_SESSION,
    &OPEN_SESSION_TIME,
    &TAKE,
    &TAKE_P99,
    &TAKE_32,
    &TAKE_LONGEST_WAIT,
];
