//! Lists of follows and blocks, by pages through the tiers.

use std::{fmt, str::FromStr, sync::Arc};

use kith_cache::{
    CacheError, Consistency, Invalidation, ListPolicies, LoadError, LoadOptions, Page, PageLoader, PagedList,
    WriteParts,
};
use kith_store::{BlockList, BlockStore, Edge, Follow, FollowList, FollowStore, ListPosition, UserId};
use serde::{Deserialize, Serialize};

use super::{BLOCK_EPOCHS, FOLLOW_EPOCHS};
use crate::{
    error::Error,
    rpc::versions::invalidation,
    write::{caches::CacheFactory, encoded_key::EncodedKey, record_codec::RecordCodec},
};

/// The items on follow list pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelationListItem {
    /// An entry of a list.
    Follow(Follow),
    /// An entry's position, for comparisons of lists.
    Position(ListPosition),
    /// The list's length: the only item of a page for `RelationPageKey::Count`.
    Count(u64),
}

/// A list of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct UserList<L> {
    pub(super) list: L,
    pub(super) user: UserId,
}

/// List kinds by their names in keys.
pub(super) trait ListKind: Copy + 'static {
    /// All kinds of lists.
    const ALL: [(Self, &'static str); 2];
}

impl ListKind for FollowList {
    const ALL: [(Self, &'static str); 2] = [(Self::Following, "following"), (Self::Fans, "fans")];
}

impl ListKind for BlockList {
    const ALL: [(Self, &'static str); 2] =
        [(Self::Blocked, "blocked"), (Self::DoNotDisturb, "do_not_disturb")];
}

impl<L: ListKind + PartialEq> fmt::Display for UserList<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = L::ALL.iter().find(|(list, _)| *list == self.list).map_or("", |(_, name)| name);
        write!(f, "{name}:{}", self.user)
    }
}

/// The text names no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not that of a list of relations")]
pub(super) struct InvalidListKey;

impl<L: ListKind> FromStr for UserList<L> {
    type Err = InvalidListKey;

    fn from_str(text: &str) -> Result<Self, InvalidListKey> {
        let (name, user) = text.split_once(':').ok_or(InvalidListKey)?;
        let found = L::ALL.into_iter().find(|(_, of)| *of == name);
        let (list, _) = found.ok_or(InvalidListKey)?;
        Ok(Self { list, user: user.parse().map_err(|_| InvalidListKey)? })
    }
}

/// A request for part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum RelationPageKey {
    /// Some entries after a position.
    Entries { after: Option<ListPosition>, size: usize },
    /// Only the entries' positions.
    Positions { after: Option<ListPosition>, size: usize },
    /// The list's length.
    Count,
}

/// One part of a list.
#[derive(Clone, Debug)]
pub(super) struct RelationListPart<T> {
    /// In the list's order.
    pub(super) entries: Vec<T>,
    /// Whether others follow.
    pub(super) more: bool,
}

/// The list part to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListPage<P> {
    /// The position after which it begins; `None`: the beginning.
    pub(super) after: Option<P>,
    /// Maximum entries.
    pub(super) size: usize,
}

/// Lists of follows, through this node's tiers.
#[derive(Clone, Debug)]
pub struct FollowLists {
    pages: PagedList<UserList<FollowList>, EncodedKey<RelationPageKey>, RelationListItem>,
}

impl FollowLists {
    pub(super) fn new(
        store: Arc<dyn FollowStore>,
        caches: &CacheFactory,
        policies: ListPolicies<RelationListItem>,
    ) -> Self {
        Self { pages: caches.list(policies, Arc::new(FollowPages(store)), RecordCodec::LISTED) }
    }

    /// Part of a list, the newest first.
    pub(super) async fn part(
        &self,
        of: UserList<FollowList>,
        page: ListPage<ListPosition>,
        consistency: &Consistency,
    ) -> Result<RelationListPart<Follow>, Error> {
        let asked = RelationPageKey::Entries { after: page.after, size: page.size };
        let follow = |listed: &RelationListItem| match listed {
            RelationListItem::Follow(follow) => Some(follow.clone()),
            RelationListItem::Position(_) | RelationListItem::Count(_) => None,
        };
        self.read(of, asked, follow, consistency).await
    }

    /// Like `part`, but returns the entries' positions.
    pub(super) async fn positions(
        &self,
        of: UserList<FollowList>,
        page: ListPage<ListPosition>,
        consistency: &Consistency,
    ) -> Result<RelationListPart<ListPosition>, Error> {
        let asked = RelationPageKey::Positions { after: page.after, size: page.size };
        let position = |listed: &RelationListItem| match listed {
            RelationListItem::Position(position) => Some(*position),
            RelationListItem::Follow(_) | RelationListItem::Count(_) => None,
        };
        self.read(of, asked, position, consistency).await
    }

    /// A list's length: exact for a list that has not changed for some seconds.
    pub(super) async fn count(
        &self,
        of: UserList<FollowList>,
        consistency: &Consistency,
    ) -> Result<u64, Error> {
        let count = |listed: &RelationListItem| match listed {
            RelationListItem::Count(count) => Some(*count),
            RelationListItem::Follow(_) | RelationListItem::Position(_) => None,
        };
        let found = self.read(of, RelationPageKey::Count, count, consistency).await?;
        Ok(found.entries.first().copied().unwrap_or_default())
    }

    async fn read<T>(
        &self,
        of: UserList<FollowList>,
        asked: RelationPageKey,
        item: fn(&RelationListItem) -> Option<T>,
        consistency: &Consistency,
    ) -> Result<RelationListPart<T>, Error> {
        let paged = self.pages.page(&of, &EncodedKey(asked), consistency).await;
        let found = paged.map_err(|error| Error::cache("list", &error))?.entry.value;
        Ok(RelationListPart { entries: found.items.iter().filter_map(item).collect(), more: found.more })
    }

    /// Must be called before a write to these edges' follows is sent to the store.
    pub(super) async fn begin_write(&self, edges: &[Edge]) -> WriteParts {
        let mut lists: Vec<_> = edges.iter().flat_map(|edge| lists_of_edge(*edge)).collect();
        lists.sort_unstable();
        lists.dedup();
        self.pages.begin_write(&lists).await
    }

    /// Like `begin_write`, but for both lists of each user.
    pub(super) async fn begin_write_of(&self, users: &[UserId]) -> WriteParts {
        self.pages.begin_write(&lists_of_users(users)).await
    }
}

/// Lists of blocks, through this node's tiers: they say who may be in them, the records say who is.
#[derive(Clone, Debug)]
pub struct BlockLists {
    pages: PagedList<UserList<BlockList>, EncodedKey<RelationPageKey>, ListPosition>,
}

impl BlockLists {
    pub(super) fn new(
        store: Arc<dyn BlockStore>,
        caches: &CacheFactory,
        policies: ListPolicies<ListPosition>,
    ) -> Self {
        Self { pages: caches.list(policies, Arc::new(BlockPages(store)), RecordCodec::POSITION) }
    }

    /// A page of the list, and whether there is more.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) async fn part(
        &self,
        of: UserList<BlockList>,
        page: ListPage<ListPosition>,
        consistency: &Consistency,
    ) -> Result<RelationListPart<ListPosition>, CacheError> {
        let asked = RelationPageKey::Entries { after: page.after, size: page.size };
        let paged = self.pages.page(&of, &EncodedKey(asked), consistency).await?;
        let found = &paged.entry.value;
        Ok(RelationListPart { entries: found.items.clone(), more: found.more })
    }

    /// Must be called before a write that may change these user lists is sent to the store.
    pub(super) async fn begin_write(&self, user: UserId, lists: &[BlockList]) -> WriteParts {
        let lists: Vec<_> = lists.iter().map(|list| UserList { list: *list, user }).collect();
        self.pages.begin_write(&lists).await
    }

    /// Like `begin_write`, but for both lists of each user.
    pub(super) async fn begin_write_of(&self, users: &[UserId]) -> WriteParts {
        self.pages.begin_write(&lists_of_users(users)).await
    }
}

