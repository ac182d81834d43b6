//! Group search: pages of ids under search keys, and the records through the group tier.
//!
//! **Ids.** A page contains the groups that were listed under a key; each is then read through the group tier
//! and compared with the keyword again. So no search shows an old record, nor a group that became private,
//! was renamed or dismissed, after the record's write was published, whatever the pages contain. Only a page
//! can show that a group is newly listed: for this, writes invalidate pages.
//!
//! **Buckets.** A write can list a group under hundreds of search keys. They are invalidated by buckets: the
//! first three characters of a word, and shorter beginnings. A key belongs to one bucket, a word to three.

use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

use kith_cache::{
    CacheError, Consistency, Invalidation, ListPolicies, LoadError, LoadOptions, Page, PageLoader, PagedList,
    WriteParts,
};
use kith_store::{Group, GroupId, GroupStore, Text, Visibility, fold};
use serde::{Deserialize, Serialize};

use super::GroupKeyword;
use crate::{
    rpc::versions::invalidation,
    write::{caches::CacheFactory, encoded_key::EncodedKey, record_codec::RecordCodec},
};

/// The namespace for bucket epochs.
pub const SEARCH_EPOCHS: &str = "group_search_epoch";
/// The namespace for the pages.
pub const SEARCH_PAGES: &str = "group_search_page";

/// Characters in a bucket: few enough that a write can name its buckets, and enough that few words share a
/// bucket.
const BUCKET_CHARS: usize = 3;

/// Search keys that are invalidated together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SearchBucket(String);

impl SearchBucket {
    /// Returns a search key's bucket.
    fn of_key(key: &str) -> Self {
        // The first character says how the rest is compared, and the bucket has both.
        Self(key.chars().skip(1).take(BUCKET_CHARS).collect())
    }

    /// Returns the buckets for all search keys that these words are listed under; each once.
    pub(super) fn of_words<'a>(words: impl IntoIterator<Item = &'a Text>) -> Vec<Self> {
        let mut buckets = Vec::new();
        for word in words {
            let mut beginning = String::new();
            for c in fold(word).chars().take(BUCKET_CHARS) {
                beginning.push(c);
                buckets.push(Self(beginning.clone()));
            }
        }
        buckets.sort_unstable();
        buckets.dedup();
        buckets
    }
}

impl fmt::Display for SearchBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SearchBucket {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// A page for a search key: a number of ids above an id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct SearchPageKey {
    after: Option<GroupId>,
    size: usize,
    key: String,
}

/// Id pages for public groups under search keys, through this node's tiers.
#[derive(Clone, Debug)]
pub(super) struct GroupSearch {
    pages: PagedList<SearchBucket, EncodedKey<SearchPageKey>, GroupId>,
}

impl GroupSearch {
    /// Creates it with its own two namespaces on `node`, and with the shared tier if there is one.
    pub(super) fn new(
        store: &Arc<dyn GroupStore>,
        caches: &CacheFactory,
        policies: ListPolicies<GroupId>,
    ) -> Self {
        Self { pages: caches.list(policies, Arc::new(SearchLoader(Arc::clone(store))), RecordCodec::ID) }
    }

    /// Returns up to `size` candidate ids above `after`, in ascending order; some may no longer be found.
    pub(super) async fn page(
        &self,
        keyword: &GroupKeyword,
        after: Option<GroupId>,
        size: usize,
        consistency: &Consistency,
    ) -> Result<Arc<Page<GroupId>>, CacheError> {
        let bucket = SearchBucket::of_key(keyword.key());
        let page_key = EncodedKey(SearchPageKey { after, size, key: keyword.key().to_owned() });
        let paged = self.pages.page(&bucket, &page_key, consistency).await?;
        Ok(paged.entry.value)
    }

    /// Must be called before a write that may list a group in these buckets is sent to the store.
    pub(super) async fn begin_write(&self, buckets: &[SearchBucket]) -> WriteParts {
        self.pages.begin_write(buckets).await
    }
}

/// The search invalidations if another program changed a group, from its present state. The record itself
/// must be invalidated first.
#[must_use]
pub fn search_invalidations(group: &Group) -> Vec<Invalidation> {
    let words = group.tags.iter().chain([&group.name]).filter(|_| group.visibility == Visibility::Public);
    SearchBucket::of_words(words).into_iter().map(|bucket| invalidation(SEARCH_EPOCHS, bucket.0)).collect()
}

