//! `kith doctor`: finds problems with this machine, the configuration and the node, with a command for each.
//!
//! Each group of findings has its own file, and is independent from the others. The checks change nothing,
//! except for a probe file in the data folder, which is removed at once.

mod callers;
mod configuration;
mod data;
mod environment;
mod links;
mod machine;
mod memory;
mod mount;
mod node;
mod pages;
mod port;
mod redis;
mod remarks;
mod store;
mod tls;

use std::time::Duration;

use anyhow::Result;
use kith_server::config::Config;
use serde::Serialize;

use super::{
    Common, FAILED, OK,
    output::{Report, note},
};

/// The options for `kith doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Uses the configuration that kith serve would use here, and the rights of the current user: run it on the machine and as the user of the node. Every finding ends with the command to run.\n\
                  Exit codes: 0 nothing found, 1 something found."
)]
pub(super) struct DoctorOptions {
    /// How long each answer may take
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

/// A problem, and the command against it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    finding: String,
    /// A shell command.
    run: String,
}

impl Finding {
    fn new(finding: impl Into<String>, run: impl Into<String>) -> Self {
        Self { finding: finding.into(), run: run.into() }
    }
}

/// A finding with its group.
#[derive(Debug, Serialize)]
struct GroupedFinding {
    group: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// Runs all checks. Fails if the result cannot be written.
pub(super) async fn run(common: &Common, arguments: &DoctorOptions) -> Result<u8> {
    let mut diagnosis = Diagnosis::default();
    let environment = Common::environment();
    diagnosis.add("environment", environment::findings(&environment));
    let config = match common.load() {
        Ok(loaded) => {
            let config = &loaded.config;
            diagnosis.add("configuration", configuration::findings(common.config.as_deref()));
            Box::pin(configured(config, arguments.timeout, &mut diagnosis)).await;
            loaded.config
        }
        Err(error) => {
            // The configuration is unknown, so checks that depend on it are skipped.
            let finding = configuration::error_finding(&error, common.config.as_deref());
            let reported = diagnosis.findings.iter().any(|one| one.finding.run == finding.run);
            diagnosis.add("configuration", if reported { Vec::new() } else { vec![finding] });
            Config::default()
        }
    };
    diagnosis.add("machine", machine::findings(&config));
    common.output.print(&diagnosis)?;
    if diagnosis.findings.is_empty() {
        note(&format!("kith: nothing found wrong; looked at {}", diagnosis.looked_at.join(", ")));
        return Ok(OK);
    }
    Ok(FAILED)
}

/// Runs the checks that depend on the configuration.
async fn configured(config: &Config, limit: Duration, diagnosis: &mut Diagnosis) {
    diagnosis.add("tls", tls::findings(&config.tls));
    diagnosis.add("links", links::findings(config));
    diagnosis.add("callers", callers::findings(config).await);
    let ports = port::check(config, limit).await;
    diagnosis.add("port", ports.findings.clone());
    diagnosis.add("data", data::findings(config));
    diagnosis.add("pages", pages::findings(config, limit).await);
    if ports.node_answers {
        let mut found = node::findings(config, limit).await;
        found.extend(remarks::findings(config, limit).await);
        diagnosis.add("node", found);
    }
    diagnosis.add("store", store::findings(config, ports.node_answers, limit).await);
    diagnosis.add("redis", Box::pin(redis::findings(config, limit)).await);
}

#[derive(Debug, Default, Serialize)]
struct Diagnosis {
    looked_at: Vec<&'static str>,
    findings: Vec<GroupedFinding>,
}

impl Diagnosis {
    fn add(&mut self, group: &'static str, findings: Vec<Finding>) {
        self.looked_at.push(group);
        self.findings.extend(findings.into_iter().map(|finding| GroupedFinding { group, finding }));
    }
}

impl Report for GroupedFinding {
    const COLUMNS: &'static [&'static str] = &["group", "finding", "run"];
}

impl Report for Diagnosis {
    const COLUMNS: &'static [&'static str] = GroupedFinding::COLUMNS;

    fn rows(&self) -> Vec<Vec<String>> {
        self.findings.rows()
    }
}
