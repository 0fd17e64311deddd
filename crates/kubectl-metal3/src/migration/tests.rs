use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::observe::{Configuration, Provider};
use super::*;

/// A program of upstream's, or ours.
fn deployment(name: &str, image: &str, namespace: &str, is_ours: bool, args: &[&str]) -> Deployment {
    let program = image.rsplit('/').next().and_then(|last| last.split(':').next());
    let labels = if is_ours {
        json!({"app.kubernetes.io/part-of": "metal3", "app.kubernetes.io/name": program})
    } else {
        json!({"control-plane": "controller-manager"})
    };
    let mounts = json!([{"name": "auth", "mountPath": "/opt/metal3/auth/ironic"}]);
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {}, "template": {"metadata": {"labels": labels}, "spec": {
            "volumes": [{"name": "auth", "secret": {"secretName": "ironic-credentials-x7"}}],
            "containers": [{"name": "manager", "image": image, "args": args, "volumeMounts": mounts,
                "envFrom": [{"configMapRef": {"name": "ironic"}}]}],
        }}},
    }))
    .unwrap()
}

fn operator(is_ours: bool, args: &[&str]) -> Deployment {
    let (name, namespace) = ("baremetal-operator-controller-manager", "baremetal-operator-system");
    let image = "mirror.example.org/quay/baremetal-operator:v0.14.0";
    deployment(name, image, namespace, is_ours, args)
}

fn provider(is_ours: bool) -> Deployment {
    let image = "quay.io/metal3-io/cluster-api-provider-metal3:v1.14.0";
    deployment(
        "capm3-controller-manager",
        image,
        "capm3-system",
        is_ours,
        &["--webhook-port=9443"],
    )
}

fn ipam(is_ours: bool) -> Deployment {
    let image = "quay.io/metal3-io/ip-address-manager:v1.14.0@sha256:00";
    deployment("ipam-controller-manager", image, "metal3-ipam-system", is_ours, &[])
}

