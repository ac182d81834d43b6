//! Checks and repairs follows, their entries and their counts, on request.

mod scan_cursor;
mod store;
mod verify;
