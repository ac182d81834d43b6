//! Collections of records: sets that are read as a whole, lists that are read by pages, and pairs.
//!
//! - A **small set** is one record: [`SmallSet`] in a [`TieredCache`](crate::TieredCache), with the version
//!   that the store gives it.
//! - A **large list** is read by pages under an epoch that its writers drop: [`PagedList`].
//! - **A relation between two** (a group member, a blocked user) is one record for each pair: a
//!   [`TieredCache`](crate::TieredCache) with the key [`Pair`]. Absence is cached as everywhere, so that "no"
//!   costs as little as "yes", and no set has to be read, however large.

mod codec;
mod epoch;
mod list;
mod page;
mod pair;
mod set;

pub use codec::ItemsCodec;
pub use epoch::ListEpoch;
pub use list::{ListPolicies, PageAnswer, PagedList};
pub use page::{Page, PageKey, PageLoader};
pub use pair::{NotAKey, Pair};
pub use set::SmallSet;
