//! Groups and their store.

use std::{collections::BTreeSet, fmt};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, GroupId, Invalid, Params, ParamsPatch, SecretChange, StoreError, Stored, Text, Timestamp,
    UserId, Version, Write, fold, heap_bytes, single_line,
    text::{check_length, nothing_visible},
};

const NAME_CHARS_MAX: usize = 64;
const TAG_CHARS_MAX: usize = 32;
const TAGS_MAX: usize = 16;
/// The longest indexed prefix for a tag or name; a longer text is looked up by this prefix.
const PREFIX_CHARS_MAX: usize = 16;

/// A group as stored: no invite code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The group's id.
    pub id: GroupId,
    /// This state's version.
    pub version: Version,
    /// Shown name; need not be unique.
    pub name: Text,
    /// Address of a picture.
    #[serde(default)]
    pub icon: Text,
    /// The tags as given, without repetitions.
    pub tags: Vec<Text>,
    /// Says which members may send.
    pub kind: GroupType,
    /// Whether searches find it.
    pub visibility: Visibility,
    /// How users become members.
    pub join_policy: JoinPolicy,
    /// Whether new members may read earlier messages.
    pub history_for_new_members: bool,
    /// Says which users may see who has read a message; `None`: as the node is configured.
    #[serde(default)]
    pub receipts: Option<ReceiptVisibility>,
    /// Further parameters.
    pub params: Params,
    /// The user who created it; `None`: a service.
    pub creator: Option<UserId>,
    /// When the record was created.
    pub created: Timestamp,
    /// When it was changed last.
    pub updated: Timestamp,
}

impl Group {
    /// The record's approximate size in memory, in bytes, for the cache.
    #[must_use]
    pub fn weight(&self) -> usize {
        let tags = self.tags.iter().map(|tag| size_of::<Text>() + heap_bytes(tag)).sum::<usize>();
        size_of::<Self>() + heap_bytes(&self.name) + heap_bytes(&self.icon) + tags + self.params.weight()
    }
}

/// Says which members may send. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum GroupType {
    /// Every member may send.
    Chat = 1,
    /// Owner and admins.
    Channel = 2,
}

impl GroupType {
    /// Returns the type with this number, if any.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Chat),
            2 => Some(Self::Channel),
            _ => None,
        }
    }
}

/// Says which users may see a group. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everybody may see it.
    Public = 1,
    /// Users who know its id.
    Private = 2,
}

impl Visibility {
    /// Returns the visibility with this number, if any.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Public),
            2 => Some(Self::Private),
            _ => None,
        }
    }
}

/// How users become members. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum JoinPolicy {
    /// Every user may join.
    Open = 1,
    /// Users whom the owner or an admin accepts.
    Approval = 2,
    /// Every user who has the invite code may join.
    Code = 3,
    /// Users whom a member invites.
    Invite = 4,
}

impl JoinPolicy {
    /// Returns the policy with this number, if any.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Open),
            2 => Some(Self::Approval),
            3 => Some(Self::Code),
            4 => Some(Self::Invite),
            _ => None,
        }
    }
}

/// Which users may see who has read a message. The numbers are stored; 0 means unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptVisibility {
    /// No user may see it.
    Off = 1,
    /// The message's sender.
    #[default]
    Sender = 2,
    /// The members who are the message's readers, and its sender.
    Members = 3,
}

impl ReceiptVisibility {
    /// The value for this number, where 0 is `None`. `None`: no value.
    #[must_use]
    pub const fn of(number: i64) -> Option<Option<Self>> {
        match number {
            0 => Some(None),
            1 => Some(Some(Self::Off)),
            2 => Some(Some(Self::Sender)),
            3 => Some(Some(Self::Members)),
            _ => None,
        }
    }

    /// The number that is stored.
    #[must_use]
    pub const fn number(of: Option<Self>) -> u8 {
        match of {
            None => 0,
            Some(set) => set as u8,
        }
    }
}

/// A group's name and tags, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWords;

impl GroupWords {
    /// Checks a name: one line with 1 to 64 characters, see [`single_line`].
    ///
    /// # Errors
    /// When it is empty or longer, or contains a character that is not allowed.
    pub fn name(name: &str) -> Result<Text, Invalid> {
        let name = single_line(name, NAME_CHARS_MAX)?;
        if fold(&name).is_empty() {
            return Err(Invalid::new("must not be empty"));
        }
        Ok(name)
    }

    /// Checks a keyword in a search for groups: 1 to 64 characters. Invisible characters, which programs
    /// paste along, are dropped for the comparison.
    ///
    /// # Errors
    /// When it is longer, or has no visible character.
    pub fn check_keyword(keyword: &str) -> Result<(), Invalid> {
        check_length(keyword, NAME_CHARS_MAX)?;
        if fold(keyword).is_empty() {
            return Err(nothing_visible());
        }
        Ok(())
    }

    /// Checks tags and drops those that repeat another in normalised form, keeping the first.
    ///
    /// # Errors
    /// Fails if there are more than 16, or a tag is empty, longer than 32 characters, or has several lines.
    pub fn tags(tags: &[String]) -> Result<Vec<Text>, Invalid> {
        let mut seen = BTreeSet::new();
        let mut kept = Vec::new();
        for tag in tags {
            let tag = single_line(tag, TAG_CHARS_MAX)?;
            let folded = fold(&tag);
            if folded.is_empty() {
                return Err(Invalid::new("must not hold an empty tag"));
            }
            if seen.insert(folded) {
                kept.push(tag);
            }
        }
        if kept.len() > TAGS_MAX {
            return Err(Invalid::new(format!("must hold at most {TAGS_MAX} tags")));
        }
        Ok(kept)
    }

