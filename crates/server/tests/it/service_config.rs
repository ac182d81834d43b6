//! The published service configuration for clients fits the contract.

use std::{collections::BTreeSet, time::Duration};

use kith_proto::CallRule;
use kith_server::{config::Config, descriptors};
use kith_service::write::mutations::answer_wait;
use prost_reflect::DescriptorPool;
use serde_json::Value;

use crate::contract;

const PUBLISHED: &str = include_str!("../../../../proto/kith_grpc_service_config.json");
/// The message in which clients find an error's details, and those with which they decode them.
const STATUS: &str = include_str!("../../../../proto/google/rpc/status.proto");
const ERROR_DETAILS: &str = include_str!("../../../../proto/google/rpc/error_details.proto");
/// The admin service is for operators, who look at a particular node.
const ADMIN: &str = "kith.admin.v1.AdminService";

fn published() -> Value {
    serde_json::from_str(PUBLISHED).unwrap()
}

fn entries(config: &Value) -> &Vec<Value> {
    config["methodConfig"].as_array().unwrap()
}

/// Returns `service/method` for an entry.
fn named(entry: &Value) -> Vec<String> {
    let name =
        |name: &Value| format!("{}/{}", name["service"].as_str().unwrap(), name["method"].as_str().unwrap());
    entry["name"].as_array().unwrap().iter().map(name).collect()
}

fn seconds(text: &Value) -> f64 {
    text.as_str().unwrap().strip_suffix('s').unwrap().parse().unwrap()
}

#[test]
fn each_unary_client_method_is_named_once() {
    let of_contract: BTreeSet<String> = contract::methods()
        .iter()
        .filter(|method| contract::is_unary(method) && method.parent_service().full_name() != ADMIN)
        .map(|method| contract::path_of(method)[1..].to_owned())
        .collect();
    let config = published();
    let all: Vec<String> = entries(&config).iter().flat_map(named).collect();
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "none is there twice");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), of_contract);
}

#[test]
fn reads_are_retried_with_the_read_deadline() {
    let reads = |name: &String| {
        let (service, method) = name.split_once('/').unwrap();
        let service = contract::POOL.get_service_by_name(service).unwrap();
        descriptors::only_reads(&service.methods().find(|known| known.name() == method).unwrap())
    };
    for entry in entries(&published()) {
        let repeated_after_3s = entry["timeout"] == "3s" && entry.get("retryPolicy").is_some();
        for name in named(entry) {
            assert_eq!(reads(&name), repeated_after_3s, "{name}");
        }
    }
}

#[test]
fn times_and_attempts_are_within_limits() {
    let most = Config::default().limits.deadline_max;
    for entry in entries(&published()) {
        let timeout = Duration::from_secs_f64(seconds(&entry["timeout"]));
        assert!(timeout <= most && !timeout.is_zero(), "{entry}");
        let Some(retry) = entry.get("retryPolicy") else { continue };
        // Clients use no more than 5, see gRFC A6.
        assert!((2..=5).contains(&retry["maxAttempts"].as_u64().unwrap()), "{entry}");
        let pauses = (seconds(&retry["initialBackoff"]), seconds(&retry["maxBackoff"]));
        assert!(0.0 < pauses.0 && pauses.0 <= pauses.1, "{entry}");
        // A node says by `grpc-retry-pushback-ms` which refusals with the second code may be repeated.
        let codes = serde_json::json!(["UNAVAILABLE", "RESOURCE_EXHAUSTED"]);
        assert_eq!(retry["retryableStatusCodes"], codes);
    }
}

#[test]
fn what_may_not_be_repeated_is_sent_once() {
    for entry in entries(&published()) {
        for name in named(entry) {
            let rule = CallRule::of(&format!("/{name}"));
            assert_eq!(entry.get("retryPolicy").is_some(), rule.is_repeatable, "{name}");
        }
    }
}

/// A caller that waits for the node until its deadline has no time left to try another node.
#[test]
fn node_answers_within_half_the_deadline() {
    let config = Config::default();
    let (limits, mongodb) = (&config.limits, &config.store.mongodb);
    for entry in entries(&published()) {
        let timeout = Duration::from_secs_f64(seconds(&entry["timeout"]));
        let names = named(entry);
        if names.iter().any(|name| name.ends_with("/UpdateUser")) {
            let answered = limits.queue_wait + answer_wait(limits.write_answer, timeout);
            assert!(answered < timeout / 2, "{answered:?} of {timeout:?}");
        }
        // If the store does not answer, a load bounds a read, and the server search bounds calls without a
        // record.
        let answered = limits.queue_wait + config.cache.load_hard.max(mongodb.server_selection);
        assert!(answered < timeout, "{answered:?} of {timeout:?}");
    }
    // A write that was never sent must be answered as not applied.
    assert!(mongodb.server_selection < limits.write_answer);
    assert!(config.store.cql.request <= limits.write_answer);
}

#[test]
fn published_error_details_are_those_of_answers() {
    let pool = DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).unwrap();
    let details = ["ErrorInfo", "RetryInfo", "BadRequest", "Help"].map(|name| (ERROR_DETAILS, name));
    for (file, name) in details.into_iter().chain([(STATUS, "Status")]) {
        let message = pool.get_message_by_name(&format!("google.rpc.{name}")).unwrap();
        let (_, published) = file.split_once(&format!("\nmessage {name} {{")).unwrap();
        let (published, _) = published.split_once("\n}").unwrap();
        for field in message.fields() {
            let declared = format!(" {} = {};", field.name(), field.number());
            assert!(published.contains(&declared), "{name}{declared}");
        }
    }
}
