//! User store cases: a name belongs to one user, in all its forms.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::sample::{
    applied, assert_fails, at_once, bare_user, create_user, delete_and_release, live_user, name, replay,
    requested, user_id, user_state, version, write,
};
use crate::{StoreError, Stored, Stores, Timestamp, User, UserPatch, Write};

const HOUR: Duration = Duration::from_secs(3600);
/// How many ask for one name at once.
const RIVALS: i64 = 64;

/// A name's forms: as it is, other case, full-width, decomposed, with a ligature, and everything together.
fn forms(number: usize) -> [String; 6] {
    [
        format!("office José {number}"),
        format!("OFFICE JOSÉ {number}"),
        format!("\u{FF4F}\u{FF46}\u{FF46}\u{FF49}\u{FF43}\u{FF45} José {number}"),
        format!("office Jose\u{301} {number}"),
        format!("o\u{FB03}ce José {number}"),
        format!("O\u{FB03}C\u{FF25} JOSE\u{301} {number}"),
    ]
}

/// How many names are raced for: `KITH_NAME_RACES`. Default 20.
fn races() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a knob of a test, not configuration")]
    let wanted = std::env::var("KITH_NAME_RACES");
    wanted.map_or(20, |number| number.parse().unwrap())
}

fn rename(text: &str) -> UserPatch {
    UserPatch { user_name: Some(name(text)), ..UserPatch::default() }
}

fn name_taken<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert_fails!(result, StoreError::NameTaken);
}

async fn owner(stores: &Stores, text: &str) -> Option<User> {
    stores.users.user_by_name(&name(text)).await.unwrap()
}

pub async fn used_name_is_taken_in_every_form(stores: Stores) {
    let first = create_user(&stores, bare_user(1, &forms(0)[0])).await;
    for form in &forms(0) {
        name_taken(stores.users.create_user(bare_user(2, form), write()).await);
        assert_eq!(user_state(&stores, 2).await, Stored::Never);
    }
    assert_eq!(live_user(&stores, 1).await, first);
}

pub async fn names_that_differ_by_an_accent_are_two(stores: Stores) {
    for (id, text) in [(1, "jose"), (2, "josé"), (3, "j0se"), (4, "jo se")] {
        create_user(&stores, bare_user(id, text)).await;
    }
    assert_eq!(owner(&stores, "JOSÉ").await.unwrap().id, user_id(2));
    assert_eq!(owner(&stores, "JOSE").await.unwrap().id, user_id(1));
}

pub async fn a_user_is_found_by_every_form_of_the_name(stores: Stores) {
    for form in forms(7) {
        let created = create_user(&stores, bare_user(1, &form)).await;
        assert_eq!(created.user_name, form);
        for other in &forms(7) {
            assert_eq!(owner(&stores, other).await.as_ref(), Some(&created));
        }
        delete_and_release(&stores, 1, Timestamp(0)).await;
    }
}

pub async fn unused_name_finds_no_user(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for text in ["an", "anna", ".*", "a%", "a_n", "$ne"] {
        assert_eq!(owner(&stores, text).await, None, "{text}");
    }
    stores.users.delete_user(user_id(1), write().now.after(HOUR), write()).await.unwrap();
    assert_eq!(owner(&stores, "ann").await, None);
}

pub async fn name_of_deleted_user_is_taken_until_free(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let free_at = write().now.after(HOUR);
    stores.users.delete_user(user_id(1), free_at, write()).await.unwrap();
    for now in [write().now, Timestamp(free_at.0 - 1)] {
        name_taken(stores.users.create_user(bare_user(2, "ANN"), Write::at(now)).await);
    }
    assert_eq!(user_state(&stores, 2).await, Stored::Never);
}

