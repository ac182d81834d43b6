//! The program that listens on a port, as far as it is visible to this user.

use std::{
    fs,
    time::{Duration, Instant},
};

/// Time limit for the search: a machine can have very many processes, and the start fails anyway.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// `TCP_LISTEN` in the system's tables.
const LISTEN: &str = "0A";

/// Name and process of a program that listens on the port; `None` without `/proc`, or if the process belongs
/// to another user.
pub(super) fn of(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> =
        tables.iter().flat_map(|table| table.lines().filter_map(|line| socket(line, port))).collect();
    let begun = Instant::now();
    let mut processes = fs::read_dir("/proc").ok()?.flatten().take_while(|_| begun.elapsed() < LOOK_MAX);
    processes.find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        files.find(|file| {
            fs::read_link(file.path())
                .is_ok_and(|to| sockets.iter().any(|one| to.as_os_str() == one.as_str()))
        })?;
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!("{} (pid {pid})", name.trim()))
    })
}

/// The socket in a table line, in the form that a process's files have.
fn socket(line: &str, port: u16) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    let listens = fields.get(3) == Some(&LISTEN) && u16::from_str_radix(local, 16) == Ok(port);
    listens.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_names_its_socket() {
        let line = "   2: 0100007F:1DB0 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1";
        assert_eq!(socket(line, 7600).as_deref(), Some("socket:[4242]"));
        assert_eq!(socket(line, 7601), None);
        assert_eq!(socket(&line.replace(" 0A ", " 01 "), 7600), None, "a connection");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_holder_of_a_port_is_found() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        // A search is limited in time, and a busy machine may need a second search.
        let found = (0..20).find_map(|_| of(port)).unwrap();
        assert!(found.ends_with(&format!("(pid {})", std::process::id())), "{found}");
    }
}
