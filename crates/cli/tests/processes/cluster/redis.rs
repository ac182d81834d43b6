//! A test's own Redis, which it may stop.

use std::{
    net::{Ipv4Addr, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};

use crate::{
    polls::until,
    spawned::{KilledOnDrop, signal},
};

/// A server that ends with the test.
pub(crate) struct Redis {
    port: u16,
    arguments: Vec<String>,
    process: Option<KilledOnDrop>,
}

impl Redis {
    /// Reserves a free port for a server that does not run yet. `arguments`: words in its configuration.
    pub(crate) fn absent(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Self { port: crate::port::free(), arguments, process: None }
    }

    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut redis = Self::absent(arguments);
        redis.run().await;
        redis
    }

    /// Runs an empty server on its port.
    pub(crate) async fn run(&mut self) {
        let port = self.port.to_string();
        let named = std::env::vars().find(|(name, _)| name == "KITH_TEST_REDIS_SERVER");
        let mut command = Command::new(named.map_or_else(|| "redis-server".to_owned(), |(_, path)| path));
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("these tests need redis-server on the path");
        self.process = Some(KilledOnDrop(process));
        let address = (Ipv4Addr::LOCALHOST, self.port);
        until(Duration::from_secs(10), async || TcpStream::connect(address).is_ok()).await;
    }

    /// Kills the server, as if its machine were gone.
    pub(crate) fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Sends a signal, such as `-STOP`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.process.as_ref().unwrap().0.id(), name);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// Receives all commands that clients send to a Redis.
pub(crate) struct Monitor {
    url: String,
    lines: Lines<BufReader<tokio::net::TcpStream>>,
    taken: u64,
}

impl Monitor {
    /// Receives the commands from now on.
    pub(crate) async fn start(url: &str) -> Self {
        let mut socket = tokio::net::TcpStream::connect(url.strip_prefix("redis://").unwrap()).await.unwrap();
        socket.write_all(b"MONITOR\r\n").await.unwrap();
        let mut lines = BufReader::new(socket).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("+OK"));
        Self { url: url.to_owned(), lines, taken: 0 }
    }

    /// Returns the commands since the last time, without commands that scripts call.
    pub(crate) async fn take(&mut self) -> Vec<String> {
        self.taken += 1;
        let end = format!("taken-{}", self.taken);
        ask(&self.url, &format!("ECHO {end}")).await;
        let mut commands = Vec::new();
        loop {
            let line = self.lines.next_line().await.unwrap().expect("Redis goes on");
            if line.contains(&end) {
                return commands;
            }
            // Script commands and the previous look's last command do not count.
            if !line.contains(" lua] ") && !line.ends_with("\"QUIT\"") {
                commands.push(line);
            }
        }
    }
}

/// Returns the answer that the Redis at this address gives to a line, as an operator types it; an answer with
/// several lines loses its newlines.
pub(crate) async fn ask(url: &str, line: &str) -> String {
    let address = url.strip_prefix("redis://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    // The last answer belongs to QUIT.
    let lines: Vec<&str> = answer.trim_end().split("\r\n").collect();
    lines[..lines.len() - 1].join(" ")
}

/// Returns the id of the database whose nodes use this prefix.
pub(crate) async fn database_id(url: &str, prefix: &str) -> u64 {
    let answer = ask(url, &format!("GET {{{prefix}:database}}")).await;
    u64::from_str_radix(&answer.split(' ').nth(1).unwrap()[..16], 16).unwrap()
}
