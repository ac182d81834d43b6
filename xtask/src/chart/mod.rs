//! Checks the Helm chart: what it renders, which values it refuses, and whether Kubernetes knows its
//! resources.

mod schemas;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    process::{root, succeed},
    tools,
};

const CHART: &str = "deploy/helm/kith";
const MANIFESTS: &str = "deploy/kubernetes";
/// The manifest that the chart leaves to `helm install --create-namespace`: Helm keeps its own record of the
/// release in that namespace, so a chart cannot make it.
const NAMESPACE: &str = "namespace.yaml";
/// Values that set every option.
const EVERY_OPTION: &str = "xtask/src/chart/every-option.yaml";
/// The rules that the chart wraps, and how they name the runbook.
const ALERTS: &str = "deploy/prometheus/alerts.yml";
const RUNBOOK: &str = "runbook_url: docs/";
/// The runbook at the address that [`EVERY_OPTION`] sets.
const LINKED_RUNBOOK: &str = "runbook_url: https://docs.example/0.2.0/docs/";
/// Resources of the Prometheus operator, which Kubernetes has no schema for.
const FOREIGN: &str = "ServiceMonitor,PrometheusRule";
/// The file with the schema of a resource, as kubeconform finds it below a folder.
const SCHEMA: &str =
    "{{ .NormalizedKubernetesVersion }}-local{{ .StrictSuffix }}/{{ .ResourceKind }}{{ .KindSuffix }}.json";
/// Values that the schema refuses, and what it names then: a misspelt option, a wrong type, a number that
/// would lose digits, a version that cannot be a label.
const REFUSED: [(&str, &str); 4] = [
    ("replica=3", "'replica' not allowed"),
    ("replicas=three", "'/replicas'"),
    ("settings.limits\\.connections=100000000", "'/settings/limits.connections'"),
    ("image.tag=0.1.0+local", "'/image/tag'"),
];

/// Manifests by file name, each split into its sorted documents.
type Documents = BTreeMap<String, Vec<String>>;

/// Runs every check; the first that fails ends it.
pub(crate) fn check() -> Result<()> {
    let helm = tools::helm()?;
    let default = render(&helm, &["kith", CHART, "--namespace", "kith"])?;
    ensure_equal(&manifests()?, &by_file(&default))?;
    let versions =
        concat!("\nversion: ", env!("CARGO_PKG_VERSION"), "\nappVersion: ", env!("CARGO_PKG_VERSION"), "\n");
    ensure!(
        read(&format!("{CHART}/Chart.yaml"))?.contains(versions),
        "Chart.yaml has another version than the workspace"
    );
    let every = render(&helm, &["chat", CHART, "--namespace", "prod", "--values", EVERY_OPTION])?;
    ensure_rules(&every, &read(ALERTS)?)?;
    for more in [&[][..], &["--values", EVERY_OPTION]] {
        succeed(in_root(&helm).args(["lint", "--quiet", "--strict", CHART]).args(kube_version()).args(more))?;
    }
    refuse(&helm)?;
    ensure_known(&default, &every)?;
    println!("chart: it renders {MANIFESTS}, refuses bad values, and its resources are valid");
    Ok(())
}

/// Helm that is built from its module takes an old Kubernetes for the newest.
fn kube_version() -> [&'static str; 2] {
    ["--kube-version", schemas::VERSIONS[schemas::VERSIONS.len() - 1]]
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| file.to_owned())
}

