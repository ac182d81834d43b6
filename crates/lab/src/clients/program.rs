//! The program of a client, which sends and reads, and prints a line for each answer.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use super::judge::Acknowledged;

/// How long a program may be built, until it prints its first line.
const BUILT_WITHIN: Duration = Duration::from_secs(20 * 60);
/// How long a program may run.
const RUNS_WITHIN: Duration = Duration::from_secs(30 * 60);

/// The program's orders, which it reads from its standard input.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Task {
    /// The nodes, as the program reaches them.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) chats: Vec<Chat>,
    /// How many messages each conversation gets.
    pub(super) messages: u64,
}

/// A direct conversation in which one user sends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Chat {
    pub(super) from: i64,
    pub(super) to: i64,
}

/// A line that the program prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Acknowledged(Acknowledged),
    /// A call has failed. The program makes it again.
    Failed {
        error: String,
    },
}

/// The lines that a program has printed.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) acknowledged: Vec<Acknowledged>,
    /// How many calls have failed, and the last error.
    pub(super) failed: u64,
    pub(super) last_error: Option<String>,
}

/// A program that runs. It ends with this value.
#[derive(Debug)]
pub(super) struct TrialProgram {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    printed: Printed,
}

impl TrialProgram {
    /// Starts the script of a client, which builds the program first, and waits for its first line.
    pub(super) async fn start(script: &Path, task: &Task) -> Result<Self> {
        let mut command = Command::new("bash");
        command.arg(script).env_remove("KITH_ADDR").env_remove("KITH_API_KEY_FILE").kill_on_drop(true);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = process.stdin.take().context("the input is a pipe")?;
        input.write_all(&serde_json::to_vec(task)?).await?;
        // The program reads up to the end.
        drop(input);
        let output = process.stdout.take().context("the output is a pipe")?;
        let mut program =
            Self { process, lines: BufReader::new(output).lines(), printed: Printed::default() };
        let first =
            timeout(BUILT_WITHIN, program.read()).await.context("the program is not built in time")?;
        ensure!(first?, "the program has printed nothing");
        Ok(program)
    }

    /// Reads until the program ends.
    pub(super) async fn end(mut self) -> Result<Printed> {
        let ending = async {
            while self.read().await? {}
            Ok::<_, anyhow::Error>(self.process.wait().await?)
        };
        let status = timeout(RUNS_WITHIN, ending).await.with_context(|| {
            format!("the program does not end within {} min", RUNS_WITHIN.as_secs() / 60)
        })??;
        ensure!(status.success(), "the program has ended with {status}");
        Ok(self.printed)
    }

    /// Reads a line. Returns false at the end.
    async fn read(&mut self) -> Result<bool> {
        let Some(line) = self.lines.next_line().await? else { return Ok(false) };
        match serde_json::from_str(&line).with_context(|| format!("the program has printed {line:?}"))? {
            Line::Acknowledged(message) => self.printed.acknowledged.push(message),
            Line::Failed { error } => {
                self.printed.failed += 1;
                self.printed.last_error = Some(error);
            }
        }
        Ok(true)
    }
}
