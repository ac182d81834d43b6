//! Reads the nodes' configuration in the compose file and in Kubernetes as a node reads it.

use std::{fs, time::Duration};

use kith_server::config::{Backend, Config, Migrate, Sources, load};
use tempfile::TempDir;

use crate::deploy::files::{at, block, text};

const COMPOSE: &str = "docker-compose.yml";
const NODES: &str = "deploy/kubernetes/nodes.yaml";

/// Returns the content, with a test folder instead of these secrets' folder.
fn with_secrets(content: &str, folder: &str, secrets: &[(&str, &str)]) -> (TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    for (name, secret) in secrets {
        assert!(content.contains(&format!("{folder}/{name}")), "{folder}/{name} is not read");
        fs::write(place.path().join(name), secret).unwrap();
    }
    let content = content.replace(folder, &place.path().display().to_string());
    (place, content)
}

fn of_compose() -> Config {
    let content = block(&text(COMPOSE), "x-environment: &environment").unwrap();
    let (uri, url) = (text("deploy/compose/mongodb.uri"), text("deploy/compose/redis.url"));
    let (_place, content) =
        with_secrets(&content, "/run/secrets", &[("mongodb_uri", &uri), ("redis_url", &url)]);
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ").filter(|(name, _)| !name.trim().starts_with('#'))?;
        Some((name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
    };
    let environment = content.lines().filter_map(pair).collect();
    load(&Sources { environment, ..Sources::default() }).unwrap().config
}

fn of_kubernetes() -> Config {
    let content = block(&text("deploy/kubernetes/config.yaml"), "kith.toml:").unwrap();
    let secrets = text("deploy/kubernetes/secrets.yaml");
    let secret = |name: &str| block(&secrets, &format!("{name}:")).unwrap();
    let names = ["mongodb-uri", "cql-password", "redis-url", "api-key"];
    let secrets = names.map(|name| (name, secret(name)));
    let secrets: Vec<(&str, &str)> = secrets.iter().map(|(name, secret)| (*name, secret.as_str())).collect();
    let (place, content) = with_secrets(&content, "/run/secrets/kith", &secrets);
    let file = place.path().join("kith.toml");
    fs::write(&file, content).unwrap();
    load(&Sources { file: Some(file), ..Sources::default() }).unwrap().config
}

fn assert_fit(config: &Config) {
    assert_eq!((config.store.backend, config.store.migrate), (Backend::Cluster, Migrate::Manual));
    assert!(config.redis.url.is_some(), "the nodes would be alone");
    assert!(config.api_key_file.is_some() && !config.insecure_callers, "everybody could call");
    assert!(!config.store.cql.contact_points.is_empty(), "relations would be unavailable");
    for (address, port) in [(config.listen, 7600), (config.operations.listen, 7601)] {
        assert!(address.ip().is_unspecified() && address.port() == port, "others cannot reach {address}");
    }
}

/// Returns the first number behind this text.
fn number(text: &str, before: &str) -> Duration {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before}")).1;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Duration::from_secs(rest[..end].parse().unwrap())
}

#[test]
fn compose_settings_are_valid_with_time_to_stop() {
    let config = of_compose();
    assert_fit(&config);
    assert!(number(&text(COMPOSE), "stop_grace_period: ") > config.drain_wait + config.drain);
}

#[test]
fn kubernetes_settings_are_valid_with_stop_time() {
    let (config, nodes) = (of_kubernetes(), text(NODES));
    assert_fit(&config);
    let stops = config.drain_wait + config.drain;
    assert!(number(&nodes, "terminationGracePeriodSeconds: ") > stops, "killed before {stops:?} have passed");
    assert_eq!(config.termination_log.unwrap().to_str(), block(&nodes, "terminationMessagePath:").as_deref());
}

