use crate::tree::{text, tracked};

/// What turns an error into a status, and the command line, which is a client.
const MAY: [&str; 2] = ["crates/server/src/error/", "crates/server/src/cli/"];

#[test]
fn a_status_is_made_of_an_error_with_a_reason_and_nowhere_else() {
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
        file.starts_with("crates/server/src/") && !MAY.iter().any(|may| file.starts_with(may))
    };
    let files: Vec<_> = tracked(".rs").into_iter().filter(served).collect();
    assert!(files.len() > 40, "found only {}", files.len());
    for file in files {
        let text = text(&file);
        for call in &made {
            assert!(!text.contains(call), "{file}: {call} carries no reason; make it of an Error");
        }
    }
}
