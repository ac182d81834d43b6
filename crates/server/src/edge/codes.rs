//! The names of gRPC codes.

use tonic::Code;

/// Every code's name, by its number.
pub(super) const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The name of a gRPC code, as the protocol writes it.
pub fn code_name(code: Code) -> &'static str {
    usize::try_from(i32::from(code)).ok().and_then(|at| CODES.get(at)).copied().unwrap_or("UNKNOWN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_named_by_their_number() {
        assert_eq!(CODES[Code::Unauthenticated as usize], "UNAUTHENTICATED");
        assert_eq!(CODES[Code::OutOfRange as usize], "OUT_OF_RANGE");
    }
}
