//! Chooses ports for servers that are started here.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use anyhow::{Result, bail};
use rand::Rng as _;

/// The range is below the ports that the kernel gives to programs that ask for any port: no connection or
/// listener in the tests takes them.
const PORTS: Range<u16> = 15_000..32_000;
const TRIES: usize = 100;

/// Returns different free ports. Another program may take a port before it is used; only passing the sockets
/// on would prevent that.
///
/// # Errors
/// Fails if a hundred attempts do not find that many.
pub(super) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    // All ports are held until the last is found, so that none is found twice.
    let held: Vec<(u16, TcpListener)> = rand::rng()
        .random_iter::<u16>()
        .map(|any| PORTS.start + any % (PORTS.end - PORTS.start))
        .take(TRIES)
        .filter_map(|port| {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|listener| (port, listener))
        })
        .take(COUNT)
        .collect();
    let ports: Vec<u16> = held.iter().map(|(port, _)| *port).collect();
    ports.try_into().or_else(|_| bail!("no {COUNT} free ports on the loopback"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_ports_are_the_same() {
        let ports = free_ports::<40>().unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 40);
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }
}
