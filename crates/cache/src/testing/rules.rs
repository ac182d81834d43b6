//! The rules that keep copies coherent, each by its name, so that a test build can take one away and show
//! that a test notices (feature `mutants`, environment variable `KITH_MUTANT`, several with commas). Always
//! on elsewhere.

macro_rules! guards {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name() -> bool {
            on(stringify!($name))
        }
    )*};
}

guards! {
    /// An unversioned invalidation forbids the flights it finds to fill.
    poison_flight;
    /// After an invalidation no reader joins a flight that began before it.
    detach_flight;
    /// A value older than the floor of its key does not fill.
    fill_floor;
    /// A value loaded before a flush does not fill after it.
    fill_epoch;
    /// Memory does not keep what the shared tier refused.
    fill_accepted;
    /// Nothing fills while a write is under way.
    fill_mark;
    /// A value does not replace a newer value.
    fill_newer_only;
    /// A read that began after an invalidation does not accept an older value from a lagging store.
    reread_below_floor;
    /// Copies are dropped before the commit.
    drop_before_commit;
    /// A writer that drops a copy remembers which version readers got.
    dropped_noted;
    /// A version that readers got and that memory must not keep is remembered.
    shown_noted;
    /// After a write of unknown outcome, the version that readers got is still remembered.
    suspect_noted;
    /// The store's answer is remembered: copies that nodes share may be older.
    ahead_noted;
    /// A load does not go back behind the copy that it replaces.
    expired_is_floor;
    /// Other nodes receive a change.
    published;
    /// A change is published after its commit, not before.
    published_after_commit;
    /// No reader joins a flight that began before the write.
    mark_detaches;
    /// A writer does not install its value while another write is under way.
    put_single_writer;
    /// A writer does not install its value once something newer is known.
    put_floor;
    /// A late invalidation of an older version lowers nothing.
    invalidate_floor_monotonic;
    /// A guard dropped without a verdict acts as an unknown outcome.
    drop_is_unknown;
    /// An unknown outcome is invalidated again later.
    late_landing;
    /// Expiry is decided when a copy is read.
    expiry_on_read;
    /// A flush makes all copies unreachable at once.
    flush_on_read;
    /// Past the trust deadline memory is not served.
    trust_deadline;
    /// Past the trust deadline no reader joins a flight: an invalidation that this node missed would have
    /// detached it.
    join_trusted;
    /// An answer to a request of an epoch that the node has left since is dropped.
    climb_in_epoch;
    /// A node that adopts a baseline flushes its memory.
    adopt_flushes;
    /// Copies of an epoch that nodes have left are unreachable.
    epoch_in_keys;
    /// A load fills onto its own lease alone.
    fill_own_lease;
    /// A load fills onto no tomb: what the tomb stood for may be newer than the tomb.
    fill_no_tomb;
    /// A load fills onto nothing: what was there may have been newer.
    fill_no_gap;
    /// A lease knows which version its key has reached.
    lease_floor;
    /// A writer puts its value over that of the version before, over nothing else.
    put_next_only;
    /// A strict write that could not be published is not acknowledged.
    strict_published;
    /// A node that cannot publish what the change feed shows leaves the feed to another node.
    feed_left;
    /// A server that refuses changes gives no trust.
    probe_writes;
    /// Chance only shortens a TTL.
    jitter_downward;
    /// A strict namespace serves nothing stale.
    strict_never_stale;
    /// A strong read joins no older flight.
    strong_leads;
    /// A token ahead of this node is not answered from memory.
    token_ahead;
    /// A token of another epoch is not answered from memory.
    token_epoch;
    /// An entry over another past is a fork.
    chain_before;
    /// A number that was skipped is a gap.
    chain_gap;
    /// A change is published in the log that nodes follow, also if they have just moved on.
    published_in_epoch;
    /// A change sent to a server that does not know the epoch of the writer counts as not published.
    published_where_known;
    /// A change sent to a log that lacks what the writer has applied counts as not published.
    published_beyond;
    /// A node that moves to a new epoch publishes again what it published last in the log that it leaves.
    published_again;
    /// A change that could not be published waits in the queue.
    unpublished_waits;
    /// While a change of a key waits to be published, this node reads the key from the store.
    queue_reads_store;
    /// With no room for what waits, a new epoch makes up for it, and the node moves there.
    overflow_raises;
    /// A key that changed again while it was published stays in the queue.
    queue_newest;
    /// A log that ends before what a node has applied is a fork.
    probe_behind;
    /// A server that forgot the epoch of its nodes fell back.
    probe_forgotten;
    /// A node moves to a higher epoch that it receives.
    probe_epoch;
    /// Another shared server, or the same started again, is not trusted with the old epoch.
    probe_server;
    /// Trust counts from the moment a probe was sent.
    trust_from_sending;
    /// A load outlives the caller that began it.
    load_outlives_caller;
    /// A strict write waits for the other nodes.
    strict_confirmed;
    /// A strict write waits for nodes of the epoch before.
    strict_after_epoch;
    /// A writer brings its value along.
    written_through;
    /// A message without a valid authentication code is not applied.
    mac_checked;
    /// A message of a newer version, which cannot be read, may be about any copy.
    unread_flushes;
    /// A change that the store's change feed shows and no writer published is published.
    feed_publishes;
    /// It is published 250 ms after it was read, not half a minute.
    feed_prompt;
    /// An epoch that was raised in the store alone is noticed.
    epoch_looked_up;
    /// A node that is not trusted does not use shared copies either.
    shared_needs_trust;
    /// After trust was lost, writers get time to publish what they could not.
    settles_first;
    /// A received message does not end the following of a log that says otherwise.
    fork_by_log;
    /// A page is answered only if its list has the epoch still.
    list_confirmed;
    /// Pages are looked up under an epoch that lasts, not under an epoch that was made up and not kept.
    list_epoch_kept;
    /// A record without a version is dropped here once more after its change was published: a load that began
    /// before may have read the shared copy before that was deleted.
    dropped_again;
    /// A copy that nodes share is no older than half of the longest age, where copies have an age.
    shared_age;
}

#[cfg(not(feature = "mutants"))]
#[inline]
const fn on(_: &str) -> bool {
    true
}

#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "only in test builds that take one rule away")]
fn on(name: &str) -> bool {
    static REMOVED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let removed = REMOVED.get_or_init(|| std::env::var("KITH_MUTANT").unwrap_or_default());
    removed.split(',').all(|removed| removed != name)
}