fn in_root(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

fn render(helm: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = in_root(helm);
    let output = command.arg("template").args(arguments).args(kube_version()).output()?;
    ensure!(
        output.status.success(),
        "the chart does not render: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Reads the manifests that the chart has to render.
fn manifests() -> Result<Documents> {
    let mut found = Documents::new();
    for entry in fs::read_dir(root().join(MANIFESTS))? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != NAMESPACE {
            found.insert(name, documents(&fs::read_to_string(file)?));
        }
    }
    Ok(found)
}

/// Splits what Helm renders by the template that it names before each document.
fn by_file(rendered: &str) -> Documents {
    let mut found = BTreeMap::new();
    for part in rendered.split("---\n# Source: kith/templates/").skip(1) {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        found.entry(name.to_owned()).or_insert_with(Vec::new).extend(documents(text));
    }
    // Helm prints documents in the order in which it installs them.
    found.values_mut().for_each(|documents: &mut Vec<String>| documents.sort());
    found
}

fn documents(text: &str) -> Vec<String> {
    let mut documents: Vec<String> =
        text.split("\n---\n").map(|one| one.trim_matches('\n').to_owned()).collect();
    documents.sort();
    documents
}

/// Fails with the first line that differs.
fn ensure_equal(wanted: &Documents, rendered: &Documents) -> Result<()> {
    let names = |of: &Documents| of.keys().cloned().collect::<Vec<_>>().join(", ");
    let (files, templates) = (names(wanted), names(rendered));
    ensure!(files == templates, "{MANIFESTS} has {files}, the chart renders {templates}");
    for (name, documents) in wanted {
        let (text, found) = (documents.join("\n---\n"), rendered[name].join("\n---\n"));
        if text == found {
            continue;
        }
        let mut lines = text.lines().zip(found.lines());
        let (line, found) = lines.find(|(line, found)| line != found).unwrap_or(("more or fewer lines", ""));
        bail!("{MANIFESTS}/{name} has `{line}`, the chart renders `{found}`");
    }
    Ok(())
}

/// Fails unless the rendered rule has all of these alerts, with links to the documents' address.
fn ensure_rules(rendered: &str, alerts: &str) -> Result<()> {
    let (_, rule) = rendered.split_once("\nkind: PrometheusRule\n").context("no rule is rendered")?;
    let (_, spec) = rule.split_once("\nspec:\n").context("the rule has no content")?;
    let lines = spec.split("\n---\n").next().unwrap_or(spec).lines();
    let found: Vec<&str> = lines.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    let wanted = alerts.replace(RUNBOOK, LINKED_RUNBOOK);
    ensure!(
        found.join("\n").trim_end() == wanted.trim_end(),
        "the rendered rule has other alerts than {ALERTS}"
    );
    Ok(())
}

/// Fails if the schema of values accepts one that it has to refuse.
fn refuse(helm: &Path) -> Result<()> {
    for (value, named) in REFUSED {
        let mut template = in_root(helm);
        template.args(["template", "kith", CHART, "--set", value]).args(kube_version());
        let output = template.output()?;
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success(), "the chart accepts {value}");
        ensure!(why.contains(named), "{value} is refused, but for another reason: {why}");
    }
    Ok(())
}

/// Fails unless Kubernetes knows all that is rendered, in its oldest and its newest version.
fn ensure_known(default: &str, every: &str) -> Result<()> {
    let (kubeconform, schemas) = (tools::kubeconform()?, schemas::fetch()?);
    let namespace = read(&format!("{MANIFESTS}/{NAMESPACE}"))?;
    let misspelt = default.replace("minReadySeconds:", "minReadySecond:");
    for version in schemas::VERSIONS {
        let conforms = |text: &str| conforms(&kubeconform, &schemas, version, text);
        for text in [default, every, &namespace] {
            ensure!(conforms(text)?, "Kubernetes {version} does not know all that is rendered");
        }
        eprintln!("a misspelt field must be found:");
        ensure!(!conforms(&misspelt)?, "the schemas of {version} accept a field that does not exist");
    }
    Ok(())
}

/// Returns whether these manifests fit the schemas of this version. Prints what does not.
fn conforms(kubeconform: &Path, schemas: &Path, version: &str, text: &str) -> Result<bool> {
    let mut command = in_root(kubeconform);
    command.args(["-strict", "-skip", FOREIGN, "-kubernetes-version", version, "-schema-location"]);
    let mut child = command.arg(schemas.join(SCHEMA)).arg("-").stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("the input is a pipe")?.write_all(text.as_bytes())?;
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_by_their_template() {
        let rendered = "---\n# Source: kith/templates/b.yaml\n# why\nkind: B\n---\n# Source: kith/templates/a.yaml\n\
                        kind: A\n---\n# Source: kith/templates/b.yaml\n# because\nkind: C\n";
        let found = by_file(rendered);
        assert_eq!(found["a.yaml"], ["kind: A"]);
        assert_eq!(found["b.yaml"], documents("# why\nkind: B\n---\n# because\nkind: C\n"));
    }

    #[test]
    fn first_different_line_is_named() {
        let of = |text: &str| Documents::from([("a.yaml".to_owned(), documents(text))]);
        assert!(ensure_equal(&of("a: 1\nb: 2\n"), &of("a: 1\nb: 2\n")).is_ok());
        let why = ensure_equal(&of("a: 1\nb: 2\n"), &of("a: 1\nb: 3\n")).unwrap_err().to_string();
        assert!(why.ends_with("a.yaml has `b: 2`, the chart renders `b: 3`"), "{why}");
        let why = ensure_equal(&of("a: 1\nb: 2\n"), &of("a: 1\n")).unwrap_err().to_string();
        assert!(why.contains("more or fewer lines"), "{why}");
        assert!(ensure_equal(&of("a: 1\n"), &Documents::new()).is_err());
    }

    #[test]
    fn rule_with_another_alert_is_refused() {
        let alerts = "groups:\n  - alert: A\n    runbook_url: docs/a.md\n";
        let rendered = "---\nkind: PrometheusRule\nmetadata: {}\nspec:\n  groups:\n    - alert: A\n      runbook_url: \
                        https://docs.example/0.2.0/docs/a.md\n---\nkind: B\n";
        assert!(ensure_rules(rendered, alerts).is_ok());
        assert!(ensure_rules(&rendered.replace("alert: A", "alert: B"), alerts).is_err());
        assert!(ensure_rules("kind: Other\n", alerts).is_err());
    }
}