pub async fn freed_name_may_be_taken_by_any_user(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let free_at = write().now.after(HOUR);
    delete_and_release(&stores, 1, free_at).await;
    applied(stores.users.create_user(bare_user(2, "ANN"), Write::at(free_at)).await.unwrap());
    assert_eq!(owner(&stores, "ann").await.unwrap().id, user_id(2));
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
    // The user who had it before does not get it back when the user is created again.
    name_taken(stores.users.create_user(bare_user(1, "ann"), Write::at(free_at.after(HOUR))).await);
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn a_name_free_at_once_can_be_taken_at_once(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let now = write().now;
    stores.users.delete_user(user_id(1), now, Write::at(now)).await.unwrap();
    applied(stores.users.create_user(bare_user(2, "ann"), Write::at(now)).await.unwrap());
    assert_eq!(owner(&stores, "ann").await.unwrap().id, user_id(2));
}

pub async fn recreated_user_may_have_the_kept_name(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let free_at = write().now.after(HOUR);
    delete_and_release(&stores, 1, free_at).await;
    name_taken(stores.users.create_user(bare_user(2, "ann"), write()).await);
    // Reserved for its former id: no other user can have it.
    assert_eq!(create_user(&stores, bare_user(1, "ANN")).await.version, version(3));
    name_taken(stores.users.create_user(bare_user(2, "ann"), Write::at(free_at.after(HOUR))).await);
}

pub async fn recreated_user_with_new_name_frees_old_name(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    delete_and_release(&stores, 1, Timestamp(0)).await;
    create_user(&stores, bare_user(1, "anna")).await;
    assert_eq!(owner(&stores, "ann").await, None);
    create_user(&stores, bare_user(2, "ann")).await;
    assert_eq!(owner(&stores, "anna").await.unwrap().id, user_id(1));
}

pub async fn a_rename_frees_the_old_name_at_once(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let renamed = applied(stores.users.update_user(user_id(1), rename("Bea"), write()).await.unwrap());
    assert_eq!(renamed.user_name, "Bea");
    assert_eq!(owner(&stores, "bea").await, Some(renamed));
    assert_eq!(owner(&stores, "ann").await, None);
    create_user(&stores, bare_user(2, "ANN")).await;
}

pub async fn a_rename_onto_a_taken_name_changes_nothing(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let before = create_user(&stores, bare_user(2, "bea")).await;
    for form in ["ann", "ANN", "\u{FF41}nn"] {
        let patch = UserPatch { age: Some(5), ..rename(form) };
        name_taken(stores.users.update_user(user_id(2), patch, write()).await);
    }
    assert_eq!(live_user(&stores, 2).await, before);
    assert_eq!(owner(&stores, "bea").await, Some(before));
}

pub async fn rename_to_name_of_deleted_user_needs_it_free(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    create_user(&stores, bare_user(2, "bea")).await;
    let free_at = write().now.after(HOUR);
    stores.users.delete_user(user_id(1), free_at, write()).await.unwrap();
    name_taken(stores.users.update_user(user_id(2), rename("Ann"), write()).await);
    let renamed = stores.users.update_user(user_id(2), rename("Ann"), Write::at(free_at)).await.unwrap();
    assert_eq!(owner(&stores, "ann").await, Some(applied(renamed)));
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn rename_to_other_form_of_own_name_succeeds(stores: Stores) {
    create_user(&stores, bare_user(1, &forms(3)[0])).await;
    for form in forms(3) {
        let renamed = applied(stores.users.update_user(user_id(1), rename(&form), write()).await.unwrap());
        assert_eq!(renamed.user_name, form);
        assert_eq!(owner(&stores, &forms(3)[0]).await, Some(renamed));
    }
}

pub async fn a_rename_to_the_own_name_works(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let renamed = applied(stores.users.update_user(user_id(1), rename("ann"), write()).await.unwrap());
    assert_eq!(renamed.version, version(2));
    assert_eq!(owner(&stores, "ann").await, Some(renamed));
}

pub async fn two_names_can_be_swapped_by_way_of_a_third(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    create_user(&stores, bare_user(2, "bea")).await;
    for (id, text) in [(1, "third"), (2, "ann"), (1, "bea")] {
        stores.users.update_user(user_id(id), rename(text), write()).await.unwrap();
    }
    assert_eq!(owner(&stores, "ann").await.unwrap().id, user_id(2));
    assert_eq!(owner(&stores, "bea").await.unwrap().id, user_id(1));
    assert_eq!(owner(&stores, "third").await, None);
}

/// The winner's id; all others got the error that the name is taken.
async fn only_winner(stores: &Stores, race: usize, results: Vec<Result<User, StoreError>>) -> i64 {
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1, "winners of race {race}");
    lost.into_iter().for_each(name_taken);
    let won = won.into_iter().next().unwrap().unwrap();
    assert_eq!(owner(stores, &forms(race)[0]).await.as_ref(), Some(&won));
    won.id.get()
}

/// A rival by creation under `id`, in a form that differs from its neighbours'.
fn creator(
    stores: &Stores,
    id: i64,
    race: usize,
) -> impl Future<Output = Result<User, StoreError>> + Send + 'static {
    let users = Arc::clone(&stores.users);
    let user = bare_user(id, &form_for(id, race));
    async move { users.create_user(user, write()).await.map(applied) }
}

