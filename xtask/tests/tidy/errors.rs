use crate::tree::{text, tracked};

/// The only folder that turns an error into a status. The command line is a client and serves nothing.
const MAY: &str = "crates/service/src/error/";

#[test]
fn status_is_made_only_of_error_with_reason() {
    let made = ["Status::new(", "Status::with_details(", "Status::with_error_details("];
    let codes = [
        "cancelled",
        "unknown",
        "invalid_argument",
        "deadline_exceeded",
        "not_found",
        "already_exists",
        "permission_denied",
        "resource_exhausted",
        "failed_precondition",
        "aborted",
        "out_of_range",
        "unimplemented",
        "internal",
        "unavailable",
        "data_loss",
        "unauthenticated",
    ];
    let made: Vec<_> =
        made.map(str::to_owned).into_iter().chain(codes.map(|code| format!("Status::{code}("))).collect();
    let served = |file: &String| {
        let is_served =
            ["crates/server/src/", "crates/service/src/"].iter().any(|folder| file.starts_with(folder));
        is_served && !file.starts_with(MAY)
    };
    let files: Vec<_> = tracked(".rs").into_iter().filter(served).collect();
    assert!(files.len() > 40, "found only {}", files.len());
    for file in files {
        let text = text(&file);
        for call in &made {
            assert!(!is_called(&text, call), "{file}: {call} carries no reason; make it of an Error");
        }
    }
}

#[test]
fn a_status_of_another_type_is_not_found() {
    for text in ["Status::new(", "Err(tonic::Status::new(Code::Ok, \"\"))"] {
        assert!(is_called(text, "Status::new("), "{text}");
    }
    assert!(!is_called("NodeStatus::new(health)", "Status::new("));
}

fn is_called(text: &str, call: &str) -> bool {
    text.match_indices(call).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}
