//! User settings for others: blocks, permissions, do-not-disturb, remarks.

use std::sync::Arc;

use futures::FutureExt as _;
use kith_cache::{Change, Consistency, Entry, ListPolicies, Policy, TieredCache};
use kith_store::{
    Block, BlockChange, BlockList, BlockPatch, BlockStore, Edge, ListPosition, Permissions, StoreError, Write,
};
use tokio::time::Instant;

use super::{
    BlockLists, DoNotDisturbListener, Follows,
    lists::{ListPage, UserList},
};
use crate::{
    domain_context::DomainContext,
    error::Error,
    rpc::{
        call::own,
        request::WriteContext,
        secret::SecretHasher,
        versions::{cache_version, loaded_all},
    },
    write::{
        mutations::{Committed, Mutations, RecordWrite},
        record_codec::RecordCodec,
    },
};

pub(super) const KIND: &str = "block";

/// The users' settings for others, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blocks {
    pub(super) cache: TieredCache<Edge, Block>,
    pub(super) lists: BlockLists,
    pub(super) store: Arc<dyn BlockStore>,
    mutations: Mutations,
    hasher: SecretHasher,
    default: Permissions,
    listener: Arc<dyn DoNotDisturbListener>,
}

/// A page of settings.
#[derive(Debug)]
pub(super) struct BlockPage {
    pub(super) blocks: Vec<Arc<Block>>,
    /// The position after which the list continues; `None` at its end.
    pub(super) next: Option<ListPosition>,
}

