//! Records and writes that the cases start from.

use std::{collections::BTreeMap, fmt::Debug};

use tokio::task::JoinSet;

use crate::{
    Applied, Email, Gender, Group, GroupId, GroupType, JoinPolicy, NewGroup, NewUser, Params, ParamsPatch,
    Phone, ReceiptVisibility, Request, SecretChange, StoreError, Stored, StoredSecret, Stores, Text,
    Timestamp, User, UserId, UserName, Version, Visibility, Write,
};

/// Asserts that a call fails with this error.
macro_rules! assert_fails {
    ($result:expr, $error:pat) => {
        let error = $result.unwrap_err();
        assert!(matches!(error, $error), "{error:?}");
    };
}
pub(super) use assert_fails;

pub fn user_id(number: i64) -> UserId {
    UserId::new(number).unwrap()
}

pub fn group_id(number: i64) -> GroupId {
    GroupId::new(number).unwrap()
}

pub(super) fn name(text: &str) -> UserName {
    UserName::new(text).unwrap()
}

pub fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

/// A user with a name and nothing else.
pub fn bare_user(id: i64, user_name: &str) -> NewUser {
    NewUser {
        id: user_id(id),
        user_name: name(user_name),
        nick_name: Text::default(),
        email: None,
        phone: None,
        gender: Gender::Unspecified,
        age: 0,
        region: Text::default(),
        icon: Text::default(),
        params: Params::default(),
        secrets: SecretChange::new(),
    }
}

/// A user with a value in every field, and the secret `password`.
pub(super) fn full_user(id: i64) -> NewUser {
    NewUser {
        id: user_id(id),
        user_name: name(&format!("Žofie-{id}")),
        nick_name: "'; DROP TABLE users;-- \u{1F600}".into(),
        email: Some(Email::new(&format!("Ann.{id}@Example.org")).unwrap()),
        phone: Some(Phone::new(&format!("+1555{:07}", id % 10_000_000)).unwrap()),
        gender: Gender::Other,
        age: 255,
        region: "東京".into(),
        icon: "https://example.org/a?b=1&c=%20".into(),
        params: params(&[("theme", "dark"), ("level", "3"), ("empty", "")]),
        secrets: secrets(&[("password", Some("sealed-1"))]),
    }
}

/// A public group with a name and nothing else.
pub fn bare_group(id: i64, name: &str) -> NewGroup {
    NewGroup {
        id: group_id(id),
        name: name.into(),
        icon: Text::default(),
        tags: Vec::new(),
        kind: GroupType::Chat,
        visibility: Visibility::Public,
        join_policy: JoinPolicy::Open,
        history_for_new_members: false,
        receipts: None,
        params: Params::default(),
        creator: None,
        secrets: SecretChange::new(),
    }
}

/// A group with a value in every field, and the secret `code`.
pub(super) fn full_group(id: i64) -> NewGroup {
    NewGroup {
        id: group_id(id),
        name: format!("Chess $where {id}").into(),
        icon: "https://example.org/g?a=1&b=%20".into(),
        tags: tags(&["Schach", "a:b{c}*?", "' OR 1=1"]),
        kind: GroupType::Channel,
        visibility: Visibility::Public,
        join_policy: JoinPolicy::Code,
        history_for_new_members: true,
        receipts: Some(ReceiptVisibility::Members),
        params: params(&[("color", "red"), ("level", "3")]),
        creator: Some(user_id(77)),
        secrets: secrets(&[("code", Some("sealed-1"))]),
    }
}

pub fn tags(words: &[&str]) -> Vec<Text> {
    words.iter().copied().map(Text::from).collect()
}

pub(super) fn params(pairs: &[(&str, &str)]) -> Params {
    Params::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()).unwrap()
}

pub(super) fn setting(pairs: &[(&str, &str)]) -> ParamsPatch {
    ParamsPatch { set: params(pairs), ..ParamsPatch::default() }
}

/// Parameters whose keys and values have this many bytes together, in values with at most 30,000.
pub(super) fn params_of(bytes: usize) -> Params {
    let mut map = BTreeMap::new();
    let mut rest = bytes;
    while rest > 0 {
        let taken = rest.min(30_000);
        map.insert(format!("k{:03}", map.len()), "v".repeat(taken.saturating_sub(4)));
        rest -= taken;
    }
    Params::new(map).unwrap()
}

pub(super) fn secrets(changes: &[(&str, Option<&str>)]) -> SecretChange {
    let sealed = |text: &str| StoredSecret::new(text.to_owned());
    changes.iter().map(|(name, change)| ((*name).to_owned(), change.map(sealed))).collect()
}

/// A write with no condition and no request id.
pub fn write() -> Write {
    Write::at(Timestamp::now())
}

pub(super) fn expecting(expected: i64) -> Write {
    Write { expected: Some(version(expected)), ..write() }
}

/// A write with this request id, whose method and body are represented by `fingerprint`.
pub fn requested(id: &str, fingerprint: u8) -> Write {
    let request = Request { id: id.parse().unwrap(), fingerprint: [fingerprint; 32] };
    Write { request: Some(request), ..write() }
}

pub(super) async fn create_user(stores: &Stores, user: NewUser) -> User {
    applied(stores.users.create_user(user, write()).await.unwrap())
}