fn upstream() -> Observed {
    let variables = [
        ("IRONIC_ENDPOINT", "https://172.22.0.2:6385/v1/"),
        ("DEPLOY_KERNEL_URL", ""),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Observed {
        deployments: vec![
            operator(false, &["--enable-leader-election", "--hostclaims"]),
            provider(false),
            ipam(false),
        ],
        config_maps: BTreeMap::from([(
            ("baremetal-operator-system".to_owned(), "ironic".to_owned()),
            BTreeMap::from(variables),
        )]),
        ..Observed::default()
    }
}

fn commands(report: &Report) -> Vec<&str> {
    report.steps.iter().map(|step| step.command.as_str()).collect()
}

#[test]
fn upstream_is_stopped_before_the_chart_takes_its_place_with_its_ironic() {
    let mut observed = upstream();
    observed
        .configurations
        .push(configuration("capm3-validating-webhook-configuration", "Fail"));
    observed.services.insert(("n".to_owned(), "s".to_owned()), true);
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!(report.blockers, []);
    assert_eq!(
        commands(&report),
        [
            "kubectl --namespace baremetal-operator-system delete deployment baremetal-operator-controller-manager --wait",
            "kubectl --namespace capm3-system delete deployment capm3-controller-manager --wait",
            "kubectl --namespace metal3-ipam-system delete deployment ipam-controller-manager --wait",
            "kubectl delete validatingwebhookconfiguration capm3-validating-webhook-configuration",
            "helm install metal3 charts/metal3 --namespace baremetal-operator-system --create-namespace --take-ownership --force-conflicts \
             --set-literal 'image.registry=REGISTRY' --set-literal 'ironic.endpoint=https://172.22.0.2:6385/v1/' \
             --set-literal 'ironic.credentialsSecret=ironic-credentials-x7' --set 'secrets.allNamespaces=true'",
        ]
    );
    assert!(
        report.found[0].starts_with("baremetal-operator: upstream's, v0.14.0, "),
        "{:?}",
        report.found
    );
}

#[test]
fn the_providers_are_replaced_in_their_place_by_the_tool_that_installed_them() {
    let mut observed = upstream();
    let by_kubectl = decide(&observed, Direction::Here, With::Kubectl);
    let deleted = by_kubectl.steps.iter().filter(|step| step.command.contains(" delete "));
    assert_eq!(deleted.count(), 1, "{by_kubectl:#?}");

    let report = decide(&observed, Direction::Here, With::Clusterctl);
    let last = format!(
        "clusterctl upgrade apply --infrastructure capm3-system/metal3:v{0} --ipam metal3-ipam-system/metal3:v{0}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(commands(&report).last(), Some(&last.as_str()));
    assert!(commands(&report)[1].contains("--set 'provider.enabled=false,ipam.enabled=false'"));
    assert_eq!(
        report.blockers[0].object,
        "CustomResourceDefinition certificates.cert-manager.io"
    );
    observed
        .definitions
        .insert("certificates.cert-manager.io".to_owned(), json!({}));
    assert_eq!(decide(&observed, Direction::Here, With::Clusterctl).blockers, []);
}

#[test]
fn nothing_is_left_to_do_when_all_are_ours() {
    let observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        ..Observed::default()
    };
    for with in [With::Helm, With::Kubectl, With::Clusterctl] {
        let report = decide(&observed, Direction::Here, with);
        assert_eq!((report.blockers, report.steps, report.notes), (vec![], vec![], vec![]));
    }
}

#[test]
fn the_way_back_uninstalls_a_release_once() {
    let mut observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        ..Observed::default()
    };
    observed
        .definitions
        .insert("certificates.cert-manager.io".to_owned(), json!({}));
    assert_eq!(commands(&decide(&observed, Direction::Back, With::Helm)).len(), 6);
    for deployment in &mut observed.deployments {
        let of_release = [("release-name", "metal3"), ("release-namespace", "m")];
        let of_release = of_release.map(|(name, value)| (format!("meta.helm.sh/{name}"), value.to_owned()));
        deployment.metadata.annotations = Some(of_release.into());
    }
    let report = decide(&observed, Direction::Back, With::Helm);
    let commands = commands(&report);
    assert_eq!(commands.len(), 4);
    assert_eq!(commands[0], "helm uninstall metal3 --namespace m --wait");
    assert!(commands[1].starts_with("clusterctl generate provider --infrastructure metal3:VERSION | "));
    assert_eq!(report.blockers, []);
}

/// What blocks, and what is noted besides what a program is told.
fn found(report: &Report) -> (Vec<&str>, Vec<&str>) {
    let [blockers, mut notes] = [&report.blockers, &report.notes]
        .map(|findings| findings.iter().map(|one| one.what.as_str()).collect::<Vec<_>>());
    notes.retain(|what| !what.starts_with("it is told "));
    (blockers, notes)
}

/// A configuration of upstream's or ours that calls the provider's Service, with an entry for each path.
fn of_provider(name: &str, paths: &[&str]) -> Configuration {
    let service = |path: &str| json!({"namespace": "capm3-system", "name": "capm3-webhook-service", "path": path});
    let entry = |path: &&str| {
        json!({"failurePolicy": "Fail", "rules": [{"apiGroups": ["infrastructure.cluster.x-k8s.io"]}],
            "clientConfig": {"service": service(path)}})
    };
    Configuration {
        kind: "MutatingWebhookConfiguration",
        name: name.to_owned(),
        object: json!({"webhooks": paths.iter().map(entry).collect::<Vec<_>>()}),
    }
}

const OLD_PATH: &str = "/mutate-infrastructure-cluster-x-k8s-io-v1beta1-metal3data";
const PATH: &str = "/mutate-infrastructure-cluster-x-k8s-io-v1beta2-metal3cluster";

fn is_answered(observed: &mut Observed) {
    let service = ("capm3-system".to_owned(), "capm3-webhook-service".to_owned());
    observed.services.insert(service, true);
}

