//! The names that a call's security event has, and the edge cannot see, because it does not read messages.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use kith_store::RequestId;
use tonic::Request;

/// Longest namespace that is named.
const NAMESPACE_MAX: usize = 32;

/// The edge puts it into the extensions of requests whose calls are security events, and their handlers fill
/// it. Ids alone: no names, texts or keys. Clones share what is noted.
#[derive(Clone, Debug, Default)]
pub struct AuditNotes(Arc<AuditFields>);

#[derive(Debug, Default)]
struct AuditFields {
    object: OnceLock<String>,
    user: OnceLock<i64>,
    request_id: OnceLock<String>,
    records: AtomicU64,
}

impl AuditNotes {
    /// The request's notes. Notes on a call that is no security event are dropped.
    #[must_use]
    pub fn of<T>(request: &Request<T>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    /// Names the record by its kind and id, as the caller sent it. The first one counts.
    pub fn note_id(&self, kind: &str, id: i64) {
        self.0.object.get_or_init(|| format!("{kind}/{id}"));
    }

    /// Names the record by a copy's key, such as `user/7`. If a key contains more than numbers, only its
    /// namespace is noted: it may be a user's name.
    pub fn note_key(&self, key: &str) {
        let (namespace, rest) = key.split_once('/').unwrap_or((key, ""));
        if namespace.is_empty()
            || namespace.len() > NAMESPACE_MAX
            || !namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            return;
        }
        let numbers = rest.bytes().all(|byte| byte.is_ascii_digit() || b"/:-".contains(&byte));
        let object = if numbers && rest.len() <= NAMESPACE_MAX { key } else { namespace };
        self.0.object.get_or_init(|| object.to_owned());
    }

    /// Names the user who gets another role.
    pub fn note_user(&self, id: i64) {
        self.0.user.get_or_init(|| id);
    }

    /// Names the request, unless its id is none that a request may have.
    pub fn note_request(&self, id: &str) {
        if let Ok(id) = id.parse::<RequestId>() {
            self.0.request_id.get_or_init(|| id.as_str().to_owned());
        }
    }

    /// Counts records that an import has answered or an export has read.
    pub fn add_records(&self, records: usize) {
        self.0.records.fetch_add(records.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The record that the call is about.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        self.0.object.get().map(String::as_str)
    }

    /// The user who gets another role.
    #[must_use]
    pub fn user(&self) -> Option<i64> {
        self.0.user.get().copied()
    }

    /// The id that the caller gave its request.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.get().map(String::as_str)
    }

    /// How many records were counted so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.0.records.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_copies_are_noted_without_names() {
        for (key, object) in [
            ("user/7", Some("user/7")),
            ("member/7/-8", Some("member/7/-8")),
            ("user", Some("user")),
            ("user_name/ann", Some("user_name")),
            ("user/7 ann@example.org", Some("user")),
            ("ann@example.org", None),
            ("Ann/7", None),
            ("", None),
        ] {
            let notes = AuditNotes::default();
            notes.note_key(key);
            assert_eq!(notes.object(), object, "{key}");
        }
    }

    #[test]
    fn only_ids_that_a_request_may_have_are_noted() {
        let notes = AuditNotes::default();
        notes.note_request("ann@example.org says\n");
        assert_eq!(notes.request_id(), None);
        notes.note_request("order-7");
        assert_eq!(notes.request_id(), Some("order-7"));
    }

    #[test]
    fn notes_are_shared_with_the_edge() {
        let notes = AuditNotes::default();
        let mut request = Request::new(());
        request.extensions_mut().insert(notes.clone());
        AuditNotes::of(&request).note_id("group", 7);
        AuditNotes::of(&request).add_records(2);
        assert_eq!((notes.object(), notes.records()), (Some("group/7"), 2));
        AuditNotes::of(&Request::new(())).add_records(5);
        assert_eq!(notes.records(), 2);
    }
}
