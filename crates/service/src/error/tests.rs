//! Tests of what an error says in its status and as the result of one item.

use std::sync::Arc;

use tonic_types::StatusExt as _;

use super::*;

fn unavailable(outcome: Outcome) -> Error {
    let source = Arc::new(std::io::Error::other("away"));
    Error::store("message", &StoreError::Unavailable { outcome, source })
}

/// The error of a single call, and the same error of one item.
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