#[rstest]
#[case::helm(With::Helm)]
#[case::kubectl(With::Kubectl)]
fn the_webhooks_of_upstreams_1_12_are_deleted_before_ours_are_installed(#[case] with: With) {
    let mut observed = upstream();
    let name = "capm3-mutating-webhook-configuration";
    observed.configurations.push(of_provider(name, &[OLD_PATH, PATH]));
    is_answered(&mut observed);
    let report = decide(&observed, Direction::Here, with);
    assert_eq!(found(&report), (vec![], vec![]));
    let commands = commands(&report);
    let at = |part: &str| commands.iter().position(|command| command.contains(part));
    let (deleted, installed) = (
        at(&format!("kubectl delete mutatingwebhookconfiguration {name}")),
        at(" install metal3 ").or_else(|| at("config/default")),
    );
    assert!(deleted.is_some() && deleted < installed, "{commands:#?}");
}

#[rstest]
#[case::left_over(&[OLD_PATH, PATH], Some("it calls /mutate-infrastructure-cluster-x-k8s-io-v1beta1-metal3data, which ours does not serve"))]
#[case::ours(&[PATH], None)]
fn entries_that_ours_does_not_serve_block(#[case] paths: &[&str], #[case] what: Option<&str>) {
    let mut observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        ..Observed::default()
    };
    let name = "capm3-mutating-webhook-configuration";
    observed.configurations.push(of_provider(name, paths));
    is_answered(&mut observed);
    let report = decide(&observed, Direction::Here, With::Kubectl);
    let found: Vec<_> = report.blockers.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(found, Vec::from_iter(what));
    let delete = format!("`kubectl delete mutatingwebhookconfiguration {name}`, and install ours once more");
    assert!(
        report.blockers.iter().all(|one| one.then.contains(&delete)),
        "{report:#?}"
    );
}

// OWN 31xw: webhooks of ours stayed that upstream's older operator does not serve.
#[test]
fn the_way_back_leaves_none_of_our_webhooks() {
    let mut observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        ..Observed::default()
    };
    let name = "baremetal-operator-validating-webhook-configuration";
    observed.configurations.push(configuration(name, "Fail"));
    let report = decide(&observed, Direction::Back, With::Kubectl);
    let commands = commands(&report);
    let delete = format!("kubectl delete validatingwebhookconfiguration {name}");
    assert_eq!(commands[3], delete, "{commands:#?}");
    // Helm deletes what it has installed.
    let of_release = json!({"meta.helm.sh/release-name": "metal3"});
    observed.configurations[0].object["metadata"] = json!({ "annotations": of_release });
    let report = decide(&observed, Direction::Back, With::Helm);
    assert!(!self::commands(&report).contains(&delete.as_str()), "{report:#?}");
}

/// Upstream's definitions for IPAM, which ask for a conversion by a Service that may be there.
fn converting(observed: &mut Observed) {
    for crd in crd::all().unwrap() {
        let mut definition = crd.manifest().clone();
        if crd.name().ends_with(".ipam.metal3.io") {
            let service =
                json!({"namespace": "metal3-ipam-system", "name": "ipam-webhook-service", "path": "/convert"});
            definition["spec"]["conversion"] =
                json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}});
        }
        observed.definitions.insert(crd.name().to_owned(), definition);
    }
    is_answered(observed);
}

const NOT_CONVERTED: &str = "kubectl patch crd ipaddresses.ipam.metal3.io ipclaims.ipam.metal3.io ippools.ipam.metal3.io \
    --type merge --patch '{\"spec\":{\"conversion\":{\"strategy\":\"None\",\"webhook\":null}}}'";

#[rstest]
#[case::helm(With::Helm)]
#[case::kubectl(With::Kubectl)]
#[case::clusterctl(With::Clusterctl)]
fn conversions_of_definitions_with_one_version_are_taken_out(#[case] with: With) {
    let mut observed = upstream();
    converting(&mut observed);
    observed.definitions.insert(CERTIFICATES.to_owned(), json!({}));
    let report = decide(&observed, Direction::Here, with);
    assert_eq!(found(&report), (vec![], vec![]));
    let count = commands(&report)
        .iter()
        .filter(|command| **command == NOT_CONVERTED)
        .count();
    assert_eq!(count, 1, "{report:#?}");
}

// OWN 31xu: the check never said that nothing is left to do.
#[test]
fn a_conversion_that_is_never_made_blocks_nothing() {
    let mut observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        ..Observed::default()
    };
    converting(&mut observed);
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!((&report.blockers, &report.steps), (&vec![], &vec![]));
    assert_eq!(report.notes.len(), 1, "{report:#?}");
    assert!(report.notes[0].then.contains(NOT_CONVERTED), "{report:#?}");
}

