//! User store cases: one record at a time, and many.

use std::collections::BTreeSet;

use super::sample::{
    applied, bare_user, create_user, delete_and_release, expecting, full_user, live_user, name, params,
    params_of, setting, user_id, user_state, version, write,
};
use crate::{
    BATCH_MAX, Email, Gender, PARAMS_BYTES_MAX, Params, ParamsPatch, Phone, StoreError, Stored, Stores, Text,
    Timestamp, UserId, UserPatch, Version,
};

pub async fn a_user_who_was_never_stored_is_never(stores: Stores) {
    assert_eq!(user_state(&stores, 1).await, Stored::Never);
}

pub async fn every_field_reads_back_as_it_was_created(stores: Stores) {
    let created = create_user(&stores, full_user(5)).await;
    assert_eq!(live_user(&stores, 5).await, created);
    let wanted = full_user(5);
    assert_eq!(created.id, wanted.id);
    assert_eq!(created.version, Version::FIRST);
    assert_eq!(created.user_name, wanted.user_name.text());
    assert_eq!(created.nick_name, wanted.nick_name);
    assert_eq!(created.email, wanted.email.unwrap().text());
    assert_eq!(created.phone, wanted.phone.unwrap().text());
    assert_eq!((created.gender, created.age), (wanted.gender, wanted.age));
    assert_eq!((created.region, created.icon), (wanted.region, wanted.icon));
    assert_eq!(created.params, wanted.params);
}

pub async fn a_user_with_a_name_alone_reads_back_bare(stores: Stores) {
    let created = create_user(&stores, bare_user(5, "ann")).await;
    assert_eq!(live_user(&stores, 5).await, created);
    let texts = [created.nick_name, created.email, created.phone, created.region, created.icon];
    assert_eq!(texts, [const { String::new() }; 5]);
    assert_eq!((created.gender, created.age), (Gender::Unspecified, 0));
    assert_eq!(created.params, Params::default());
}

pub async fn times_are_those_of_the_writes(stores: Stores) {
    let (made, changed) = (write(), expecting(1));
    let changed = crate::Write { now: Timestamp(made.now.0 + 12_345), ..changed };
    stores.users.create_user(bare_user(1, "ann"), made.clone()).await.unwrap();
    let created = live_user(&stores, 1).await;
    assert_eq!((created.created, created.updated), (made.now, made.now));
    stores.users.update_user(user_id(1), UserPatch::default(), changed.clone()).await.unwrap();
    let updated = live_user(&stores, 1).await;
    assert_eq!((updated.created, updated.updated), (made.now, changed.now));
}

pub async fn existing_id_is_taken(stores: Stores) {
    let ann = create_user(&stores, bare_user(1, "ann")).await;
    let error = stores.users.create_user(bare_user(1, "bob"), write()).await.unwrap_err();
    assert!(matches!(error, StoreError::IdTaken), "{error:?}");
    assert_eq!(live_user(&stores, 1).await, ann);
    assert_eq!(stores.users.user_by_name(&name("bob")).await.unwrap(), None);
}

pub async fn versions_count_from_one(stores: Stores) {
    assert_eq!(create_user(&stores, bare_user(1, "ann")).await.version, version(1));
    for number in 2..5 {
        let patch = UserPatch { age: Some(30), ..UserPatch::default() };
        let updated = applied(stores.users.update_user(user_id(1), patch, write()).await.unwrap());
        assert_eq!(updated.version, version(number));
        assert_eq!(live_user(&stores, 1).await, updated);
    }
}

pub async fn stale_user_update_conflicts(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let patch = || UserPatch { age: Some(30), ..UserPatch::default() };
    let now = applied(stores.users.update_user(user_id(1), patch(), expecting(1)).await.unwrap());
    for stale in [1, 3, 0] {
        let patch = UserPatch { user_name: Some(name("other")), ..patch() };
        let error = stores.users.update_user(user_id(1), patch, expecting(stale)).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict { current } if current == version(2)), "{error:?}");
    }
    assert_eq!(live_user(&stores, 1).await, now);
    assert_eq!(stores.users.user_by_name(&name("other")).await.unwrap(), None);
}

pub async fn write_expecting_current_version_succeeds(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for number in 1..4 {
        let write = expecting(number);
        let updated =
            applied(stores.users.update_user(user_id(1), UserPatch::default(), write).await.unwrap());
        assert_eq!(updated.version, version(number + 1));
    }
    let deleted = stores.users.delete_user(user_id(1), Timestamp(0), expecting(4)).await.unwrap();
    assert_eq!(applied(deleted), version(5));
}

