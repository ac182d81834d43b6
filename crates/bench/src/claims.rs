//! What each row claims, and what a run is asked for.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use kith_lab_servers::program::program;

use crate::ratio::Claim;

/// What to measure, and with what.
#[derive(Args, Clone, Debug, Default)]
pub struct Plan {
    /// Run this row alone; may be given several times.
    #[arg(long, value_name = "ROW")]
    pub only: Vec<String>,
    /// Rounds of each row.
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    /// Show that the rows work, with too little of everything to measure.
    #[arg(long)]
    pub quick: bool,
    /// A MongoDB replica set that may be filled; without it, its rows are not run.
    #[arg(long, env = "KITH_TEST_MONGODB", hide_env_values = true)]
    pub mongodb: Option<String>,
    /// `HOST:PORT` of a Cassandra that may be filled; without it, its rows are not run.
    #[arg(long, env = "KITH_TEST_CQL", hide_env_values = true)]
    pub cql: Option<String>,
    /// A Redis that may be filled; without it, its rows are not run.
    #[arg(long, env = "KITH_TEST_REDIS", hide_env_values = true)]
    pub redis: Option<String>,
    /// The program of a node [default: `kith` in the folder of this program].
    #[arg(long)]
    pub kith: Option<PathBuf>,
    /// Where the results go.
    #[arg(long, default_value = "target/bench/ratios.json")]
    pub out: PathBuf,
}

impl Plan {
    /// Whether this row is asked for.
    pub(crate) fn wants(&self, claim: &Claim) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == claim.name)
    }

    /// Whether one of these rows is asked for.
    pub(crate) fn wants_any(&self, claims: &[&Claim]) -> bool {
        claims.iter().any(|claim| self.wants(claim))
    }

    /// A number of things to do: `full`, or `quick` where nothing is to be measured.
    pub(crate) const fn size<T: Copy>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The program of a node.
    ///
    /// # Errors
    /// If the path of this program is not known.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        program(self.kith.clone())
    }
}