/// A rival by renaming the user `id`.
fn renamer(
    stores: &Stores,
    id: i64,
    race: usize,
) -> impl Future<Output = Result<User, StoreError>> + Send + 'static {
    let users = Arc::clone(&stores.users);
    let patch = rename(&form_for(id, race));
    async move { users.update_user(user_id(id), patch, write()).await.map(applied) }
}

fn form_for(id: i64, race: usize) -> String {
    let forms = forms(race);
    forms[usize::try_from(id).unwrap() % forms.len()].clone()
}

pub async fn creators_of_one_name_at_once_have_one_winner(stores: Stores) {
    let mut next = 1;
    for race in 0..races() {
        let ids = next..next + RIVALS;
        next = ids.end;
        let results = at_once(ids.clone().map(|id| creator(&stores, id, race))).await;
        let winner = only_winner(&stores, race, results).await;
        let asked: Vec<_> = ids.map(user_id).collect();
        let stored = stores.users.users(&asked).await.unwrap();
        assert_eq!(stored.iter().map(|(id, _)| id.get()).collect::<Vec<_>>(), [winner]);
    }
}

async fn populate(stores: &Stores, ids: std::ops::RangeInclusive<i64>) {
    at_once(ids.map(|id| {
        let users = Arc::clone(&stores.users);
        async move { users.create_user(bare_user(id, &format!("user-{id}")), write()).await.unwrap() }
    }))
    .await;
}

pub async fn renames_to_one_name_at_once_have_one_winner(stores: Stores) {
    populate(&stores, 1..=RIVALS).await;
    let mut names: Vec<_> = (1..=RIVALS).map(|id| format!("user-{id}")).collect();
    for race in 0..races() {
        let results = at_once((1..=RIVALS).map(|id| renamer(&stores, id, race))).await;
        let winner = only_winner(&stores, race, results).await;
        names[usize::try_from(winner - 1).unwrap()] = form_for(winner, race);
        let users = stores.users.scan_users(None, 100).await.unwrap();
        assert_eq!(users.into_iter().map(|user| user.user_name).collect::<Vec<_>>(), names);
    }
}

pub async fn creators_and_renames_at_once_have_one_winner(stores: Stores) {
    let half = RIVALS / 2;
    populate(&stores, 1..=half).await;
    let mut next = half + 1;
    let mut living: BTreeSet<i64> = (1..=half).collect();
    for race in 0..races() {
        let mut rivals = tokio::task::JoinSet::new();
        for id in 1..=half {
            rivals.spawn(renamer(&stores, id, race));
            rivals.spawn(creator(&stores, next + id, race));
        }
        next += half;
        living.insert(only_winner(&stores, race, rivals.join_all().await).await);
        let ids: BTreeSet<_> =
            stores.users.scan_users(None, 10_000).await.unwrap().iter().map(|u| u.id.get()).collect();
        assert_eq!(ids, living, "race {race}");
    }
}

pub async fn a_freed_name_has_one_winner(stores: Stores) {
    for race in 0..races().min(20) {
        let base = i64::try_from(race).unwrap() * 1000 + 1;
        create_user(&stores, bare_user(base, &forms(race)[0])).await;
        delete_and_release(&stores, base, Timestamp(0)).await;
        // The former owner, made again, among others.
        let results = at_once((base..base + RIVALS).map(|id| creator(&stores, id, race))).await;
        only_winner(&stores, race, results).await;
    }
}

pub async fn replayed_creation_takes_no_name(stores: Stores) {
    let create = || stores.users.create_user(bare_user(1, "ann"), requested("r", 1));
    applied(create().await.unwrap());
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    replay(create().await);
    assert_eq!(stores.users.user_by_name(&name("ann")).await.unwrap(), None);
}

pub async fn creation_refused_by_a_name_keeps_no_request(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let create = || stores.users.create_user(bare_user(2, "ann"), requested("r", 1));
    assert_fails!(create().await, StoreError::NameTaken);
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    let created = applied(create().await.unwrap());
    assert_eq!(live_user(&stores, 2).await, created);
}
