//! The commands of the change.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use metal3_api::crd::Crd;
use serde_json::Value;

use super::change::{Direction, With};
use super::observe::Observed;
use super::programs::{PROGRAMS, Program, Running};
use super::report::Step;
use super::settings::Settings;
use super::shell::line;
use super::{calls, inventory};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// What the user fills in for the release of upstream's that one goes back to.
const UPSTREAM: &str = "VERSION";

/// Where the operator's container has Ironic's credentials and authority, and the chart's values that name their Secrets.
const MOUNTS: [(&str, &str, &str); 2] = [
    (
        "/opt/metal3/auth/ironic",
        "ironic-credentials",
        "ironic.credentialsSecret",
    ),
    ("/opt/metal3/certs/ca", "ironic-cacert", "ironic.caSecret"),
];

/// The chart's own values for what the operator is told by variables.
const VALUES: [(&str, &str); 6] = [
    ("IRONIC_ENDPOINT", "ironic.endpoint"),
    ("IRONIC_NAME", "ironic.resource.name"),
    ("IRONIC_NAMESPACE", "ironic.resource.namespace"),
    ("DEPLOY_KERNEL_URL", "ironic.deployKernelUrl"),
    ("DEPLOY_RAMDISK_URL", "ironic.deployRamdiskUrl"),
    ("DEPLOY_ISO_URL", "ironic.deployIsoUrl"),
];

/// What the user fills in where nothing in the cluster says it.
const WHERE_IRONIC_IS: &str = "ironic.endpoint=https://IRONIC:6385";

/// The commands, in their order; none if everything is as it should be already.
pub fn steps(
    observed: &Observed,
    running: &[Running<'_>],
    wanted: &[Crd],
    direction: Direction,
    with: With,
) -> Vec<Step> {
    let (leaving, staying): (Vec<_>, Vec<_>) = running
        .iter()
        .partition(|one| one.is_ours() == (direction == Direction::Back));
    let missing = PROGRAMS
        .iter()
        .filter(|program| staying.iter().all(|one| one.program.name != program.name));
    let missing: Vec<_> = missing.collect();
    if leaving.is_empty() && missing.is_empty() {
        return Vec::new();
    }
    if direction == Direction::Back {
        return back(observed, &leaving, &missing);
    }
    let is_by_clusterctl = with == With::Clusterctl;
    let mut steps = match with {
        With::Helm => stopped(&leaving, |_| true),
        With::Clusterctl => stopped(&leaving, Running::is_operator),
        // A Deployment's selector cannot change. Those of the providers are as upstream's.
        With::Kubectl => stopped(&leaving, |one| {
            one.is_operator() || one.namespace() != one.program.namespace
        }),
    };
    // clusterctl deletes those of the providers itself.
    let replaced = PROGRAMS
        .iter()
        .filter(|program| !is_by_clusterctl || program.provider.is_none());
    let why = "upstream's entries call what ours does not serve; the installation brings others";
    steps.extend(without_configurations(observed, replaced, why));
    steps.extend(calls::without_conversion(observed, wanted).map(|command| {
        step(
            "these have one version: upstream's conversion was never made, and ours has none",
            command,
        )
    }));
    if !is_by_clusterctl {
        steps.extend(inventory::forgotten(observed));
    }
    steps.extend(match with {
        With::Helm => vec![by_helm(observed, &leaving, true)],
        With::Kubectl => by_kubectl(),
        With::Clusterctl => by_clusterctl(observed, &leaving),
    });
    steps
}

fn step(why: &str, command: String) -> Step {
    Step {
        why: why.to_owned(),
        command,
    }
}

fn delete(one: &Running<'_>) -> Step {
    step(
        &format!("{} stops; no server is touched, and hosts wait", one.program.name),
        line([
            "kubectl",
            "--namespace",
            &one.namespace(),
            "delete",
            "deployment",
            &one.deployment.name_any(),
            "--wait",
        ]),
    )
}

fn stopped<'a>(leaving: &[&Running<'a>], which: impl Fn(&Running<'a>) -> bool) -> Vec<Step> {
    leaving.iter().filter(|one| which(one)).map(|one| delete(one)).collect()
}

/// Deletes the configurations of these programs' webhooks, but for those that a release of Helm's deletes.
fn without_configurations<'a>(
    observed: &Observed,
    programs: impl Iterator<Item = &'a Program>,
    why: &str,
) -> Vec<Step> {
    let names = programs.flat_map(Program::configurations);
    let is_there = |(kind, name): &(&str, String)| {
        observed
            .configurations
            .iter()
            .any(|one| one.kind == *kind && one.name == *name && !is_of_release(&one.object["metadata"]["annotations"]))
    };
    let delete = |(kind, name): (&str, String)| step(why, line(["kubectl", "delete", &kind.to_lowercase(), &name]));
    names.filter(is_there).map(delete).collect()
}

/// Whether a release of Helm's deletes an object with these annotations.
fn is_of_release(annotations: &Value) -> bool {
    annotations["meta.helm.sh/release-name"].is_string() && annotations["helm.sh/resource-policy"] != "keep"
}