impl Blocks {
    /// Creates it over `stores`, with its own namespaces in the tiers; the namespace for records must be
    /// strict. `default` says what others may do if nothing was set.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        records: Policy<Block>,
        lists: ListPolicies<ListPosition>,
        default: Permissions,
        listener: Arc<dyn DoNotDisturbListener>,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        let store = Arc::clone(&stores.blocks);
        // Every read of the store sees all changes that were acknowledged before it, not only a strong one.
        let cache = caches.records(records, RecordCodec::BLOCK, &store, |store, edges, _| {
            async move { loaded_all(store.blocks(edges).await) }.boxed()
        });
        Self {
            cache,
            lists: BlockLists::new(Arc::clone(&store), caches, lists),
            store,
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            default,
            listener,
        }
    }

    /// Reads many records through the tiers: an answer for each edge, in their order.
    pub async fn get_many(
        &self,
        edges: &[Edge],
        consistency: &Consistency,
    ) -> Vec<Result<Option<Entry<Block>>, Error>> {
        let entries = self.cache.get_many(edges, consistency).await;
        entries.into_iter().map(|entry| entry.map_err(|error| Error::cache(KIND, &error))).collect()
    }

    /// Reads one record through the tiers; `None`: nothing was ever set.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn get(&self, edge: Edge, consistency: &Consistency) -> Result<Option<Entry<Block>>, Error> {
        self.cache.get_with(&edge, consistency).await.map_err(|error| Error::cache(KIND, &error))
    }

    /// Whether `edge.from` has blocked `edge.to`.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn is_blocked(&self, edge: Edge) -> Result<bool, Error> {
        let entry = self.get(edge, &Consistency::Cached).await?;
        Ok(entry.is_some_and(|entry| entry.value.blocked.is_some()))
    }

    /// Whether one user of an edge has blocked the other.
    pub(crate) async fn is_either_blocked(&self, edge: Edge) -> Result<bool, Error> {
        for set in self.get_many(&[edge, edge.reversed()], &Consistency::Cached).await {
            if set?.is_some_and(|entry| entry.value.blocked.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which requested permissions are denied by this record, and whether the other user is blocked, which
    /// denies all.
    #[must_use]
    pub fn denied(&self, block: Option<&Block>, asked: Permissions) -> (u32, bool) {
        if block.is_some_and(|block| block.blocked.is_some()) {
            return (u32::from(asked.bits()), true);
        }
        (u32::from(asked.bits() & !self.permissions(block).bits()), false)
    }

    /// The permissions that the other user has by this record, apart from a block.
    #[must_use]
    pub fn permissions(&self, block: Option<&Block>) -> Permissions {
        permitted(block, self.default)
    }

    /// Changes what `edge.from` has set about `edge.to`. If it blocks, the opposite follow ends with it. Both
    /// users must exist, unless the change only removes settings: a later account with the id would have
    /// them.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of a user, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn set_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        follows: &Follows,
        context: WriteContext,
    ) -> Result<Committed<BlockChange>, Error> {
        own(edge.from, context.principal)?;
        if !removes_only(&patch) {
            follows.check_users_exist(edge).await?;
        }
        let write = context.write(&self.hasher).await?;
        self.write_block(edge, patch, follows, write, context.deadline).await
    }

    /// Like [`Self::set_block`], without its checks.
    pub(super) async fn write_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        follows: &Follows,
        write: Write,
        deadline: Instant,
    ) -> Result<Committed<BlockChange>, Error> {
        let (this, follows) = (self.clone(), follows.clone());
        let work = async move {
            let (blocks, lists) = (patch.blocked == Some(true), lists_of(&patch));
            let sets_do_not_disturb = patch.do_not_disturb.is_some();
            let store = Arc::clone(&this.store);
            let write = Box::pin(async move { store.set_block(edge, patch, write).await });
            let job = RecordWrite { key: edge, write, change: put };
            let mut others = Vec::new();
            if !lists.is_empty() {
                others.push(this.lists.begin_write(edge.from, &lists).await);
            }
            if blocks {
                others.push(follows.begin_write(edge.reversed()).await);
            }
            let written = this.mutations.write_with(&this.cache, job, others).await.map_err(store_error)?;
            if sets_do_not_disturb {
                this.listener.do_not_disturb_changed(edge);
            }
            if blocks {
                follows.close_request(edge).await;
            }
            Ok(written)
        };
        self.mutations.call(deadline, work).await
    }

    /// Reads a page of a list, with up to `size` entries. Records are read through the tiers, so that no
    /// record is returned that no longer belongs to the list.
    pub(super) async fn list(
        &self,
        of: UserList<BlockList>,
        page: ListPage<ListPosition>,
        consistency: &Consistency,
    ) -> Result<BlockPage, Error> {
        let part = self.lists.part(of, page, consistency).await;
        let part = part.map_err(|error| Error::cache("list", &error))?;
        let edge = |position: &ListPosition| Edge { from: of.user, to: position.user };
        let edges: Vec<Edge> = part.entries.iter().map(edge).collect();
        let mut blocks = Vec::with_capacity(edges.len());
        for record in self.get_many(&edges, consistency).await {
            blocks.extend(
                record?.map(|entry| entry.value).filter(|block| block.position_in(of.list).is_some()),
            );
        }
        Ok(BlockPage { blocks, next: part.entries.last().filter(|_| part.more).copied() })
    }
}

/// Whether a change sets nothing that another account with the same id could inherit.
fn removes_only(patch: &BlockPatch) -> bool {
    let BlockPatch { blocked, permissions, do_not_disturb, remark } = patch;
    *blocked != Some(true)
        && !matches!(permissions, Some(Some(_)))
        && *do_not_disturb != Some(true)
        && remark.as_ref().is_none_or(|remark| remark.is_empty())
}

/// The lists that a change may change.
fn lists_of(patch: &BlockPatch) -> Vec<BlockList> {
    let blocked = patch.blocked.map(|_| BlockList::Blocked);
    let do_not_disturb = patch.do_not_disturb.map(|_| BlockList::DoNotDisturb);
    blocked.into_iter().chain(do_not_disturb).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(KIND, &error)
}

fn put(change: &Arc<BlockChange>) -> Change<Block> {
    let block = Arc::new(change.block.clone());
    Change::Put { version: cache_version(block.version), value: block }
}

/// The permissions that the other user has by this record, apart from a block.
pub(super) fn permitted(block: Option<&Block>, default: Permissions) -> Permissions {
    block.and_then(|block| block.permissions).unwrap_or(default)
}
