//! Pages of large lists, as cached records without versions. No page is invalidated individually: the epoch
//! in its key decides whether it is found.

use std::{fmt, str::FromStr, sync::Arc};

use super::ListEpoch;
use crate::{Key, LoadError, LoadOptions, Loaded, Loader, Version, load_each};

/// A part of a list, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items on the page, in the list's order.
    pub items: Vec<T>,
    /// Whether the list continues after them. The next page is requested after the last of them.
    pub more: bool,
}

/// Reads pages from the store.
///
/// The rules of [`Loader`] about the primary, bounds and panics apply here, too.
#[async_trait::async_trait]
pub trait PageLoader<L, P, T>: Send + Sync + 'static {
    /// Reads a page in one query that sees a single state of the list. A list that does not exist is empty.
    ///
    /// # Errors
    /// The store's error.
    async fn page(&self, list: &L, position: &P, options: LoadOptions) -> Result<Page<T>, LoadError>;
}

/// The text is no page's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the key of a page")]
pub struct NotAKey;

/// A page's key: the list's state, and a position in it. In its text, the position is preceded by its length
/// in bytes, so that different keys have different texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageKey<L, P> {
    pub(super) epoch: ListEpoch,
    pub(super) position: P,
    pub(super) list: L,
}

impl<L: fmt::Display, P: fmt::Display> fmt::Display for PageKey<L, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self.position.to_string();
        write!(f, "{:016x}{}:{position}{}", self.epoch.get(), position.len(), self.list)
    }
}

impl<L: FromStr, P: FromStr> FromStr for PageKey<L, P> {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let (epoch, rest) = text.split_at_checked(16).ok_or(NotAKey)?;
        let (length, rest) = rest.split_once(':').ok_or(NotAKey)?;
        let length = length.parse().map_err(|_| NotAKey)?;
        let (position, list) = rest.split_at_checked(length).ok_or(NotAKey)?;
        Ok(Self {
            epoch: ListEpoch::new(u64::from_str_radix(epoch, 16).map_err(|_| NotAKey)?),
            position: position.parse().map_err(|_| NotAKey)?,
            list: list.parse().map_err(|_| NotAKey)?,
        })
    }
}

/// Pages as records without versions. One query for each page: no store reads pages of several lists at once.
pub(super) struct Pages<L, P, T>(pub(super) Arc<dyn PageLoader<L, P, T>>);

#[async_trait::async_trait]
impl<L: Key, P: Key, T: Send + Sync + 'static> Loader<PageKey<L, P>, Page<T>> for Pages<L, P, T> {
    async fn load(&self, key: &PageKey<L, P>, options: LoadOptions) -> Result<Loaded<Page<T>>, LoadError> {
        let page = self.0.page(&key.list, &key.position, options).await?;
        Ok(Loaded::Found { value: Arc::new(page), version: Version::UNVERSIONED })
    }

    async fn load_many(
        &self,
        keys: &[PageKey<L, P>],
        options: LoadOptions,
    ) -> Result<Vec<(PageKey<L, P>, Loaded<Page<T>>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_key_round_trips() {
        for (list, position) in [("", ""), ("a:b", "1:2"), ("東", "{x}"), ("0", "")] {
            let epoch = ListEpoch::new(u64::MAX - 1);
            let key = PageKey { epoch, position: position.to_owned(), list: list.to_owned() };
            assert_eq!(key.to_string().parse(), Ok(key));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let epoch = "0000000000000001";
        let lengths = ["", "7", "1:", "2:7", "x:7", "-1:7", "99999999999999999999:7", "1:東1"];
        let texts = lengths.map(|length| format!("{epoch}{length}"));
        let texts = texts.iter().map(String::as_str);
        for other in texts.chain(["", "000000000000000", "000000000000000x0:", "東東東東東東"]) {
            assert_eq!(other.parse::<PageKey<String, String>>(), Err(NotAKey), "{other:?}");
        }
    }
}