#[test]
fn compose_nodes_read_the_generated_key() {
    let compose = text(COMPOSE);
    let key = of_compose().api_key_file.unwrap();
    let made = format!("[\"keys\", \"generate\", \"--file\", \"{}\", \"--if-missing\"]", key.display());
    assert!(compose.contains(&format!("command: {made}\n")), "{made}");
    let folder = key.parent().unwrap().display().to_string();
    assert!(compose.contains(&format!("volumes: [\"key:{folder}\"]\n")), "where it is made");
    assert!(compose.contains(&format!("volumes: [\"key:{folder}:ro\"]\n")), "where it is read");
}

#[test]
fn commands_in_a_pod_send_the_key_of_its_node() {
    let content = block(&text("deploy/kubernetes/config.yaml"), "kith.toml:").unwrap();
    let key =
        content.lines().find_map(|line| line.strip_prefix("api_key_file = ")).unwrap().trim_matches('"');
    let nodes = text(NODES);
    assert!(nodes.contains(&format!("{{ name: KITH_API_KEY_FILE, value: {key} }}\n")), "{key}");
    assert!(nodes.contains("{ name: KITH_INSECURE, value: \"true\" }\n"), "it is sent to other pods too");
    // A command without --config reads the file in its folder.
    let folder = block(&nodes, "workingDir:").unwrap();
    assert!(nodes.contains(&format!("\"{folder}/kith.toml\"")), "{folder}");
}

/// A pod reads its configuration when it starts: a change that replaces no pod would wait for each pod's next
/// restart.
#[test]
fn changed_configuration_replaces_pods() {
    let config = text("deploy/kubernetes/config.yaml");
    assert!(config.contains("\nimmutable: true\n"), "it is changed by another name alone");
    let name = block(&config, "name:").unwrap();
    for file in [NODES, "deploy/kubernetes/migrate.yaml"] {
        assert!(
            text(file).contains(&format!("configMap: {{ name: {name} }}\n")),
            "{file} has another than {name}"
        );
    }
}

/// The operations port has no key, so a network policy protects it.
#[test]
fn operations_port_is_for_one_namespace() {
    let policy = text("deploy/kubernetes/network-policy.yaml");
    let pods = "podSelector:\n    matchLabels: { app.kubernetes.io/name: kith }\n";
    assert!(policy.contains(pods) && policy.contains("policyTypes: [Ingress]\n"), "{policy}");
    let ingress = block(&policy, "ingress:").unwrap();
    let rules: Vec<&str> = ingress.split("\n- ").collect();
    let of = |port: &str| {
        let port = format!("{{ port: {port}, protocol: TCP }}");
        rules.iter().filter(|rule| rule.contains(&port)).copied().collect::<Vec<_>>()
    };
    let [operations] = of("operations")[..] else { panic!("{rules:?}") };
    assert!(operations.contains("from:\n    - namespaceSelector:"), "{operations}");
    assert!(!operations.contains("grpc") && of("grpc").len() == 1, "{rules:?}");
    for port in ["grpc", "operations"] {
        assert!(text(NODES).contains(&format!("- {{ name: {port}, containerPort:")), "{port}");
    }
}

#[test]
fn placeholder_of_kubernetes_is_no_valid_key() {
    let (place, secrets) = (tempfile::tempdir().unwrap(), text("deploy/kubernetes/secrets.yaml"));
    let file = place.path().join("api-key");
    fs::write(&file, block(&secrets, "api-key:").unwrap()).unwrap();
    let config = Config { api_key_file: Some(file), ..Config::default() };
    let why = kith_server::node::caller_sources::CallerSources::of(&config).find().unwrap_err();
    assert!(why.contains("is one of an example"), "{why}");
}

#[test]
fn no_deployment_file_has_a_key() {
    for file in
        [COMPOSE, NODES, "deploy/kubernetes/config.yaml", "deploy/kubernetes/secrets.yaml", "Dockerfile"]
    {
        assert!(!text(file).contains("kith_"), "{file}");
    }
}

