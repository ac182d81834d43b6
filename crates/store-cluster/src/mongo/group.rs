//! Groups: `{_id, v, name, name_keys, icon, tags, tag_keys, kind, visibility, join, history, receipts,
//! params, creator, created, updated, w, u}`. `name_keys` and `tag_keys` are the search keys, indexed with
//! the visibility: changing any of the three does not affect the others.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use kith_store::{
    Applied, Group, GroupId, GroupPatch, GroupStore, GroupType, JoinPolicy, NewGroup, Params,
    ReceiptVisibility, SecretChange, StoreError, Stored, Text, Timestamp, UserId, Version, Visibility, Write,
    group_search_keys,
};
use mongodb::{
    Collection,
    bson::{Document, RawDocument, RawDocumentBuf, doc},
    options::ReadConcern,
};

use super::{
    database::Mongo,
    document::{
        change_params, fields, kind, moment, number, number_in, params, params_document, text, texts, version,
    },
    error::malformed,
    record::{PageFilter, Record, version_of},
    write::{Change, Order},
};

/// How ids of secrets name a group.
pub(super) const GROUP: &str = "g";

#[async_trait]
impl GroupStore for Mongo {
    async fn group(&self, id: GroupId) -> Result<Stored<Group>, StoreError> {
        let _permit = self.admit()?;
        self.one(id.get()).await
    }

    async fn groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        self.groups_by(ids, ReadConcern::majority()).await
    }

    async fn search_groups(
        &self,
        key: &str,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<Group>, StoreError> {
        let _permit = self.admit()?;
        let after = after.map(GroupId::get);
        let (by_name, by_tag): (Vec<Group>, Vec<Group>) = futures::try_join!(
            self.page(public_with_key("name_keys", key), after, limit),
            self.page(public_with_key("tag_keys", key), after, limit)
        )?;
        let both: BTreeMap<GroupId, Group> =
            by_name.into_iter().chain(by_tag).map(|group| (group.id, group)).collect();
        Ok(both.into_values().take(limit).collect())
    }

    async fn scan_groups(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<Group>, StoreError> {
        let _permit = self.admit()?;
        self.page(PageFilter::all(), after.map(GroupId::get), limit).await
    }

    async fn create_group(&self, group: NewGroup, write: Write) -> Result<Applied<Group>, StoreError> {
        let _permit = self.admit()?;
        let (id, change) = (group.id.get(), Change::Create(document(&group, write.now)));
        self.put_group(Order { id, change, secrets: group.secrets, write }).await
    }

    async fn update_group(
        &self,
        id: GroupId,
        mut patch: GroupPatch,
        write: Write,
    ) -> Result<Applied<Group>, StoreError> {
        let _permit = self.admit()?;
        let secrets = std::mem::take(&mut patch.secrets);
        self.put_group(Order { id: id.get(), change: changes(patch, write.now), secrets, write }).await
    }

    async fn dismiss_group(&self, id: GroupId, write: Write) -> Result<Applied<Version>, StoreError> {
        let _permit = self.admit()?;
        let change = Change::Delete { keep: &[], set: Document::new(), more: Document::new() };
        let order = Order { id: id.get(), change, secrets: SecretChange::new(), write };
        let done = Box::pin(self.write::<Group>(&order)).await?;
        Ok(Applied { record: version_of(&done.document)?, replayed: done.replayed })
    }
}

impl Mongo {
    /// Reads groups with this read concern.
    pub(super) async fn groups_by(
        &self,
        ids: &[GroupId],
        concern: ReadConcern,
    ) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        let _permit = self.admit()?;
        let found = self.many(ids.iter().map(|id| id.get()).collect(), concern).await?;
        found.into_iter().map(|(id, group)| Ok((group_id(id)?, group))).collect()
    }

    async fn put_group(&self, order: Order) -> Result<Applied<Group>, StoreError> {
        let done = Box::pin(self.write::<Group>(&order)).await?;
        Ok(Applied { record: Group::read(&done.document)?, replayed: done.replayed })
    }
}

impl Record for Group {
    const OWNER: &'static str = GROUP;

    fn collection(mongo: &Mongo) -> &Collection<RawDocumentBuf> {
        &mongo.groups
    }