fn by_helm(observed: &Observed, leaving: &[&Running<'_>], is_all: bool) -> Step {
    let operator = leaving.iter().find(|one| one.is_operator());
    let namespace = operator.map_or_else(|| PROGRAMS[0].namespace.to_owned(), |one| one.namespace());
    let mut values = vec!["image.registry=REGISTRY".to_owned()];
    values.extend(operator.map_or_else(
        || vec![WHERE_IRONIC_IS.to_owned()],
        |operator| ironic(observed, operator),
    ));
    for one in leaving.iter().filter(|one| is_all || one.is_operator()) {
        let told = Settings::of(one, observed).told;
        let told = told
            .iter()
            .filter(|(name, _)| VALUES.iter().all(|(of_chart, _)| name != of_chart));
        values.extend(told.map(|(name, value)| format!("{}.env.{name}={value}", one.program.values)));
    }
    let mut words = vec!["helm", "install", "metal3", "charts/metal3", "--namespace", &namespace];
    words.extend(["--create-namespace", "--take-ownership", "--force-conflicts"]);
    // Values of the cluster's objects are taken as they are: commas and braces mean something to `--set`.
    words.extend(values.iter().flat_map(|value| ["--set-literal", value]));
    if !is_all {
        words.extend(["--set", "provider.enabled=false,ipam.enabled=false"]);
    }
    // As upstream's roles have it; docs/install.md says how to narrow it.
    words.extend(["--set", "secrets.allNamespaces=true"]);
    step(
        "the programs start, with the definitions and their objects taken over",
        line(words),
    )
}

/// The chart's values for the Ironic that upstream's operator drives.
fn ironic(observed: &Observed, operator: &Running<'_>) -> Vec<String> {
    let told = Settings::of(operator, observed).told;
    let mut values: Vec<_> = VALUES
        .iter()
        .filter_map(|(name, key)| Some(format!("{key}={}", told.get(*name)?)))
        .collect();
    if !told.contains_key("IRONIC_ENDPOINT") && !told.contains_key("IRONIC_NAME") {
        values.insert(0, WHERE_IRONIC_IS.to_owned());
    }
    for (path, default, key) in MOUNTS {
        if let Some(secret) = mounted(operator.deployment, path).filter(|secret| secret != default) {
            values.push(format!("{key}={secret}"));
        }
    }
    values
}

/// The Secret that a Deployment mounts at a path.
fn mounted(deployment: &Deployment, path: &str) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let mut mounts = pod.containers.iter().flat_map(|one| one.volume_mounts.iter().flatten());
    let mount = mounts.find(|mount| mount.mount_path.trim_end_matches('/') == path)?;
    let mut volumes = pod.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == mount.name)?;
    volume.secret.as_ref()?.secret_name.clone()
}

fn by_kubectl() -> Vec<Step> {
    vec![
        step(
            "the programs start; the definitions are taken over with their objects",
            "kubectl apply --server-side --force-conflicts -k config/default".to_owned(),
        ),
        step(
            "they may read the Secrets that hosts and machines name, as upstream's may",
            "kubectl apply --server-side --force-conflicts -k config/rbac/secrets-in-all-namespaces".to_owned(),
        ),
    ]
}

fn by_clusterctl(observed: &Observed, leaving: &[&Running<'_>]) -> Vec<Step> {
    let [infrastructure, ipam] = [&PROGRAMS[1], &PROGRAMS[2]].map(|program| {
        let one = leaving.iter().find(|one| one.program.name == program.name);
        let namespace = one.map_or_else(|| program.namespace.to_owned(), |one| one.namespace());
        format!("{namespace}/metal3:{VERSION}")
    });
    let words = [
        "clusterctl",
        "upgrade",
        "apply",
        "--infrastructure",
        &infrastructure,
        "--ipam",
        &ipam,
    ];
    vec![
        by_helm(observed, leaving, false),
        step("clusterctl replaces the providers in their place", line(words)),
    ]
}

fn back(observed: &Observed, leaving: &[&Running<'_>], missing: &[&Program]) -> Vec<Step> {
    let mut releases = Vec::new();
    let mut steps = Vec::new();
    for one in leaving {
        let annotation = |name: &str| one.deployment.annotations().get(&format!("meta.helm.sh/{name}"));
        match annotation("release-name").zip(annotation("release-namespace")) {
            Some(release) if releases.contains(&release) => {}
            Some(release) => {
                releases.push(release);
                steps.push(step(
                    "the programs stop; the definitions and their objects stay, and no server is touched",
                    line(["helm", "uninstall", release.0, "--namespace", release.1, "--wait"]),
                ));
            }
            None => steps.push(delete(one)),
        }
    }
    let why = "upstream's brings its own, and would leave entries of ours that it does not serve";
    steps.extend(without_configurations(observed, missing.iter().copied(), why));
    for program in missing {
        let flag = match program.provider {
            Some("infrastructure-metal3") => "--infrastructure",
            Some(_) => "--ipam",
            None => continue,
        };
        steps.push(step(
            &format!(
                "upstream's {} starts; VERSION is a release of upstream's that is no older than what you had",
                program.name
            ),
            format!(
                "clusterctl generate provider {flag} metal3:{UPSTREAM} | kubectl apply --server-side --force-conflicts -f -"
            ),
        ));
    }
    steps.extend(inventory::corrected(observed, missing, UPSTREAM));
    if missing.iter().any(|program| program.provider.is_none()) {
        steps.push(step(
            "upstream's operator starts; OVERLAY is the folder of kustomize that you install it from",
            "kubectl apply --server-side --force-conflicts -k OVERLAY".to_owned(),
        ));
    }
    steps
}
