//! Receivers that a node left when it died: what their clients may not have is entered for pushes by another
//! node.
//!
//! A node says every few seconds that it runs, and with each renewal of an inbox what its user's receivers
//! have confirmed. When it has said nothing for [`ABANDONED_AFTER`], clients that are there have had time to
//! come back, and a lease's holder ends its receivers, some users at a time. Finished work is forgotten; work
//! that is done twice is a replay, because entries have a key.
//!
//! A node that is paused or cut off for so long is taken for dead, too. Its users may then be named for
//! messages that they have; it goes on when it is back.

use std::{collections::HashMap, fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use kith_delivery::{AbandonedReceivers, ReadFrom};
use kith_store::{ConversationId, NodeName, SeqRange, Stores, UserId};
use tokio::sync::{Mutex, OnceCell};

use super::{Delivery, inboxes_unavailable, unconfirmed::UnconfirmedRanges};
use crate::{
    error::Error,
    write::{
        lease::Lease,
        rounds::{Rounds, every},
    },
};

/// How long a node may say nothing.
pub(in crate::message) const ABANDONED_AFTER: Duration = Duration::from_secs(15);
/// How often a node says that it runs.
const SAYS_EVERY: Duration = Duration::from_secs(4);
const ROUNDS: Rounds = Rounds {
    lease: "receivers",
    lease_lasts: Duration::from_secs(5),
    period: Duration::from_secs(2),
    failed: "receivers of dead nodes cannot be ended",
};
/// The users on a node whose receivers are ended in one round.
const TURN: usize = 250;
/// Users at the same time.
const AT_ONCE: usize = 16;

/// The large groups that users are in: their messages are in no inbox.
#[async_trait]
pub(in crate::message) trait LargeGroups: Debug + Send + Sync {
    /// A user's large group conversations.
    async fn of(&self, user: UserId) -> Result<Vec<ConversationId>, Error>;
}

/// Ends the receivers of dead nodes.
#[derive(Debug)]
pub(super) struct AbandonedEnd {
    pub(super) delivery: Delivery,
    pub(super) groups: Arc<dyn LargeGroups>,
}

/// For each conversation, the first and last number that mentions a user. Read once a round.
type MentionsOfGroups = Mutex<HashMap<ConversationId, Arc<OnceCell<HashMap<UserId, SeqRange>>>>>;

impl Delivery {
    /// Says that this node runs, and ends the receivers of dead nodes, again and again. There is no work if
    /// there are no other nodes.
    pub(in crate::message) fn other_nodes_work(
        self,
        groups: Arc<dyn LargeGroups>,
        stores: &Stores,
        node_id: Option<&str>,
    ) -> Vec<BoxFuture<'static, ()>> {
        if !self.names_for_other_nodes() {
            return Vec::new();
        }
        let ends = AbandonedEnd { delivery: self.clone(), groups };
        let round = async move |_: &mut Lease| ends.round().await;
        vec![self.say_running().boxed(), ROUNDS.run(&stores.coordination, node_id, round).boxed()]
    }

    async fn say_running(self) {
        every(SAYS_EVERY, async move || {
            let inboxes = &self.0.inboxes;
            inboxes.keeper.confirm(&inboxes.node, &[]).await.ok();
        })
        .await;
    }
}

impl AbandonedEnd {
    /// Ends some receivers on each dead node.
    pub(super) async fn round(&self) -> Result<(), Error> {
        let inboxes = self.delivery.inboxes();
        let abandoned = inboxes.keeper.abandoned(ABANDONED_AFTER, TURN).await;
        for abandoned in abandoned.map_err(|_| inboxes_unavailable())? {
            if abandoned.node != inboxes.node {
                self.end_some(abandoned).await?;
            }
        }
        Ok(())
    }

    /// A user that fails stays for the next round.
    async fn end_some(&self, abandoned: AbandonedReceivers) -> Result<(), Error> {
        let AbandonedReceivers { node, silent_for, confirmed } = abandoned;
        let (mentions, node, count) = (&MentionsOfGroups::default(), &node, confirmed.len());
        let since = silent_for + self.delivery.limits().receiver_kept;
        let each = confirmed
            .into_iter()
            .map(async |from| self.end_one(node, from, since, mentions).await.is_ok().then_some(from.user));
        let each = stream::iter(each.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let done: Vec<UserId> = each.filter_map(async |done| done).collect().await;
        if count > 0 {
            tracing::info!(%node, users = count, done = done.len(), "the receivers of a dead node are ended");
        }
        let keeper = &self.delivery.inboxes().keeper;
        keeper.forget(node, &done, ABANDONED_AFTER).await.map_err(|_| inboxes_unavailable())
    }

    /// Ends a user's receivers on a node: from now on the user counts as a user without them. `since`: how
    /// long ago their clients were sent what is not confirmed, at most.
    async fn end_one(
        &self,
        node: &NodeName,
        from: ReadFrom,
        since: Duration,
        mentions: &MentionsOfGroups,
    ) -> Result<(), Error> {
        let keeper = &self.delivery.inboxes().keeper;
        keeper.close(node, from.user).await.map_err(|_| inboxes_unavailable())?;
        let unconfirmed = self.mentions_of(from.user, since, mentions).await?;
        self.delivery.announce_unconfirmed(from, unconfirmed).await
    }

    /// The messages in large groups that mention a user.
    async fn mentions_of(
        &self,
        user: UserId,
        since: Duration,
        mentions: &MentionsOfGroups,
    ) -> Result<UnconfirmedRanges, Error> {
        let mut found = UnconfirmedRanges::default();
        for conversation in self.groups.of(user).await? {
            if self.delivery.recipients(conversation).await?.is_some() {
                // Its messages are in the inbox.
                continue;
            }
            let known = Arc::clone(mentions.lock().await.entry(conversation).or_default());
            let mentions = known.get_or_try_init(|| self.delivery.mentions(conversation, since)).await?;
            if let Some(seqs) = mentions.get(&user) {
                found.add(conversation, *seqs);
            }
        }
        Ok(found)
    }
}
