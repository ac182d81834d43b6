//! Lists that are read by pages, under an epoch that their writers drop: [`PagedList`].

mod codec;
mod epoch;
mod list;
mod page;

pub use codec::ItemsCodec;
pub use epoch::ListEpoch;
pub use list::{ListPolicies, PageAnswer, PagedList};
pub use page::{NotAKey, Page, PageKey, PageLoader};
