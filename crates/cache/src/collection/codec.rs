//! The encoding of pages in the shared tier. Truncated or extended bytes are a cache miss, never a partial
//! page.

use std::{fmt, sync::Arc};

use super::Page;
use crate::remote::Codec;

/// The format's version: the schema is the items' schema.
const FORMAT: u8 = 1;
/// Marks a list that continues.
const YES: u8 = 1;
const NO: u8 = 0;

/// Encodes pages with an item codec.
///
/// The bytes are: the format's version, a flag, the item count, then each item after its length; numbers have
/// four bytes in big endian.
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

    #[test]
    fn pages_round_trip() {
        for page in pages() {
            assert_eq!(codec().decode(&codec().encode(&page)), Some(page));
        }
        assert_eq!(codec().schema(), 9);
    }

    #[test]
    fn truncated_or_extended_bytes_are_refused() {
        let bytes = codec().encode(&pages()[2]);
        for length in 0..bytes.len() {
            assert_eq!(codec().decode(&bytes[..length]), None, "{length} bytes");
        }
        assert_eq!(codec().decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn arbitrary_bytes_are_decoded_or_refused() {
        let page = codec().encode(&pages()[2]);
        for index in 0..page.len() {
            for value in [0, 1, 2, 0x7f, 0xff] {
                let mut bytes = page.clone();
                bytes[index] = value;
                let read = codec().decode(&bytes);
                assert!(read.is_none_or(|read| codec().encode(&read) == bytes), "byte {index}");
            }
        }
    }
}