    fn read(document: &RawDocument) -> Result<Self, StoreError> {
        let id = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
        let mut group = blank(group_id(id)?);
        for field in fields(document) {
            let (name, value) = field?;
            match name {
                "v" => group.version = version(value)?,
                "name" => group.name = text(value, "name")?,
                "icon" => group.icon = text(value, "icon")?,
                "tags" => group.tags = texts(value, "tags")?,
                "kind" => group.kind = kind(value, "kind", GroupType::of)?,
                "visibility" => group.visibility = kind(value, "visibility", Visibility::of)?,
                "join" => group.join_policy = kind(value, "join", JoinPolicy::of)?,
                "history" => {
                    group.history_for_new_members = value.as_bool().ok_or_else(|| malformed("history"))?
                }
                "receipts" => group.receipts = kind(value, "receipts", ReceiptVisibility::of)?,
                "params" => group.params = params(value)?,
                "creator" => group.creator = Some(creator(number(value, "creator")?)?),
                "created" => group.created = moment(value, "created")?,
                "updated" => group.updated = moment(value, "updated")?,
                _ => {}
            }
        }
        if group.version == Version::NONE || group.name.is_empty() {
            return Err(malformed("name"));
        }
        Ok(group)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn params(&self) -> &Params {
        &self.params
    }
}

/// Public groups with this key in a field; its index has the same name.
fn public_with_key(index: &'static str, key: &str) -> PageFilter {
    let filter = doc! { index: key, "visibility": i32::from(Visibility::Public as u8) };
    PageFilter { filter, index }
}

/// The search keys for a public group's name.
fn name_keys(name: &str) -> Vec<String> {
    group_search_keys(name, &[] as &[Text], Visibility::Public).into_iter().collect()
}

/// The search keys for a public group's tags.
fn tag_keys(tags: &[Text]) -> Vec<String> {
    let (first, others) = match tags.split_first() {
        Some(split) => split,
        None => return Vec::new(),
    };
    let keys: BTreeSet<String> = group_search_keys(first, others, Visibility::Public);
    keys.into_iter().collect()
}

fn texts_of(tags: &[Text]) -> Vec<&str> {
    tags.iter().map(Text::as_str).collect()
}

fn document(group: &NewGroup, now: Timestamp) -> Document {
    let mut document = doc! {
        "name": group.name.as_str(),
        "name_keys": name_keys(&group.name),
        "tags": texts_of(&group.tags),
        "tag_keys": tag_keys(&group.tags),
        "kind": i32::from(group.kind as u8),
        "visibility": i32::from(group.visibility as u8),
        "join": i32::from(group.join_policy as u8),
        "history": group.history_for_new_members,
        "params": params_document(&group.params),
        "created": now.0,
        "updated": now.0,
    };
    if let Some(creator) = group.creator {
        document.insert("creator", creator.get());
    }
    if !group.icon.is_empty() {
        document.insert("icon", group.icon.as_str());
    }
    if group.receipts.is_some() {
        document.insert("receipts", i32::from(ReceiptVisibility::number(group.receipts)));
    }
    document
}

fn changes(patch: GroupPatch, now: Timestamp) -> Change {
    let (mut set, mut unset) = (doc! { "updated": now.0 }, Document::new());
    if let Some(name) = &patch.name {
        set.insert("name", name.as_str());
        set.insert("name_keys", name_keys(name));
    }
    if let Some(icon) = &patch.icon {
        set.insert("icon", icon.as_str());
    }
    if let Some(tags) = &patch.tags {
        set.insert("tags", texts_of(tags));
        set.insert("tag_keys", tag_keys(tags));
    }
    let numbers = [
        ("kind", patch.kind.map(|kind| kind as u8)),
        ("visibility", patch.visibility.map(|visibility| visibility as u8)),
        ("join", patch.join_policy.map(|policy| policy as u8)),
        ("receipts", patch.receipts.map(ReceiptVisibility::number)),
    ];
    for (field, number) in numbers {
        if let Some(number) = number {
            set.insert(field, i32::from(number));
        }
    }
    if let Some(history) = patch.history_for_new_members {
        set.insert("history", history);
    }
    change_params(&patch.params, &mut set, &mut unset);
    Change::Update { set, unset, params: patch.params, more: Document::new() }
}

fn blank(id: GroupId) -> Group {
    Group {
        id,
        version: Version::NONE,
        name: Text::default(),
        icon: Text::default(),
        tags: Vec::new(),
        kind: GroupType::Chat,
        visibility: Visibility::Private,
        join_policy: JoinPolicy::Invite,
        history_for_new_members: false,
        receipts: None,
        params: Params::default(),
        creator: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

fn group_id(number: i64) -> Result<GroupId, StoreError> {
    GroupId::new(number).map_err(|_| malformed("_id"))
}

fn creator(number: i64) -> Result<UserId, StoreError> {
    UserId::new(number).map_err(|_| malformed("creator"))
}
