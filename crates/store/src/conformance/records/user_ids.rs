//! User store cases: a deleted user's id is held until it is released.

use std::time::Duration;

use super::sample::{
    applied, assert_fails, assert_mismatch, bare_user, create_user, delete_and_release, replay, requested,
    user_id, user_state, version, write,
};
use crate::{Applied, StoreError, Stored, Stores, Timestamp, User, Write};

fn held(result: Result<Applied<User>, StoreError>) {
    assert_fails!(result, StoreError::IdHeld);
}

pub async fn deleted_id_is_held_until_released(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let deletion = write();
    stores.users.delete_user(user_id(1), Timestamp(0), deletion.clone()).await.unwrap();
    for _ in 0..2 {
        held(stores.users.create_user(bare_user(1, "ann"), write()).await);
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
    stores.users.release_id(user_id(1), deletion.now).await.unwrap();
    assert_eq!(create_user(&stores, bare_user(1, "ann")).await.version, version(3));
}

pub async fn held_id_refuses_another_name_too(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    create_user(&stores, bare_user(2, "bob")).await;
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    held(stores.users.create_user(bare_user(1, "cid"), write()).await);
    let request = requested("r", 1);
    held(stores.users.create_user(bare_user(1, "cid"), request).await);
}

pub async fn release_of_earlier_deletion_keeps_id_held(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    delete_and_release(&stores, 1, Timestamp(0)).await;
    create_user(&stores, bare_user(1, "ann")).await;
    let second = write().now.after(Duration::from_secs(60));
    stores.users.delete_user(user_id(1), Timestamp(0), Write::at(second)).await.unwrap();
    stores.users.release_id(user_id(1), Timestamp(second.0 - 1)).await.unwrap();
    held(stores.users.create_user(bare_user(1, "ann"), write()).await);
    stores.users.release_id(user_id(1), second).await.unwrap();
    create_user(&stores, bare_user(1, "ann")).await;
}

pub async fn release_of_other_ids_changes_nothing(stores: Stores) {
    let ann = create_user(&stores, bare_user(1, "ann")).await;
    for id in [1, 2] {
        stores.users.release_id(user_id(id), write().now).await.unwrap();
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Live(ann.into()));
    assert_eq!(user_state(&stores, 2).await, Stored::Never);
}

pub async fn request_refused_by_held_id_is_not_kept(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    let create = || stores.users.create_user(bare_user(1, "bea"), requested("r", 1));
    held(create().await);
    stores.users.release_id(user_id(1), write().now).await.unwrap();
    assert_eq!(applied(create().await.unwrap()).version, version(3));
    assert_mismatch(stores.users.create_user(bare_user(1, "bea"), requested("r", 2)).await);
}

pub async fn creation_replays_while_its_id_is_held(stores: Stores) {
    let create = || stores.users.create_user(bare_user(1, "ann"), requested("r", 1));
    let first = applied(create().await.unwrap());
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!(replay(create().await), first);
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

/// The server notes each deletion before it is written, even if it is then refused.
pub async fn deletion_of_deleted_user_does_not_hold_id(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    delete_and_release(&stores, 1, Timestamp(0)).await;
    let again = write();
    stores.edges.note_removal(user_id(1), again.now).await.unwrap();
    assert_fails!(stores.users.delete_user(user_id(1), Timestamp(0), again).await, StoreError::NotFound);
    create_user(&stores, bare_user(1, "ann")).await;
}
