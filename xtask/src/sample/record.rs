//! The records as they are written: proto3 JSON without empty fields.

use std::collections::BTreeMap;

use serde::Serialize;

/// A user as in `kith.user.v1.User`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    pub(crate) user_id: i64,
    pub(crate) user_name: String,
    pub(crate) nick_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) phone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gender: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) age: Option<usize>,
    pub(crate) region: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) icon: String,
    pub(crate) params: BTreeMap<&'static str, String>,
}

/// A group as in `kith.group.v1.Group`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) group_id: i64,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) visibility: &'static str,
    pub(crate) join_policy: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) history_for_new_members: bool,
    pub(crate) params: BTreeMap<&'static str, String>,
    pub(crate) creator_id: i64,
}