/// Deletes a user and releases its id.
pub(super) async fn delete_and_release(stores: &Stores, id: i64, name_free_at: Timestamp) {
    let deletion = write();
    stores.users.delete_user(user_id(id), name_free_at, deletion.clone()).await.unwrap();
    stores.users.release_id(user_id(id), deletion.now).await.unwrap();
}

pub(super) async fn live_user(stores: &Stores, id: i64) -> User {
    stores.users.user(user_id(id)).await.unwrap().live().unwrap()
}

pub(super) async fn user_state(stores: &Stores, id: i64) -> Stored<User> {
    stores.users.user(user_id(id)).await.unwrap()
}

pub(super) async fn create_group(stores: &Stores, group: NewGroup) -> Group {
    applied(stores.groups.create_group(group, write()).await.unwrap())
}

pub(super) async fn live_group(stores: &Stores, id: i64) -> Group {
    stores.groups.group(group_id(id)).await.unwrap().live().unwrap()
}

/// The record that a write returned, which took effect just now.
pub(super) fn applied<T>(applied: Applied<T>) -> T {
    assert!(!applied.replayed, "a write with no earlier one was answered as a replay");
    applied.record
}

/// The record that a write returned, which an earlier write answered.
pub(super) fn replay<T: Debug>(result: Result<Applied<T>, StoreError>) -> T {
    let applied = result.unwrap();
    assert!(applied.replayed, "a second effect: {applied:?}");
    applied.record
}

/// The write was refused because its request id was used with another body.
pub(super) fn assert_mismatch<T: Debug>(result: Result<Applied<T>, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::RequestMismatch), "{error:?}");
}

/// The write was refused because the record's version is another.
pub(super) fn assert_stale<T: Debug>(result: Result<T, StoreError>, current: i64) {
    let error = result.unwrap_err();
    assert!(
        matches!(error, StoreError::Conflict { current: found } if found == version(current)),
        "{error:?}"
    );
}

/// Asserts that one call succeeded, and how the others failed. Returns its answer.
pub(super) fn one_wins<T>(results: Vec<Result<T, StoreError>>, lost: impl Fn(StoreError)) -> T {
    let (mut won, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    failed.into_iter().filter_map(Result::err).for_each(lost);
    won.pop().unwrap().unwrap()
}

/// A request that took effect, with what shows its effect.
pub(super) struct SentRequest<W, A, S, T> {
    request: W,
    ask: A,
    state: S,
    pub(super) answer: T,
}

impl<W, A, S, T> SentRequest<W, A, S, T>
where
    W: Fn(u8) -> Write,
    A: AsyncFn(Write) -> Result<Applied<T>, StoreError>,
    T: PartialEq + Debug,
{
    /// Sends a request for the first time, and repeats it. `request` takes what represents the body, and
    /// `state` returns what the request may change.
    pub(super) async fn send<Q: PartialEq + Debug>(request: W, ask: A, state: S) -> Self
    where
        S: AsyncFn() -> Q,
    {
        let answer = applied(ask(request(1)).await.unwrap());
        let sent = Self { request, ask, state, answer };
        sent.assert_kept().await;
        sent
    }

    /// Asserts that the repeated request has its first answer, that its id is refused with another body, and
    /// that neither has an effect.
    pub(super) async fn assert_kept<Q: PartialEq + Debug>(&self)
    where
        S: AsyncFn() -> Q,
    {
        let before = (self.state)().await;
        for _ in 0..2 {
            assert_eq!(replay((self.ask)((self.request)(1)).await), self.answer);
            assert_mismatch((self.ask)((self.request)(2)).await);
        }
        assert_eq!((self.state)().await, before);
    }
}

/// Asserts that one answer took effect, and that all are equal.
pub(super) fn one_effect<T: PartialEq + Debug>(results: Vec<Result<Applied<T>, StoreError>>) -> T {
    let answers: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    assert!(answers.iter().all(|answer| answer.record == answers[0].record), "{answers:?}");
    answers.into_iter().next().unwrap().record
}

/// Makes each item's call at once, each in a separate task over the stores.
pub(super) async fn each_at_once<T, F>(
    stores: &Stores,
    items: impl IntoIterator<Item = T>,
    call: impl Fn(Stores, T) -> F,
) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    at_once(items.into_iter().map(|item| call(stores.clone(), item))).await
}

/// Asserts that each page is as long as it may be, and that all pages together are `expected`. `page` returns
/// each entry with its position.
pub(super) async fn assert_pages<P: Copy>(
    expected: &[i64],
    page: impl AsyncFn(Option<P>, usize) -> Vec<(i64, P)>,
) {
    for limit in [1, 2, 3, 5, 9, 10, 11] {
        let (mut read, mut after) = (Vec::new(), None);
        loop {
            let page = page(after, limit).await;
            assert_eq!(page.len(), limit.min(expected.len() - read.len()), "{read:?} by {limit}");
            read.extend(page.iter().map(|(entry, _)| *entry));
            let Some((_, last)) = page.last() else { break };
            after = Some(*last);
        }
        assert_eq!(read, expected, "by {limit}");
    }
}

/// Runs the futures at once, each in a separate task.
pub(super) async fn at_once<F, T>(futures: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let mut tasks = JoinSet::new();
    for future in futures {
        tasks.spawn(future);
    }
    tasks.join_all().await
}
