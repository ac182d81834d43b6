//! Finds out which process serves a port on this machine.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};

/// The tables with TCP sockets.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state for a socket that listens.
const LISTENS: &str = "0A";

/// The process that listens on a port.
///
/// # Errors
/// When none does that this user may look at, or when it only passes on to a container, whose time it does
/// not show.
pub fn listener(port: u16) -> Result<u32> {
    // A machine may have no IPv6.
    let tables = TABLES.map(|table| fs::read_to_string(table).unwrap_or_default());
    let inodes = tables.iter().flat_map(|table| listening(table, port));
    let sockets: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if has_one(&entry.path().join("fd"), &sockets) {
            let name = fs::read_to_string(entry.path().join("comm"))?;
            ensure!(!name.starts_with("docker"), "the server at port {port} is in a container");
            return Ok(process);
        }
    }
    bail!("no process is seen that listens on port {port}")
}

/// The port that a server address names last, as in `mongodb://user@host:27017/?replicaSet=rs0` and
/// `host:9042`.
///
/// # Errors
/// When it names none, or several servers.
pub fn port_of(address: &str) -> Result<u16> {
    let behind_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    let hosts = behind_scheme.split(['/', '?']).next().unwrap_or_default();
    let host = hosts.rsplit_once('@').map_or(hosts, |(_, host)| host);
    ensure!(!host.contains(','), "an address names several servers");
    let port = host.rsplit_once(':').context("an address names no port")?.1;
    port.parse().context("an address names no port")
}

/// The sockets in a table that listen on a port.
fn listening(table: &str, port: u16) -> Vec<&str> {
    let of_port = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let is_port = local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        is_port && fields.nth(1) == Some(LISTENS)
    };
    table.lines().filter(of_port).filter_map(|line| line.split_whitespace().nth(9)).collect()
}

/// Whether a folder with open files has any of these sockets. A folder that may not be read has none.
fn has_one(files: &Path, sockets: &[String]) -> bool {
    fs::read_dir(files).into_iter().flatten().flatten().any(|file| {
        fs::read_link(file.path()).is_ok_and(|link| sockets.iter().any(|socket| link == Path::new(socket)))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn listener_is_found_by_its_port() {
        let listens = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listens.local_addr().unwrap().port();
        assert_eq!(listener(port).unwrap(), std::process::id());
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let ours = client.local_addr().unwrap().port();
        assert!(listener(ours).is_err(), "a connection is not a listener");
    }

    #[test]
    fn table_lists_sockets_that_listen_on_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:6995 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   \
            1: 0100007F:6995 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 0 10 -1\n   \
            2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n";
        assert_eq!(listening(table, 0x6995), ["4711"]);
    }

    #[test]
    fn port_is_read_from_addresses() {
        let of = |address| port_of(address).unwrap();
        assert_eq!(of("mongodb://a:b@127.0.0.1:23057/?replicaSet=rs0"), 23_057);
        assert_eq!((of("redis://127.0.0.1:25485"), of("[::1]:9042")), (25_485, 9_042));
        assert!(port_of("mongodb://a:1,b:2/").is_err() && port_of("redis://host").is_err());
    }
}
