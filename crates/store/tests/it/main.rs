//! The integration tests of store in one executable: each is linked once.

mod any_text;
mod conformance_lists;