/// The list invalidations after another program changed a follow; the record itself is invalidated first.
pub fn follow_invalidations(edge: Edge) -> Vec<Invalidation> {
    lists_of_edge(edge).into_iter().map(|list| invalidation(FOLLOW_EPOCHS, list.to_string())).collect()
}

/// The list invalidations after another program changed a user's settings for another.
pub fn block_invalidations(edge: Edge) -> Vec<Invalidation> {
    let list = |(list, _)| invalidation(BLOCK_EPOCHS, UserList { list, user: edge.from }.to_string());
    <BlockList as ListKind>::ALL.into_iter().map(list).collect()
}

fn lists_of_users<L: ListKind>(users: &[UserId]) -> Vec<UserList<L>> {
    let both = |user: &UserId| L::ALL.map(|(list, _)| UserList { list, user: *user });
    users.iter().flat_map(both).collect()
}

/// An edge's lists.
fn lists_of_edge(edge: Edge) -> [UserList<FollowList>; 2] {
    [
        UserList { list: FollowList::Following, user: edge.from },
        UserList { list: FollowList::Fans, user: edge.to },
    ]
}

#[derive(Debug)]
struct FollowPages(Arc<dyn FollowStore>);

#[async_trait::async_trait]
impl PageLoader<UserList<FollowList>, EncodedKey<RelationPageKey>, RelationListItem> for FollowPages {
    async fn page(
        &self,
        of: &UserList<FollowList>,
        asked: &EncodedKey<RelationPageKey>,
        _options: LoadOptions,
    ) -> Result<Page<RelationListItem>, LoadError> {
        let (user, list) = (of.user, of.list);
        // One more shows whether there is a next page.
        match asked.0 {
            RelationPageKey::Count => self.count(*of).await,
            RelationPageKey::Entries { after, size } => {
                let found = self.0.follow_list(user, list, after, size.saturating_add(1)).await;
                Ok(page_of(found.map_err(LoadError::new)?, size, RelationListItem::Follow))
            }
            RelationPageKey::Positions { after, size } => {
                let found = self.0.follow_positions(user, list, after, size.saturating_add(1)).await;
                Ok(page_of(found.map_err(LoadError::new)?, size, RelationListItem::Position))
            }
        }
    }
}

