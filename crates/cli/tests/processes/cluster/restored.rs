//! A cluster without relations is backed up and restored as docs/operate/backup.md says.

use std::{collections::BTreeSet, fs, path::Path, time::SystemTime};

use kith_proto::{
    group::v1::{CreateGroupRequest, Group},
    sequence::v1::{ReserveSeqsRequest, sequence_service_client::SequenceServiceClient},
    user::v1::{CreateUserRequest, User},
};
use serde_json::Value;

use crate::{
    cluster::{
        hand,
        site::{Peer, Site, at_least, stop},
    },
    process::root,
    spawned::{output_of, refused},
};

/// A database's collections, in no order.
const COLLECTIONS: [&str; 20] = [
    "audiences",
    "changes",
    "conversations",
    "dialogs",
    "erasures",
    "fan_out_notes",
    "groups",
    "leases",
    "messages",
    "migrations",
    "node",
    "notice_readers",
    "notices",
    "reaction_summaries",
    "reactions",
    "reader_counters",
    "requests",
    "secrets",
    "sequences",
    "users",
];

/// A database copy of an operator's own tools, with the time at which it was begun.
struct DatabaseCopy {
    database: String,
    begun: String,
}

impl DatabaseCopy {
    fn of(site: &Site) -> Self {
        let begun = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let database = format!("{}_backup", site.database);
        COLLECTIONS.iter().for_each(|name| hand::copy_collection(&site.database, &database, name));
        Self { database, begun }
    }

    /// Restores like `mongorestore --drop --noIndexRestore`, and runs the page's command for that.
    fn restore(&self, site: &Site) {
        for name in COLLECTIONS {
            hand::drop_collection(&site.database, name);
            hand::copy_collection(&self.database, &site.database, name);
        }
        run(site, &command_of_the_page("kith epoch after-restore").replace("TIME", &self.begun));
    }
}

/// Takes a backup by the page's command. Returns the command that restores it.
fn back_up(site: &Site, folder: &Path) -> String {
    let command = command_of_the_page("kith backup").replace("/backups", folder.to_str().unwrap());
    let report: Value = serde_json::from_str(&run(site, &format!("{command} -o json"))).unwrap();
    let restore = command_of_the_page("kith restore");
    let (verb, _) = restore.rsplit_once(' ').unwrap();
    format!("{verb} {} --force", report["path"].as_str().unwrap())
}

/// Runs the page's commands for nodes that serve after a restore.
fn check(site: &Site, nodes: [&Peer; 2]) {
    let [a, b] = nodes.map(Peer::address);
    run(site, &command_of_the_page("kith status").replace("A,B,C", &format!("{a},{b}")));
    let resync = command_of_the_page("kith resync").replace("--addr A", &format!("--addr {a}"));
    assert!(!run(site, &resync).is_empty(), "it compares");
}

/// Runs a command as it is printed, with a node's configuration. Returns its output.
fn run(site: &Site, command: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let (code, out, err) = output_of(site.command(folder.path(), &arguments));
    assert_eq!(code, Some(0), "{command}: {out}{err}");
    out
}

/// Returns the command in the page's section for clusters that begins like this.
fn command_of_the_page(beginning: &str) -> String {
    let page = fs::read_to_string(root().join("docs/operate/backup.md")).unwrap();
    let (_, section) = page.split_once("\n## Backup and restore of a cluster\n").unwrap();
    let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.map(|line| line.split('#').next().unwrap().trim());
    let mut all = lines.chain(section.split('`').skip(1).step_by(2));
    all.find(|command| command.starts_with(beginning)).unwrap().to_owned()
}

/// Allocates ids and numbers that must not be given out again.
pub(crate) async fn allocate(node: &Peer, name: &str) -> Vec<(&'static str, i64)> {
    let user = node.create(name).await.user_id;
    let group = Group { name: "chess".to_owned(), ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    let group = node.groups().create_group(request).await.unwrap().into_inner().group.unwrap().group_id;
    let request = ReserveSeqsRequest { name: "room:9".to_owned(), count: 1, above: 0 };
    let reserved = SequenceServiceClient::new(node.channel()).reserve_seqs(request).await.unwrap();
    vec![("user", user), ("group", group), ("seq", reserved.into_inner().ranges[0].first)]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn restored_cluster_gives_nothing_out_twice() {
    let site = Site::in_redis_of_tests();
    let node = site.node().await;
    let request = ReserveSeqsRequest { name: "room:9".to_owned(), count: 1, above: 0 };
    SequenceServiceClient::new(node.channel()).reserve_seqs(request).await.unwrap();
    node.stop().await;
    // No id has been allocated before the backup.
    let (copy, folder) = (DatabaseCopy::of(&site), tempfile::tempdir().unwrap());
    let restore = back_up(&site, folder.path());
    let (mut given, mut tokens) = (BTreeSet::new(), Vec::new());
    for restores in 0..4 {
        match restores {
            0 => {}
            1 => copy.restore(&site),
            _ => drop(run(&site, &restore)),
        }
        let (a, b) = site.pair().await;
        for (node, name) in [(&a, "eve"), (&b, "bob")] {
            for allocated in allocate(node, name).await {
                assert!(
                    given.insert(allocated),
                    "{allocated:?} is given out again after {restores} restores"
                );
            }
        }
        let ann = a.create("ann").await.user_id;
        let again = User { user_name: "ann".to_owned(), ..User::default() };
        let again = CreateUserRequest { user: Some(again), ..CreateUserRequest::default() };
        let taken = b.users().create_user(again).await.unwrap_err();
        assert_eq!(taken.code(), tonic::Code::AlreadyExists, "names are unique after {restores} restores");
        check(&site, [&a, &b]);
        tokens.push(a.rename(ann, "new").await.1);
        for token in &tokens {
            assert_eq!(b.read(ann, at_least(token)).await.unwrap().nick_name, "new", "an earlier token");
        }
        stop([a, b]).await;
    }
    hand::drop_database(&copy.database);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn restore_is_finished_only_where_it_can_be() {
    let (site, folder) = (Site::new(None), tempfile::tempdir().unwrap());
    let finish = |time| site.command(folder.path(), &["epoch", "after-restore", "--backed-up-at", time]);
    let past = "2026-11-27T08:00:00Z";
    let line = refused(finish(past));
    assert!(line.contains("contains no data of kith"), "{line}");
    let node = site.node().await;
    let line = refused(finish(past));
    assert!(line.contains("nodes use") && line.contains("stop all"), "{line}");
    let ann = node.create("ann").await.user_id;
    node.stop().await;
    let line = refused(finish("2126-11-27T08:00:00Z"));
    assert!(line.contains("in the future"), "{line}");
    let node = site.node().await;
    assert!(node.create("bob").await.user_id < ann + 1_000_000, "nothing was skipped by what was refused");
    node.stop().await;
    let mut on_a_file = site.command(folder.path(), &["epoch", "after-restore", "--backed-up-at", past]);
    let line = refused({
        on_a_file.env("KITH_STORE__BACKEND", "sqlite");
        on_a_file
    });
    assert!(line.contains("kith restore"), "{line}");
}
