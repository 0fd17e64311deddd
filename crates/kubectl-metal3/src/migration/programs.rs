//! The three programs, and the Deployments that run one of them.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;
use metal3_runtime::webhook::Webhooks;

/// One of the programs.
#[derive(Debug)]
pub struct Program {
    /// Its name, which is that of its image.
    pub name: &'static str,
    /// Where upstream installs it.
    pub namespace: &'static str,
    /// The prefix of its objects' names.
    pub prefix: &'static str,
    /// What the chart's values call it.
    pub values: &'static str,
    /// What a clusterctl inventory calls it.
    pub provider: Option<&'static str>,
    /// Its command line.
    pub command: fn() -> Command,
    /// Everything that it answers when the API server calls.
    webhooks: fn() -> Webhooks,
}

/// All of them.
pub const PROGRAMS: [Program; 3] = [
    Program {
        name: "baremetal-operator",
        namespace: baremetal_operator::rbac::NAMESPACE,
        prefix: baremetal_operator::webhooks::INSTALLED.prefix,
        values: "operator",
        provider: None,
        command: baremetal_operator::args::Args::command,
        webhooks: || baremetal_operator::webhooks::all(|_| Ok(Vec::new())),
    },
    Program {
        name: "cluster-api-provider-metal3",
        namespace: cluster_api_provider_metal3::rbac::NAMESPACE,
        prefix: cluster_api_provider_metal3::webhooks::installed::INSTALLED.prefix,
        values: "provider",
        provider: Some("infrastructure-metal3"),
        command: cluster_api_provider_metal3::args::Args::command,
        webhooks: cluster_api_provider_metal3::webhooks::all,
    },
    Program {
        name: "ip-address-manager",
        namespace: ip_address_manager::rbac::NAMESPACE,
        prefix: ip_address_manager::webhooks::INSTALLED.prefix,
        values: "ipam",
        provider: Some("ipam-metal3"),
        command: ip_address_manager::args::Args::command,
        webhooks: ip_address_manager::webhooks::all,
    },
];

/// A Deployment that runs one of the programs.
#[derive(Clone, Debug)]
pub struct Running<'a> {
    /// The program.
    pub program: &'static Program,
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// The container that runs it.
    pub container: &'a Container,
}

impl Program {
    /// The kinds and the names of its configurations of webhooks, which are upstream's.
    pub fn configurations(&self) -> [(&'static str, String); 2] {
        [
            ("MutatingWebhookConfiguration", "mutating"),
            ("ValidatingWebhookConfiguration", "validating"),
        ]
        .map(|(kind, name)| (kind, format!("{}{name}-webhook-configuration", self.prefix)))
    }

    /// The name of the Service of its webhooks.
    fn service(&self) -> String {
        format!("{}webhook-service", self.prefix)
    }

    /// The paths that ours answers on.
    fn paths(&self) -> BTreeSet<String> {
        (self.webhooks)().paths().map(str::to_owned).collect()
    }

    /// The container that runs it: a mirror of images may have another registry and another path, and keeps the last part of the name.
    fn container<'a>(&self, deployment: &'a Deployment) -> Option<&'a Container> {
        let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let is_of_provider = self.provider.is_some_and(|provider| {
            let labels = deployment.labels().get("cluster.x-k8s.io/provider");
            labels.is_some_and(|label| label == provider)
        });
        let by_image = pod.containers.iter().find(|one| image(one).0 == self.name);
        by_image.or_else(|| {
            pod.containers
                .iter()
                .find(|one| is_of_provider && one.name == "manager")
        })
    }
}

/// The last part of an image's name, and its tag.
fn image(container: &Container) -> (&str, &str) {
    let whole = container.image.as_deref().unwrap_or_default();
    let last = whole.rsplit('/').next().unwrap_or_default();
    let named = last.split('@').next().unwrap_or_default();
    named.split_once(':').unwrap_or((named, ""))
}

/// All Deployments that run one of the programs.
pub fn running(deployments: &[Deployment]) -> Vec<Running<'_>> {
    let of = |program: &'static Program| {
        deployments.iter().filter_map(move |deployment| {
            Some(Running {
                program,
                deployment,
                container: program.container(deployment)?,
            })
        })
    };
    PROGRAMS.iter().flat_map(of).collect()
}

impl Running<'_> {
    /// Its namespace.
    pub fn namespace(&self) -> String {
        self.deployment.namespace().unwrap_or_default()
    }

    /// What the user calls it.
    pub fn object(&self) -> String {
        format!("Deployment {}/{}", self.namespace(), self.deployment.name_any())
    }

    /// Whether it is the operator, which is no provider of Cluster API.
    pub fn is_operator(&self) -> bool {
        self.program.provider.is_none()
    }

    /// The tag of its image.
    pub fn version(&self) -> &str {
        match image(self.container).1 {
            "" => "without a tag",
            tag => tag,
        }
    }

    /// Whether it is ours, is what this Service leads to, and does not answer on this path.
    pub fn ignores(&self, namespace: &str, service: &str, path: &str) -> bool {
        let is_it = namespace == self.namespace() && self.program.service() == service;
        is_it && self.is_ours() && !self.program.paths().contains(path)
    }

    /// How many replicas are asked for.
    pub fn replicas(&self) -> i32 {
        self.deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1)
    }

    /// Whether it is this project's: its pods say which program they run and what that is part of. Upstream's say neither.
    pub fn is_ours(&self) -> bool {
        let metadata = self
            .deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.metadata.as_ref());
        let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
        let has = |name: &str, value: &str| {
            labels
                .and_then(|labels| labels.get(name))
                .is_some_and(|label| label == value)
        };
        has("app.kubernetes.io/part-of", "metal3") && has("app.kubernetes.io/name", self.program.name)
    }
}
