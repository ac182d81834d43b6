//! Applications: friend requests, requests to join a group, and invites. All applications to one receiver are
//! in one partition, so that one conditional write decides, counts what is pending, and keeps the answers to
//! requests.

mod list;
mod pending_effects;
mod row;
mod store;
mod unconfigured;
mod write;
