//! The records as they are written: proto3 JSON without empty fields.

use std::collections::BTreeMap;

use serde::Serialize;

/// A user as in `kith.user.v1.User`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    pub(super) user_id: i64,
    pub(super) user_name: String,
    pub(super) nick_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) phone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gender: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) age: Option<usize>,
    pub(super) region: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) icon: String,
    pub(super) params: BTreeMap<&'static str, String>,
}

/// A group as in `kith.group.v1.Group`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    pub(super) group_id: i64,
    pub(super) name: String,
    pub(super) tags: Vec<String>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) visibility: &'static str,
    pub(super) join_policy: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) history_for_new_members: bool,
    pub(super) params: BTreeMap<&'static str, String>,
    pub(super) creator_id: i64,
}
