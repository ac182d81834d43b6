//! Reports the remarks in `/readyz` on this machine's node about connections and its data file. Other groups
//! check the other remarks.

use std::time::Duration;

use kith_server::config::Config;
use serde::Deserialize;

use super::{Finding, port};

#[derive(Deserialize)]
struct Readiness {
    reasons: Vec<ReadyzReason>,
}

#[derive(Deserialize)]
struct ReadyzReason {
    reason: String,
    message: String,
}

/// Queries the configured operations port, if there is one.
pub(super) async fn findings(config: &Config, limit: Duration) -> Vec<Finding> {
    if !config.operations.enabled {
        return Vec::new();
    }
    let answer = port::operations(config.operations.listen, "/readyz", limit).await;
    check_answer(&answer.unwrap_or_default(), config.listen.port())
}

fn check_answer(answer: &str, port: u16) -> Vec<Finding> {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_head, body)| body);
    let Ok(readiness) = serde_json::from_str::<Readiness>(body) else { return Vec::new() };
    let found = readiness.reasons.into_iter().filter_map(|reason| {
        let run = match reason.reason.as_str() {
            "connections_refused" | "connections_displaced" | "sockets_refused" => {
                format!("ss -Htn 'sport = :{port}'  # who is connected")
            }
            "store_replaced" => {
                "kith backup --help  # the node still has the data: stop it in good order first".to_owned()
            }
            "store_locked" => "fuser -v data/kith.db  # or the file that the finding names".to_owned(),
            "store_full" | "store_nearly_full" => "df -h .; ulimit -f".to_owned(),
            "store_damaged" => "kith restore --help".to_owned(),
            "accept_failed" => "grep 'open files' /proc/$(pgrep -xo kith)/limits".to_owned(),
            _ => return None,
        };
        Some(Finding::new(reason.message, run))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_on_connections_are_findings() {
        let answer = "HTTP/1.0 200 OK\r\n\r\n{\"ready\":true,\"reasons\":[{\"reason\":\"connections_refused\",\
                      \"message\":\"m\",\"since\":\"\"},{\"reason\":\"redis_away\",\"message\":\"n\",\"since\":\"\"}]}";
        let found = check_answer(answer, 7600);
        assert_eq!(found, [Finding::new("m", "ss -Htn 'sport = :7600'  # who is connected")]);
        assert_eq!(check_answer("", 7600), []);
    }
}
