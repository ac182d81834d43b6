//! The integration tests of store-sqlite in one executable: each is linked once.

mod backup;
mod conformance;
