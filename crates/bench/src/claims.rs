//! The claim of each row, and the plan for a run.

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
    /// A setting of every node, such as `changes.kept=1h`; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

impl Plan {
    /// Whether this row is requested.
    pub(crate) fn wants(&self, claim: &Claim) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == claim.name)
    }

    /// Whether any of these rows is requested.
    pub(crate) fn wants_any(&self, claims: &[&Claim]) -> bool {
        claims.iter().any(|claim| self.wants(claim))
    }

    /// A size or count: `full`, or `quick` where nothing is to be measured.
    pub(crate) const fn size<T: Copy>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The program that runs a node.
    ///
    /// # Errors
    /// If the path to this program is not known.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        program(self.kith.clone())
    }
}

/// Defines the claims, and `ALL` with all claims in this order, which is also the table's order.
macro_rules! claims {
    ($($(#[$doc:meta])* $name:ident = $claim:expr;)*) => {
        $($(#[$doc])* pub(crate) const $name: Claim = $claim;)*

        /// Every row, in the table's order.
        pub(crate) const ALL: &[Claim] = &[$($name),*];
    };
}

claims! {
    /// Processor time that a node takes for `GetUser` from memory / a bare tonic server that answers the same
    /// request with the same message.
    GET_USER_CPU = Claim::cost("get_user_cpu", "us").target(1.15);
    /// Like `GET_USER_CPU`: a node that needs a key / an open node.
    KEY_COST_CPU = Claim::cost("key_cost_cpu", "us").target(1.04);
    /// Time for all but the slowest hundredth of `GetUser` calls, at half of what the node can do, while
    /// other connections hold all possible health watches / without health watches.
    WATCHES_HELD_P99 = Claim::cost("watches_held_p99", "us").target(2.0);
    /// Like `WATCHES_HELD_P99`, while a connection leaves 200 answers unread.
    UNREAD_HELD_P99 = Claim::cost("unread_held_p99", "us").target(2.0);
    /// Processor time that a node takes for `GetUser` from memory by a user whose token it knows / by a
    /// caller with a key.
    TOKEN_COST_CPU = Claim::cost("token_cost_cpu", "us").target(1.08);
    /// Tokens a second that a node sees for the first time / signatures that ring verifies.
    TOKEN_FIRST = Claim::gain("token_first", "tokens/s").target(0.7);
    /// Processor time for a message on a stream that is always sending, behind a node's edge / a bare tonic
    /// server that sends the same messages. It contains what the edge does before each frame: whether the
    /// stream has to end.
    STREAM_CHECK_CPU = Claim::cost("stream_check_cpu", "us").target(1.15);

    /// `TieredCache::get` for an entry in memory / moka and a clone of the `Arc`.
    MEMORY_HIT = Claim::cost("memory_hit", "ns").target(1.1);
    /// Bytes for an entry, its value apart, over those that moka takes by itself.
    MEMORY_ENTRY_BYTES = Claim::cost("memory_entry_bytes", "bytes").difference().target(96.0);
    /// Bytes by which a process grows for each of a million users of 300 bytes in memory; the baseline is
    /// what the memory tier counts.
    USER_BYTES = Claim::cost("user_bytes", "bytes").kith_alone().target(717.0);
    /// Like `USER_BYTES`, for a membership.
    MEMBERSHIP_BYTES = Claim::cost("membership_bytes", "bytes").kith_alone().target(250.0);
    /// Like `USER_BYTES`, for an absent membership.
    ABSENCE_BYTES = Claim::cost("absence_bytes", "bytes").kith_alone().target(180.0);
    /// The growth in the process for the users / what is counted.
    GROWTH_OVER_COUNTED = Claim::cost("growth_over_counted", "bytes").target(1.2);
    /// One user from the embedded store through the tiers / the same read by rusqlite on separate threads.
    STORE_ONE_SQLITE = Claim::cost("store_one_sqlite", "us").target(1.3);
    /// A hundred users / one rusqlite query.
    STORE_100_SQLITE = Claim::cost("store_100_sqlite", "us").target(1.3);
    /// Changes by 64 callers at once / group commit by rusqlite.
    UPDATE_SQLITE = Claim::gain("update_sqlite", "writes/s").target(0.8);
    /// One user from MongoDB through the tiers / `find_one`.
    STORE_ONE_MONGODB = Claim::cost("store_one_mongodb", "us").target(1.2);
    /// A hundred users / one `$in`.
    STORE_100_MONGODB = Claim::cost("store_100_mongodb", "us").target(1.5);
    /// A change without a request id / `findOneAndUpdate` with the same write concern.
    UPDATE_MONGODB = Claim::cost("update_mongodb", "us").target(1.15);

    /// Processor time that a cluster node takes for `GetUser` from memory / a node without peers.
    CLUSTER_CPU = Claim::cost("cluster_cpu", "us").target(1.05);
    /// Median time for one user from Redis, decoded / GET and the same decoding, with the same bounds on
    /// waiting.
    REDIS_HIT = Claim::cost("redis_hit", "us").target(1.15);
    /// Like `REDIS_HIT`, for all but the slowest hundredth.
    REDIS_HIT_P99 = Claim::cost("redis_hit_p99", "us").target(1.15);
    /// A hundred users from Redis / MGET and the same decoding.
    REDIS_100 = Claim::cost("redis_100", "us").target(1.3);
    /// One user that only MongoDB has, left in Redis and memory / `find_one`, GET and SET.
    MISS = Claim::cost("miss", "us").target(1.2);
    /// A change that is broadcast to every node / `findOneAndUpdate` and one script that sets, logs and
    /// publishes.
    WRITE_PUBLISHED = Claim::cost("write_published", "us").target(1.15);

    /// Processor time for `CheckPermission` from memory / a bare tonic server that echoes the answer.
    CHECK_PERMISSION_CPU = Claim::cost("check_permission_cpu", "us").target(1.15);
    /// Like `CHECK_PERMISSION_CPU`, for `BatchGetRelations` with fifty users.
    BATCH_RELATIONS_CPU = Claim::cost("batch_relations_cpu", "us").target(1.15);
    /// Follows a second that an import writes into SQLite / the same rows in transactions of the same size.
    IMPORT_SQLITE = Claim::gain("import_sqlite", "follows/s").target(0.8);
    /// The last page in a list with a million fans from SQLite / the first page.
    FANS_DEEP_SQLITE = Claim::cost("fans_deep_sqlite", "us").target(1.2);

    /// Follows a second that an import writes into CQL / the same rows, one logged batch for each follow,
    /// many at the same time.
    IMPORT_CQL = Claim::gain("import_cql", "follows/s").target(0.8);
    /// The last page in a list with a million fans from CQL / the first page.
    FANS_DEEP_CQL = Claim::cost("fans_deep_cql", "us").target(1.2);
    /// A follow in CQL / the same statements sent by the driver.
    FOLLOW_CQL = Claim::cost("follow_cql", "us").target(1.25);
    /// Follows a second that one user makes in CQL / that a thousand users make.
    CELEBRITY_CQL = Claim::gain("celebrity_cql", "follows/s").target(0.5);
    /// All of two thousand friends from CQL by a node with an empty memory / both lists read by the driver.
    FRIENDS_COLD_CQL = Claim::cost("friends_cold_cql", "ms").target(1.3);
    /// A node's peak memory while it finds all whom two users follow, with 10,000 and a million follows, over
    /// that while it reads all of the shorter list.
    COMMON_MEMORY = Claim::cost("common_following_memory", "MiB").difference().target(16.0);
    /// The longest Redis command while a node finds them, over that while it reads all of the shorter list.
    COMMON_REDIS = Claim::cost("common_following_redis", "ms").difference().target(10.0);

    /// Joins a second to one group in CQL by 64 callers / rows in one partition that one caller writes under
    /// a condition each.
    JOINS_CQL = Claim::gain("joins_cql", "joins/s").target(5.0);
    /// The last page among a hundred thousand members from CQL / the first page.
    MEMBERS_DEEP_CQL = Claim::cost("members_deep_cql", "us").target(1.2);
    /// Like `MEMBERS_DEEP_CQL`, from SQLite.
    MEMBERS_DEEP_SQLITE = Claim::cost("members_deep_sqlite", "us").target(1.2);

    /// The last 50 messages in a log / a find of their documents.
    PULL_RECENT = Claim::cost("pull_recent", "us").target(1.3);
    /// A thousand messages in the middle of a log / a find of their ten documents.
    PULL_1000 = Claim::cost("pull_1000", "us").target(1.3);
    /// Processor time that a node in single-node mode takes for a message to one conversation, 50 at a time /
    /// for `SetDoNotDisturb`.
    SEND_CPU = Claim::cost("send_cpu", "us").target(1.5);
    /// Like `SEND_CPU`, for the last 50 messages with the counts of reactions to half of them / without the
    /// counts.
    PULL_50_REACTIONS = Claim::cost("pull_50_reactions", "us").target(1.15);
    /// Processor time that a cluster node takes for the last 20 messages in a conversation / for an LRANGE,
    /// decoded, and a bare tonic server that echoes them.
    PULL_20_CPU = Claim::cost("pull_20_cpu", "us").target(2.0);

    /// Processor time in all cluster servers (node, MongoDB, Cassandra, Redis) for a message, with 50 under
    /// way, to 1,000 groups of ten / in MongoDB for inserting one document with as many bytes, with the same
    /// concern.
    SEND_MANY_SERVERS = Claim::cost("send_many_servers", "us").target(2.7);
    /// Messages a second under the load of `SEND_MANY_SERVERS`.
    SEND_MANY_RATE = Claim::gain("send_many_rate", "messages/s").target(0.6);
    /// Like `SEND_MANY_SERVERS`, to one group with 200 members.
    SEND_ONE_SERVERS = Claim::cost("send_one_servers", "us").target(0.9);
    /// Messages a second under the load of `SEND_ONE_SERVERS`.
    SEND_ONE_RATE = Claim::gain("send_one_rate", "messages/s").target(1.3);
    /// Like `SEND_MANY_SERVERS`, to 1,000 direct conversations.
    SEND_DIRECT_SERVERS = Claim::cost("send_direct_servers", "us").target(2.3);
    /// Messages a second under the load of `SEND_DIRECT_SERVERS`.
    SEND_DIRECT_RATE = Claim::gain("send_direct_rate", "messages/s").target(0.6);
    /// Like `SEND_ONE_SERVERS`, at 200 messages a second.
    SEND_REST = Claim::cost("send_rest", "us").target(3.2);
    /// Like `SEND_REST`, without what each side's servers take at rest.
    SEND_REST_NET = Claim::cost("send_rest_net", "us").target(2.5);
    /// Scripts that Redis runs for a message to a group with ten members, none online.
    SCRIPTS_OFFLINE = Claim::cost("scripts_offline", "scripts").kith_alone().target(2.5);
    /// Like `SCRIPTS_OFFLINE`, with all members online.
    SCRIPTS_ONLINE = Claim::cost("scripts_online", "scripts").kith_alone().target(3.5);
    /// Processor time that a node in single-node mode takes for a list of 20 conversations, each with 95
    /// unread messages from others / for `GetUser`.
    LIST_20_UNREAD_CPU = Claim::cost("list_20_unread_cpu", "us").target(12.0);
    /// Like `LIST_20_UNREAD_CPU`, with 200 conversations.
    LIST_200_UNREAD_CPU = Claim::cost("list_200_unread_cpu", "us").target(90.0);
    /// Processor time in all cluster servers for the list with 20 conversations; the baseline is `GetUser`.
    LIST_20_UNREAD_SERVERS = Claim::cost("list_20_unread_servers", "us").kith_alone().target(1_300.0);
    /// Like `LIST_20_UNREAD_SERVERS`, with 200 conversations.
    LIST_200_UNREAD_SERVERS = Claim::cost("list_200_unread_servers", "us").kith_alone().target(9_000.0);
    /// Marks a second in a cluster with 50 callers, each raising its own mark / inserts by as many callers.
    MARKS_RATE = Claim::gain("marks_rate", "marks/s").target(0.9);
    /// Change log entries for a join to a group: one entry for each change script. Includes what the node
    /// publishes meanwhile for other reasons.
    JOIN_CHANGES = Claim::cost("join_changes", "scripts").kith_alone().target(1.1);
    /// Median time for a join / for a follow.
    JOIN_TIME = Claim::cost("join_time", "us").target(1.3);
    /// Changes a second, which their writers have not published, until a node has published all; the baseline
    /// is a bare change stream.
    FEED_RATE = Claim::gain("feed_rate", "changes/s").kith_alone().target(20_000.0);
    /// Seconds until 1,000 sockets are live on a cluster node, 64 opening at a time, each with its list of
    /// conversations.
    SOCKETS_OPENED = Claim::cost("sockets_opened", "s").kith_alone().target(0.5);
    /// The node's memory for a second socket of each of these users, in KiB.
    SOCKET_MEMORY = Claim::cost("socket_memory", "KiB").kith_alone().target(20.0);
    /// The node's processor time for a delivery to each of these sockets, when a message is sent to a group
    /// with all users.
    SOCKET_DELIVERY_CPU = Claim::cost("socket_delivery_cpu", "us").kith_alone().target(18.0);
    /// Messages a second that are answered within 2 s while 500 callers send and as many read users / with 50
    /// callers alone.
    OVERLOAD_SENDS = Claim::gain("overload_sends", "messages/s").target(0.8);
    /// Like `OVERLOAD_SENDS`, for the reads.
    OVERLOAD_GET_USER = Claim::gain("overload_get_user", "calls/s").target(0.8);
    /// Share of sequence numbers that three nodes without failures give out.
    SEQUENCE_USED = Claim::gain("sequence_used", "share").kith_alone().target(1.0);
    /// Processor time for `SetDoNotDisturb` of a node over a file that keeps changes / that keeps none.
    CHANGES_WRITE_CPU = Claim::cost("changes_write_cpu", "us").target(1.05);
    /// Like `CHANGES_WRITE_CPU`, for a message to one conversation.
    CHANGES_SEND_CPU = Claim::cost("changes_send_cpu", "us").target(1.05);
    /// Median time from the answer to `UpdateUser` until a reader that asks every 5 ms has the change.
    CHANGES_DELAY_MEDIAN = Claim::cost("changes_delay_median", "ms").kith_alone().target(100.0);
    /// The time that 99 of 100 changes do not exceed.
    CHANGES_DELAY_P99 = Claim::cost("changes_delay_p99", "ms").kith_alone().target(1_000.0);
    /// Like `CHANGES_DELAY_MEDIAN`, for `Follow`, whose table is in Cassandra.
    CHANGES_FOLLOW_DELAY_MEDIAN =
        Claim::cost("changes_follow_delay_median", "ms").kith_alone().target(1_000.0);
    /// Like `CHANGES_DELAY_P99`, for `Follow`.
    CHANGES_FOLLOW_DELAY_P99 = Claim::cost("changes_follow_delay_p99", "ms").kith_alone().target(5_000.0);
    /// Processor time a second that a node takes for 100 readers of a kind that never changes, at 5,000 other
    /// changes a second.
    CHANGES_READERS_NODE = Claim::cost("changes_readers_node", "ms/s").difference().target(50.0);
    /// Like `CHANGES_READERS_NODE`, of MongoDB.
    CHANGES_READERS_MONGOD = Claim::cost("changes_readers_mongod", "ms/s").difference().target(50.0);
    /// Processor time a second, in ms, that a cluster node takes without calls.
    IDLE_NODE = Claim::cost("idle_node", "ms/s").kith_alone().target(10.0);
    /// Cassandra's processor time with one node, over that without.
    IDLE_CASSANDRA = Claim::cost("idle_cassandra", "ms/s").difference().target(50.0);
    /// Like `IDLE_CASSANDRA`, for MongoDB.
    IDLE_MONGOD = Claim::cost("idle_mongod", "ms/s").difference().target(12.0);
    /// MongoDB's processor time with two nodes, over that with one node.
    IDLE_MONGOD_NEXT = Claim::cost("idle_mongod_next", "ms/s").difference().target(4.0);

    /// A node's processor time for how many of ten notices a reader has read, out of memory / a bare tonic
    /// server that echoes it.
    COUNT_NOTICES_CPU = Claim::cost("count_notices_cpu", "us").target(1.15);
    /// Like `COUNT_NOTICES_CPU`, for a message receipt in a group with 200 members.
    RECEIPT_CPU = Claim::cost("receipt_cpu", "us").target(1.15);
    /// Median time for how many of 1000 notices a reader has read, out of memory / of ten.
    NOTICE_TOTALS_FLAT = Claim::cost("notice_totals_flat", "us").target(1.5);

    /// Processors that Redis takes for renewing 100,000 sessions once a minute.
    PRESENCE_RENEW_CORE = Claim::cost("presence_renew_core", "cores").kith_alone().target(0.05);
    /// Median time to open a session for a user in 500 groups, until all groups know.
    OPEN_SESSION_TIME = Claim::cost("open_session_500_time", "ms").kith_alone().target(20.0);

    /// Median time for one sequence number / INCR over a similar connection.
    TAKE = Claim::cost("take", "us").target(1.3);
    /// Like `TAKE`, for all but the slowest hundredth.
    TAKE_P99 = Claim::cost("take_p99", "us").target(2.0);
}