/// An inventory of clusterctl, with Cluster API itself.
fn inventory(version: &str) -> Vec<Provider> {
    let provider = |namespace: &str, name: &str| Provider {
        key: (namespace.to_owned(), name.to_owned()),
        version: version.to_owned(),
    };
    vec![
        provider("capi-system", "cluster-api"),
        provider("capm3-system", "infrastructure-metal3"),
        provider("metal3-ipam-system", "ipam-metal3"),
    ]
}

// OWN 31xy: the next upgrade by clusterctl would have installed upstream's over ours.
#[rstest]
#[case::helm(With::Helm, 2)]
#[case::kubectl(With::Kubectl, 2)]
#[case::clusterctl(With::Clusterctl, 0)]
fn clusterctl_forgets_what_another_tool_replaces(#[case] with: With, #[case] expected: usize) {
    let mut observed = upstream();
    observed.inventory = inventory("v1.14.0");
    let report = decide(&observed, Direction::Here, with);
    let delete = " delete providers.clusterctl.cluster.x-k8s.io ";
    let commands = commands(&report);
    let forgotten = commands.iter().filter(|command| command.contains(delete));
    assert_eq!(forgotten.count(), expected, "{commands:#?}");
}

#[rstest]
#[case::upstreams("v1.13.2", 2)]
#[case::ours("v1.14.0", 0)]
fn an_inventory_that_names_another_version_is_noted(#[case] version: &str, #[case] notes: usize) {
    let observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        inventory: inventory(version),
        ..Observed::default()
    };
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!((&report.blockers, report.notes.len()), (&vec![], notes), "{report:#?}");
}

// OWN 31xz: the way back did not work for those who use clusterctl.
#[test]
fn the_way_back_corrects_the_inventory() {
    let observed = Observed {
        deployments: vec![operator(true, &[]), provider(true), ipam(true)],
        inventory: inventory("v1.15.0"),
        ..Observed::default()
    };
    let report = decide(&observed, Direction::Back, With::Clusterctl);
    let patch = "kubectl --namespace capm3-system patch providers.clusterctl.cluster.x-k8s.io infrastructure-metal3 \
                 --type merge --patch '{\"version\":\"VERSION\"}'";
    assert!(commands(&report).contains(&patch), "{report:#?}");
    let note = report
        .notes
        .iter()
        .find(|note| note.object.contains("configuration of clusterctl"));
    assert!(note.is_some(), "{report:#?}");
}

fn configuration(name: &str, policy: &str) -> Configuration {
    Configuration {
        kind: "ValidatingWebhookConfiguration",
        name: name.to_owned(),
        object: json!({"webhooks": [
            {"failurePolicy": policy, "rules": [{"apiGroups": ["metal3.io"]}],
             "clientConfig": {"service": {"namespace": "n", "name": "s"}}},
            {"failurePolicy": "Fail", "rules": [{"apiGroups": ["apps"]}],
             "clientConfig": {"service": {"namespace": "n", "name": "of-others"}}},
        ]}),
    }
}

#[rstest]
#[case::left_over("old-configuration", "Fail", false, (1, 0))]
#[case::ignored("old-configuration", "Ignore", false, (0, 0))]
#[case::answered("old-configuration", "Fail", true, (0, 0))]
#[case::replaced("baremetal-operator-validating-webhook-configuration", "Fail", false, (0, 1))]
fn a_webhook_that_nobody_answers_blocks_unless_it_is_replaced(
    #[case] name: &str,
    #[case] policy: &str,
    #[case] is_served: bool,
    #[case] expected: (usize, usize),
) {
    let mut observed = upstream();
    observed.configurations.push(configuration(name, policy));
    if is_served {
        observed.services.insert(("n".to_owned(), "s".to_owned()), true);
    }
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!((report.blockers.len(), report.notes.len()), expected, "{report:#?}");
    let all: Vec<_> = report.blockers.iter().chain(&report.notes).collect();
    assert!(
        all.iter()
            .all(|one| one.what == "it calls Service n/s, which does not exist"),
        "{all:?}"
    );
}