fn page_of<T>(found: Vec<T>, size: usize, listed: fn(T) -> RelationListItem) -> Page<RelationListItem> {
    let more = found.len() > size;
    Page { items: found.into_iter().take(size).map(listed).collect(), more }
}

impl FollowPages {
    async fn count(&self, of: UserList<FollowList>) -> Result<Page<RelationListItem>, LoadError> {
        let counts = self.0.follow_counts(&[of.user]).await.map_err(LoadError::new)?;
        let counts = counts.first().copied().unwrap_or_default();
        let count = match of.list {
            FollowList::Following => counts.following,
            FollowList::Fans => counts.fans,
        };
        Ok(Page { items: vec![RelationListItem::Count(count)], more: false })
    }
}

#[derive(Debug)]
struct BlockPages(Arc<dyn BlockStore>);

#[async_trait::async_trait]
impl PageLoader<UserList<BlockList>, EncodedKey<RelationPageKey>, ListPosition> for BlockPages {
    async fn page(
        &self,
        of: &UserList<BlockList>,
        asked: &EncodedKey<RelationPageKey>,
        _options: LoadOptions,
    ) -> Result<Page<ListPosition>, LoadError> {
        let RelationPageKey::Entries { after, size } = asked.0 else {
            return Ok(Page { items: Vec::new(), more: false });
        };
        let found = self.0.block_list(of.user, of.list, after, size.saturating_add(1)).await;
        let found = found.map_err(LoadError::new)?;
        let more = found.len() > size;
        let positions = found.iter().take(size).filter_map(|block| block.position_in(of.list));
        Ok(Page { items: positions.collect(), more })
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{Timestamp, Version};

    use super::*;
    use crate::sample::user;
    use crate::write::{encoded_key::assert_text, record_codec::tests::assert_form};

    #[test]
    fn items_of_lists_keep_their_form() {
        let position = ListPosition { at: Timestamp(-1), user: user(8) };
        let follow = Follow {
            edge: Edge::new(user(7), user(i64::MAX)).unwrap(),
            version: Version::new(2).unwrap(),
            since: Timestamp(-3),
            placed: Timestamp(4),
        };
        assert_form(RecordCodec::LISTED, &RelationListItem::Follow(follow), "000efeffffffffffffffff01040508");
        assert_form(RecordCodec::LISTED, &RelationListItem::Position(position), "010110");
        assert_form(RecordCodec::LISTED, &RelationListItem::Count(u64::MAX), "02ffffffffffffffffff01");
    }

    #[test]
    fn lists_are_read_back() {
        for (list, _) in <FollowList as ListKind>::ALL {
            let of = UserList { list, user: user(7) };
            assert_eq!(of.to_string().parse(), Ok(of));
        }
        for (list, _) in <BlockList as ListKind>::ALL {
            let of = UserList { list, user: user(i64::MAX) };
            assert_eq!(of.to_string().parse(), Ok(of));
        }
    }

    #[test]
    fn page_keys_keep_their_text() {
        let after = Some(ListPosition { at: Timestamp(-5), user: user(8) });
        assert_text(&RelationPageKey::Count, "Ag");
        assert_text(&RelationPageKey::Entries { after: None, size: 50 }, "AAAy");
        assert_text(&RelationPageKey::Entries { after, size: 1 }, "AAEJEAE");
        assert_text(&RelationPageKey::Positions { after: None, size: 50 }, "AQAy");
        assert_text(&RelationPageKey::Positions { after, size: 1 }, "AQEJEAE");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "fans", "fans:", "fans:0", "friends:7", ":7", "7"] {
            assert_eq!(text.parse::<UserList<FollowList>>(), Err(InvalidListKey), "{text:?}");
        }
    }

    #[test]
    fn follow_invalidates_a_list_of_both_users() {
        let invalidations = follow_invalidations(Edge::new(user(7), user(8)).unwrap());
        let keys: Vec<_> = invalidations.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["following:7", "fans:8"]);
    }
}
