//! Scripts of others on a real server: which bytes reach them, and whose answers count.

use std::sync::Mutex;

use bytes::Bytes;
use kith_cache::remote::{
    SharedError,
    redis::{RedisOptions, RedisScript, Reply, ScriptCall, ScriptRunner},
};

use crate::stage::{address, eventually, options};

/// Returns its argument.
fn echo() -> RedisScript {
    RedisScript::new("return ARGV[1]")
}

fn call<'a>(script: &'a RedisScript, runner: &ScriptRunner, argument: &Bytes) -> ScriptCall<'a> {
    ScriptCall::new(script, vec![format!("{{{}}}:echo", runner.tag())], [argument.clone()])
}

async fn connected(script_pool: usize) -> ScriptRunner {
    ScriptRunner::connect(RedisOptions { script_pool, ..options(&address()) }).await.unwrap()
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn scripts_get_any_bytes_over_every_connection() {
    let (runner, script) = (connected(3).await, echo());
    for argument in (0..=255_u8).map(|byte| Bytes::from(vec![byte, 0, byte])) {
        let answers = runner.run(&[call(&script, &runner, &argument)]).await;
        assert_eq!(answers, [Ok(Reply::Text(argument))]);
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn only_an_accepted_server_runs_a_script() {
    let (runner, script) = (connected(2).await, echo());
    let calls = [call(&script, &runner, &Bytes::from_static(b"x"))];
    let answered = [Ok(Reply::Text(Bytes::from_static(b"x")))];
    // A busy machine may need a moment to connect.
    for _ in 0..2 {
        eventually("a connection runs it", async || runner.run(&calls).await == answered).await;
    }
    let name = Mutex::new(String::new());
    let refuse = |server: &str| {
        server.clone_into(&mut name.lock().unwrap());
        false
    };
    // More often than the breaker takes failures: a server that is not accepted is none.
    for _ in 0..10 {
        assert_eq!(runner.run_accepted(&calls, refuse).await, [Err(SharedError::Unavailable)]);
    }
    let name = name.lock().unwrap().clone();
    assert_eq!(runner.run_accepted(&calls, |server| server == name).await, answered);
    assert_eq!(runner.run(&calls).await, answered, "any server");
}