/// Defines the claims, and `ALL` with all of them in this order, which is that of the table.
macro_rules! claims {
    ($($(#[$doc:meta])* $name:ident = $claim:expr;)*) => {
        $($(#[$doc])* pub(crate) const $name: Claim = $claim;)*

        /// Every row, in the order of the table.
        pub(crate) const ALL: &[Claim] = &[$($name),*];
    };
}

claims! {
    /// Processor time that a node takes for `GetUser` from memory / a bare tonic server that answers the same request with the same
    /// message.
    GET_USER_CPU = Claim::cost("get_user_cpu", "us").target(1.15);
    /// Calls a second of both when they have all that they can do.
    GET_USER_THROUGHPUT = Claim::gain("get_user_throughput", "calls/s");
    /// Time of all but the slowest hundredth of calls, at half of that.
    GET_USER_P99 = Claim::cost("get_user_p99_at_half", "us");
    /// Processor time for `GetUser` of a node that needs a key / of a bare tonic server behind an interceptor that hashes the key and
    /// compares in constant time.
    GET_USER_KEY_CPU = Claim::cost("get_user_key_cpu", "us").target(1.15);
    /// The same of a node that needs a key / of one that is open.
    KEY_COST_CPU = Claim::cost("key_cost_cpu", "us").target(1.04);
    /// Time of all but the slowest hundredth of calls of `GetUser`, at half of what the node can do, while other connections hold all
    /// the health watches that there may be / while there are none.
    WATCHES_HELD_P99 = Claim::cost("watches_held_p99", "us").target(2.0);
    /// The same while a connection reads nothing of 200 answers.
    UNREAD_HELD_P99 = Claim::cost("unread_held_p99", "us").target(2.0);
    /// Processor time that a node takes for `GetUser` from memory by a user whose token it knows / by a caller with a key.
    TOKEN_COST_CPU = Claim::cost("token_cost_cpu", "us").target(1.08);
    /// Tokens a second that a node sees for the first time / signatures that ring verifies.
    TOKEN_FIRST = Claim::gain("token_first", "tokens/s").target(0.7);
    /// Processor time of a message of a stream that is always sending, behind the edge of a node / a bare tonic server that sends the
    /// same messages. It contains what the edge does before each frame: whether the stream has to end.
    STREAM_CHECK_CPU = Claim::cost("stream_check_cpu", "us").target(1.15);

    /// `TieredCache::get` of what is in memory / moka and a clone of the `Arc`.
    MEMORY_HIT = Claim::cost("memory_hit", "ns").target(1.1);
    /// Bytes of an entry, its value apart, over those that moka takes by itself.
    MEMORY_ENTRY_BYTES = Claim::cost("memory_entry_bytes", "bytes").difference().target(96.0);
    /// Bytes by which a process grows for a user of 300 bytes in memory, of a million; the baseline is what the memory tier counts.
    USER_BYTES = Claim::cost("user_bytes", "bytes").kith_alone().target(717.0);
    /// The same for a membership.
    MEMBERSHIP_BYTES = Claim::cost("membership_bytes", "bytes").kith_alone().target(250.0);
    /// The same for the absence of one.
    ABSENCE_BYTES = Claim::cost("absence_bytes", "bytes").kith_alone().target(180.0);
    /// Growth of the process for the users / what is counted.
    GROWTH_OVER_COUNTED = Claim::cost("growth_over_counted", "bytes").target(1.2);
    /// One user from the embedded store through the tiers / the same read by rusqlite on threads of its own.
    STORE_ONE_SQLITE = Claim::cost("store_one_sqlite", "us").target(1.3);
    /// A hundred users / one query of rusqlite.
    STORE_100_SQLITE = Claim::cost("store_100_sqlite", "us").target(1.3);
    /// Changes of 64 callers at once / group commit by rusqlite.
    UPDATE_SQLITE = Claim::gain("update_sqlite", "writes/s").target(0.8);
    /// One user from MongoDB through the tiers / `find_one`.
    STORE_ONE_MONGODB = Claim::cost("store_one_mongodb", "us").target(1.2);
    /// A hundred users / one `$in`.
    STORE_100_MONGODB = Claim::cost("store_100_mongodb", "us").target(1.5);
    /// A change without a request id / `findOneAndUpdate` with the same write concern.
    UPDATE_MONGODB = Claim::cost("update_mongodb", "us").target(1.15);

    /// Processor time that a node of a cluster takes for `GetUser` from memory / a node without peers.
    CLUSTER_CPU = Claim::cost("cluster_cpu", "us").target(1.05);
    /// Median time of one user from Redis, decoded / GET and the same decoding, with the same bounds on waiting.
    REDIS_HIT = Claim::cost("redis_hit", "us").target(1.15);
    /// The same, all but the slowest hundredth.
    REDIS_HIT_P99 = Claim::cost("redis_hit_p99", "us").target(1.15);
    /// A hundred users from Redis / MGET and the same decoding.
    REDIS_100 = Claim::cost("redis_100", "us").target(1.3);
    /// One user that only MongoDB has, left in Redis and memory / `find_one`, GET and SET.
    MISS = Claim::cost("miss", "us").target(1.2);
    /// A change that is broadcast to every node / `findOneAndUpdate` and one script that sets, logs and publishes.
    WRITE_PUBLISHED = Claim::cost("write_published", "us").target(1.15);
    /// From a commit on one node to its old value gone from the memory of another / from PUBLISH to its message.
    DROPPED = Claim::cost("dropped", "us").target(1.5);
    /// The same, all but the slowest hundredth.
    DROPPED_P99 = Claim::cost("dropped_p99", "us").target(3.0);
    /// From the end of a write on one node to the first read of another that gives its value / from PUBLISH to its
    /// message and a GET then.
    NEW_READ = Claim::cost("new_read", "us").target(0.6);

    /// Processor time of `CheckPermission` from memory / a bare tonic server for an echo of the answer.
    CHECK_PERMISSION_CPU = Claim::cost("check_permission_cpu", "us").target(1.15);
    /// The same of `BatchGetRelations` of fifty users.
    BATCH_RELATIONS_CPU = Claim::cost("batch_relations_cpu", "us").target(1.15);
    /// Follows a second of an import into SQLite / the same rows in transactions of as many.
    IMPORT_SQLITE = Claim::gain("import_sqlite", "follows/s").target(0.8);
    /// The last page of a million fans from SQLite / the first one.
    FANS_DEEP_SQLITE = Claim::cost("fans_deep_sqlite", "us").target(1.2);

    /// Follows a second of an import into CQL / the same rows, those of each follow in one logged batch, many at the same
    /// time.
    IMPORT_CQL = Claim::gain("import_cql", "follows/s").target(0.8);
    /// The last page of a million fans from CQL / the first one.
    FANS_DEEP_CQL = Claim::cost("fans_deep_cql", "us").target(1.2);
    /// A follow in CQL / the same statements sent by the driver.
    FOLLOW_CQL = Claim::cost("follow_cql", "us").target(1.25);
    /// A follow in CQL / one logged batch of two rows.
    FOLLOW_TWO_ROWS_CQL = Claim::cost("follow_two_rows_cql", "us");
    /// Follows a second of one user in CQL / of a thousand users.
    CELEBRITY_CQL = Claim::gain("celebrity_cql", "follows/s").target(0.5);
    /// All of two thousand friends from CQL by a node with an empty memory / both lists read by the driver.
    FRIENDS_COLD_CQL = Claim::cost("friends_cold_cql", "ms").target(1.3);
    /// Most memory that a node holds while it finds all whom two users follow, one of them 10,000 and the other a million, over
    /// that while it reads all of the shorter list.
    COMMON_MEMORY = Claim::cost("common_following_memory", "MiB").difference().target(16.0);
    /// For how long Redis does nothing else, at most, meanwhile, over the same.
    COMMON_REDIS = Claim::cost("common_following_redis", "ms").difference().target(10.0);

    /// Joins a second of one group in CQL, of 64 callers / rows of one partition that one caller writes under a condition each.
    JOINS_CQL = Claim::gain("joins_cql", "joins/s").target(5.0);
    /// The last page of a hundred thousand members from CQL / the first one.
    MEMBERS_DEEP_CQL = Claim::cost("members_deep_cql", "us").target(1.2);
    /// The same from SQLite.
    MEMBERS_DEEP_SQLITE = Claim::cost("members_deep_sqlite", "us").target(1.2);

    /// An append of one message to a log in MongoDB / a bare push of the same element with the same concern.
    APPEND_MONGODB = Claim::cost("append_mongodb", "us").target(1.5);
    /// Time of all but the slowest hundredth of appends of 1 KiB at the end of a document / at its start, of one log.
    APPEND_END_1K = Claim::cost("append_end_1k", "us").target(4.0);
    /// The same of 64 KiB.
    APPEND_END_64K = Claim::cost("append_end_64k", "us").target(4.0);
    /// Messages a second of 64 callers that append to an embedded store / the same rows in group commits.
    APPEND_SQLITE = Claim::gain("append_sqlite", "messages/s").target(0.8);
    /// Commands for a thousand messages that 32 callers send to one group through one node, less those that store some.
    APPEND_OPERATIONS = Claim::cost("append_operations", "commands").difference().target(2.0);
    /// The same through three nodes at the same time.
    APPEND_OPERATIONS_OF_3 = Claim::cost("append_operations_of_3", "commands").difference().target(60.0);
    /// The same in batches of a hundred.
    APPEND_OPERATIONS_STEPS = Claim::cost("append_operations_steps", "commands").difference().target(60.0);
    /// Median time of a message to a direct conversation / a bare push.
    SEND_DIRECT = Claim::cost("send_direct", "us").target(1.5);
    /// Messages a second of 32 callers to one group / of as many bare pushes into one log.
    SEND_ONE_GROUP = Claim::gain("send_one_group", "messages/s").target(3.0);
    /// The last 50 messages of a log / a find of their documents.
    PULL_RECENT = Claim::cost("pull_recent", "us").target(1.3);
    /// A thousand messages in the middle of a log / a find of their ten documents.
    PULL_1000 = Claim::cost("pull_1000", "us").target(1.3);
    /// A list of 200 conversations / one find of the sizes of their last documents.
    LIST_200 = Claim::cost("list_200", "us").target(2.0);
    /// Share of reads of messages that MongoDB has no part in: pages of conversations of uneven popularity, nine in ten of them among
    /// the last hundred messages.
    RECENT_MIX = Claim::gain("recent_mix", "share").kith_alone().target(0.97);
    /// Processor time of a node in single-node mode for a message to one conversation, 50 at a time / for `SetDoNotDisturb`.
    SEND_CPU = Claim::cost("send_cpu", "us").target(1.5);
    /// The same for a list of 20 conversations with unread counts / for `GetUser`.
    LIST_20_CPU = Claim::cost("list_20_cpu", "us").target(5.0);
    /// Processor time of a node of a cluster for the last 20 messages of a conversation / of an LRANGE of them, decoded, and a bare
    /// tonic server that echoes them.
    PULL_20_CPU = Claim::cost("pull_20_cpu", "us").target(2.0);
    /// The same for the ends of 20 conversations / of a bare tonic server that echoes them.
    MAX_SEQS_CPU = Claim::cost("max_seqs_cpu", "us");

    /// Processor time of all servers of a cluster (node, MongoDB, Cassandra, Redis) for a message of 50 under way, to 1,000 groups of
    /// ten / of MongoDB for an insert of one document of as many bytes, with the same concern.
    SEND_MANY_SERVERS = Claim::cost("send_many_servers", "us").target(2.7);
    /// Messages a second of the same.
    SEND_MANY_RATE = Claim::gain("send_many_rate", "messages/s").target(0.6);
    /// As `SEND_MANY_SERVERS`, to one group of 200.
    SEND_ONE_SERVERS = Claim::cost("send_one_servers", "us").target(0.9);
    /// Messages a second of the same.
    SEND_ONE_RATE = Claim::gain("send_one_rate", "messages/s").target(1.3);
    /// As `SEND_MANY_SERVERS`, to 1,000 direct conversations.
    SEND_DIRECT_SERVERS = Claim::cost("send_direct_servers", "us").target(2.3);
    /// Messages a second of the same.
    SEND_DIRECT_RATE = Claim::gain("send_direct_rate", "messages/s").target(0.6);
    /// As `SEND_ONE_SERVERS`, at 200 messages a second.
    SEND_REST = Claim::cost("send_rest", "us").target(3.2);
    /// The same without what the servers of each side take at rest.
    SEND_REST_NET = Claim::cost("send_rest_net", "us").target(2.5);
    /// Scripts that Redis runs for a message to a group of ten, of whom none is online.
    SCRIPTS_OFFLINE = Claim::cost("scripts_offline", "scripts").kith_alone().target(2.5);
    /// The same where all are online.
    SCRIPTS_ONLINE = Claim::cost("scripts_online", "scripts").kith_alone().target(3.5);
    /// Processor time of a node in single-node mode for a list of 20 conversations with 95 unread messages of others in each / for
    /// `GetUser`.
    LIST_20_UNREAD_CPU = Claim::cost("list_20_unread_cpu", "us").target(12.0);
    /// The same of 200 conversations.
    LIST_200_UNREAD_CPU = Claim::cost("list_200_unread_cpu", "us").target(90.0);
    /// Processor time of all servers of a cluster for the list of 20; the baseline is that of `GetUser`.
    LIST_20_UNREAD_SERVERS = Claim::cost("list_20_unread_servers", "us").kith_alone().target(1_300.0);
    /// The same of 200 conversations.
    LIST_200_UNREAD_SERVERS = Claim::cost("list_200_unread_servers", "us").kith_alone().target(9_000.0);
    /// Marks a second of 50 callers of a cluster, each raising one / inserts of as many.
    MARKS_RATE = Claim::gain("marks_rate", "marks/s").target(0.9);
    /// Entries of the log of changes for a join of a group: one for each change script. What the node publishes meanwhile for other
    /// reasons is among them.
    JOIN_CHANGES = Claim::cost("join_changes", "scripts").kith_alone().target(1.1);
    /// Median time of a join / of a follow.
    JOIN_TIME = Claim::cost("join_time", "us").target(1.3);
    /// Changes a second, made by another program in MongoDB, until a node has published all; the baseline is a bare change stream.
    FEED_RATE = Claim::gain("feed_rate", "changes/s").kith_alone().target(20_000.0);
    /// Seconds until 1,000 sockets are live on a node of a cluster, 64 opening at a time, each with its list of conversations.
    SOCKETS_OPENED = Claim::cost("sockets_opened", "s").kith_alone().target(0.5);
    /// Memory of the node for each of these sockets, in KiB.
    SOCKET_MEMORY = Claim::cost("socket_memory", "KiB").kith_alone().target(20.0);
    /// Processor time of the node for a delivery to one of these sockets, of a message to a group of all.
    SOCKET_DELIVERY_CPU = Claim::cost("socket_delivery_cpu", "us").kith_alone().target(18.0);
    /// Messages a second that are answered within 2 s while 500 callers send and as many read users / of 50 callers alone.
    OVERLOAD_SENDS = Claim::gain("overload_sends", "messages/s").target(0.8);
    /// The same of the reads.
    OVERLOAD_GET_USER = Claim::gain("overload_get_user", "calls/s").target(0.8);
    /// Share of the numbers of a sequence that are given out by three nodes of which none fails.
    SEQUENCE_USED = Claim::gain("sequence_used", "share").kith_alone().target(1.0);
    /// Processor time a second, in ms, of a node of a cluster without calls.
    IDLE_NODE = Claim::cost("idle_node", "ms/s").kith_alone().target(10.0);
    /// That of Cassandra with one node, over that without.
    IDLE_CASSANDRA = Claim::cost("idle_cassandra", "ms/s").difference().target(50.0);
    /// The same of MongoDB.
    IDLE_MONGOD = Claim::cost("idle_mongod", "ms/s").difference().target(12.0);
    /// That of MongoDB with two nodes, over that with one.
    IDLE_MONGOD_NEXT = Claim::cost("idle_mongod_next", "ms/s").difference().target(4.0);

    /// Processor time of Redis for an entry of a fan-out to 500 inboxes / for a plain XADD in a pipeline.
    FAN_OUT_500 = Claim::cost("fan_out_500", "us").target(3.0);
    /// The same for a message of four that go out at once.
    FAN_OUT_COALESCED = Claim::cost("fan_out_coalesced", "us").target(1.0);
    /// Memory of a node for each of 10,000 streams of Receive, in KiB; the baseline is that of a bare tonic server.
    RECEIVE_MEMORY = Claim::cost("receive_memory", "KiB").kith_alone().target(40.0);
    /// Time from the answer to the sender to the delivery, of 300 direct messages a second among 10,000 streams, all but the slowest
    /// hundredth / from PUBLISH to SUBSCRIBE.
    DELIVER_P99 = Claim::cost("deliver_p99", "us").target(3.0);
    /// Seconds from the death of a node with 10,000 streams until all are live on another one, while messages are sent.
    RECEIVE_AGAIN = Claim::cost("receive_again", "s").kith_alone().target(30.0);
    /// Reads of a user on the node that takes over, all but the slowest hundredth / before.
    RECEIVE_AGAIN_P99 = Claim::cost("receive_again_p99", "ms").target(3.0);
    /// Seconds until one message to a group of 100,000 has reached 10,000 streams on two nodes; the baseline is two bare servers.
    GROUP_100K = Claim::cost("group_100k", "s").kith_alone().target(1.0);
    /// Processor time of the nodes for one of these deliveries / of bare tonic servers that send the same.
    GROUP_100K_CPU = Claim::cost("group_100k_cpu", "us").target(1.5);

    /// Processor time of a node for what a reader has read of ten notices, out of memory / of a bare tonic server that echoes it.
    COUNT_NOTICES_CPU = Claim::cost("count_notices_cpu", "us").target(1.15);
    /// The same for the receipt of a message in a group of 200.
    RECEIPT_CPU = Claim::cost("receipt_cpu", "us").target(1.15);
    /// Median time of what a reader has read of 1000 notices, out of memory / of ten.
    NOTICE_TOTALS_FLAT = Claim::cost("notice_totals_flat", "us").target(1.5);
    /// Median time of what a reader has read of ten notices, by its record from Redis / a GET of the same bytes.
    NOTICE_TOTALS_10 = Claim::cost("notice_totals_10", "us").target(1.3);
    /// The same of a hundred notices.
    NOTICE_TOTALS_100 = Claim::cost("notice_totals_100", "us").target(1.3);
    /// The same of a thousand.
    NOTICE_TOTALS_1000 = Claim::cost("notice_totals_1000", "us").target(1.3);
    /// The same of ten / by the script that looks at a bitmap of each notice, among a thousand other keys.
    NOTICE_TOTALS_10_SCRIPT = Claim::cost("notice_totals_10_script", "us");
    /// The same of a hundred.
    NOTICE_TOTALS_100_SCRIPT = Claim::cost("notice_totals_100_script", "us");
    /// The same of a thousand.
    NOTICE_TOTALS_1000_SCRIPT = Claim::cost("notice_totals_1000_script", "us");
    /// Median time of a mark through a node / of a bare `findOneAndUpdate`, then a script that publishes it and SETBIT.
    NOTICE_MARK_MONGODB = Claim::cost("notice_mark_mongodb", "us").target(1.3);
    /// The same of a node in single-node mode / of a bare commit.
    NOTICE_MARK_SQLITE = Claim::cost("notice_mark_sqlite", "us").target(1.3);
    /// Median time of counting who has read a notice, of 100,000 readers / of two BITCOUNT in one pipeline.
    NOTICE_READERS = Claim::cost("notice_readers", "us").target(1.3);
    /// Bytes of the bitmaps of a notice with 100,000 readers; the baseline is one bit for each.
    NOTICE_BYTES = Claim::cost("notice_bytes", "bytes").kith_alone().target(12_600.0);
    /// Median time of the receipts of 50 messages in a group of 200, out of memory / of a GET of its read marks.
    RECEIPTS_50 = Claim::cost("receipts_50", "us").target(1.5);
    /// The same of one receipt in a group of 100,000 / of GET of its 98 blocks of read marks in one pipeline.
    RECEIPT_100K = Claim::cost("receipt_100k", "us").target(2.0);
    /// Median time of marking 500 unread messages through a node / of a bare `$max`, then a script that publishes it and SETRANGE.
    RECEIPT_MARK_500 = Claim::cost("receipt_mark_500", "us").target(1.3);
    /// The same / of a bit for each message and an update of their documents.
    RECEIPT_MARK_500_BITS = Claim::cost("receipt_mark_500_bits", "us");
    /// Marks a second of 64 callers in 200 groups / of commands with up to 250 bare `$max`.
    RECEIPT_MARKS = Claim::gain("receipt_marks", "marks/s").target(0.6);

    /// Processors that Redis takes for renewing 100,000 sessions once a minute / for the same changes as plain commands.
    PRESENCE_RENEW = Claim::cost("presence_renew", "cores");
    /// The same, of the node alone.
    PRESENCE_RENEW_CORE = Claim::cost("presence_renew_core", "cores").kith_alone().target(0.05);
    /// Processors that the node takes for it / the client that sends the plain commands.
    PRESENCE_RENEW_NODE = Claim::cost("presence_renew_node", "cores");
    /// Commands a second of Redis, those that scripts call among them.
    PRESENCE_RENEW_COMMANDS = Claim::cost("presence_renew_commands", "commands/s");
    /// Median time of opening a session of a user in 500 groups, until all of them know / plain commands in one pipeline.
    OPEN_SESSION = Claim::cost("open_session_500", "ms");
    /// The same, of the node alone.
    OPEN_SESSION_TIME = Claim::cost("open_session_500_time", "ms").kith_alone().target(20.0);

    /// Median time of one number of a sequence / INCR over a connection of the same kind.
    TAKE = Claim::cost("take", "us").target(1.3);
    /// The same, all but the slowest hundredth.
    TAKE_P99 = Claim::cost("take_p99", "us").target(2.0);
    /// Numbers a second of 32 callers of one sequence / of as many that use INCR.
    TAKE_32 = Claim::gain("take_32", "numbers/s").target(0.7);
    /// The longest wait of one of them, blocks from the store among it.
    TAKE_LONGEST_WAIT = Claim::cost("take_longest_wait", "ms").kith_alone().target(20.0);
}
