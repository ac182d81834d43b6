//! Follows: who may follow, what is cached, what a write invalidates.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use kith_cache::{Consistency, ListPolicies, Policy, TieredCache, Token, WriteParts};
use kith_store::{Edge, Follow, FollowList, FollowStore, Permissions, StoreError, Version};
use tokio::time::Instant;

use super::{
    Blocks, FollowListener, FollowLists, FriendshipListener, ListReaders, RelationListItem, RelationMode,
    lists::{ListPage, UserList},
};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    rpc::{
        call::{Call, Principal, own},
        request::{IdempotencyKey, WriteContext},
        secret::SecretHasher,
        versions::{deleted, loaded_all, put},
    },
    user::Users,
    write::{
        mutations::{Committed, Mutations, RecordWrite, covering},
        record_codec::RecordCodec,
    },
};

pub(super) const KIND: &str = "follow";

/// The configured rules.
#[derive(Clone, Copy, Debug)]
pub struct RelationRules {
    /// Whether following needs consent.
    pub mode: RelationMode,
    /// Which acting users may read follow lists.
    pub list_readers: ListReaders,
    /// Maximum users that a user follows in friend mode.
    pub friends_max: u64,
    /// How long after its end a new follow to the same user gets the former position in lists.
    pub place_kept: Duration,
    /// The permissions that others have if a user has set nothing.
    pub default_permissions: Permissions,
}

/// The domains that are notified about follows.
#[derive(Clone, Debug)]
pub struct FollowListeners {
    /// Is notified about declined friend requests.
    pub requests: Arc<dyn FriendshipListener>,
    /// Is notified about follows and unfollows.
    pub follows: Arc<dyn FollowListener>,
}

/// A deployment's follows, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Follows {
    pub(super) cache: TieredCache<Edge, Follow>,
    pub(super) lists: FollowLists,
    pub(super) store: Arc<dyn FollowStore>,
    users: Users,
    listeners: FollowListeners,
    pub(super) mutations: Mutations,
    hasher: SecretHasher,
    pub(super) rules: RelationRules,
}

