//! What is installed in a cluster: each program with its permissions, its webhooks and its Deployment.
//!
//! There is one description of it. [`bases`] writes it as kustomize bases, [`chart`] as parts of the Helm chart, and [`dist`] as
//! the files that `kubectl apply` and `clusterctl` take.

pub mod alerts;
mod bases;
mod certificates;
mod chart;
mod clusterctl;
mod deployment;
pub mod dist;
mod origin;
pub mod program;
mod values;

use crate::generate::files::Files;

pub use bases::FOLDERS as BASES;
pub use chart::FOLDER as CHART;

/// The generated files of the repository: kustomize bases and the generated part of the chart.
pub fn files() -> anyhow::Result<Files> {
    let mut files = bases::files()?;
    files.extend(chart::files()?);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;
    use serde_json::Value;

    use super::deployment::{Certificates, Style, deployment};
    use super::program::{self, Program};
    use super::{certificates, clusterctl, dist};

    const STYLE: Style<'_> = Style {
        image: "image",
        certificates: Certificates::CertManager,
        has_variables: true,
    };

    fn texts<'a>(value: &'a Value, part: &str) -> Vec<&'a str> {
        let parts = value.as_array().into_iter().flatten();
        parts
            .filter_map(|item| if part.is_empty() { item } else { &item[part] }.as_str())
            .collect()
    }

    #[test]
    fn each_flag_and_variable_of_a_deployment_is_one_of_the_program() {
        for program in program::all() {
            let command = match program.name {
                "baremetal-operator" => baremetal_operator::args::Args::command(),
                "ip-address-manager" => ip_address_manager::args::Args::command(),
                _ => cluster_api_provider_metal3::args::Args::command(),
            };
            let flags: BTreeSet<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            let variables: BTreeSet<_> = command.get_arguments().filter_map(clap::Arg::get_env).collect();
            let object = deployment(&program, STYLE);
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            for arg in texts(&container["args"], "") {
                let flag = arg.trim_start_matches("--").split('=').next().unwrap();
                assert!(flags.contains(flag), "{}: {arg}", program.name);
            }
            for name in texts(&container["env"], "name")
                .into_iter()
                .filter(|name| *name != "POD_NAME")
            {
                let is_known = variables.iter().any(|variable| *variable == name);
                assert!(is_known || name == "POD_NAMESPACE", "{}: {name}", program.name);
            }
        }
    }

    /// Services reach the pods, role bindings name their account, and references stay within what is installed.
    #[test]
    fn what_is_installed_fits_together() {
        for program in program::all() {
            let object = deployment(&program, STYLE);
            let template = &object["spec"]["template"];
            let labels = &template["metadata"]["labels"];
            for (name, value) in program.labels().as_object().unwrap() {
                assert_eq!(&labels[name], value);
            }
            for service in program.webhooks.iter().filter(|object| object["kind"] == "Service") {
                for (name, value) in service["spec"]["selector"].as_object().unwrap() {
                    assert_eq!(&labels[name], value, "{}", program.name);
                }
            }
            let account = &template["spec"]["serviceAccountName"];
            let rights = [
                &program.rights.base,
                &program.rights.secrets_in_one_namespace,
                &program.rights.secrets_in_all_namespaces,
                &program.rights.secrets_by_name,
            ];
            for binding in rights.into_iter().flatten() {
                for subject in binding["subjects"].as_array().into_iter().flatten() {
                    assert_eq!(
                        (&subject["name"], &subject["namespace"]),
                        (account, &program.namespace.into())
                    );
                }
            }
            let secret = certificates::objects(&program)
                .pop()
                .map(|c| c["spec"]["secretName"].clone());
            let volumes = template["spec"]["volumes"].as_array().unwrap();
            let mounted = volumes.iter().find(|volume| volume["name"] == "cert");
            assert_eq!(secret, mounted.map(|volume| volume["secret"]["secretName"].clone()));
        }
    }

    // A Secret that may be listed is a Secret whose content may be read, and who may create one gets any service account's token.
    // The provider creates those with rendered data.
    #[test]
    fn what_knows_no_namespaces_lets_nobody_list_the_secrets_of_all() {
        let programs = program::all();
        let of = |name| programs.iter().find(|program| program.name == name).unwrap();
        let (operator, provider) = (of("baremetal-operator"), of("cluster-api-provider-metal3"));
        let by_name = ["create", "delete", "get", "patch"].as_slice();
        for (objects, expected) in [
            (dist::installed(operator, "r", "v1.15.0"), ["get", "update"].as_slice()),
            (dist::installed(provider, "r", "v1.15.0"), by_name),
            (clusterctl::components(provider, "r", "v1.15.0").unwrap(), by_name),
        ] {
            let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
            let bound = of_kind("ClusterRoleBinding").map(|binding| &binding["roleRef"]["name"]);
            let roles = bound.map(|name| {
                of_kind("ClusterRole")
                    .find(|role| role["metadata"]["name"] == *name)
                    .unwrap()
            });
            let allowed = roles.flat_map(|role| role["rules"].as_array().unwrap());
            let of_secrets = allowed.filter(|rule| texts(&rule["resources"], "").contains(&"secrets"));
            let verbs: BTreeSet<_> = of_secrets.flat_map(|rule| texts(&rule["verbs"], "")).collect();
            assert_eq!(verbs, expected.iter().copied().collect());
        }
    }

    // OWN 31ic: Ironic on the host's network could not be started again beside the operator.
    #[test]
    fn only_the_operators_namespace_admits_pods_with_privileges() {
        for program in program::all() {
            let namespace = program.rights.base.iter().find(|object| object["kind"] == "Namespace");
            let labels = &namespace.unwrap()["metadata"]["labels"];
            let (rejects, admits) = ("pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn");
            let used = if program.drives_ironic() { admits } else { rejects };
            for mode in [rejects, admits] {
                let wanted = if mode == used { "restricted".into() } else { Value::Null };
                assert_eq!(labels[mode], wanted, "{}: {mode}", program.name);
            }
        }
    }

    #[test]
    fn each_object_for_clusterctl_has_the_label_and_one_namespace() {
        for program in program::all().iter().filter(|program| !Program::drives_ironic(program)) {
            let objects = clusterctl::components(program, "registry", "v1.15.0").unwrap();
            let namespaces = objects.iter().filter(|object| object["kind"] == "Namespace");
            assert_eq!(namespaces.count(), 1);
            for object in &objects {
                assert_eq!(object["metadata"]["labels"][program.label.0], program.label.1);
                assert!(
                    object
                        .pointer("/spec/conversion/webhook/clientConfig/caBundle")
                        .is_none()
                );
            }
        }
    }

    // A series that is missing can be neither installed nor upgraded from.
    #[test]
    fn the_metadata_name_upstreams_series_and_ours() {
        let metadata = clusterctl::metadata("v1.15.2").unwrap();
        let series = metadata["releaseSeries"].as_array().unwrap();
        let of = |minor: u64| series.iter().find(|series| series["minor"] == minor).unwrap()["contract"].clone();
        assert_eq!(
            (of(15), of(13), of(12), of(1)),
            ("v1beta2".into(), "v1beta2".into(), "v1beta1".into(), "v1beta1".into())
        );
        assert!(clusterctl::metadata("v0.1.0").is_err());
    }
}