pub async fn update_of_unknown_user_is_not_found(stores: Stores) {
    for write in [write(), expecting(0), expecting(1)] {
        let error = stores.users.update_user(user_id(1), UserPatch::default(), write).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Never);
}

pub async fn an_update_of_a_deleted_user_is_not_found(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    for write in [write(), expecting(2), expecting(1)] {
        let error = stores.users.update_user(user_id(1), UserPatch::default(), write).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

/// Makes one patch for each field, with a value that [`full_user`] does not have.
fn single_field_patches() -> Vec<UserPatch> {
    let none = UserPatch::default;
    vec![
        UserPatch { user_name: Some(name("Björn")), ..none() },
        UserPatch { nick_name: Some("B".into()), ..none() },
        UserPatch { email: Some(Some(Email::new("b@c").unwrap())), ..none() },
        UserPatch { phone: Some(Some(Phone::new("+4912345678").unwrap())), ..none() },
        UserPatch { gender: Some(Gender::Female), ..none() },
        UserPatch { age: Some(1), ..none() },
        UserPatch { region: Some("Ålesund".into()), ..none() },
        UserPatch { icon: Some("x".into()), ..none() },
        UserPatch { params: setting(&[("theme", "light")]), ..none() },
    ]
}

pub async fn each_field_of_a_patch_leaves_the_others(stores: Stores) {
    let mut expected = create_user(&stores, full_user(1)).await;
    for patch in single_field_patches() {
        let updated = applied(stores.users.update_user(user_id(1), patch.clone(), write()).await.unwrap());
        patch_in_memory(&mut expected, &patch);
        expected.version = expected.version.next();
        expected.updated = updated.updated;
        assert_eq!(updated, expected);
        assert_eq!(live_user(&stores, 1).await, expected);
    }
}

fn patch_in_memory(user: &mut crate::User, patch: &UserPatch) {
    let patch = patch.clone();
    user.user_name = patch.user_name.map_or_else(|| user.user_name.clone(), |name| name.text().into());
    user.nick_name = patch.nick_name.unwrap_or_else(|| user.nick_name.clone());
    if let Some(email) = patch.email {
        user.email = email.map_or_else(String::new, |email| email.text().to_owned()).into();
    }
    if let Some(phone) = patch.phone {
        user.phone = phone.map_or_else(String::new, |phone| phone.text().to_owned()).into();
    }
    user.gender = patch.gender.unwrap_or(user.gender);
    user.age = patch.age.unwrap_or(user.age);
    user.region = patch.region.unwrap_or_else(|| user.region.clone());
    user.icon = patch.icon.unwrap_or_else(|| user.icon.clone());
    user.params.apply(&patch.params);
}

pub async fn an_empty_patch_raises_the_version_alone(stores: Stores) {
    let before = create_user(&stores, full_user(1)).await;
    let after = applied(stores.users.update_user(user_id(1), UserPatch::default(), write()).await.unwrap());
    let expected = crate::User { version: version(2), updated: after.updated, ..before };
    assert_eq!(after, expected);
    assert_eq!(live_user(&stores, 1).await, expected);
}

pub async fn email_and_phone_can_be_removed(stores: Stores) {
    let before = create_user(&stores, full_user(1)).await;
    let patch = UserPatch { email: Some(None), ..UserPatch::default() };
    let updated = applied(stores.users.update_user(user_id(1), patch, write()).await.unwrap());
    assert_eq!((updated.email.as_str(), updated.phone), ("", before.phone));
    let patch = UserPatch { phone: Some(None), ..UserPatch::default() };
    stores.users.update_user(user_id(1), patch, write()).await.unwrap();
    let read = live_user(&stores, 1).await;
    assert_eq!((read.email.as_str(), read.phone.as_str()), ("", ""));
}

pub async fn texts_can_be_emptied(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let empty = || Some(Text::default());
    let patch = UserPatch { nick_name: empty(), region: empty(), icon: empty(), ..UserPatch::default() };
    stores.users.update_user(user_id(1), patch, write()).await.unwrap();
    let read = live_user(&stores, 1).await;
    assert_eq!([read.nick_name, read.region, read.icon], [const { String::new() }; 3]);
}

async fn change_params(stores: &Stores, params: ParamsPatch) -> Result<Params, StoreError> {
    let patch = UserPatch { params, ..UserPatch::default() };
    let updated = stores.users.update_user(user_id(1), patch, write()).await?;
    assert_eq!(live_user(stores, 1).await, updated.record);
    Ok(updated.record.params)
}

pub async fn parameters_are_set_and_unset_one_by_one(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let unset = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    let patch =
        ParamsPatch { unset: unset(&["level", "absent"]), ..setting(&[("lang", "cs"), ("theme", "light")]) };
    let after = change_params(&stores, patch).await.unwrap();
    assert_eq!(after, params(&[("theme", "light"), ("empty", ""), ("lang", "cs")]));
    let patch = ParamsPatch { unset: unset(&["theme", "empty", "lang"]), ..ParamsPatch::default() };
    assert_eq!(change_params(&stores, patch).await.unwrap(), Params::default());
}

pub async fn parameters_are_replaced_as_a_whole(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let patch = ParamsPatch { replace: true, ..setting(&[("lang", "cs")]) };
    assert_eq!(change_params(&stores, patch).await.unwrap(), params(&[("lang", "cs")]));
    let patch = ParamsPatch { replace: true, ..ParamsPatch::default() };
    assert_eq!(change_params(&stores, patch).await.unwrap(), Params::default());
}

pub async fn allowed_params_are_read_back_unchanged(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let long = "K".repeat(64);
    let pairs = [
        ("constructor", "$set"),
        ("proto-", "{\"$ne\": null}"),
        ("Case", "upper"),
        ("case", "lower"),
        ("n0-_", "'; DROP TABLE users;--"),
        ("quote", "\"\\u0041\" \\ \n\t\u{1}\u{10FFFF}"),
        ("unset", "\u{FEFF}e\u{301}"),
        (long.as_str(), " "),
    ];
    assert_eq!(change_params(&stores, setting(&pairs)).await.unwrap(), params(&pairs));
}

pub async fn user_params_above_byte_limit_are_refused(stores: Stores) {
    let user = crate::NewUser { params: params_of(PARAMS_BYTES_MAX - 10), ..bare_user(1, "ann") };
    let before = create_user(&stores, user).await;
    let params = setting(&[("longer", "12345")]);
    let patch = UserPatch { params, age: Some(9), user_name: Some(name("bob")), ..UserPatch::default() };
    let error = stores.users.update_user(user_id(1), patch, write()).await.unwrap_err();
    assert!(matches!(error, StoreError::ParamsTooLarge), "{error:?}");
    assert_eq!(live_user(&stores, 1).await, before);
    assert_eq!(stores.users.user_by_name(&name("bob")).await.unwrap(), None);
}

pub async fn user_params_above_count_limit_are_refused(stores: Stores) {
    let full = (0..crate::PARAMS_MAX).map(|at| (format!("k{at}"), String::new())).collect();
    let user = crate::NewUser { params: Params::new(full).unwrap(), ..bare_user(1, "ann") };
    let before = create_user(&stores, user).await;
    let error = change_params(&stores, setting(&[("one-more", "")])).await.unwrap_err();
    assert!(matches!(error, StoreError::ParamsTooLarge), "{error:?}");
    assert_eq!(live_user(&stores, 1).await, before);
    let swap = ParamsPatch { unset: BTreeSet::from(["k7".to_owned()]), ..setting(&[("one-more", "")]) };
    assert_eq!(change_params(&stores, swap).await.unwrap().len(), crate::PARAMS_MAX);
}

pub async fn params_at_byte_limit_are_accepted(stores: Stores) {
    let user = crate::NewUser { params: params_of(PARAMS_BYTES_MAX - 10), ..bare_user(1, "ann") };
    create_user(&stores, user).await;
    let after = change_params(&stores, setting(&[("longer", "1234")])).await.unwrap();
    assert_eq!(after.bytes(), PARAMS_BYTES_MAX);
    let replaced = ParamsPatch { replace: true, set: params_of(PARAMS_BYTES_MAX), ..ParamsPatch::default() };
    assert_eq!(change_params(&stores, replaced).await.unwrap(), params_of(PARAMS_BYTES_MAX));
}

pub async fn a_deleted_user_leaves_a_stub_with_its_version(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let deleted = stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!(applied(deleted), version(2));
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn stale_user_deletion_conflicts(stores: Stores) {
    let before = create_user(&stores, full_user(1)).await;
    let error = stores.users.delete_user(user_id(1), Timestamp(0), expecting(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { current } if current == version(1)), "{error:?}");
    assert_eq!(live_user(&stores, 1).await, before);
}

pub async fn deletion_of_absent_user_is_not_found(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    for id in [1, 2] {
        let error = stores.users.delete_user(user_id(id), Timestamp(0), write()).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
    assert_eq!(user_state(&stores, 2).await, Stored::Never);
}

pub async fn recreated_user_continues_the_version(stores: Stores) {
    for round in 0..3 {
        let user = bare_user(1, &format!("ann{round}"));
        assert_eq!(create_user(&stores, user).await.version, version(2 * round + 1));
        delete_and_release(&stores, 1, Timestamp(0)).await;
        assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2 * round + 2)));
    }
}

pub async fn recreated_user_has_no_old_data(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    delete_and_release(&stores, 1, Timestamp(0)).await;
    let again = crate::Write { now: Timestamp(write().now.0 + 777), ..write() };
    let created = applied(stores.users.create_user(bare_user(1, "ann"), again.clone()).await.unwrap());
    assert_eq!((created.created, created.updated), (again.now, again.now));
    let texts = [&created.nick_name, &created.email, &created.phone, &created.region, &created.icon];
    assert!(texts.iter().all(|text| text.is_empty()));
    assert_eq!((created.gender, created.age), (Gender::Unspecified, 0));
    assert_eq!(created.params, Params::default());
    assert_eq!(live_user(&stores, 1).await, created);
}

pub async fn batch_returns_live_and_deleted_users_once(stores: Stores) {
    let ann = create_user(&stores, full_user(1)).await;
    let cid = create_user(&stores, bare_user(3, "cid")).await;
    create_user(&stores, bare_user(2, "bob")).await;
    stores.users.delete_user(user_id(2), Timestamp(0), write()).await.unwrap();
    create_user(&stores, bare_user(5, "not asked for")).await;
    let ids = [3, 1, 2, 4, 1, 3, 2, 4].map(user_id);
    let mut read = stores.users.users(&ids).await.unwrap();
    read.sort_by_key(|(id, _)| *id);
    let expected = [
        (ann.id, Stored::Live(ann.into())),
        (user_id(2), Stored::Deleted(version(2))),
        (cid.id, Stored::Live(cid.into())),
    ];
    assert_eq!(read, expected);
}

pub async fn a_batch_of_no_ids_is_empty(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    assert_eq!(stores.users.users(&[]).await.unwrap(), []);
}

fn many_ids(count: usize) -> Vec<UserId> {
    (1..).map(user_id).take(count).collect()
}

pub async fn a_batch_may_hold_as_many_ids_as_the_limit(stores: Stores) {
    for id in [1, 250, 500] {
        create_user(&stores, bare_user(id, &format!("u{id}"))).await;
    }
    let read = stores.users.users(&many_ids(BATCH_MAX)).await.unwrap();
    let ids: BTreeSet<_> = read.iter().map(|(id, _)| id.get()).collect();
    assert_eq!(ids, BTreeSet::from([1, 250, 500]));
}

pub async fn a_batch_of_more_ids_is_refused(stores: Stores) {
    let error = stores.users.users(&many_ids(BATCH_MAX + 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Overloaded), "{error:?}");
}

pub async fn scan_pages_live_users_by_id(stores: Stores) {
    for id in [9, 2, 30, 4, 100] {
        create_user(&stores, bare_user(id, &format!("u{id}"))).await;
    }
    stores.users.delete_user(user_id(9), Timestamp(0), write()).await.unwrap();
    let page = async |after: Option<i64>, limit| {
        let users = stores.users.scan_users(after.map(user_id), limit).await.unwrap();
        users.iter().map(|user| user.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 10).await, [2, 4, 30, 100]);
    assert_eq!(page(None, 2).await, [2, 4]);
    assert_eq!(page(Some(4), 2).await, [30, 100]);
    assert_eq!(page(Some(5), 1).await, [30]);
    assert_eq!(page(Some(100), 2).await, [0_i64; 0]);
    assert_eq!(stores.users.scan_users(Some(user_id(30)), 5).await.unwrap(), [live_user(&stores, 100).await]);
}

pub async fn the_largest_id_works(stores: Stores) {
    let created = create_user(&stores, bare_user(i64::MAX, "ann")).await;
    assert_eq!(live_user(&stores, i64::MAX).await, created);
    assert_eq!(stores.users.scan_users(Some(user_id(i64::MAX - 1)), 5).await.unwrap(), [created]);
    assert_eq!(stores.users.scan_users(Some(user_id(i64::MAX)), 5).await.unwrap(), []);
}
