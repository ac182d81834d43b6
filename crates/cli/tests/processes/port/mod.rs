//! Reserves ports for a test's servers.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

/// The range is below the ports that the kernel gives to connections: no connection takes the port of a
/// server that is down.
const PORTS: Range<u16> = 15_000..32_000;

/// Returns a port that is unused for now.
pub(crate) fn free() -> u16 {
    std::iter::repeat_with(|| rand::random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("it tries until one is free")
}
