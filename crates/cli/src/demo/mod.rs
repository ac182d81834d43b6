//! `kith demo`: runs a node with 200 people, and a page to talk to them.

mod names;
mod people;
mod phrases;
mod setup;

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

use clap::Args;
use kith_server::{
    config::{self, LoadedConfig},
    node::run::Node,
    start_error::StartError,
    telemetry,
};
use serde::Serialize;
use tonic::transport::{Channel, Endpoint};

use super::{
    Common, FAILED, OK,
    output::{OutputForm, note, write},
    runtime,
    serve::StopSignals,
    set_flags,
};

/// The variables that configure a node's callers; commands that call a node read them, too.
const CALLERS: [&str; 2] = ["KITH_API_KEY", "KITH_API_KEY_FILE"];
/// The prefix of further variables that configure callers.
const CALLERS_SECTION: &str = "KITH_AUTH__";

/// The options for `kith demo`.
#[derive(Args, Debug)]
pub(super) struct DemoOptions {
    /// Serve on this port of the loopback device [default: 7600; 0: any free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Do not open the page in a browser
    #[arg(long)]
    no_browser: bool,
    /// The people send no messages: only users of the page do
    #[arg(long)]
    silent: bool,
}

/// The output once the page can be opened.
#[derive(Debug, Serialize)]
struct DemoReady {
    /// The page's address.
    url: String,
    /// The folder for the people and their messages, or memory.
    data: String,
}

impl DemoOptions {
    /// Loads a configuration with data in memory, unless a folder is named, on the loopback device and with
    /// sockets that do not prove their user. Callers in the environment are left out: the demo page has no
    /// key.
    fn load(&self, common: &Common) -> Result<LoadedConfig, StartError> {
        if self.port.is_some() && common.listen.is_some() {
            return Err(StartError::new("--port and --listen are both given; give one"));
        }
        let on = || Some("true".to_owned());
        let flags = [
            ("listen", self.port.map(|port| format!("127.0.0.1:{port}"))),
            ("operations.listen", Some("127.0.0.1:0".to_owned())),
            ("store.backend", Some("sqlite".to_owned())),
            ("ephemeral.enabled", common.data_dir.is_none().then(on).flatten()),
            ("telemetry.log_filter", common.log.is_none().then(|| "warn".to_owned())),
            ("ws.enabled", on()),
            ("ws.trusted", on()),
            ("ws.demo", on()),
        ];
        let mut sources = common.sources(set_flags(flags.map(|(key, value)| ("--demo", key, value))))?;
        let ignored = without_callers(&mut sources.environment);
        if !ignored.is_empty() {
            note(&format!("kith: the demo is open to this machine; not used: {}", ignored.join(", ")));
        }
        Ok(config::load(&sources)?)
    }
}

/// Removes the variables that configure callers, and returns their names.
fn without_callers(environment: &mut Vec<(String, String)>) -> Vec<String> {
    let is_caller = |name: &str| CALLERS.contains(&name) || name.starts_with(CALLERS_SECTION);
    environment.extract_if(.., |(name, _)| is_caller(name)).map(|(name, _)| name).collect()
}

pub(super) fn run(common: &Common, arguments: &DemoOptions) -> Result<u8, StartError> {
    let loaded = arguments.load(common)?;
    let complete = runtime()?.block_on(async {
        let _telemetry = telemetry::start_demonstration(&loaded.config.telemetry)?;
        let mut stop = StopSignals::listen(None)?;
        let node = Box::pin(Node::start(loaded.config.clone())).await?;
        let begun = begin(common, arguments, &loaded, node.addresses().grpc).await;
        let failed = match begun {
            Ok(people) => tokio::select! {
                () = stop.next() => None,
                error = node.fatal_error() => Some(error),
                () = people => None,
            },
            Err(error) => Some(error),
        };
        let complete = node.stop(stop.next()).await;
        failed.map_or(Ok(complete), Err)
    })?;
    Ok(if complete || loaded.config.ephemeral.enabled { OK } else { FAILED })
}

/// Makes the people, prints the page's address, and returns the people's activity from then on; that never
/// ends.
async fn begin(
    common: &Common,
    arguments: &DemoOptions,
    loaded: &LoadedConfig,
    address: SocketAddr,
) -> Result<impl Future<Output = ()>, StartError> {
    let channel = connect(address).await?;
    let created = setup::create(&channel).await;
    created.map_err(|status| {
        StartError::new(format!("the people of the demo cannot be made: {}", status.message()))
    })?;
    let config = &loaded.config;
    let data =
        if config.ephemeral.enabled { "memory".to_owned() } else { config.data_dir.display().to_string() };
    let ready = DemoReady { url: format!("http://{address}/demo"), data };
    present(common, &ready)?;
    if !arguments.no_browser {
        open(&ready.url);
    }
    Ok(people::run(channel, arguments.silent))
}

async fn connect(address: SocketAddr) -> Result<Channel, StartError> {
    let unreachable = |_| StartError::new(format!("the node of the demo cannot be reached at {address}"));
    Endpoint::from_shared(format!("http://{address}"))
        .map_err(unreachable)?
        .connect()
        .await
        .map_err(unreachable)
}

fn present(common: &Common, ready: &DemoReady) -> Result<(), StartError> {
    let text = match common.output.form() {
        OutputForm::Table => format!(
            "kith {} demo\n  page   {}\n  data   {}\n  Open it in two windows, as two people. Ctrl+C ends it.\n",
            env!("CARGO_PKG_VERSION"),
            ready.url,
            ready.data,
        ),
        OutputForm::Plain | OutputForm::Json => serde_json::to_string(ready).unwrap_or_default() + "\n",
    };
    Ok(write(text.as_bytes())?)
}

/// Opens the page in a browser. If there is no browser nothing happens: the address is printed already.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut browser) = opened {
        // The browser ends at any time; the process that started it waits for that.
        std::thread::spawn(move || browser.wait());
    }
}
