//! How many callers may watch presence on a node: a bound for each user, and a part that users leave to
//! services.

use std::{collections::HashMap, sync::Arc};

use kith_store::UserId;
use parking_lot::Mutex;

use crate::error::{Error, Reason};

/// The watchers' places.
#[derive(Debug)]
pub(super) struct WatchPlaces {
    most: usize,
    of_user_max: usize,
    taken: Mutex<TakenPlaces>,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    all: usize,
    of_users: usize,
    /// Users without a place have no entry.
    by_user: HashMap<UserId, usize>,
}

/// A watcher's place, until it is dropped.
#[derive(Debug)]
pub(super) struct WatchPlace {
    places: Arc<WatchPlaces>,
    user: Option<UserId>,
}

impl WatchPlaces {
    /// Creates at most `most` places, and at most `of_user_max` for one user.
    pub(super) fn new(most: usize, of_user_max: usize) -> Arc<Self> {
        Arc::new(Self { most, of_user_max, taken: Mutex::default() })
    }

    /// Takes a place for an acting user, or for a service.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the user has as many as it may, if users together have three quarters, or if no
    /// place is left.
    pub(super) fn take(self: &Arc<Self>, user: Option<UserId>) -> Result<WatchPlace, Error> {
        let mut taken = self.taken.lock();
        if taken.all >= self.most {
            return Err(full("presence is watched by as many as may"));
        }
        if let Some(user) = user {
            let held = taken.by_user.get(&user).copied().unwrap_or_default();
            if held >= self.of_user_max {
                let text = "the user watches presence as often as it may";
                return Err(Error::new(Reason::TooManyReceivers, text));
            }
            if taken.of_users >= self.users_max() {
                return Err(full("users watch presence as often as they may together"));
            }
            taken.by_user.insert(user, held + 1);
            taken.of_users += 1;
        }
        taken.all += 1;
        Ok(WatchPlace { places: Arc::clone(self), user })
    }

    fn users_max(&self) -> usize {
        self.most - self.most / 4
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        let Some(user) = self.user else { return };
        taken.of_users -= 1;
        if let Some(held) = taken.by_user.get_mut(&user) {
            *held -= 1;
            if *held == 0 {
                taken.by_user.remove(&user);
            }
        }
    }
}

fn full(text: &'static str) -> Error {
    Error::new(Reason::Overloaded, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::user;

    fn reason(taken: Result<WatchPlace, Error>) -> Reason {
        taken.unwrap_err().reason()
    }

    #[test]
    fn one_user_leaves_places_to_others() {
        let places = WatchPlaces::new(8, 2);
        let mut held = vec![places.take(Some(user(1))).unwrap(), places.take(Some(user(1))).unwrap()];
        assert_eq!(reason(places.take(Some(user(1)))), Reason::TooManyReceivers);
        held.push(places.take(Some(user(2))).unwrap());
        drop(held.remove(0));
        held.push(places.take(Some(user(1))).unwrap());
        drop(held);
        assert!(places.taken.lock().by_user.is_empty());
    }

    #[test]
    fn users_leave_a_quarter_to_services() {
        let places = WatchPlaces::new(8, 2);
        let users: Vec<_> = (1..=6).map(|id| places.take(Some(user(id))).unwrap()).collect();
        assert_eq!(reason(places.take(Some(user(7)))), Reason::Overloaded);
        let services = [places.take(None).unwrap(), places.take(None).unwrap()];
        assert_eq!(reason(places.take(None)), Reason::Overloaded);
        drop((users, services));
        assert_eq!(places.taken.lock().all, 0);
    }
}
