//! Tests what this program writes.

use std::{sync::Arc, time::Duration};

use kith_store::{
    ConversationId, GroupId, GroupPatch, IdKind, Params, ParamsPatch, SecretChange, StoredSecret, Timestamp,
    UserName, UserPatch, Write,
    conformance::{message_sample::message, sample::requested},
};
use mongodb::bson::doc;

use super::{Reader, Stage, new_group, new_user, of_group, of_user, user_id, version, version_of, write};

fn secret() -> SecretChange {
    SecretChange::from([("pwd".to_owned(), Some(StoredSecret::new("sealed".to_owned())))])
}

fn theme() -> ParamsPatch {
    let set = Params::new([("theme".to_owned(), "dark".to_owned())].into()).unwrap();
    ParamsPatch { set, ..ParamsPatch::default() }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn user_writes_are_fed_in_order_with_versions() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let users = Arc::clone(&stage.stores.users);
    stage.create(1).await;
    let with_secret = kith_store::NewUser { secrets: secret(), ..new_user(2, "bob") };
    users.create_user(with_secret, requested("r1", 7)).await.unwrap();
    users.create_user(new_user(2, "bob"), requested("r1", 7)).await.unwrap();
    let patches = [
        UserPatch { age: Some(8), ..UserPatch::default() },
        // Nothing but the version changes.
        UserPatch::default(),
        UserPatch { params: theme(), ..UserPatch::default() },
        UserPatch { nick_name: Some("".into()), ..UserPatch::default() },
        UserPatch { user_name: Some(UserName::new("Ann").unwrap()), ..UserPatch::default() },
        UserPatch { secrets: secret(), ..UserPatch::default() },
    ];
    for patch in patches {
        users.update_user(user_id(1), patch, Write { now: Timestamp(5), ..write() }).await.unwrap();
    }
    users.update_user(user_id(2), UserPatch::default(), requested("r2", 7)).await.unwrap();
    stage.delete(1, Timestamp::now().after(Duration::from_secs(60))).await;
    stage.release(1).await;
    stage.create(1).await;
    stage.delete(1, Timestamp(0)).await;
    let mut expected = vec![of_user(1, version(1)), of_user(2, version(1))];
    expected.extend((2..=7).map(|number| of_user(1, version(number))));
    expected.push(of_user(2, version(2)));
    expected.extend((8..=10).map(|number| of_user(1, version(number))));
    assert_eq!(reader.take(expected.len()).await, expected);
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn group_writes_are_fed_in_order_with_versions() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let (groups, id) = (Arc::clone(&stage.stores.groups), GroupId::new(9).unwrap());
    groups.create_group(new_group(9), write()).await.unwrap();
    let patches = [
        GroupPatch { name: Some("go".into()), ..GroupPatch::default() },
        // The server may report it as a truncated array.
        GroupPatch { tags: Some(vec!["a".into()]), ..GroupPatch::default() },
        GroupPatch { params: theme(), secrets: secret(), ..GroupPatch::default() },
    ];
    for patch in patches {
        groups.update_group(id, patch, write()).await.unwrap();
    }
    groups.dismiss_group(id, requested("r1", 7)).await.unwrap();
    groups.create_group(new_group(9), write()).await.unwrap();
    let expected: Vec<_> = (1..=6).map(|number| of_group(9, version(number))).collect();
    assert_eq!(reader.take(6).await, expected);
    reader.assert_quiet().await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn released_name_is_no_change_of_its_user() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    stage.delete(1, Timestamp(0)).await;
    stage.stores.users.create_user(new_user(2, "user-1"), write()).await.unwrap();
    let expected = [of_user(1, version(1)), of_user(1, version(2)), of_user(2, version(1))];
    assert_eq!(reader.take(3).await, expected);
    reader.assert_quiet().await;
    assert_eq!(stage.document(1).await.get_i64("v").unwrap(), 2);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn write_of_no_record_is_not_delivered() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    let node = Arc::clone(&stage.stores.node);
    node.allocate_ids(IdKind::User, 7).await.unwrap();
    node.raise_epoch(0, "a").await.unwrap();
    node.key("page", [7; 32]).await.unwrap();
    let coordination = Arc::clone(&stage.stores.coordination);
    coordination.lease("feed", "a", Duration::from_secs(60)).await.unwrap();
    coordination.set_mark("feed", "a", b"mark").await.unwrap();
    for sent in ["a", "b"] {
        let group = ConversationId::Group(GroupId::new(9).unwrap());
        stage.stores.messages.append(group, &[message(sent)]).await.unwrap();
    }
    stage.documents("other").insert_one(doc! { "_id": 7_i64, "v": 1_i64 }).await.unwrap();
    let with_secret = kith_store::NewUser { secrets: secret(), ..new_user(2, "bob") };
    stage.stores.users.create_user(with_secret, requested("r1", 7)).await.unwrap();
    assert_eq!(reader.take(1).await, [of_user(2, version(1))]);
    reader.assert_quiet().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn concurrent_writes_are_fed_without_gaps() {
    let stage = Stage::open().await;
    let mut reader = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    let writers = (0..8).map(|_| {
        let users = Arc::clone(&stage.stores.users);
        tokio::spawn(async move {
            for _ in 0..50 {
                let written = users.update_user(user_id(1), UserPatch::default(), write()).await;
                version_of(&written.unwrap());
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let expected: Vec<_> = (1..=401).map(|number| of_user(1, version(number))).collect();
    assert_eq!(reader.take(401).await, expected);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn stub_keeps_nothing_of_the_record() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let hand = doc! { "$set": { "address": "Main Street", "params": { "a": "b" }, "v": 5_i64 } };
    stage.documents("users").update_one(doc! { "_id": 1_i64 }, hand).await.unwrap();
    stage.delete(1, Timestamp(9)).await;
    let stub = stage.document(1).await;
    let mut fields: Vec<&str> = stub.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let of_access = ["account", "av", "tokens_from"];
    fields.retain(|field| !of_access.contains(field));
    assert_eq!(fields, ["_id", "deleted", "id_held", "name_free_at", "name_key", "u", "v", "w"]);
    assert_eq!(stub.get_i64("v").unwrap(), 6);
    stage.release(1).await;
    stage.create(1).await;
    let created = stage.document(1).await;
    assert!(
        !created.contains_key("id_held")
            && !created.contains_key("deleted")
            && !created.contains_key("name_free_at"),
        "{created}"
    );
    assert_eq!(stage.user(1).await.version, version(7));
}
