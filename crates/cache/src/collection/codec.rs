//! The encoding of pages and small sets in the shared tier. Truncated, extended or unordered bytes are a
//! cache miss, never a partial page or set.

use std::{fmt, sync::Arc};

use super::{Page, SmallSet};
use crate::remote::Codec;

/// The format's version: the schema is the items' schema.
const FORMAT: u8 = 1;
/// Marks a list that continues, or a set that is complete.
const YES: u8 = 1;
const NO: u8 = 0;

/// Encodes pages and small sets with an item codec.
///
/// The bytes are: the format's version, a flag, for a set its weight, the item count, then each item after
/// its length; numbers have four bytes in big endian.
pub struct ItemsCodec<T> {
    item: Arc<dyn Codec<T>>,
}

impl<T: 'static> ItemsCodec<T> {
    /// Creates it with the codec of an item.
    #[must_use]
    pub const fn new(item: Arc<dyn Codec<T>>) -> Self {
        Self { item }
    }

    fn write(&self, items: &[T], bytes: &mut Vec<u8>) {
        bytes.extend(length_bytes(items.len()));
        for item in items {
            let item = self.item.encode(item);
            bytes.extend(length_bytes(item.len()));
            bytes.extend(item);
        }
    }

    fn read(&self, bytes: &[u8]) -> Option<Vec<T>> {
        let (count, mut bytes) = number(bytes)?;
        let mut items = Vec::new();
        for _ in 0..count {
            let (length, rest) = number(bytes)?;
            let (item, rest) = rest.split_at_checked(length)?;
            items.push(self.item.decode(item)?);
            bytes = rest;
        }
        bytes.is_empty().then_some(items)
    }
}

impl<T: 'static> Codec<Page<T>> for ItemsCodec<T> {
    fn schema(&self) -> u16 {
        self.item.schema()
    }

    fn encode(&self, page: &Page<T>) -> Vec<u8> {
        let mut bytes = vec![FORMAT, if page.more { YES } else { NO }];
        self.write(&page.items, &mut bytes);
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Option<Page<T>> {
        let (more, rest) = head(bytes)?;
        Some(Page { items: self.read(rest)?, more })
    }
}

impl<T: Ord + Send + Sync + 'static> Codec<SmallSet<T>> for ItemsCodec<T> {
    fn schema(&self) -> u16 {
        self.item.schema()
    }

    fn encode(&self, set: &SmallSet<T>) -> Vec<u8> {
        let mut bytes = vec![FORMAT, if set.members().is_some() { YES } else { NO }];
        bytes.extend(length_bytes(set.weight()));
        self.write(set.members().unwrap_or_default(), &mut bytes);
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Option<SmallSet<T>> {
        let (whole, rest) = head(bytes)?;
        let (weight, rest) = number(rest)?;
        let members = self.read(rest)?;
        if !whole && !members.is_empty() {
            return None;
        }
        SmallSet::restored(whole.then_some(members), weight)
    }
}

impl<T> fmt::Debug for ItemsCodec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ItemsCodec").field(&self.item).finish()
    }
}

/// Numbers above 4 GiB are far above the weight of any copy: such bytes are invalid.
fn length_bytes(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes()
}

fn head(bytes: &[u8]) -> Option<(bool, &[u8])> {
    match bytes {
        [FORMAT, YES, rest @ ..] => Some((true, rest)),
        [FORMAT, NO, rest @ ..] => Some((false, rest)),
        _ => None,
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_be_bytes(*number)).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Words;

    impl Codec<String> for Words {
        fn schema(&self) -> u16 {
            9
        }

        fn encode(&self, word: &String) -> Vec<u8> {
            word.as_bytes().to_vec()
        }

        fn decode(&self, bytes: &[u8]) -> Option<String> {
            String::from_utf8(bytes.to_vec()).ok()
        }
    }

    fn codec() -> ItemsCodec<String> {
        ItemsCodec::new(Arc::new(Words))
    }

    fn pages() -> Vec<Page<String>> {
        let page =
            |items: &[&str], more| Page { items: items.iter().map(ToString::to_string).collect(), more };
        vec![page(&[], false), page(&[], true), page(&["b", "", "東京", "a"], true)]
    }

    fn sets() -> Vec<SmallSet<String>> {
        let words = ["b", "a", "東京"].map(str::to_owned);
        vec![SmallSet::too_large(), SmallSet::new([], String::len), SmallSet::new(words, String::len)]
    }

    #[test]
    fn pages_and_sets_round_trip() {
        for page in pages() {
            assert_eq!(codec().decode(&codec().encode(&page)), Some(page));
        }
        for set in sets() {
            assert_eq!(codec().decode(&codec().encode(&set)), Some(set));
        }
        assert_eq!(Codec::<Page<String>>::schema(&codec()), 9);
    }

    #[test]
    fn truncated_or_extended_bytes_are_refused() {
        let bytes = codec().encode(&pages()[2]);
        for length in 0..bytes.len() {
            assert_eq!(Codec::<Page<String>>::decode(&codec(), &bytes[..length]), None, "{length} bytes");
        }
        assert_eq!(Codec::<Page<String>>::decode(&codec(), &[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn arbitrary_bytes_decode_to_valid_values_only() {
        let set = codec().encode(&sets()[2]);
        for index in 0..set.len() {
            for value in [0, 1, 2, 0x7f, 0xff] {
                let mut bytes = set.clone();
                bytes[index] = value;
                let read: Option<SmallSet<String>> = codec().decode(&bytes);
                let members = read.as_ref().and_then(SmallSet::members);
                assert!(members.is_none_or(|members| members.is_sorted()), "byte {index}");
                drop::<Option<Page<String>>>(codec().decode(&bytes));
            }
        }
    }

    #[test]
    fn unordered_or_too_large_set_is_refused() {
        let two = |first: u8, second: u8| {
            [FORMAT, YES, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, first, 0, 0, 0, 1, second].to_vec()
        };
        assert!(Codec::<SmallSet<String>>::decode(&codec(), &two(b'a', b'b')).is_some());
        let both = [FORMAT, NO, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, b'a'].to_vec();
        for bytes in [two(b'b', b'a'), two(b'a', b'a'), both] {
            assert_eq!(Codec::<SmallSet<String>>::decode(&codec(), &bytes), None, "{bytes:?}");
        }
    }
}
