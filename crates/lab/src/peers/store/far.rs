//! A store for nodes in processes of their own: a line asks, a line answers.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use kith_cache::remote::Epochs as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::Store;

/// Longest line.
const LINE_MAX: u64 = 1_024;

/// Where the store of another process answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far(pub(super) SocketAddr);

impl Far {
    /// The version of a record, read as [`Store`] reads.
    pub(super) async fn version(self, key: u64) -> Result<u64> {
        Ok(self.ask(format!("load {key}")).await?.trim().parse()?)
    }

    pub(super) async fn epoch(self) -> Result<(u64, String)> {
        let answer = self.ask("epoch".to_owned()).await?;
        let (epoch, server) = answer.trim_end_matches('\n').split_once(' ').context("the answer is short")?;
        Ok((epoch.parse()?, server.to_owned()))
    }

    pub(super) async fn raise(self, seen: u64, server: &str) -> Result<u64> {
        Ok(self.ask(format!("raise {seen} {server}")).await?.trim().parse()?)
    }

    async fn ask(self, question: String) -> Result<String> {
        let mut stream = TcpStream::connect(self.0).await?;
        stream.write_all(format!("{question}\n").as_bytes()).await?;
        line(&mut stream).await
    }
}

/// Answers nodes elsewhere until it is dropped.
pub(super) async fn serve(store: Store, listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let store = store.clone();
        tokio::spawn(async move {
            // The caller gets no answer and gives up.
            drop(answer(&store, &mut stream).await);
        });
    }
}

async fn answer(store: &Store, stream: &mut TcpStream) -> Result<()> {
    let question = line(stream).await?;
    let mut words = question.trim_end_matches('\n').splitn(3, ' ');
    let (word, number, rest) = (words.next(), words.next().unwrap_or_default(), words.next());
    let answer = match word {
        Some("load") => store.read(number.parse()?).await.to_string(),
        Some("epoch") => {
            let (epoch, server) = store.current().await?;
            format!("{epoch} {server}")
        }
        Some("raise") => store.raise(number.parse()?, rest.unwrap_or_default()).await?.to_string(),
        Some(_) | None => return Ok(()),
    };
    stream.write_all(format!("{answer}\n").as_bytes()).await?;
    Ok(())
}

async fn line(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut line).await?;
    ensure!(line.ends_with('\n'), "the line has no end");
    Ok(line)
}
