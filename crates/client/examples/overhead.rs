//! Measures the CPU time of a GetUser by the client over that of the bare stub, against the node at an
//! address, as `cargo xtask overhead` does. Prints the median of the ratios as one line of JSON.

use std::{env, fs, process, time::Duration};

use anyhow::{Context as _, Result};
use kith_client::{
    Client,
    proto::user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient},
};
use serde_json::json;
use tonic::{Request, Status, transport::Endpoint};

/// Rounds that count. Those of both are interleaved, so that a slower machine slows both.
const ROUNDS: usize = 61;
/// Rounds before them, in which connections are made and memory is found.
const WARM_UP: usize = 6;
const CALLS: usize = 400;

/// One thread: other threads of a runtime add the same to both, and hide the client's part.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = env::args().nth(1).context("usage: overhead ADDRESS")?;
    let mut client = UserServiceClient::new(Client::builder().address(&address).connect()?);
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    // Like the client's channel: what keeps a connection alive costs both the same.
    let endpoint = endpoint.connect_timeout(Duration::from_secs(5));
    let endpoint = endpoint.http2_keep_alive_interval(Duration::from_secs(10));
    let endpoint = endpoint.keep_alive_timeout(Duration::from_secs(10));
    let mut bare = UserServiceClient::new(endpoint.connect_lazy());
    let user = User { user_name: format!("rust-{}", process::id()), ..User::default() };
    let created = client.create_user(CreateUserRequest { user: Some(user), ..Default::default() }).await?;
    let user_id = created.into_inner().user.context("a user is created")?.user_id;
    let request = GetUserRequest { user_id, ..GetUserRequest::default() };
    let mut ratios = Vec::with_capacity(ROUNDS);
    for round in 0..WARM_UP + ROUNDS {
        let by_client = cpu_of(async || client.get_user(request.clone()).await.map(drop)).await?;
        let by_stub = cpu_of(async || bare.get_user(with_deadline(&request)).await.map(drop)).await?;
        if round >= WARM_UP {
            ratios.push(by_client / by_stub);
        }
    }
    ratios.sort_by(f64::total_cmp);
    println!("{}", json!({"rust": (ratios[ROUNDS / 2] * 1000.0).round() / 1000.0}));
    Ok(())
}

/// Each caller sets a deadline, which the client does by itself.
fn with_deadline(request: &GetUserRequest) -> Request<GetUserRequest> {
    let mut request = Request::new(request.clone());
    request.set_timeout(Duration::from_secs(5));
    request
}

/// Returns the CPU seconds of a round of calls.
async fn cpu_of(mut call: impl AsyncFnMut() -> Result<(), Status>) -> Result<f64> {
    let before = cpu()?;
    for _ in 0..CALLS {
        call().await?;
    }
    Ok((cpu()? - before).as_secs_f64())
}

/// Returns the time on a processor of all threads of this process. `schedstat` counts nanoseconds, whereas
/// `stat` counts hundredths of a second.
fn cpu() -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let spent: u64 = text.split(' ').next().context("schedstat is empty")?.parse()?;
        nanoseconds += spent;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
