//! Users in two follow lists: friends, common followings, followed fans.
//!
//! The shorter list is read, by pages, and each of its users is looked up in the other list. The other list,
//! if it is short, too, is read whole, through the tiers; if it is long, the store is asked for the follows
//! that would be in it, some hundred at a time. So memory is bounded whatever the lengths, Redis contains
//! nothing but pages, and an answer page reads no more than [`SCANNED_MAX`] entries: an answer that is short
//! because of that says so.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_store::{BATCH_MAX, Edge, FollowList, FollowStore, ListPosition, Stored, UserId};

use super::{
    Follows,
    lists::{ListPage, RelationListPart, UserList},
};
use crate::error::Error;

/// The most entries on a page that is read: for most users, one page is the whole list.
const PAGE: usize = 2_000;
/// The fewest entries on a scanned page.
const SCANNED_AT_ONCE: usize = 200;
/// A list up to this length is read whole.
const WHOLE_MAX: u64 = 10_000;
/// Maximum entries that are scanned for one answer.
const SCANNED_MAX: usize = 20_000;

/// The position at which an answer continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonCursor {
    /// Whether the second list is scanned. Stored, because the shorter list may change meanwhile.
    pub(super) second: bool,
    /// The entry after which the list page with this position begins, so that the same page is read again,
    /// from memory. `None`: it is the first page.
    pub(super) page: Option<ListPosition>,
    pub(super) after: ListPosition,
}

/// Some users in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommonUsers {
    /// The users in the scanned list's order.
    pub(super) users: Vec<UserId>,
    /// `None`: there are no more.
    pub(super) next: Option<CommonCursor>,
    /// Whether there are fewer than requested because the most entries were scanned.
    pub(super) partial: bool,
}

/// Up to `size` users in both lists, after a cursor.
pub(super) async fn common(
    follows: &Follows,
    lists: [UserList<FollowList>; 2],
    asked: ListPage<CommonCursor>,
    consistency: &Consistency,
) -> Result<CommonUsers, Error> {
    let ListPage { after, size } = asked;
    // About half of the followed users follow back: mostly one list page is enough for an answer page.
    let page = size.saturating_mul(2).clamp(SCANNED_AT_ONCE, PAGE);
    let reader = PositionReader { follows, consistency, page };
    let [first, second] = reader.begin(lists, after).await?;
    let lengths = tokio::try_join!(reader.length(&first), reader.length(&second))?;
    let scans_second = after.map_or(lengths.1 < lengths.0, |cursor| cursor.second);
    let (scanned, sought, length) =
        if scans_second { (second, first, lengths.0) } else { (first, second, lengths.1) };
    let other = reader.other(sought, length).await?;
    let scan = ListScan { reader, other, second: scans_second };
    scan.run(scanned, after, size).await
}

/// One page of a list.
struct PositionPage {
    of: UserList<FollowList>,
    /// The entry after which it begins.
    begins: Option<ListPosition>,
    part: RelationListPart<ListPosition>,
}

impl PositionPage {
    const fn is_whole(&self) -> bool {
        self.begins.is_none() && !self.part.more
    }

    /// The positions of its users, beginning after this position.
    fn positions_after(&self, after: Option<ListPosition>) -> Vec<ListPosition> {
        // The newest are first.
        let positions = self.part.entries.iter().copied();
        positions.filter(|position| after.is_none_or(|after| *position < after)).collect()
    }

    /// The last user's position.
    fn end(&self) -> Option<ListPosition> {
        self.part.entries.last().copied()
    }
}

/// How lists are read.
struct PositionReader<'a> {
    follows: &'a Follows,
    consistency: &'a Consistency,
    /// How many entries a read has.
    page: usize,
}

