//! Runs the demo as a process, over data that outlive it.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::spawned::KilledOnDrop;

/// A demo that is killed when dropped.
pub(crate) struct Demo {
    pub(crate) url: String,
    port: u16,
    folder: TempDir,
    process: Option<KilledOnDrop>,
}

impl Demo {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (url, folder) = (format!("http://127.0.0.1:{port}/demo"), tempfile::tempdir().unwrap());
        let mut demo = Self { url, port, folder, process: None };
        demo.start_again();
        demo
    }

    /// Starts it, and waits until it prints its page's address.
    pub(crate) fn start_again(&mut self) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kith"))
            .args(["demo", "--no-browser", "--silent", "--output", "json", "--data-dir", "kept"])
            .args(["--port", &self.port.to_string()])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(&self.url), "{line}");
        self.process = Some(KilledOnDrop(process));
    }

    /// Kills it without a warning.
    pub(crate) fn kill(&mut self) {
        drop(self.process.take());
    }
}