#[test]
fn the_flag_of_upstreams_1_12_is_carried_over() {
    let mut observed = upstream();
    let args = [
        "--webhook-port=9443",
        "--enableBMHNameBasedPreallocation=true",
        "--tls-min-version=VersionTLS13",
    ];
    container(&mut observed.deployments[1]).args = Some(args.map(str::to_owned).to_vec());
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!(report.blockers, []);
    let install = commands(&report).last().copied().unwrap_or_default();
    let told = "provider.env.ENABLE_BMH_NAME_BASED_PREALLOCATION=true";
    assert!(install.contains(told), "{install}");
}

#[rstest]
#[case::known(&["--namespace=a", "-enable-leader-election", "--webhook-port", "9443", "--health-addr=$(ADDRESS)"], None)]
#[case::value_of_a_variable(&["--webhook-port", "$(PORT)", "--kube-api-qps", "$(QPS)"], None)]
#[case::unknown(&["--demo-mode"], Some("'--demo-mode'"))]
#[case::bad_value(&["--webhook-port=x"], Some("'x'"))]
fn arguments_that_mean_nothing_to_ours_block(#[case] args: &[&str], #[case] named: Option<&str>) {
    let mut observed = upstream();
    observed.deployments[0] = operator(false, args);
    let report = decide(&observed, Direction::Here, With::Helm);
    match named {
        None => assert_eq!(report.blockers, []),
        Some(named) => {
            assert_eq!(report.blockers.len(), 1);
            assert!(report.blockers[0].what.contains(named), "{:?}", report.blockers);
        }
    }
}

#[test]
fn two_that_run_block_and_one_that_is_scaled_to_nothing_does_not() {
    let mut observed = upstream();
    let mut second = provider(false);
    second.metadata.namespace = Some("other".to_owned());
    observed.deployments.push(second);
    let report = decide(&observed, Direction::Here, With::Helm);
    let object = "Deployment capm3-system/capm3-controller-manager, Deployment other/capm3-controller-manager";
    assert_eq!(report.blockers[0].object, object);
    if let Some(spec) = &mut observed.deployments[3].spec {
        spec.replicas = Some(0);
    }
    assert_eq!(decide(&observed, Direction::Here, With::Helm).blockers, []);
}

#[rstest]
#[case::old_version("metal3machines.infrastructure.cluster.x-k8s.io", json!({"status": {"storedVersions": ["v1alpha5", "v1beta1"]}}),
    "objects are stored as v1alpha5, ")]
#[case::new_field("baremetalhosts.metal3.io", json!({"spec": {"versions": [{"name": "v1alpha1", "schema": {"openAPIV3Schema":
    {"properties": {"spec": {"properties": {"brandNew": {}}}}}}}]}}), "it has fields that the new definition does not have: v1alpha1: spec.brandNew")]
#[case::old_cluster_api("clusters.cluster.x-k8s.io", json!({"spec": {"versions": [{"name": "v1beta1", "served": true}]}}),
    "it does not serve v1beta2")]
fn definitions_that_cannot_be_replaced_block(#[case] name: &str, #[case] definition: Value, #[case] what: &str) {
    let mut observed = upstream();
    observed.definitions.insert(name.to_owned(), definition);
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!(report.blockers.len(), 1);
    assert!(report.blockers[0].what.starts_with(what), "{:?}", report.blockers);
}

#[test]
fn our_own_definitions_block_nothing() {
    let mut observed = upstream();
    for crd in crd::all().unwrap() {
        observed
            .definitions
            .insert(crd.name().to_owned(), crd.manifest().clone());
    }
    let definition = observed
        .definitions
        .get_mut("metal3clusters.infrastructure.cluster.x-k8s.io")
        .unwrap();
    definition["status"] = json!({"storedVersions": ["v1beta1", "v1beta2"]});
    let converts = ("capm3-system".to_owned(), "capm3-webhook-service".to_owned());
    observed.services.insert(converts, true);
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!(report.blockers, []);
    let what: Vec<_> = report.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(what, ["objects may be stored in an old version"]);
}

