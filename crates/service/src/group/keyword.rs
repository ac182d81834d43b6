//! Group search keywords. The key in the store may list other groups, too, so each result is checked with
//! `GroupKeyword::finds`.

use kith_store::{Group, GroupWords, Text, Visibility, fold};

/// A search's keyword, checked by [`GroupWords::check_keyword`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKeyword {
    key: String,
    folded: String,
    prefix: bool,
}

impl GroupKeyword {
    /// A whole tag or name.
    #[must_use]
    pub fn exact(keyword: &str) -> Self {
        Self { key: GroupWords::exact_key(keyword), folded: fold(keyword), prefix: false }
    }

    /// The beginning of a tag or name.
    #[must_use]
    pub fn prefix(keyword: &str) -> Self {
        let (key, folded) = GroupWords::prefix_key(keyword);
        Self { key, folded, prefix: true }
    }

    /// The key under which the store lists the results; for a long prefix, it may list others, too.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The part of the keyword that the key does not contain: a page token is bound to both.
    pub(super) fn rest(&self) -> &str {
        if self.prefix { &self.folded } else { "" }
    }

    /// Whether the search finds the group in its present state.
    #[must_use]
    pub fn finds(&self, group: &Group) -> bool {
        let fits = |word: &Text| {
            let word = fold(word);
            if self.prefix { word.starts_with(&self.folded) } else { word == self.folded }
        };
        group.visibility == Visibility::Public && group.tags.iter().chain([&group.name]).any(fits)
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{GroupId, GroupType, JoinPolicy, Params, Timestamp, Version};

    use super::*;

    fn group(name: &str, tags: &[&str]) -> Group {
        Group {
            id: GroupId::new(1).unwrap(),
            version: Version::FIRST,
            name: name.into(),
            icon: Text::default(),
            tags: tags.iter().map(|tag| Text::from(*tag)).collect(),
            kind: GroupType::Chat,
            visibility: Visibility::Public,
            join_policy: JoinPolicy::Open,
            history_for_new_members: false,
            receipts: None,
            params: Params::default(),
            creator: None,
            created: Timestamp(0),
            updated: Timestamp(0),
        }
    }

    #[test]
    fn words_and_prefixes_are_found_in_any_form() {
        let group = group("Chess at noon, every day", &["Straße", "下棋"]);
        for keyword in ["CHESS AT NOON, EVERY DAY", "strasse", "下棋"] {
            assert!(GroupKeyword::exact(keyword).finds(&group), "{keyword}");
        }
        for keyword in ["chess at noon, ev", "c", "STRASS", "下"] {
            assert!(GroupKeyword::prefix(keyword).finds(&group), "{keyword}");
            assert!(!GroupKeyword::exact(keyword).finds(&group), "{keyword}");
        }
        for keyword in ["chess at noon, or", "noon", "棋"] {
            assert!(!GroupKeyword::prefix(keyword).finds(&group), "{keyword}");
        }
    }

    #[test]
    fn a_private_group_is_never_found() {
        let group = Group { visibility: Visibility::Private, ..group("chess", &["go"]) };
        for keyword in [GroupKeyword::exact("chess"), GroupKeyword::prefix("g")] {
            assert!(!keyword.finds(&group), "{keyword:?}");
        }
    }
}
