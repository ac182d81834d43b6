//! The banner that a node shows when it listens: for a terminal, or as one JSON line.

use std::{fmt, net::SocketAddr, time::SystemTime};

use serde::Serialize;

use crate::{
    build_info,
    config::Config,
    health::{HealthCause, State},
    node::{run::Node, store::DataLocation},
    transport::callable,
};

/// The commands' default address.
const USUAL: &str = "http://127.0.0.1:7600";
/// The request in the examples.
const ADA: &str = r#"{"user":{"userName":"ada"}}"#;

/// The banner's content. Contains no secret.
#[derive(Debug, Serialize)]
pub struct Banner {
    /// Begins the line like the JSON log lines, which may be in the same file.
    timestamp: String,
    level: &'static str,
    message: &'static str,
    target: &'static str,
    version: &'static str,
    commit: &'static str,
    commit_date: &'static str,
    pid: u32,
    /// The state as in `/readyz`.
    state: &'static str,
    /// The reasons for which it does not serve yet.
    reasons: Vec<HealthCause>,
    /// Problems while it serves.
    remarks: Vec<HealthCause>,
    /// The gRPC host and port.
    grpc: SocketAddr,
    /// Host and port for operators.
    operations: Option<SocketAddr>,
    urls: Urls,
    data: DataLocation,
    security: Security,
    /// The configuration's sources; later sources override earlier sources.
    configuration: Vec<String>,
    /// Example commands.
    #[serde(rename = "try")]
    tries: [String; 2],
}

/// Addresses for calls from this machine.
#[derive(Debug, Serialize)]
struct Urls {
    /// gRPC, and JSON over HTTP.
    api: String,
    live: Option<String>,
    ready: Option<String>,
    metrics: Option<String>,
}

#[derive(Debug, Serialize)]
struct Security {
    tls: bool,
    /// Whether other machines can reach the port.
    open: bool,
    callers: CallerAccess,
}

/// The permitted callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
enum CallerAccess {
    /// No key is set, and only this machine reaches the port.
    Open,
    /// Callers with this many keys, and users from this many token issuers.
    Keys { count: usize, issuers: usize },
    /// All programs, by `insecure_callers`.
    Insecure,
}

impl Banner {
    /// The banner for a node with configuration from `sources`. `program` is the name by which it was
    /// started.
    pub fn of(node: &Node, sources: &[&str], program: &str) -> Self {
        let addresses = node.addresses();
        let security = Security {
            tls: node.config().tls.cert_file.is_some(),
            open: !addresses.grpc.ip().to_canonical().is_loopback(),
            callers: CallerAccess::of(node),
        };
        let urls = Urls::of(addresses.grpc, addresses.operations, security.tls);
        Self {
            timestamp: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            level: "INFO",
            message: "kith listens: this is its banner",
            target: module_path!(),
            version: build_info::VERSION,
            commit: build_info::COMMIT,
            commit_date: build_info::DATE,
            pid: std::process::id(),
            state: node.state().name(),
            reasons: node.causes(),
            remarks: node.remarks(),
            grpc: addresses.grpc,
            operations: addresses.operations,
            tries: tries(program, &urls.api, key_file(node.config()).as_deref()),
            urls,
            data: node.data().clone(),
            security,
            configuration: sources.iter().map(|&source| source.to_owned()).collect(),
        }
    }
}

impl CallerAccess {
    fn of(node: &Node) -> Self {
        match node.callers() {
            callers if !callers.is_open() => Self::Keys { count: callers.count(), issuers: node.issuers() },
            _ if node.config().insecure_callers => Self::Insecure,
            _ => Self::Open,
        }
    }
}

/// Where a caller on this machine finds a key. `None`: it needs none.
fn key_file(config: &Config) -> Option<String> {
    let file = config.api_key_file.as_ref().map(|file| file.display().to_string());
    file.or_else(|| config.has_keys().then(|| "KEY_FILE".to_owned()))
}

impl Urls {
    fn of(api: SocketAddr, operations: Option<SocketAddr>, tls: bool) -> Self {
        let scheme = if tls { "https" } else { "http" };
        let of_operations = |path: &str| operations.map(|at| format!("http://{}{path}", callable(at)));
        Self {
            api: format!("{scheme}://{}", callable(api)),
            live: of_operations("/livez"),
            ready: of_operations("/readyz"),
            metrics: of_operations("/metrics"),
        }
    }
}

fn tries(program: &str, api: &str, key_file: Option<&str>) -> [String; 2] {
    let key = key_file.map(|file| format!(" --api-key-file {file}")).unwrap_or_default();
    let bearer =
        key_file.map(|file| format!("-H \"authorization: Bearer $(head -1 {file})\" ")).unwrap_or_default();
    let tls = api.starts_with("https:");
    let (ca_file, cacert) = if tls { (" --ca-file ca.pem", "--cacert ca.pem ") } else { ("", "") };
    let addr = if api == USUAL { String::new() } else { format!(" --addr {api}") };
    [
        format!("{program} call{addr}{ca_file}{key} UserService/CreateUser '{ADA}'"),
        format!(
            "curl {cacert}{bearer}-d '{ADA}' -H 'content-type: application/json' \
             {api}/kith.user.v1.UserService/CreateUser"
        ),
    ]
}

