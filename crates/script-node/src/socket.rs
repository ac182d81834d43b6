//! The script of one socket.

use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role},
    },
};

use crate::{case::Line, run::Run};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Plays the lines of an entry on a socket.
pub(crate) async fn play(upgraded: Upgraded, run: &Run, index: usize) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let Some(slot) = run.slot(index) else { return };
    let mut ids = BTreeMap::new();
    for (number, line) in slot.entry.socket.iter().enumerate() {
        let step = step(&mut socket, run, line, &mut ids).await;
        if let Err(what) = step {
            return run.wrong(format!("entry {}, line {}: {what}", index + 1, number + 1));
        }
    }
}

async fn step(
    socket: &mut Socket,
    run: &Run,
    line: &Line,
    ids: &mut BTreeMap<String, Value>,
) -> Result<(), String> {
    if let Some(expected) = &line.r#in {
        let frame = next_frame(socket, run).await.ok_or("the socket was closed before this frame")?;
        check(run, line, expected, &frame)?;
        if let Some(name) = &line.r#as {
            ids.insert(name.clone(), frame["id"].clone());
            run.keep_frame(name, frame["body"].clone());
        }
    } else if let Some(frame) = &line.out {
        let mut frame = frame.clone();
        if let Some(name) = &line.to {
            frame.insert("id".to_owned(), ids.get(name).cloned().unwrap_or_default());
        }
        send(socket, &Value::Object(frame)).await;
    } else if let Some(code) = line.close {
        drop(socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await);
        while next_frame(socket, run).await.is_some() {}
    } else if line.open {
        if let Some(frame) = next_frame(socket, run).await {
            return Err(format!("a frame came that is not expected: {frame}"));
        }
    } else if !line.lost {
        return Err("has none of in, out, close, lost and open".to_owned());
    }
    Ok(())
}

/// The next frame that is part of the script; `None` if the client has gone.
async fn next_frame(socket: &mut Socket, run: &Run) -> Option<Value> {
    loop {
        let text = match socket.next().await?.ok()? {
            Message::Text(text) => text,
            Message::Close(_) => return None,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        let frame: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({"not_json": text.as_str()}));
        let is_scripted = frame["call"].as_str().is_none_or(|call| run.names_call(call));
        if is_scripted {
            return Some(frame);
        }
        send(socket, &json!({"id": frame["id"], "answer": {}})).await;
    }
}

/// A client that has gone is noticed at its next frame.
async fn send(socket: &mut Socket, frame: &Value) {
    drop(socket.send(Message::text(frame.to_string())).await);
}

fn check(run: &Run, line: &Line, expected: &Map<String, Value>, frame: &Value) -> Result<(), String> {
    if !contains(frame, &Value::Object(expected.clone())) {
        return Err(format!("the frame is {}, expected {}", shown(frame), Value::Object(expected.clone())));
    }
    let fields = [frame, &frame["hello"], &frame["renew"], &frame["body"]];
    if let Some(name) =
        line.without.iter().find(|name| fields.iter().any(|part| part.get(name.as_str()).is_some()))
    {
        return Err(format!("{name} is there"));
    }
    match line.same_as.as_ref().map(|name| (name, run.frame(name))) {
        Some((name, body)) if body.as_ref() != frame.get("body") => {
            Err(format!("the body is not that of {name}"))
        }
        _ => Ok(()),
    }
}

fn shown(frame: &Value) -> String {
    frame.to_string().chars().take(1_000).collect()
}

/// Whether a value has everything that is expected, with the same values. Lists are equal, and numbers equal
/// their text.
fn contains(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| contains(found, expected))
        }
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
            *text == number.to_string()
        }
        (found, expected) => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_may_have_more_than_expected() {
        let frame =
            json!({"id": 3, "call": "MarkRead", "body": {"upTo": "7", "ranges": [{"first": 1, "last": 2}]}});
        for expected in [
            json!({"call": "MarkRead"}),
            json!({"body": {"upTo": 7}}),
            json!({"body": {"ranges": [{"first": 1}]}}),
        ] {
            assert!(contains(&frame, &expected), "{expected}");
        }
        for expected in [json!({"call": "x"}), json!({"body": {"ranges": []}}), json!({"other": null})] {
            assert!(!contains(&frame, &expected), "{expected}");
        }
    }
}
