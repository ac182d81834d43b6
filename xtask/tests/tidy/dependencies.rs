use std::collections::BTreeSet;

use crate::tree::{output, packages};

/// A dependency and the only members that may have it. The benchmarks measure the bare drivers, as baselines
/// for their ratios, and the laboratory changes stored data; neither is part of a product.
const ONLY: [(&str, &[&str]); 7] = [
    ("mongodb", &["kith-store-cluster", "kith-bench", "kith-lab"]),
    ("scylla", &["kith-store-cluster", "kith-bench"]),
    ("fred", &["kith-cache", "kith-bench"]),
    ("moka", &["kith-cache", "kith-store-sqlite", "kith-client", "kith-bench"]),
    ("rusqlite", &["kith-store-sqlite", "kith-bench", "kith-lab"]),
    ("kith-store-cluster", &["kith-server", "kith-bench"]),
    ("kith-store-sqlite", &["kith-server", "kith-cli", "kith-bench"]),
];

/// A dependency, and further members that may have it in their tests only: test nodes use keyspaces in turn,
/// which are emptied in between.
const IN_TESTS: [(&str, &[&str]); 2] =
    [("mongodb", &["kith-server", "kith-cli"]), ("scylla", &["kith-server", "kith-cli"])];

/// A member, and how the names of crates begin that it must not depend on.
const NEVER: [(&str, &[&str]); 11] = [
    ("kith-store", &["kith-", "mongodb", "rusqlite", "moka", "fred", "scylla", "tonic", "prost"]),
    ("kith-cache", &["kith-", "mongodb", "rusqlite", "tonic", "prost"]),
    ("kith-proto", &["kith-", "mongodb", "rusqlite", "moka"]),
    ("kith-forward", &["kith-", "mongodb", "rusqlite", "fred", "tonic", "prost"]),
    ("kith-store-sqlite", &["kith-cache", "kith-proto", "kith-service", "kith-server", "tonic", "prost"]),
    ("kith-store-cluster", &["kith-cache", "kith-proto", "kith-service", "kith-server", "tonic", "prost"]),
    (
        "kith-delivery",
        &[
            "kith-proto",
            "kith-service",
            "kith-server",
            "kith-presence",
            "kith-store-",
            "fred",
            "tonic",
            "prost",
        ],
    ),
    ("kith-service", &["kith-server", "kith-cli", "kith-store-", "clap", "axum", "hyper", "figment"]),
    ("kith-server", &["kith-cli", "clap", "ratatui", "indicatif", "comfy-table"]),
    ("kith-lab", &["kith-bench", "kith-cli", "kith-server", "kith-service", "kith-store"]),
    ("kith-lab-servers", &["kith-bench", "kith-cli", "kith-server", "kith-service", "kith-store-"]),
];

/// Returns a member's dependencies, including those of its tests and its build.
fn dependencies(member: &str) -> BTreeSet<String> {
    dependencies_of(member, |_| true)
}

/// Returns a member's dependencies without those of its tests.
fn product_dependencies(member: &str) -> BTreeSet<String> {
    dependencies_of(member, |kind| kind != Some("dev"))
}

fn dependencies_of(member: &str, counts: impl Fn(Option<&str>) -> bool) -> BTreeSet<String> {
    let packages = packages();
    let package = packages.iter().find(|package| package["name"] == member);
    let package = package.unwrap_or_else(|| panic!("no member is called {member}"));
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    let counted = dependencies.filter(|dependency| counts(dependency["kind"].as_str()));
    counted.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn drivers_are_known_to_their_own_crates_only() {
    for package in packages() {
        let member = package["name"].as_str().unwrap();
        let (known, of_product) = (dependencies(member), product_dependencies(member));
        for (dependency, allowed) in ONLY {
            let in_tests =
                IN_TESTS.iter().any(|(name, members)| *name == dependency && members.contains(&member));
            let known = if in_tests { &of_product } else { &known };
            assert!(!known.contains(dependency) || allowed.contains(&member), "{member} knows {dependency}");
        }
    }
}

#[test]
fn every_crate_looks_down_only() {
    for (member, never) in NEVER {
        for dependency in dependencies(member) {
            // The client begins like the command line.
            let begins = |beginning: &&str| dependency.starts_with(beginning);
            let wrong = match dependency.as_str() {
                "kith-client" => never.contains(&"kith-"),
                _ => never.iter().any(begins),
            };
            assert!(!wrong, "{member} knows {dependency}");
        }
    }
}

/// A member that depends on the node with its default features would bring a cluster's drivers back.
#[test]
fn single_node_build_has_no_cluster_driver() {
    let single_node = ["--no-default-features", "--features", "embedded"];
    let shown = ["--edges", "normal", "--prefix", "none", "--offline"];
    let tree = output(env!("CARGO"), &[&["tree", "-p", "kith-cli"], &single_node[..], &shown].concat());
    let crates: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("kith-store-sqlite"));
    for driver in ["mongodb", "scylla", "fred", "kith-store-cluster"] {
        assert!(!crates.contains(driver), "single-node mode is built with {driver}");
    }
}
