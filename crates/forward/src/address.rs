//! Which addresses a receiver may have.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use async_trait::async_trait;

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// Those of the public internet.
    Public,
    /// All of them: the receiver is in the operator's own network.
    Any,
}

impl AddressRule {
    pub(crate) fn allows(self, ip: IpAddr) -> bool {
        self == Self::Any || is_public(ip)
    }
}

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns the addresses of a host, which may be an address itself.
    ///
    /// # Errors
    /// When the host has no address, or none is known now.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Asks the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// Returns whether an address is of the public internet. An IPv6 address that stands for an IPv4 address
/// (`::ffff:10.0.0.1`, `64:ff9b::10.0.0.1`) is public if that one is.
#[must_use]
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => match translated(ip) {
            Some(ip) => is_public_v4(ip),
            None => is_public_v6(ip),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let shared = |[a, b, c, _]: [u8; 4]| match (a, b) {
        // "This network", and everything reserved above multicast.
        (0 | 240..=255, _) => true,
        // Carrier-grade NAT, and tests of devices.
        (100, 64..=127) | (198, 18 | 19) => true,
        (192, 0) => c == 0,
        // 6to4 relays.
        (192, 88) => c == 99,
        _ => false,
    };
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || shared(ip.octets()))
}

/// Global unicast (2000::/3) without Teredo and its neighbours (2001::/23), documentation and 6to4.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let special = match a {
        0x2001 => b < 0x200 || b == 0xdb8,
        0x2002 => true,
        0x3fff => b < 0x1000,
        _ => false,
    };
    (0x2000..0x4000).contains(&a) && !special
}

fn translated(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, a, b] => Some(Ipv4Addr::from_bits(u32::from(a) << 16 | u32::from(b))),
        _ => ip.to_ipv4_mapped(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for ip in
            ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1", "::ffff:1.1.1.1", "64:ff9b::101:101"]
        {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "100::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn private_addresses_need_the_rule() {
        let ip = "127.0.0.1".parse().unwrap();
        assert!(AddressRule::Any.allows(ip) && !AddressRule::Public.allows(ip));
    }
}