impl PositionReader<'_> {
    /// The length of this page's list, without a read if the page is the whole list.
    async fn length(&self, page: &PositionPage) -> Result<u64, Error> {
        if page.is_whole() {
            return Ok(u64::try_from(page.part.entries.len()).unwrap_or(u64::MAX));
        }
        self.follows.lists.count(page.of, self.consistency).await
    }

    /// The first pages of both lists, for most users the whole lists; for the scanned list the page at the
    /// cursor.
    async fn begin(
        &self,
        lists: [UserList<FollowList>; 2],
        after: Option<CommonCursor>,
    ) -> Result<[PositionPage; 2], Error> {
        let begins = |second| after.filter(|cursor| cursor.second == second).and_then(|cursor| cursor.page);
        let (first, second) =
            tokio::try_join!(self.page(lists[0], begins(false)), self.page(lists[1], begins(true)))?;
        Ok([first, second])
    }

    async fn page(
        &self,
        of: UserList<FollowList>,
        begins: Option<ListPosition>,
    ) -> Result<PositionPage, Error> {
        let asked = ListPage { after: begins, size: self.page };
        let part = self.follows.lists.positions(of, asked, self.consistency).await?;
        Ok(PositionPage { of, begins, part })
    }

    /// The list that is not scanned, from its first page.
    async fn other(&self, mut page: PositionPage, length: u64) -> Result<OtherList, Error> {
        if length > WHOLE_MAX {
            return Ok(OtherList::InStore(Arc::clone(&self.follows.store), page.of));
        }
        let mut users = Vec::new();
        loop {
            users.extend(page.part.entries.iter().map(|position| position.user));
            // A list that has just grown is still read to its end, up to a limit.
            if !page.part.more || users.len() > SCANNED_MAX {
                break;
            }
            let (of, begins) = (page.of, page.end());
            let asked = ListPage { after: begins, size: PAGE };
            let part = self.follows.lists.positions(of, asked, self.consistency).await?;
            page = PositionPage { of, begins, part };
        }
        users.sort_unstable();
        Ok(OtherList::InMemory(users))
    }
}

/// The list that is not scanned.
enum OtherList {
    /// All its users, by rising id.
    InMemory(Vec<UserId>),
    /// Looked up in the store.
    InStore(Arc<dyn FollowStore>, UserList<FollowList>),
}

impl OtherList {
    /// Returns the users who are in it, in their order.
    async fn filter(&self, users: &[UserId]) -> Result<Vec<UserId>, Error> {
        match self {
            Self::InMemory(all) => {
                Ok(users.iter().filter(|user| all.binary_search(user).is_ok()).copied().collect())
            }
            Self::InStore(store, list) => users_in_store(store, *list, users).await,
        }
    }
}

async fn users_in_store(
    store: &Arc<dyn FollowStore>,
    list: UserList<FollowList>,
    users: &[UserId],
) -> Result<Vec<UserId>, Error> {
    let edge = |user: UserId| list.list.edge(list.user, user);
    // No user follows itself.
    let edges: Vec<Edge> = users.iter().filter(|user| **user != list.user).map(|user| edge(*user)).collect();
    let mut live = Vec::new();
    for edges in edges.chunks(BATCH_MAX) {
        let found = store.follows(edges).await.map_err(super::follows::store_error)?;
        live.extend(
            found.into_iter().filter(|(_, stored)| matches!(stored, Stored::Live(_))).map(|(edge, _)| edge),
        );
    }
    live.sort_unstable();
    Ok(users.iter().filter(|user| live.binary_search(&edge(**user)).is_ok()).copied().collect())
}

/// Scans one list for the users in the other.
struct ListScan<'a> {
    reader: PositionReader<'a>,
    other: OtherList,
    second: bool,
}

impl ListScan<'_> {
    /// Continues from this list page, after a position in it.
    async fn run(
        &self,
        mut page: PositionPage,
        after: Option<CommonCursor>,
        size: usize,
    ) -> Result<CommonUsers, Error> {
        let (mut common, mut scanned) = (CommonUsers::default(), 0);
        let mut after = after.map(|cursor| cursor.after);
        loop {
            let positions = page.positions_after(after);
            scanned += page.part.entries.len();
            let users: Vec<UserId> = positions.iter().map(|position| position.user).collect();
            let found = self.other.filter(&users).await?;
            let missing = size - common.users.len();
            if found.len() > missing {
                common.users.extend(&found[..missing]);
                let last = common.users.last().copied();
                let last = positions.into_iter().find(|position| Some(position.user) == last);
                common.next = self.cursor(page.begins, last);
                return Ok(common);
            }
            common.users.extend(found);
            if !page.part.more {
                return Ok(common);
            }
            let end = page.end();
            // If newer entries have shifted the page, it may end before this position.
            after = end.map(|end| after.map_or(end, |after| after.min(end)));
            if common.users.len() == size || scanned >= SCANNED_MAX {
                common.partial = common.users.len() < size;
                common.next = self.cursor(end, after);
                return Ok(common);
            }
            page = self.reader.page(page.of, end).await?;
        }
    }

    fn cursor(&self, page: Option<ListPosition>, after: Option<ListPosition>) -> Option<CommonCursor> {
        after.map(|after| CommonCursor { second: self.second, page, after })
    }
}