/// Returns the variables that Kubernetes sets in a pod for a Service, as in the kubelet's
/// `makeEnvVariableMap` and `makeLinkVariables`.
fn service_links(name: &str, port_name: &str, port: u16) -> Vec<(String, String)> {
    let (host, name) = ("10.96.0.17", name.replace('-', "_").to_uppercase());
    let (url, port) = (format!("tcp://{host}:{port}"), port.to_string());
    let pairs = [
        ("SERVICE_HOST".to_owned(), host),
        ("SERVICE_PORT".to_owned(), &port),
        (format!("SERVICE_PORT_{}", port_name.to_uppercase()), &port),
        ("PORT".to_owned(), &url),
        (format!("PORT_{port}_TCP"), &url),
        (format!("PORT_{port}_TCP_PROTO"), "tcp"),
        (format!("PORT_{port}_TCP_PORT"), &port),
        (format!("PORT_{port}_TCP_ADDR"), host),
    ];
    pairs.into_iter().map(|(key, value)| (format!("{name}_{key}"), value.to_owned())).collect()
}

#[test]
fn service_links_do_not_stop_a_node() {
    let manifests = text(NODES);
    for name in ["kith", "kith-nodes"] {
        assert!(manifests.contains(&format!("kind: Service\nmetadata:\n  name: {name}\n")), "{name}");
        let environment = service_links(name, "grpc", 7600);
        let loaded = load(&Sources { environment, ..Sources::default() }).unwrap();
        assert!(loaded.origins.is_empty(), "{:?}", loaded.origins);
    }
    for file in [NODES, "deploy/kubernetes/migrate.yaml"] {
        assert!(text(file).contains("      enableServiceLinks: false\n"), "{file}");
    }
}

#[test]
fn every_compose_node_is_scraped_and_advertised() {
    let (compose, prometheus) = (text(COMPOSE), text("deploy/prometheus/prometheus.yml"));
    for node in ["kith-1", "kith-2", "kith-3"] {
        assert!(compose.contains(&format!("\n  {node}:\n")), "{node}");
        assert!(compose.contains(&format!("KITH_CLUSTER__ADVERTISE: \"http://{node}:7600\"")), "{node}");
        assert!(prometheus.contains(&format!("\"{node}:7601\"")), "{node}");
    }
}

#[test]
fn package_settings_are_valid_and_need_a_key() {
    let file = at("deploy/package/kith.toml");
    let config = load(&Sources { file: Some(file), ..Sources::default() }).unwrap().config;
    assert_eq!(config.store.backend, Backend::Sqlite);
    assert!(config.listen.ip().is_loopback(), "other machines reach it before its operator has said so");
    let key = config.api_key_file.unwrap();
    let made = format!("kith keys generate --file {} --if-missing", key.display());
    assert!(text("deploy/package/postinst").contains(&made), "{made}");
}

/// A frontend line would be fetched from a registry, which an air gap or an image mirror does not have.
#[test]
fn image_needs_no_frontend_of_a_registry() {
    assert!(!text("Dockerfile").contains("# syntax="));
}

/// Each check with the MongoDB shell takes a second or two of processor time.
#[test]
fn shell_of_mongodb_is_started_seldom() {
    let compose = text("docker-compose.yml");
    let checks: Vec<_> =
        compose.split("\n    healthcheck:\n").skip(1).filter(|check| check.contains("\"mongosh\"")).collect();
    assert!(!checks.is_empty());
    for check in checks {
        let interval = check.lines().find_map(|line| line.trim().strip_prefix("interval: ")).unwrap();
        assert_eq!(interval, "10s");
    }
}

#[test]
fn images_and_manifests_have_our_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(text("Dockerfile").contains(&format!("ARG VERSION={version}\n")));
    for file in [NODES, "deploy/kubernetes/migrate.yaml"] {
        assert!(text(file).contains(&format!("image: registry.example/kith:{version}\n")), "{file}");
    }
}
