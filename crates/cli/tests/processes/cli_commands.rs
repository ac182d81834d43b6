//! The commands of an operator as processes, against real nodes: what they print, where, and the codes they
//! end with.

#![cfg(feature = "embedded")]
