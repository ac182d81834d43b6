//! Secret store cases: written with their owner, read apart from it.

use super::sample::{
    assert_fails, bare_group, bare_user, create_group, create_user, delete_and_release, expecting,
    full_group, full_user, group_id, live_user, name, requested, secrets, user_id, write,
};
use crate::{
    GroupPatch, NewGroup, NewUser, ParamsPatch, SecretOwner, StoreError, Stores, Timestamp, UserPatch,
};

async fn user_secret(stores: &Stores, id: i64, name: &str) -> Option<String> {
    secret(stores, SecretOwner::User(user_id(id)), name).await
}

async fn group_secret(stores: &Stores, id: i64, name: &str) -> Option<String> {
    secret(stores, SecretOwner::Group(group_id(id)), name).await
}

async fn secret(stores: &Stores, owner: SecretOwner, name: &str) -> Option<String> {
    stores.secrets.secret(owner, name).await.unwrap().map(|secret| secret.expose().to_owned())
}

fn changing(changes: &[(&str, Option<&str>)]) -> UserPatch {
    UserPatch { secrets: secrets(changes), ..UserPatch::default() }
}

pub async fn a_secret_that_was_never_set_is_none(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for id in [1, 2] {
        assert_eq!(user_secret(&stores, id, "password").await, None);
        assert_eq!(group_secret(&stores, id, "code").await, None);
    }
}

pub async fn secrets_are_set_with_their_owner(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    create_group(&stores, full_group(2)).await;
    assert_eq!(user_secret(&stores, 1, "password").await.as_deref(), Some("sealed-1"));
    assert_eq!(group_secret(&stores, 2, "code").await.as_deref(), Some("sealed-1"));
    assert_eq!(user_secret(&stores, 1, "code").await, None);
}

pub async fn records_carry_no_secret(stores: Stores) {
    let sealed = secrets(&[("password", Some("needle-in-a-record"))]);
    let user = create_user(&stores, NewUser { secrets: sealed.clone(), ..full_user(1) }).await;
    let group = create_group(&stores, NewGroup { secrets: sealed, ..full_group(1) }).await;
    let read = live_user(&stores, 1).await;
    assert!(!format!("{user:?} {group:?} {read:?}").contains("needle"));
}

pub async fn an_update_changes_sets_and_removes_secrets(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let patch = changing(&[("password", Some("sealed-2")), ("pin", Some("p"))]);
    stores.users.update_user(user_id(1), patch, write()).await.unwrap();
    assert_eq!(user_secret(&stores, 1, "password").await.as_deref(), Some("sealed-2"));
    assert_eq!(user_secret(&stores, 1, "pin").await.as_deref(), Some("p"));
    let patch = changing(&[("password", None), ("absent", None)]);
    stores.users.update_user(user_id(1), patch, write()).await.unwrap();
    assert_eq!(user_secret(&stores, 1, "password").await, None);
    assert_eq!(user_secret(&stores, 1, "pin").await.as_deref(), Some("p"));
    create_group(&stores, full_group(1)).await;
    let patch =
        GroupPatch { secrets: secrets(&[("code", None), ("key", Some("k"))]), ..GroupPatch::default() };
    stores.groups.update_group(group_id(1), patch, write()).await.unwrap();
    assert_eq!(group_secret(&stores, 1, "code").await, None);
    assert_eq!(group_secret(&stores, 1, "key").await.as_deref(), Some("k"));
}

pub async fn an_update_without_secrets_leaves_them(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let params = ParamsPatch { replace: true, ..ParamsPatch::default() };
    let patch = UserPatch { user_name: Some(name("bea")), params, ..UserPatch::default() };
    stores.users.update_user(user_id(1), patch, write()).await.unwrap();
    assert_eq!(user_secret(&stores, 1, "password").await.as_deref(), Some("sealed-1"));
    create_group(&stores, full_group(1)).await;
    stores.groups.update_group(group_id(1), GroupPatch::default(), write()).await.unwrap();
    assert_eq!(group_secret(&stores, 1, "code").await.as_deref(), Some("sealed-1"));
}

pub async fn a_change_of_secrets_alone_raises_the_version(stores: Stores) {
    let user = create_user(&stores, full_user(1)).await;
    let patch = changing(&[("password", None)]);
    let updated = stores.users.update_user(user_id(1), patch, write()).await.unwrap().record;
    assert_eq!(updated.version, user.version.next());
    let group = create_group(&stores, full_group(1)).await;
    let patch = GroupPatch { secrets: secrets(&[("code", Some("new"))]), ..GroupPatch::default() };
    let updated = stores.groups.update_group(group_id(1), patch, write()).await.unwrap().record;
    assert_eq!(updated.version, group.version.next());
}

