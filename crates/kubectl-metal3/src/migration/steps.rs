//! The commands of the change.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use super::change::{Direction, With};
use super::observe::Observed;
use super::programs::{PROGRAMS, Program, Running};
use super::report::Step;
use super::settings::Settings;
use super::shell::line;

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The release of upstream's that one goes back to.
const UPSTREAM: &str = "v1.14.0";

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
pub fn steps(observed: &Observed, running: &[Running<'_>], direction: Direction, with: With) -> Vec<Step> {
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
    match (direction, with) {
        (Direction::Here, With::Helm) => by_helm(observed, &leaving, true),
        (Direction::Here, With::Kubectl) => by_kubectl(&leaving),
        (Direction::Here, With::Clusterctl) => by_clusterctl(observed, &leaving),
        (Direction::Back, _) => back(&leaving, &missing),
    }
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

fn by_helm(observed: &Observed, leaving: &[&Running<'_>], is_all: bool) -> Vec<Step> {
    let stopped = leaving.iter().filter(|one| is_all || one.is_operator());
    let mut steps: Vec<_> = stopped.map(|one| delete(one)).collect();
    let programs = PROGRAMS.iter().filter(|program| is_all || program.provider.is_none());
    for program in programs {
        for kind in ["mutating", "validating"] {
            let name = format!("{}{kind}-webhook-configuration", program.prefix);
            if observed.configurations.iter().any(|one| one.name == name) {
                steps.push(step(
                    "its Service would not be ours; the chart brings another",
                    line(["kubectl", "delete", &format!("{kind}webhookconfiguration"), &name]),
                ));
            }
        }
    }
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
    steps.push(step(
        "the programs start, with the definitions and their objects taken over",
        line(words),
    ));
    steps
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

fn by_kubectl(leaving: &[&Running<'_>]) -> Vec<Step> {
    // A Deployment's selector cannot change. Those of the providers are as upstream's.
    let mut steps: Vec<_> = leaving
        .iter()
        .filter(|one| one.is_operator() || one.namespace() != one.program.namespace)
        .map(|one| delete(one))
        .collect();
    steps.push(step(
        "the programs start; the definitions are taken over with their objects",
        "kubectl apply --server-side --force-conflicts -k config/default".to_owned(),
    ));
    steps.push(step(
        "they may read the Secrets that hosts and machines name, as upstream's may",
        "kubectl apply --server-side --force-conflicts -k config/rbac/secrets-in-all-namespaces".to_owned(),
    ));
    steps
}

fn by_clusterctl(observed: &Observed, leaving: &[&Running<'_>]) -> Vec<Step> {
    let mut steps = by_helm(observed, leaving, false);
    let [infrastructure, ipam] = [&PROGRAMS[1], &PROGRAMS[2]].map(|program| {
        let one = leaving.iter().find(|one| one.program.name == program.name);
        let namespace = one.map_or_else(|| program.namespace.to_owned(), |one| one.namespace());
        format!("{namespace}/metal3:{VERSION}")
    });
    steps.push(step(
        "clusterctl replaces the providers in their place",
        line([
            "clusterctl",
            "upgrade",
            "apply",
            "--infrastructure",
            &infrastructure,
            "--ipam",
            &ipam,
        ]),
    ));
    steps
}

fn back(leaving: &[&Running<'_>], missing: &[&Program]) -> Vec<Step> {
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
    for program in missing {
        let flag = match program.provider {
            Some("infrastructure-metal3") => "--infrastructure",
            Some(_) => "--ipam",
            None => continue,
        };
        steps.push(step(
            &format!("upstream's {} starts", program.name),
            format!(
                "clusterctl generate provider {flag} metal3:{UPSTREAM} | kubectl apply --server-side --force-conflicts -f -"
            ),
        ));
    }
    if missing.iter().any(|program| program.provider.is_none()) {
        steps.push(step(
            "upstream's operator starts; OVERLAY is the folder of kustomize that you install it from",
            "kubectl apply --server-side --force-conflicts -k OVERLAY".to_owned(),
        ));
    }
    steps
}
