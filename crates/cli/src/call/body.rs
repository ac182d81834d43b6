//! Reads requests from JSON.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use anyhow::{Context as _, Result, anyhow, bail};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use kith_server::json;

/// The largest request text. A node's limit is far lower.
const BYTES_MAX: u64 = 16 << 20;
/// How many stream messages are read ahead.
const AHEAD: usize = 16;

/// Reads the single message in `given`: JSON, `-` or `@FILE`. Fails if it cannot be read, or is not JSON for
/// this message.
pub(super) fn read_one(message: &MessageDescriptor, given: &str) -> Result<DynamicMessage> {
    let Some((mut source, name)) = open_source(given)? else {
        return parse(message, given.as_bytes()).map_err(|why| anyhow!(why));
    };
    let mut text = Vec::new();
    let read = source.by_ref().take(BYTES_MAX + 1).read_to_end(&mut text);
    let read = read.with_context(|| format!("could not read {name}"))?;
    if u64::try_from(read).unwrap_or(u64::MAX) > BYTES_MAX {
        bail!("{name} is larger than {} MiB", BYTES_MAX >> 20);
    }
    parse(message, &text).map_err(|why| anyhow!("{name}: {why}"))
}

/// Reads the messages in `given`, one in each line, while they are sent. The second value is the reason why
/// reading broke off; it does not return unless reading breaks off. Fails when `given` cannot be opened.
pub(super) fn read_lines(
    message: MessageDescriptor,
    given: &str,
) -> Result<(ReceiverStream<DynamicMessage>, impl Future<Output = anyhow::Error>)> {
    let (source, name) = match open_source(given)? {
        Some(source) => source,
        None => (Box::new(io::Cursor::new(given.to_owned())) as BodySource, "the body".to_owned()),
    };
    let (messages, receiver) = mpsc::channel(AHEAD);
    let (fail, failed) = oneshot::channel();
    // Standard input needs its own thread: it cannot be read without blocking.
    std::thread::spawn(move || {
        if let Err(why) = send_messages(source, &message, &messages) {
            // The call may have ended.
            fail.send(why.context(name)).ok();
        }
        // This drop comes last: the messages must not seem complete before the failure is seen.
        drop(messages);
    });
    let failed = async {
        match failed.await {
            Ok(why) => why,
            Err(_) => std::future::pending().await,
        }
    };
    Ok((ReceiverStream::new(receiver), failed))
}

type BodySource = Box<dyn BufRead + Send>;

/// Opens a body's source. `None`: the text itself is the body.
fn open_source(given: &str) -> Result<Option<(BodySource, String)>> {
    Ok(match given.strip_prefix('@') {
        Some(file) => {
            let opened = File::open(Path::new(file)).with_context(|| format!("could not read {file}"))?;
            Some((Box::new(BufReader::new(opened)), file.to_owned()))
        }
        None if given == "-" => Some((Box::new(BufReader::new(io::stdin())), "standard input".to_owned())),
        None => None,
    })
}

fn send_messages(
    mut source: BodySource,
    message: &MessageDescriptor,
    to: &mpsc::Sender<DynamicMessage>,
) -> Result<()> {
    let mut number = 0_u64;
    loop {
        let mut line = Vec::new();
        number += 1;
        if source.by_ref().take(BYTES_MAX + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if u64::try_from(line.len()).unwrap_or(u64::MAX) > BYTES_MAX {
            bail!("line {number} is larger than {} MiB", BYTES_MAX >> 20);
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed = parse(message, &line).map_err(|why| anyhow!("line {number}: {why}"))?;
        if to.blocking_send(parsed).is_err() {
            return Ok(());
        }
    }
}

/// Decodes a whole text as a message, as a node reads JSON over HTTP.
fn parse(message: &MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, String> {
    json::message(message, text).map_err(|status| status.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::methods::Methods;

    fn refused(text: &str) -> String {
        let method = Methods::built_in().unwrap().find("CreateUser").unwrap();
        read_one(&method.input(), text).unwrap_err().to_string()
    }

    #[test]
    fn wrong_body_is_refused_with_its_field() {
        for (text, words) in [
            (r#"{"usr":{}}"#, "usr is no field of CreateUserRequest; did you mean user?"),
            (r#"{"user":{"usrName":"a"}}"#, "user.usrName is no field of User; did you mean userName?"),
            (r#"{"user":{"age":"x"}}"#, "user.age must be a whole number of 32 bits"),
            (r#"{"user":{}} x"#, "the body is not JSON: trailing characters at line 1"),
            (r#"{"user":"#, "the body is not JSON: EOF"),
            ("", "the body is empty"),
            ("[]", "the body must be a JSON object"),
        ] {
            let error = refused(text);
            assert!(error.starts_with(words), "{text}: {error}");
        }
        assert!(refused("@absent.json").starts_with("could not read absent.json"));
    }
}