#[test]
fn hosts_are_counted_by_state_and_those_that_matter_are_named() {
    let mut observed = upstream();
    let host = |name: &str, state: &str| Host {
        key: ("n".to_owned(), name.to_owned()),
        state: state.to_owned(),
        ..Host::default()
    };
    observed.hosts = (0..7).map(|n| host(&format!("h{n}"), "provisioning")).collect();
    observed.hosts.push(Host {
        is_paused: true,
        ..host("p", "available")
    });
    observed.hosts.push(Host {
        is_to_be_restored: true,
        ..host("r", "")
    });
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!(
        report.found.last().unwrap(),
        "9 hosts: 1 available, 1 no state yet, 7 provisioning"
    );
    let objects: BTreeSet<_> = report.notes.iter().map(|note| note.object.as_str()).collect();
    let at_work = "BareMetalHost n/h0, n/h1, n/h2, n/h3, n/h4 and 2 more";
    assert_eq!(
        objects,
        BTreeSet::from([at_work, "BareMetalHost n/p", "BareMetalHost n/r"])
    );
    observed.hosts[0].is_moving = true;
    assert_eq!(
        decide(&observed, Direction::Here, With::Helm).blockers[0].object,
        "BareMetalHost n/h0"
    );
}

#[test]
fn the_text_names_every_part_of_the_report() {
    let mut observed = upstream();
    observed.configurations.push(configuration("old-configuration", "Fail"));
    let text = super::super::report::Output::Text.print(&decide(&observed, Direction::Here, With::Helm));
    for part in [
        "FOUND\n",
        "BLOCKS THE CHANGE\n",
        "RUN, ONCE NOTHING BLOCKS\n",
        "\nSomething blocks the change.\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

fn container(deployment: &mut Deployment) -> &mut k8s_openapi::api::core::v1::Container {
    let spec = deployment.spec.as_mut().unwrap();
    &mut spec.template.spec.as_mut().unwrap().containers[0]
}

#[test]
fn what_a_program_was_told_is_told_to_the_one_that_takes_its_place() {
    let mut observed = upstream();
    observed.deployments[0] = operator(
        false,
        &[
            "--namespace",
            "$(WATCHED)",
            "--webhook-port=9444",
            "--kube-api-qps=$(NOBODY_KNOWS)",
            "--health-addr=:1",
        ],
    );
    let env = json!([
        {"name": "WATCHED", "value": "rack-1,rack-2"},
        {"name": "PROVISIONING_LIMIT", "valueFrom": {"configMapKeyRef": {"name": "ironic", "key": "limit"}}},
        {"name": "DEPLOY_RAMDISK_URL", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
        {"name": "OF_ANOTHER", "value": "1"},
    ]);
    container(&mut observed.deployments[0]).env = Some(serde_json::from_value(env).unwrap());
    let of_map = observed.config_maps.values_mut().next().unwrap();
    of_map.insert("limit".to_owned(), "7\n".to_owned());
    // What anybody who may write this ConfigMap could try on the person who pastes the command.
    of_map.insert(
        "DEPLOY_KERNEL_URL".to_owned(),
        "http://h/k?a=1&b={$(touch /tmp/x)},c".to_owned(),
    );
    of_map.insert("DEPLOY_RAMDISK_URL".to_owned(), "http://h/overridden".to_owned());
    let report = decide(&observed, Direction::Here, With::Helm);
    assert_eq!(report.blockers, []);
    assert_eq!(
        commands(&report).last().unwrap(),
        &"helm install metal3 charts/metal3 --namespace baremetal-operator-system --create-namespace --take-ownership --force-conflicts \
          --set-literal 'image.registry=REGISTRY' --set-literal 'ironic.endpoint=https://172.22.0.2:6385/v1/' \
          --set-literal 'ironic.deployKernelUrl=http://h/k?a=1&b={$(touch /tmp/x)},c' \
          --set-literal 'ironic.credentialsSecret=ironic-credentials-x7' \
          --set-literal 'operator.env.HTTPS_PROXY=http://proxy:3128' --set-literal 'operator.env.PROVISIONING_LIMIT=7' \
          --set-literal 'operator.env.WATCH_NAMESPACE=rack-1,rack-2' --set 'secrets.allNamespaces=true'"
    );
    let by_kubectl = decide(&observed, Direction::Here, With::Kubectl);
    assert!(
        by_kubectl.notes[0].what.contains("WATCH_NAMESPACE=rack-1,rack-2"),
        "{by_kubectl:#?}"
    );
}

#[rstest]
#[case::apart(&["--namespace=a"], &["--namespace=b,c"], 0)]
#[case::shared(&["--namespace=a,b"], &["--namespace=b"], 1)]
#[case::everywhere(&["--namespace=a"], &[], 1)]
fn two_of_one_program_meet_where_they_watch_the_same(
    #[case] one: &[&str],
    #[case] other: &[&str],
    #[case] blockers: usize,
) {
    let mut observed = upstream();
    observed.deployments[0] = operator(false, one);
    let mut second = operator(false, other);
    second.metadata.namespace = Some("other".to_owned());
    observed.deployments.push(second);
    assert_eq!(decide(&observed, Direction::Here, With::Helm).blockers.len(), blockers);
}

#[test]
fn a_label_that_a_user_gives_all_of_metal3_makes_nothing_ours() {
    let mut observed = upstream();
    for deployment in &mut observed.deployments {
        let metadata = deployment.spec.as_mut().unwrap().template.metadata.as_mut().unwrap();
        let label = ("app.kubernetes.io/part-of".to_owned(), "metal3".to_owned());
        metadata.labels.get_or_insert_default().extend([label]);
    }
    assert_eq!(
        decide(&observed, Direction::Here, With::Helm),
        decide(&upstream(), Direction::Here, With::Helm)
    );
}

#[rstest]
#[case::is_not_there(None, Some("it calls Service n/s, which does not exist"))]
#[case::nobody_is_ready(Some(false), Some("it calls Service n/s, behind which no pod is ready"))]
#[case::answers(Some(true), None)]
fn a_conversion_that_nobody_answers_blocks_unless_it_is_replaced(
    #[case] service: Option<bool>,
    #[case] what: Option<&str>,
) {
    let mut observed = upstream();
    let service = service.map(|is_ready| (("n".to_owned(), "s".to_owned()), is_ready));
    observed.services.extend(service);
    let conversion =
        json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "n", "name": "s"}}}});
    for (plural, group) in [
        ("metal3clusters", "infrastructure.cluster.x-k8s.io"),
        ("machinesets", "cluster.x-k8s.io"),
        ("others", "example.org"),
    ] {
        let definition = json!({"spec": {"group": group, "conversion": conversion}});
        observed.definitions.insert(format!("{plural}.{group}"), definition);
    }
    let report = decide(&observed, Direction::Here, With::Helm);
    let of = |findings: &[Finding]| {
        findings
            .iter()
            .map(|one| (one.object.clone(), one.what.clone()))
            .collect::<Vec<_>>()
    };
    let expected = |name: &str| what.map(|what| (format!("CustomResourceDefinition {name}"), what.to_owned()));
    assert_eq!(
        of(&report.blockers),
        Vec::from_iter(expected("machinesets.cluster.x-k8s.io"))
    );
    assert_eq!(
        of(&report.notes),
        Vec::from_iter(expected("metal3clusters.infrastructure.cluster.x-k8s.io"))
    );
}

#[test]
fn a_stored_version_that_is_no_longer_served_is_not_lost() {
    let mut crd = crd::all()
        .unwrap()
        .into_iter()
        .find(|crd| crd.name().starts_with("metal3machines."))
        .unwrap()
        .manifest()
        .clone();
    crd["spec"]["versions"][0]["served"] = json!(false);
    let name = crd["spec"]["versions"][0]["name"].clone();
    crd["status"] = json!({"storedVersions": [name]});
    let mut observed = upstream();
    observed
        .definitions
        .insert("metal3machines.infrastructure.cluster.x-k8s.io".to_owned(), crd);
    observed
        .services
        .insert(("capm3-system".to_owned(), "capm3-webhook-service".to_owned()), true);
    assert_eq!(decide(&observed, Direction::Here, With::Helm).blockers, []);
}
