//! Variables that Kubernetes sets in every pod for each Service in its namespace. For a Service named `kith`
//! or `kith-...` they have names that begin like the configuration's.

use std::net::{IpAddr, SocketAddr};

/// Whether Kubernetes sets a variable with this shape: `KITH_SERVICE_HOST`, `KITH_SERVICE_PORT`,
/// `KITH_SERVICE_PORT_GRPC`, `KITH_PORT`, `KITH_PORT_7600_TCP` and `KITH_PORT_7600_TCP_{PROTO,PORT,ADDR}`.
/// The value must have its shape too, so that `KITH_PORT=7600`, which a person writes, stays an error.
pub(super) fn is_service_link(name: &str, value: &str) -> bool {
    // `__` is between a section and its key.
    !name.contains("__") && (is_service(name, value) || is_port(name, value))
}

fn is_service(name: &str, value: &str) -> bool {
    if name.ends_with("_SERVICE_HOST") {
        return value.parse::<IpAddr>().is_ok();
    }
    let of_port = name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_");
    of_port && value.parse::<u16>().is_ok()
}

fn is_port(name: &str, value: &str) -> bool {
    if name.ends_with("_PORT") && is_url(value) {
        return true;
    }
    let Some((_, rest)) = name.rsplit_once("_PORT_") else { return false };
    let mut parts = rest.split('_');
    let (port, protocol, of) = (parts.next(), parts.next(), parts.next());
    let numbered = port.is_some_and(|port| port.parse::<u16>().is_ok());
    let known = protocol.is_some_and(|protocol| is_protocol(&protocol.to_lowercase()));
    numbered && known && parts.next().is_none() && is_part(of, port, value)
}

/// Whether the value is a port's URL, or the part that the name calls for.
fn is_part(of: Option<&str>, port: Option<&str>, value: &str) -> bool {
    match of {
        None => is_url(value),
        Some("PROTO") => is_protocol(value),
        Some("PORT") => port == Some(value),
        Some("ADDR") => value.parse::<IpAddr>().is_ok(),
        Some(_) => false,
    }
}

/// `tcp://10.0.0.1:7600`.
fn is_url(value: &str) -> bool {
    value
        .split_once("://")
        .is_some_and(|(protocol, address)| is_protocol(protocol) && address.parse::<SocketAddr>().is_ok())
}

fn is_protocol(text: &str) -> bool {
    ["tcp", "udp", "sctp"].contains(&text)
}

#[cfg(test)]
mod tests {
    use super::is_service_link;

    #[test]
    fn variables_of_services_are_recognised() {
        for (name, value) in [
            ("KITH_SERVICE_HOST", "10.0.0.1"),
            ("KITH_SERVICE_HOST", "fd00::1"),
            ("KITH_SERVICE_PORT", "7600"),
            ("KITH_SERVICE_PORT_GRPC", "7600"),
            ("KITH_PORT", "tcp://10.0.0.1:7600"),
            ("KITH_PORT", "tcp://[fd00::1]:7600"),
            ("KITH_PORT_7600_TCP", "tcp://10.0.0.1:7600"),
            ("KITH_PORT_7600_TCP_PROTO", "tcp"),
            ("KITH_PORT_7600_TCP_PORT", "7600"),
            ("KITH_PORT_7600_TCP_ADDR", "10.0.0.1"),
            ("KITH_PORT_53_UDP", "udp://10.0.0.1:53"),
            ("KITH_NODES_SERVICE_PORT_OPERATIONS", "7601"),
            ("KITH_NODES_PORT", "tcp://10.0.0.2:7601"),
            ("KITH_NODES_PORT_7601_TCP_ADDR", "10.0.0.2"),
        ] {
            assert!(is_service_link(name, value), "{name}={value}");
        }
    }

    #[test]
    fn values_of_another_shape_are_not() {
        for (name, value) in [
            ("KITH_PORT", "7600"),
            ("KITH_PORT", "http://10.0.0.1:7600"),
            ("KITH_PORT", "tcp://kith:7600"),
            ("KITH_SERVICE_HOST", "kith.example.org"),
            ("KITH_SERVICE_PORT", "grpc"),
            ("KITH_SERVICE_NAME", "kith"),
            ("KITH_PORT_7600_TCP_PORT", "7601"),
            ("KITH_PORT_7600_TCP_NAME", "tcp"),
            ("KITH_PORT_GRPC_TCP", "tcp://10.0.0.1:7600"),
            ("KITH_TELEMETRY__SERVICE_PORT", "7600"),
            ("KITH_LISTEN", "tcp://10.0.0.1:7600"),
        ] {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
