//! Users to measure with: every run has the same users.

use std::collections::BTreeMap;

use anyhow::Result;
use kith_store::{
    Email, Gender, NewUser, Params, Phone, SecretChange, Timestamp, User, UserId, UserName, UserStore,
    Version, Write,
};
use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use tokio::task::JoinSet;

/// Creations that run at the same time.
const AT_ONCE: usize = 128;

/// The user with this id, to be created.
///
/// # Errors
/// If the id is invalid for a user.
pub fn new_user(id: i64) -> Result<NewUser> {
    Ok(NewUser {
        id: UserId::new(id)?,
        user_name: UserName::new(&format!("person.{id}"))?,
        nick_name: "A person".into(),
        email: Some(Email::new(&format!("person.{id}@example.org"))?),
        phone: Some(Phone::new(&format!("+49{:010}", id))?),
        gender: Gender::Other,
        age: 42,
        region: "Somewhere".into(),
        icon: "https://example.org/icons/of-a-person.png".into(),
        params: Params::new(BTreeMap::from([
            ("lang".to_owned(), "en".to_owned()),
            ("theme".to_owned(), "dark".to_owned()),
        ]))?,
        secrets: SecretChange::new(),
    })
}

/// The user with this id as a store returns it.
///
/// # Errors
/// If the id is invalid for a user.
pub fn user(id: i64) -> Result<User> {
    let new = new_user(id)?;
    Ok(User {
        id: new.id,
        version: Version::FIRST,
        user_name: new.user_name.text().into(),
        nick_name: new.nick_name,
        email: new.email.map(|email| email.text().to_owned()).unwrap_or_default().into(),
        phone: new.phone.map(|phone| phone.text().to_owned()).unwrap_or_default().into(),
        gender: new.gender,
        age: new.age,
        region: new.region,
        icon: new.icon,
        params: new.params,
        created: Timestamp(0),
        updated: Timestamp(0),
    })
}

/// Creates the users 1 to `users`.
///
/// # Errors
/// If the store refuses a user.
pub async fn fill(store: &std::sync::Arc<dyn UserStore>, users: i64) -> Result<()> {
    let mut running = JoinSet::new();
    for id in 1..=users {
        if running.len() >= AT_ONCE
            && let Some(created) = running.join_next().await
        {
            created??;
        }
        let (store, user) = (std::sync::Arc::clone(store), new_user(id)?);
        running.spawn(async move { store.create_user(user, Write::at(Timestamp::now())).await.map(drop) });
    }
    while let Some(created) = running.join_next().await {
        created??;
    }
    Ok(())
}

/// The ids 1 to `users` in an order that looks like chance and is the same for the same seed.
pub fn shuffled(users: i64, seed: u64) -> Vec<i64> {
    let mut ids: Vec<i64> = (1..=users).collect();
    ids.shuffle(&mut StdRng::seed_from_u64(seed));
    ids
}
