//! User store cases: a user's fields.

use super::sample::{
    applied, assert_fails, assert_stale, bare_user, create_user, delete_and_release, expecting, full_user,
    live_user, name, params_of, setting, user_id, write,
};
use crate::{
    Email, Gender, PARAMS_BYTES_MAX, Params, Phone, StoreError, Stores, Text, Timestamp, UserPatch, Version,
};

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
        none(),
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

pub async fn refused_writes_take_no_name(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let patch = || UserPatch { user_name: Some(name("bob")), ..UserPatch::default() };
    assert_fails!(stores.users.create_user(bare_user(1, "bob"), write()).await, StoreError::IdTaken);
    assert_stale(stores.users.update_user(user_id(1), patch(), expecting(7)).await, 1);
    let full = UserPatch { params: setting(&[("k", "v")]), ..patch() };
    let large = crate::NewUser { params: params_of(PARAMS_BYTES_MAX), ..bare_user(2, "cid") };
    create_user(&stores, large).await;
    assert_fails!(stores.users.update_user(user_id(2), full, write()).await, StoreError::ParamsTooLarge);
    assert_eq!(stores.users.user_by_name(&name("bob")).await.unwrap(), None);
}
