//! One user from each tier.

use anyhow::{Context as _, Result, ensure};

use super::{
    PrintLine,
    cluster::{Cluster, read},
    words::seconds,
};

/// The user that has not been read since the import; and the reads: on which node, from which tier, and why.
const USER: usize = 150;
const READS: [(usize, &str, &str); 4] = [
    (1, "store", "nobody has read this user yet; the node leaves a copy in Redis and in its memory"),
    (1, "memory", "the copy that it kept"),
    (2, "redis", "another node: it finds the copy of the first"),
    (2, "memory", "and keeps one too"),
];

pub(super) async fn show(cluster: &Cluster, print: PrintLine<'_>) -> Result<()> {
    let user_id = *cluster.users.get(USER).context("the sample is too small")?;
    let nodes: Vec<_> = cluster.nodes().collect();
    print("");
    print(&format!("A READ climbs from memory to Redis to MongoDB (user {user_id})"));
    for (node, tier, why) in READS {
        let (name, channel) = &nodes[node];
        let read = read(channel.clone(), user_id).await?;
        ensure!(read.tier == tier, "node {name} answers from {}, and not from {tier}", read.tier);
        print(&format!("  node {name} answers from {:<6} in {:>7}: {why}", read.tier, seconds(read.took)));
    }
    print(&format!("  $ kith inspect user/{user_id}"));
    let address = cluster.addresses().swap_remove(0);
    cluster.kith(&["inspect", &format!("user/{user_id}"), "--addr", &address, "-o", "table"], print).await
}
