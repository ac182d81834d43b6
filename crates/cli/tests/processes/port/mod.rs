//! Ports for the servers of a test.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

/// Below those that the kernel gives to connections: nobody takes one of a server that is away.
const PORTS: Range<u16> = 15_000..32_000;

/// Nobody listens there, for now.
pub(crate) fn free() -> u16 {
    std::iter::repeat_with(|| rand::random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("it tries until one is free")
}