impl Follows {
    /// Creates it over `stores`, with its own namespaces in the tiers.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        records: Policy<Follow>,
        lists: ListPolicies<RelationListItem>,
        users: Users,
        listeners: FollowListeners,
        rules: RelationRules,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        let store = Arc::clone(&stores.follows);
        // Every read of the store sees all changes that were acknowledged before it, not only a strong one.
        let cache = caches.records(records, RecordCodec::FOLLOW, &store, |store, edges, _| {
            async move { loaded_all(store.follows(edges).await) }.boxed()
        });
        Self {
            cache,
            lists: FollowLists::new(Arc::clone(&store), caches, lists),
            store,
            users,
            listeners,
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            rules,
        }
    }

    /// Makes `edge.from` follow `edge.to`.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of a user, FAILED_PRECONDITION, INVALID_ARGUMENT, or errors of the store.
    pub(crate) async fn follow(
        &self,
        edge: Edge,
        blocks: &Blocks,
        context: WriteContext,
    ) -> Result<Committed<Follow>, Error> {
        own(edge.from, context.principal)?;
        self.check_may_follow(edge, context.principal, &Consistency::Strong).await?;
        // The store checks this, too, and has the answer to a request that is repeated after a block.
        if context.seed.is_none() && blocks.is_blocked(edge.reversed()).await? {
            return Err(store_error(StoreError::Blocked));
        }
        let write = context.write(&self.hasher).await?;
        let (store, kept) = (Arc::clone(&self.store), self.rules.place_kept);
        let write = Box::pin(async move { store.follow(edge, kept, write).await });
        let written = self.write(RecordWrite { key: edge, write, change: put }, context.deadline).await?;
        self.listeners.follows.followed(edge);
        Ok(written)
    }

    /// Whether both follow each other, read from the store.
    pub(crate) async fn are_friends(&self, edge: Edge) -> Result<bool, Error> {
        let both = [edge, edge.reversed()];
        for follow in self.cache.get_many(&both, &Consistency::Strong).await {
            if follow.map_err(|error| Error::cache(KIND, &error))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends a follow. Returns the version at which it ended.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn unfollow(
        &self,
        edge: Edge,
        context: WriteContext,
    ) -> Result<Committed<Version>, Error> {
        own(edge.from, context.principal)?;
        self.end(edge, context).await
    }

    /// Ends both follows between two friends, one after the other, each with its own request id: a repeated
    /// call completes an earlier call. Returns a token that covers both.
    ///
    /// # Errors
    /// NOT_FOUND if neither follows the other, INVALID_ARGUMENT, or a failing store's errors; a follow may
    /// have ended then.
    pub(super) async fn unfriend(
        &self,
        edge: Edge,
        key: Option<&IdempotencyKey>,
        call: Call,
    ) -> Result<Token, Error> {
        let there = WriteContext::of(call, 0, key.map(|key| key.part("there")))?;
        let back = WriteContext::of(call, 0, key.map(|key| key.part("back")))?;
        let ended = [self.end(edge, there).await, self.end(edge.reversed(), back).await];
        let mut token = None;
        for ended in ended {
            match ended {
                Ok(ended) => token = Some(covering(token, ended.token)),
                Err(error) if error.reason() == Reason::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let token = token.ok_or_else(|| Error::not_found("friend"))?;
        self.close_requests(edge, call.deadline).await;
        Ok(token)
    }

    async fn end(&self, edge: Edge, context: WriteContext) -> Result<Committed<Version>, Error> {
        let write = context.write(&self.hasher).await?;
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.unfollow(edge, write).await });
        let written = self.write(RecordWrite { key: edge, write, change: deleted }, context.deadline).await?;
        self.listeners.follows.unfollowed(edge);
        Ok(written)
    }

    /// Closes the friend request from `edge.from` to `edge.to`, who has declined it. A request that cannot be
    /// closed stays pending.
    pub(super) async fn close_request(&self, edge: Edge) {
        if let Err(error) = self.listeners.requests.declined(edge).await {
            tracing::warn!(%error, "a friend request that became void could not be closed");
        }
    }

    /// Closes the friend requests between two users who have parted. Continues even if the caller no longer
    /// waits.
    async fn close_requests(&self, edge: Edge, deadline: Instant) {
        let this = self.clone();
        let work = async move {
            this.close_request(edge).await;
            this.close_request(edge.reversed()).await;
            Ok(())
        };
        drop(self.mutations.run(deadline, work).await);
    }

    /// Begins a write to another record that may end this follow.
    pub(super) async fn begin_write(&self, edge: Edge) -> WriteParts {
        let lists = self.lists.begin_write(&[edge]).await;
        self.cache.begin_write(&[edge]).await.invalidating().and([lists])
    }

    /// Writes a follow, and invalidates the lists that show it.
    async fn write<T: Send + Sync + 'static>(
        &self,
        write: RecordWrite<Edge, Follow, T>,
        deadline: Instant,
    ) -> Result<Committed<T>, Error> {
        let this = self.clone();
        let work = async move {
            let lists = this.lists.begin_write(&[write.key]).await;
            this.mutations.write_with(&this.cache, write, [lists]).await.map_err(store_error)
        };
        self.mutations.call(deadline, work).await
    }

    /// Checks that both users exist.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn check_users_exist(&self, edge: Edge) -> Result<(), Error> {
        for (user, field) in [(edge.from, "user_id"), (edge.to, "target_id")] {
            self.users.get(user, &Consistency::Cached).await.map_err(|error| error.at(field))?;
        }
        Ok(())
    }

    /// Checks that both users exist; in friend mode also that the caller is a service, which has obtained
    /// consent, and that neither friend limit is exceeded.
    pub(crate) async fn check_may_follow(
        &self,
        edge: Edge,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<(), Error> {
        self.check_users_exist(edge).await?;
        if self.rules.mode == RelationMode::Community {
            return Ok(());
        }
        if principal != Principal::Service {
            return Err(Error::new(Reason::StateForbids, "friends are made by consent, not by following"));
        }
        let of = UserList { list: FollowList::Following, user: edge.from };
        // The friends are read and not counted, because counts are some seconds behind.
        let most = usize::try_from(self.rules.friends_max).unwrap_or(usize::MAX);
        let friends =
            Box::pin(self.lists.part(of, ListPage { after: None, size: most }, consistency)).await?.entries;
        // The call may be a repetition, which adds no friend.
        if friends.iter().filter(|friend| friend.edge != edge).count() >= most {
            return Err(Error::new(Reason::StateForbids, format!("a user has at most {most} friends")));
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(KIND, &error)
}
