//! Tests what an error says in its status and as one item's result.

use std::sync::Arc;

use tonic_types::StatusExt as _;

use super::*;

fn unavailable(outcome: Outcome) -> Error {
    let source = Arc::new(std::io::Error::other("away"));
    Error::store("message", &StoreError::Unavailable { outcome, source })
}

/// A single call's error, and the same error for one item.
fn metadata(error: Error) -> [Vec<(String, String)>; 2] {
    let of_item = error.to_result().metadata;
    let mut of_call: Vec<_> =
        Status::from(error).get_details_error_info().unwrap().metadata.into_iter().collect();
    of_call.sort();
    [of_call, of_item.into_iter().collect()]
}

fn outcome(text: &str) -> Vec<(String, String)> {
    vec![("outcome".to_owned(), text.to_owned())]
}

#[test]
fn item_error_equals_call_error() {
    for (error, expected) in [
        (unavailable(Outcome::Unknown), outcome("unknown")),
        (unavailable(Outcome::NotApplied), outcome("not_applied")),
        (Error::store("message", &StoreError::Overloaded), outcome("not_applied")),
        (Error::not_found("message"), Vec::new()),
        (
            Error::new(Reason::Muted, "the member is muted").with("until", "2000-01-01T00:00:00Z"),
            vec![("until".to_owned(), "2000-01-01T00:00:00Z".to_owned())],
        ),
    ] {
        assert_eq!(metadata(error), [expected.clone(), expected]);
    }
}

#[test]
fn full_store_may_be_asked_again() {
    let source = Arc::new(std::io::Error::other("full"));
    let error = Error::store("user", &StoreError::Full { source });
    assert_eq!(metadata(error.clone()), [outcome("not_applied"), outcome("not_applied")]);
    let details = Status::from(error).get_error_details();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(60)));
    assert!(Reason::StoreFull.entry().retry.to_string().starts_with("the same request after"));
}

#[test]
fn pushback_says_which_refusals_to_repeat() {
    let pushback = |error: Error| {
        let status = Status::from(error);
        status.metadata().get(PUSHBACK).map(|value| value.to_str().unwrap().to_owned())
    };
    let of = |reason| pushback(Error::new(reason, "no"));
    assert_eq!(of(Reason::Overloaded).as_deref(), Some("200"));
    assert_eq!(of(Reason::QuotaExceeded).as_deref(), Some("1000"));
    let later = Error::new(Reason::QuotaExceeded, "no").after(Duration::from_secs(20));
    assert_eq!(pushback(later).as_deref(), Some("-1"), "the caller must see it before its deadline");
    assert_eq!(of(Reason::StoreFull).as_deref(), Some("-1"));
    assert_eq!(of(Reason::MessageTooLarge).as_deref(), Some("-1"));
    assert_eq!(of(Reason::StoreUnavailable), None, "a client asks another node soon");
    assert_eq!(of(Reason::NotFound), None, "not repeated by its code");
}

#[test]
fn damaged_record_has_a_reason_and_is_counted() {
    let before = damage::count();
    let source = Arc::new(std::io::Error::other("malformed"));
    let error = Error::store("user", &StoreError::Corrupt { source });
    assert!(damage::count() > before);
    let status = Status::from(error);
    assert_eq!(
        (status.code(), status.message()),
        (Code::DataLoss, "the stored user cannot be read: it is damaged")
    );
    assert_eq!(status.get_details_error_info().unwrap().reason, "STORE_DAMAGED");
    assert!(status.get_error_details().retry_info().is_none(), "the same request fails again");
}