    /// The key under which a search for the whole tag or name finds it.
    #[must_use]
    pub fn exact_key(keyword: &str) -> String {
        format!("={}", fold(keyword))
    }

    /// The key under which a search for the beginning of a tag or name finds it, and the folded keyword
    /// itself: if it is longer than the indexed prefix, the caller compares the rest.
    #[must_use]
    pub fn prefix_key(keyword: &str) -> (String, String) {
        let folded = fold(keyword);
        let indexed: String = folded.chars().take(PREFIX_CHARS_MAX).collect();
        (format!("^{indexed}"), folded)
    }
}

/// The keys under which searches find a group: none for a private group. Every tag and the name, whole and by
/// each beginning with up to 16 characters, normalised. A lookup by any key is an equality, so that a result
/// page by ascending id costs the same at any depth.
#[must_use]
pub fn group_search_keys(name: &str, tags: &[impl AsRef<str>], visibility: Visibility) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    if visibility == Visibility::Private {
        return keys;
    }
    for word in tags.iter().map(AsRef::as_ref).chain([name]) {
        let folded = fold(word);
        for (count, (at, c)) in folded.char_indices().enumerate() {
            if count < PREFIX_CHARS_MAX {
                keys.insert(format!("^{}", &folded[..at + c.len_utf8()]));
            }
        }
        keys.insert(format!("={folded}"));
    }
    keys
}

/// A group to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Chosen by the caller or allocated.
    pub id: GroupId,
    /// The name, as [`GroupWords::name`] checks it.
    pub name: Text,
    /// Address of a picture, as [`icon`](crate::icon) checks it.
    pub icon: Text,
    /// The tags, as [`GroupWords::tags`] checks them.
    pub tags: Vec<Text>,
    /// Says which members may send.
    pub kind: GroupType,
    /// Whether searches find it.
    pub visibility: Visibility,
    /// How users become members.
    pub join_policy: JoinPolicy,
    /// Whether new members may read earlier messages.
    pub history_for_new_members: bool,
    /// Says which users may see who has read a message; `None`: as the node is configured.
    pub receipts: Option<ReceiptVisibility>,
    /// Further parameters.
    pub params: Params,
    /// The user who creates it; `None`: a service.
    pub creator: Option<UserId>,
    /// The secrets, in their stored form.
    pub secrets: SecretChange,
}

/// A partial change: `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPatch {
    /// The name, as [`GroupWords::name`] checks it.
    pub name: Option<Text>,
    /// Address of a picture, as [`icon`](crate::icon) checks it.
    pub icon: Option<Text>,
    /// The tags, as [`GroupWords::tags`] checks them.
    pub tags: Option<Vec<Text>>,
    /// Says which members may send.
    pub kind: Option<GroupType>,
    /// Whether searches find it.
    pub visibility: Option<Visibility>,
    /// How users become members.
    pub join_policy: Option<JoinPolicy>,
    /// Whether new members may read earlier messages.
    pub history_for_new_members: Option<bool>,
    /// Says which users may see who has read a message; `Some(None)`: as the node is configured.
    pub receipts: Option<Option<ReceiptVisibility>>,
    /// The changed parameters.
    pub params: ParamsPatch,
    /// The secrets, in their stored form.
    pub secrets: SecretChange,
}

/// Storage for [`Group`] records and their secrets. Durability, versions and dropped futures are as for
/// [`UserStore`](crate::UserStore).
#[async_trait]
pub trait GroupStore: Send + Sync + fmt::Debug + 'static {
    /// Reads one group.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn group(&self, id: GroupId) -> Result<Stored<Group>, StoreError>;

    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) groups in one query, as
    /// [`UserStore::users`](crate::UserStore::users).
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more ids.
    async fn groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError>;

    /// Reads existing groups that [`group_search_keys`] lists under `key`, each once, by ascending id above
    /// `after`, at most `limit`. Search keys change in the same commit as the record.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn search_groups(
        &self,
        key: &str,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<Group>, StoreError>;

    /// Reads existing groups by ascending id above `after`, at most `limit`.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn scan_groups(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<Group>, StoreError>;

    /// Creates a group. Ignores `write.expected`.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] if the id exists, [`StoreError::RequestMismatch`]; then the store is
    /// unchanged. For other errors see [`StoreError::outcome`].
    async fn create_group(&self, group: NewGroup, write: Write) -> Result<Applied<Group>, StoreError>;

    /// Changes only the fields that `patch` names, in one atomic step. A patch with secrets alone raises the
    /// version too.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::ParamsTooLarge`],
    /// [`StoreError::RequestMismatch`]: the record is unchanged then. For other errors see
    /// [`StoreError::outcome`].
    async fn update_group(
        &self,
        id: GroupId,
        patch: GroupPatch,
        write: Write,
    ) -> Result<Applied<Group>, StoreError>;

    /// Dismisses a group. A stub with its version is kept.
    ///
    /// # Errors
    /// Fails like [`Self::update_group`].
    async fn dismiss_group(&self, id: GroupId, write: Write) -> Result<Applied<Version>, StoreError>;
}

#[cfg(test)]
mod tests;
