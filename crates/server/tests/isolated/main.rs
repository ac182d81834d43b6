//! Tests that change what a process has only once, such as where its spans go: not with others in one executable.

#[path = "../it/edge/mod.rs"]
mod edge;
mod edge_traces;