#[derive(Debug)]
struct SearchLoader(Arc<dyn GroupStore>);

#[async_trait::async_trait]
impl PageLoader<SearchBucket, EncodedKey<SearchPageKey>, GroupId> for SearchLoader {
    async fn page(
        &self,
        _bucket: &SearchBucket,
        EncodedKey(page_key): &EncodedKey<SearchPageKey>,
        _options: LoadOptions,
    ) -> Result<Page<GroupId>, LoadError> {
        // One more group is read, to find out whether there is a next page.
        let found =
            self.0.search_groups(&page_key.key, page_key.after, page_key.size.saturating_add(1)).await;
        let found = found.map_err(LoadError::new)?;
        let more = found.len() > page_key.size;
        Ok(Page { items: found.iter().take(page_key.size).map(|group| group.id).collect(), more })
    }
}

#[cfg(test)]
mod tests {
    use kith_store::group_search_keys;
    use proptest::prelude::*;

    use super::*;
    use crate::write::encoded_key::assert_text;

    fn id(number: i64) -> GroupId {
        GroupId::new(number).unwrap()
    }

    fn buckets(words: &[&str]) -> Vec<String> {
        let words: Vec<Text> = words.iter().map(|word| Text::from(*word)).collect();
        SearchBucket::of_words(&words).into_iter().map(|bucket| bucket.0).collect()
    }

    #[test]
    fn a_word_is_in_the_buckets_of_its_beginnings() {
        assert_eq!(
            buckets(&["Chess", "go", "CHEF", "東京都庁"]),
            ["c", "ch", "che", "g", "go", "東", "東京", "東京都"]
        );
        assert!(buckets(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn every_key_of_a_group_is_in_its_buckets(
            name in "\\PC{1,20}", tags in proptest::collection::vec("\\PC{1,20}", 0..4)
        ) {
            // Only these form words: see `GroupWords`.
            prop_assume!(tags.iter().chain([&name]).all(|word| !fold(word).is_empty()));
            let words: Vec<Text> = tags.iter().chain([&name]).map(|word| Text::from(word.as_str())).collect();
            let buckets = SearchBucket::of_words(&words);
            for key in group_search_keys(&name, &tags, Visibility::Public) {
                prop_assert!(buckets.contains(&SearchBucket::of_key(&key)), "{key:?}");
            }
        }
    }

    #[test]
    fn foreign_change_invalidates_public_buckets() {
        let mut group = Group {
            id: id(7),
            version: kith_store::Version::FIRST,
            name: "Go".into(),
            icon: Text::default(),
            tags: vec!["Ab".into()],
            kind: kith_store::GroupType::Chat,
            visibility: Visibility::Public,
            join_policy: kith_store::JoinPolicy::Open,
            history_for_new_members: false,
            receipts: None,
            params: kith_store::Params::default(),
            creator: None,
            created: kith_store::Timestamp(0),
            updated: kith_store::Timestamp(0),
        };
        let invalidations = search_invalidations(&group);
        assert_eq!(
            invalidations.iter().map(|one| one.key.as_str()).collect::<Vec<_>>(),
            ["a", "ab", "g", "go"]
        );
        assert!(invalidations.iter().all(|one| one.namespace == SEARCH_EPOCHS && one.version.is_none()));
        group.visibility = Visibility::Private;
        assert!(search_invalidations(&group).is_empty());
    }

    #[test]
    fn search_key_belongs_to_its_bucket() {
        for keyword in [
            GroupKeyword::exact("Chess"),
            GroupKeyword::prefix("CHE"),
            GroupKeyword::prefix("chessboard, large"),
        ] {
            assert_eq!(SearchBucket::of_key(keyword.key()).0, "che", "{keyword:?}");
        }
        assert_eq!(SearchBucket::of_key(GroupKeyword::prefix("c").key()).0, "c");
    }

    #[test]
    fn page_keys_keep_their_text() {
        assert_text(&SearchPageKey { after: None, size: 50, key: "=a".to_owned() }, "ADICPWE");
        assert_text(&SearchPageKey { after: Some(id(7)), size: 50, key: "^a:b".to_owned() }, "AQ4yBF5hOmI");
    }
}
