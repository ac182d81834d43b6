//! Measures the CPU time of a GetUser by the client over that of the bare stub, and the microseconds of a
//! copy of the near cache, against the node at an address, as `cargo xtask overhead` does. Prints the medians
//! as one line of JSON.

use std::{env, fs, process, time::Duration};

use anyhow::{Context as _, Result};
use kith_client::{
    Client, NearCache,
    proto::user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient},
};
use serde_json::json;
use tonic::{Request, Status, transport::Endpoint};

/// Rounds that count. Those of both are interleaved, so that a slower machine slows both.
const ROUNDS: usize = 61;
/// Rounds before them, in which connections are made and memory is found.
const WARM_UP: usize = 6;
const CALLS: usize = 400;
/// They take a few milliseconds: no copy gets too old in a round.
const HITS: usize = 10_000;

/// One thread: other threads of a runtime add the same to both, and hide the client's part.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = env::args().nth(1).context("usage: overhead ADDRESS")?;
    let kith = Client::builder().address(&address).connect()?;
    let near = NearCache::new(kith.clone(), 1_000);
    let mut client = UserServiceClient::new(kith);
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
    let (mut ratios, mut hits) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for round in 0..WARM_UP + ROUNDS {
        let by_client = cpu_of(CALLS, async || client.get_user(request.clone()).await.map(drop)).await?;
        let by_stub = cpu_of(CALLS, async || bare.get_user(with_deadline(&request)).await.map(drop)).await?;
        near.user(user_id).await?;
        let by_copies = cpu_of(HITS, async || near.user(user_id).await.map(drop)).await?;
        if round >= WARM_UP {
            ratios.push(by_client / by_stub);
            hits.push(by_copies / HITS as f64 * 1e6);
        }
    }
    println!("{}", json!({"rust": median(ratios), "near_hit": median(hits)}));
    Ok(())
}

fn median(mut measured: Vec<f64>) -> f64 {
    measured.sort_by(f64::total_cmp);
    (measured[ROUNDS / 2] * 1000.0).round() / 1000.0
}

/// Each caller sets a deadline, which the client does by itself.
fn with_deadline(request: &GetUserRequest) -> Request<GetUserRequest> {
    let mut request = Request::new(request.clone());
    request.set_timeout(Duration::from_secs(5));
    request
}

/// Returns the CPU seconds of so many calls.
async fn cpu_of(calls: usize, mut call: impl AsyncFnMut() -> Result<(), Status>) -> Result<f64> {
    let before = cpu()?;
    for _ in 0..calls {
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