impl fmt::Display for Banner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state == State::Serving.name() {
            writeln!(f, "kith {} serves", build_info::LONG)?;
        } else {
            writeln!(f, "kith {} listens and does not serve yet", build_info::LONG)?;
        }
        let line = |f: &mut fmt::Formatter<'_>, what: &str, text: &str| writeln!(f, "  {what:<15}{text}");
        for cause in &self.reasons {
            line(f, "waits", &cause.message)?;
        }
        for remark in &self.remarks {
            line(f, "but", &remark.message)?;
        }
        line(f, "gRPC and JSON", &format!("{}  ({})", self.urls.api, self.security))?;
        line(f, "callers", &self.security.callers_line())?;
        for (what, url) in
            [("ready", &self.urls.ready), ("live", &self.urls.live), ("metrics", &self.urls.metrics)]
        {
            line(f, what, url.as_deref().unwrap_or("off (operations.enabled)"))?;
        }
        let kept = if self.data.kept { "kept" } else { "lost when the node ends" };
        line(f, "data", &format!("{}  ({kept})", self.data.place))?;
        line(f, "configuration", &self.configuration.join(", "))?;
        writeln!(f, "try")?;
        self.tries.iter().try_for_each(|one| writeln!(f, "  {one}"))
    }
}

impl Security {
    fn callers_line(&self) -> String {
        match self.callers {
            CallerAccess::Open => "anyone on this machine: no key is set".to_owned(),
            CallerAccess::Keys { count, issuers } => {
                let plain = self.open && !self.tls;
                let sent = |what: &str| {
                    if plain { format!("; {what} ARE SENT IN PLAINTEXT") } else { String::new() }
                };
                let callers = if count == 1 { "caller" } else { "callers" };
                match issuers {
                    0 => format!("{count} {callers} with a key{}", sent("KEYS")),
                    1 => format!(
                        "{count} {callers} with a key, users with tokens of 1 issuer{}",
                        sent("KEYS AND TOKENS")
                    ),
                    _ => format!(
                        "{count} {callers} with a key, users with tokens of {issuers} issuers{}",
                        sent("KEYS AND TOKENS")
                    ),
                }
            }
            CallerAccess::Insecure => {
                "ANYONE WHO REACHES THE PORT MAY DO EVERYTHING (insecure_callers)".to_owned()
            }
        }
    }
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.tls, self.open) {
            (true, true) => "TLS, open to other machines",
            (true, false) => "TLS, this machine only",
            (false, true) => "PLAINTEXT, OPEN TO OTHER MACHINES",
            (false, false) => "plaintext, this machine only",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_address_is_shown_as_loopback() {
        let urls = Urls::of("0.0.0.0:1".parse().unwrap(), Some("[::]:2".parse().unwrap()), true);
        assert_eq!(urls.api, "https://127.0.0.1:1");
        assert_eq!(urls.ready.unwrap(), "http://[::1]:2/readyz");
    }

    #[test]
    fn examples_name_an_unusual_address() {
        assert!(tries("kith", USUAL, None)[0].starts_with("kith call UserService/"));
        let [call, curl] = tries("kith", "https://127.0.0.1:9", None);
        assert!(
            call.contains("--addr https://127.0.0.1:9 --ca-file") && curl.contains("--cacert"),
            "{call} {curl}"
        );
    }

    #[test]
    fn lines_to_try_read_the_key_from_its_file() {
        let [call, curl] = tries("kith", USUAL, Some("kith.key"));
        assert!(call.contains(" --api-key-file kith.key "), "{call}");
        assert!(curl.contains("-H \"authorization: Bearer $(head -1 kith.key)\""), "{curl}");
    }

    #[test]
    fn line_of_callers_names_access() {
        let line = |tls, open, callers| Security { tls, open, callers }.callers_line();
        assert_eq!(line(false, false, CallerAccess::Open), "anyone on this machine: no key is set");
        assert_eq!(line(true, true, CallerAccess::Keys { count: 1, issuers: 0 }), "1 caller with a key");
        let plain = line(false, true, CallerAccess::Keys { count: 3, issuers: 0 });
        assert_eq!(plain, "3 callers with a key; KEYS ARE SENT IN PLAINTEXT");
        let tokens = line(true, true, CallerAccess::Keys { count: 1, issuers: 2 });
        assert_eq!(tokens, "1 caller with a key, users with tokens of 2 issuers");
        assert!(
            line(true, true, CallerAccess::Insecure)
                .starts_with("ANYONE WHO REACHES THE PORT MAY DO EVERYTHING")
        );
    }
}
