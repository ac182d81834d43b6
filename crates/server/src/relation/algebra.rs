//! Who stands in two lists of follows: friends, common followings, fans whom one follows.
//!
//! One list is walked, by pages, and each of its users looked for in the other one. The shorter list is walked. The other
//! one, where it is short too, is read whole, through the tiers; where it is long, the store is asked for the follows that
//! would stand in it, some hundred at a time. So memory is bounded whatever the lengths, Redis holds nothing but pages,
//! and a page of the answer looks through no more than [`WALKED_MAX`] entries: what is short because of that says so.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_store::{BATCH_MAX, Edge, Follow, FollowList, FollowStore, Place, Stored, UserId};

use super::{
    Follows,
    lists::{ListOf, Part},
};
use crate::error::Error;

/// Most entries of a page that is read: one of them is the whole list of most users.
const PAGE: usize = 2_000;
/// Least entries of a page that is walked.
const WALKED_AT_ONCE: usize = 200;
/// A list up to so long is read whole.
const WHOLE_MAX: u64 = 10_000;
/// Most entries that are looked through for one answer.
const WALKED_MAX: usize = 20_000;

/// Where an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Whether the second list is walked. Kept, since which is shorter may change meanwhile.
    pub(super) second: bool,
    pub(super) after: Place,
}

/// Some of those who stand in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Common {
    /// In the order of the list that is walked.
    pub(super) users: Vec<UserId>,
    /// `None`: there are no more.
    pub(super) next: Option<Cursor>,
    /// Fewer than asked for because so many entries were looked through.
    pub(super) partial: bool,
}

/// Up to `size` users who stand in both lists, after a cursor.
///
/// # Errors
/// What a failing store makes.
pub(super) async fn common(
    follows: &Follows,
    lists: [ListOf<FollowList>; 2],
    (after, size): (Option<Cursor>, usize),
    consistency: &Consistency,
) -> Result<Common, Error> {
    let (first, second) =
        tokio::join!(follows.count(lists[0], consistency), follows.count(lists[1], consistency));
    let lengths = [first?, second?];
    let walks_second = after.map_or(lengths[1] < lengths[0], |cursor| cursor.second);
    let at = usize::from(walks_second);
    // About half of friends follow back: a page of the answer is mostly found in one page of the list.
    let page = size.saturating_mul(2).clamp(WALKED_AT_ONCE, PAGE);
    let (other, first) = tokio::join!(
        Other::of(follows, lists[1 - at], lengths[1 - at], consistency),
        follows.list(lists[at], (after.map(|cursor| cursor.after), page), consistency)
    );
    let walk = Walk { follows, list: lists[at], page, other: other?, second: walks_second, consistency };
    walk.run(first?, size).await
}

/// The list that is not walked.
enum Other {
    /// All who stand in it, by rising id.
    Whole(Vec<UserId>),
    /// Asked of the store.
    Asked(Arc<dyn FollowStore>, ListOf<FollowList>),
}

impl Other {
    async fn of(
        follows: &Follows,
        list: ListOf<FollowList>,
        length: u64,
        consistency: &Consistency,
    ) -> Result<Self, Error> {
        if length > WHOLE_MAX {
            return Ok(Self::Asked(Arc::clone(&follows.store), list));
        }
        let (mut users, mut after) = (Vec::new(), None);
        loop {
            let part = follows.list(list, (after, PAGE), consistency).await?;
            users.extend(part.entries.iter().map(|follow| follow.place_in(list.list).user));
            after = part.entries.last().map(|follow| follow.place_in(list.list));
            // A list that has just grown is followed to its end all the same, but not without one.
            if !part.more || users.len() > WALKED_MAX {
                break;
            }
        }
        users.sort_unstable();
        Ok(Self::Whole(users))
    }

    /// Which of these users stand in it, in their order.
    async fn among(&self, users: &[UserId]) -> Result<Vec<UserId>, Error> {
        match self {
            Self::Whole(all) => {
                Ok(users.iter().filter(|user| all.binary_search(user).is_ok()).copied().collect())
            }
            Self::Asked(store, list) => asked(store, *list, users).await,
        }
    }
}

async fn asked(
    store: &Arc<dyn FollowStore>,
    list: ListOf<FollowList>,
    users: &[UserId],
) -> Result<Vec<UserId>, Error> {
    let edge = |user: UserId| list.list.edge(list.user, user);
    // Nobody follows oneself.
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

/// The list that is walked, and what its users are looked for in.
struct Walk<'a> {
    follows: &'a Follows,
    list: ListOf<FollowList>,
    /// Entries that are read at a time.
    page: usize,
    other: Other,
    second: bool,
    consistency: &'a Consistency,
}

impl Walk<'_> {
    /// Goes on from this page of the list.
    async fn run(&self, mut part: Part<Follow>, size: usize) -> Result<Common, Error> {
        let (mut common, mut walked) = (Common::default(), 0);
        loop {
            walked += part.entries.len();
            let places: Vec<Place> =
                part.entries.iter().map(|follow| follow.place_in(self.list.list)).collect();
            let users: Vec<UserId> = places.iter().map(|place| place.user).collect();
            let found = self.other.among(&users).await?;
            let missing = size - common.users.len();
            if found.len() > missing {
                common.users.extend(&found[..missing]);
                let last = common.users.last().copied();
                common.next = self.cursor(places.into_iter().find(|place| Some(place.user) == last));
                return Ok(common);
            }
            common.users.extend(found);
            if !part.more {
                return Ok(common);
            }
            let after = places.last().copied();
            if common.users.len() == size || walked >= WALKED_MAX {
                common.partial = common.users.len() < size;
                common.next = self.cursor(after);
                return Ok(common);
            }
            part = self.follows.list(self.list, (after, self.page), self.consistency).await?;
        }
    }

    fn cursor(&self, after: Option<Place>) -> Option<Cursor> {
        after.map(|after| Cursor { second: self.second, after })
    }
}
