//! How member changes read the end of the log.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::{
    future::{BoxFuture, join_all},
    poll,
};
use kith_store::{
    ChangeContext, FormerMember, GroupId, MemberChange, MemberKey, MemberRow, MembersUpdated, Outcome, Seq,
    StoreError, Stores, Timestamp,
};
use kith_store_cluster::LogEnds;
use tokio::sync::Notify;

use super::{Stage, now, user};

const OWNER: i64 = 1;

fn group() -> GroupId {
    GroupId::new(7).unwrap()
}

fn join(id: i64) -> MemberChange {
    MemberChange::Join(user(id))
}

async fn change(stores: &Stores, change: MemberChange) -> Result<MembersUpdated, StoreError> {
    let terms = ChangeContext { by: None, members_max: 1_000, bans_max: 1_000, history: false };
    stores.members.change_members(group(), change, terms, now()).await.map(|applied| applied.record)
}

/// The only row that a change wrote.
fn only(changed: &MembersUpdated) -> &MemberRow {
    assert_eq!(changed.rows.len(), 1, "{changed:?}");
    &changed.rows[0]
}

async fn former(stores: &Stores, id: i64) -> Option<FormerMember> {
    stores.members.former(&[MemberKey { group: group(), user: user(id) }]).await.unwrap()[0]
}

/// Runs between a read of an end, given its index from 0, and its answer.
type DuringRead = Box<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// Ends that a test sets.
struct Ends {
    end: Arc<AtomicI64>,
    reads: AtomicUsize,
    /// Whether they cannot be read.
    are_unreadable: bool,
    during_read: Option<DuringRead>,
}

impl Ends {
    fn at(end: Seq) -> Self {
        let (end, reads) = (Arc::new(AtomicI64::new(end)), AtomicUsize::new(0));
        Self { end, reads, are_unreadable: false, during_read: None }
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("end", &self.end).finish_non_exhaustive()
    }
}

#[async_trait]
impl LogEnds for Ends {
    async fn log_end(&self, of: GroupId) -> Result<Seq, StoreError> {
        assert_eq!(of, group());
        let (read, end) = (self.reads.fetch_add(1, Ordering::SeqCst), self.end.load(Ordering::SeqCst));
        if self.are_unreadable {
            let source = Arc::new(io::Error::from(io::ErrorKind::TimedOut));
            return Err(StoreError::Unavailable { outcome: Outcome::Unknown, source });
        }
        if let Some(during_read) = &self.during_read {
            during_read(read).await;
        }
        Ok(end)
    }
}