pub async fn a_failed_update_leaves_secrets(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    create_user(&stores, bare_user(2, "taken")).await;
    let patch = || changing(&[("password", Some("wrong")), ("pin", Some("wrong"))]);
    let stale = stores.users.update_user(user_id(1), patch(), expecting(7)).await.unwrap_err();
    assert!(matches!(stale, StoreError::Conflict { .. }), "{stale:?}");
    let renaming = UserPatch { user_name: Some(name("TAKEN")), ..patch() };
    assert_fails!(stores.users.update_user(user_id(1), renaming, write()).await, StoreError::NameTaken);
    assert_fails!(stores.users.update_user(user_id(3), patch(), write()).await, StoreError::NotFound);
    assert_eq!(user_secret(&stores, 1, "password").await.as_deref(), Some("sealed-1"));
    assert_eq!(user_secret(&stores, 1, "pin").await, None);
    assert_eq!(user_secret(&stores, 3, "pin").await, None);
}

pub async fn a_failed_creation_keeps_no_secret(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let with_secret =
        |id, name| NewUser { secrets: secrets(&[("pin", Some("wrong"))]), ..bare_user(id, name) };
    assert_fails!(stores.users.create_user(with_secret(1, "bea"), write()).await, StoreError::IdTaken);
    assert_fails!(stores.users.create_user(with_secret(2, "ANN"), write()).await, StoreError::NameTaken);
    create_user(&stores, bare_user(2, "bea")).await;
    for id in [1, 2] {
        assert_eq!(user_secret(&stores, id, "pin").await, None);
    }
}

pub async fn secrets_go_with_their_owner(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    create_group(&stores, full_group(1)).await;
    stores.users.delete_user(user_id(1), write().now.after(crate::REQUEST_KEPT), write()).await.unwrap();
    assert_eq!(user_secret(&stores, 1, "password").await, None);
    assert_eq!(group_secret(&stores, 1, "code").await.as_deref(), Some("sealed-1"));
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    assert_eq!(group_secret(&stores, 1, "code").await, None);
}

pub async fn recreated_owner_has_no_old_secret(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    create_group(&stores, full_group(1)).await;
    delete_and_release(&stores, 1, Timestamp(0)).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    create_user(&stores, bare_user(1, "ann")).await;
    create_group(&stores, bare_group(1, "g")).await;
    assert_eq!(user_secret(&stores, 1, "password").await, None);
    assert_eq!(group_secret(&stores, 1, "code").await, None);
}

pub async fn user_and_group_of_one_id_have_own_secrets(stores: Stores) {
    let user = NewUser { secrets: secrets(&[("same", Some("of-user"))]), ..bare_user(1, "ann") };
    let group = NewGroup { secrets: secrets(&[("same", Some("of-group"))]), ..bare_group(1, "g") };
    create_user(&stores, user).await;
    create_group(&stores, group).await;
    assert_eq!(user_secret(&stores, 1, "same").await.as_deref(), Some("of-user"));
    assert_eq!(group_secret(&stores, 1, "same").await.as_deref(), Some("of-group"));
    stores.users.update_user(user_id(1), changing(&[("same", None)]), write()).await.unwrap();
    assert_eq!(user_secret(&stores, 1, "same").await, None);
    assert_eq!(group_secret(&stores, 1, "same").await.as_deref(), Some("of-group"));
}

pub async fn secrets_of_owners_and_names_are_separate(stores: Stores) {
    for id in [1, 2, 11, 12] {
        let pair = [("a", Some(format!("a{id}"))), ("ab", Some(format!("ab{id}")))];
        let pair: Vec<_> = pair.iter().map(|(name, text)| (*name, text.as_deref())).collect();
        create_user(&stores, NewUser { secrets: secrets(&pair), ..bare_user(id, &format!("u{id}")) }).await;
    }
    for id in [1, 2, 11, 12] {
        assert_eq!(user_secret(&stores, id, "a").await, Some(format!("a{id}")));
        assert_eq!(user_secret(&stores, id, "ab").await, Some(format!("ab{id}")));
    }
    assert_eq!(user_secret(&stores, 1, "").await, None);
    assert_eq!(user_secret(&stores, 1, "abc").await, None);
}

pub async fn a_secret_may_hold_any_text(stores: Stores) {
    let long = "$argon2id$v=19$m=19456,t=2,p=1$".repeat(30);
    for (id, text) in (1..).zip([long.as_str(), "{\"$ne\":null}", "'; --", "\u{10FFFF}\n\"\\", ""]) {
        let user = NewUser { secrets: secrets(&[("s", Some(text))]), ..bare_user(id, &format!("u{id}")) };
        create_user(&stores, user).await;
        assert_eq!(user_secret(&stores, id, "s").await.as_deref(), Some(text));
    }
}

pub async fn a_replayed_write_leaves_newer_secrets(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let patch = || changing(&[("password", Some("sealed-2"))]);
    stores.users.update_user(user_id(1), patch(), requested("r", 1)).await.unwrap();
    stores.users.update_user(user_id(1), changing(&[("password", Some("sealed-3"))]), write()).await.unwrap();
    assert!(stores.users.update_user(user_id(1), patch(), requested("r", 1)).await.unwrap().replayed);
    assert_eq!(user_secret(&stores, 1, "password").await.as_deref(), Some("sealed-3"));
}