/// A node that reads these ends.
async fn node(stage: &Stage, ends: &Arc<Ends>) -> (Stores, kith_store_cluster::ClusterHandle) {
    let ends: Arc<dyn LogEnds> = Arc::<Ends>::clone(ends);
    stage.node(|cql| cql.log_ends = Some(ends)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn each_try_reads_the_end_after_the_roster() {
    let stage = Stage::open().await;
    let ends_of_other = Arc::new(Ends::at(10));
    let (other, _other) = node(&stage, &ends_of_other).await;
    change(&other, MemberChange::Add(vec![user(OWNER), user(2)])).await.unwrap();
    // Between the first read of the end and its answer messages are sent, and another node removes a member.
    let (end, remover) = (Arc::clone(&ends_of_other.end), other.clone());
    let remove = move |read: usize| -> BoxFuture<'static, ()> {
        let (end, remover) = (Arc::clone(&end), remover.clone());
        Box::pin(async move {
            if read == 0 {
                end.store(20, Ordering::SeqCst);
                change(&remover, MemberChange::Remove(vec![user(2)])).await.unwrap();
            }
        })
    };
    let end = Arc::clone(&ends_of_other.end);
    let ends = Arc::new(Ends { end, during_read: Some(Box::new(remove)), ..Ends::at(0) });
    let (stores, _node) = node(&stage, &ends).await;
    let joined = change(&stores, join(3)).await.unwrap();
    let removed = former(&stores, 2).await;
    assert_eq!(removed, Some(FormerMember { from_seq: 11, left_seq: 20 }));
    // A roster that was read after the end would have let the join pass with the end from before the removal.
    assert_eq!((only(&joined).member.from_seq, only(&joined).member.joined_seq), (21, 21));
    assert_eq!(ends.reads(), 2, "once for each try");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn end_is_read_once_for_all_changes_of_a_step() {
    let stage = Stage::open().await;
    let (reached, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let held = (Arc::clone(&reached), Arc::clone(&release));
    let hold = move |read: usize| -> BoxFuture<'static, ()> {
        let (reached, release) = (Arc::clone(&held.0), Arc::clone(&held.1));
        Box::pin(async move {
            if read == 0 {
                reached.notify_one();
                release.notified().await;
            }
        })
    };
    let ends = Arc::new(Ends { during_read: Some(Box::new(hold)), ..Ends::at(10) });
    let (stores, _node) = node(&stage, &ends).await;
    let rest = async {
        reached.notified().await;
        // They all wait for the step that is held, and are the next step.
        let mut rest = Box::pin(join_all((100..130).map(|id| change(&stores, join(id)))));
        assert!(poll!(&mut rest).is_pending());
        release.notify_one();
        rest.await
    };
    let (first, rest) = tokio::join!(change(&stores, join(2)), rest);
    for changed in rest.into_iter().chain([first]) {
        assert_eq!(only(&changed.unwrap()).member.from_seq, 11);
    }
    assert_eq!(ends.reads(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn change_without_joins_and_leaves_reads_no_end() {
    let stage = Stage::open().await;
    let ends = Arc::new(Ends::at(10));
    let (stores, _node) = node(&stage, &ends).await;
    change(&stores, MemberChange::AddFounder(user(OWNER))).await.unwrap();
    let before = ends.reads();
    for other in [
        MemberChange::Mute(user(OWNER), None),
        MemberChange::MuteAll(Some(Timestamp(9))),
        MemberChange::Remark(user(OWNER), "Bo".into()),
        MemberChange::Unban(vec![user(2)]),
    ] {
        change(&stores, other).await.ok();
    }
    assert_eq!((before, ends.reads()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn unknown_end_refuses_only_joins_and_leaves() {
    let stage = Stage::open().await;
    let ends = Arc::new(Ends::at(10));
    let (stores, _node) = node(&stage, &ends).await;
    change(&stores, MemberChange::Add((1..=5).map(user).collect())).await.unwrap();
    let (unreadable, _unreadable) =
        node(&stage, &Arc::new(Ends { are_unreadable: true, ..Ends::at(10) })).await;
    let moves = [
        join(9),
        MemberChange::Leave(user(2)),
        MemberChange::Remove(vec![user(3)]),
        MemberChange::Ban(vec![user(4)], None),
        MemberChange::AccountDeleted(user(5)),
    ];
    let others = [
        MemberChange::Remark(user(2), "Bo".into()),
        MemberChange::Ban(vec![user(10)], None),
        join(1),
        MemberChange::Remove(vec![user(11)]),
        MemberChange::MuteAll(Some(Timestamp(9))),
    ];
    // The changes are sent at once, so that steps have some of both kinds.
    let changes = moves.iter().zip(&others).flat_map(|(one, other)| [one.clone(), other.clone()]);
    let made = join_all(changes.map(|one| change(&unreadable, one))).await;
    for (at, made) in made.into_iter().enumerate() {
        match made {
            Err(error) => assert_eq!((at % 2, error.outcome()), (0, Outcome::NotApplied), "{at}: {error:?}"),
            Ok(changed) => assert_eq!(at % 2, 1, "{at}: {changed:?}"),
        }
    }
    let roster = stores.members.rosters(&[group()]).await.unwrap()[0];
    assert_eq!((roster.count, roster.muted_until), (5, Some(Timestamp(9))));
    unreadable.members.end_members(group(), 3, Timestamp::now()).await.unwrap_err();
    assert_eq!(stores.members.rosters(&[group()]).await.unwrap()[0], roster, "no member was ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn row_without_ranges_opens_nothing() {
    let stage = Stage::open().await;
    let (stores, _node) = node(&stage, &Arc::new(Ends::at(10))).await;
    change(&stores, MemberChange::Add(vec![user(2), user(3)])).await.unwrap();
    change(&stores, MemberChange::Leave(user(2))).await.unwrap();
    for id in [2, 3] {
        let row = format!("grp = 7 AND kind = 0 AND place = 0 AND member = {id}");
        // The write has a condition, like all writes to this table.
        stage.run(&format!("UPDATE %k.members SET named = null WHERE {row} IF EXISTS")).await;
    }
    assert_eq!((former(&stores, 2).await, former(&stores, 3).await), (None, None));
    let left = change(&stores, MemberChange::Leave(user(3))).await.unwrap();
    assert_eq!((only(&left).member.joined_seq, only(&left).stays.left_seq), (0, 10));
    assert_eq!(former(&stores, 3).await, Some(FormerMember { from_seq: 0, left_seq: 10 }));
}
