//! The three programs, and the Deployments that run one of them.

use clap::builder::Resettable;
use clap::{Command, CommandFactory};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;
use metal3_runtime::args::go_style;

/// One of the programs.
#[derive(Debug)]
pub struct Program {
    /// Its name, which is that of its image.
    pub name: &'static str,
    /// Where upstream installs it.
    pub namespace: &'static str,
    /// The prefix of its objects' names.
    pub prefix: &'static str,
    /// What a clusterctl inventory calls it.
    pub provider: Option<&'static str>,
    command: fn() -> Command,
}

/// All of them.
pub const PROGRAMS: [Program; 3] = [
    Program {
        name: "baremetal-operator",
        namespace: baremetal_operator::rbac::NAMESPACE,
        prefix: baremetal_operator::webhooks::INSTALLED.prefix,
        provider: None,
        command: baremetal_operator::args::Args::command,
    },
    Program {
        name: "cluster-api-provider-metal3",
        namespace: cluster_api_provider_metal3::rbac::NAMESPACE,
        prefix: cluster_api_provider_metal3::webhooks::installed::INSTALLED.prefix,
        provider: Some("infrastructure-metal3"),
        command: cluster_api_provider_metal3::args::Args::command,
    },
    Program {
        name: "ip-address-manager",
        namespace: ip_address_manager::rbac::NAMESPACE,
        prefix: ip_address_manager::webhooks::INSTALLED.prefix,
        provider: Some("ipam-metal3"),
        command: ip_address_manager::args::Args::command,
    },
];

/// A Deployment that runs one of the programs.
#[derive(Clone, Debug)]
pub struct Running<'a> {
    /// The program.
    pub program: &'static Program,
    /// The Deployment.
    pub deployment: &'a Deployment,
    container: &'a Container,
}

impl Program {
    /// Whether this Deployment runs it.
    pub fn runs_in(&self, deployment: &Deployment) -> bool {
        self.container(deployment).is_some()
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

    /// How many replicas are asked for.
    pub fn replicas(&self) -> i32 {
        self.deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1)
    }

    /// Whether it is this project's: its pods say what they are part of, and upstream's do not.
    pub fn is_ours(&self) -> bool {
        let metadata = self
            .deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.metadata.as_ref());
        let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
        let part_of = labels.and_then(|labels| labels.get("app.kubernetes.io/part-of"));
        part_of.is_some_and(|whole| whole == "metal3")
    }

    /// Its arguments. Those that the kubelet fills in from variables are left out, because nobody knows their values here.
    fn arguments(&self) -> Vec<&str> {
        let args = self.container.args.iter().flatten().map(String::as_str);
        args.filter(|arg| !arg.contains("$(")).collect()
    }

    /// Why this version of the program would not start with these arguments; `None` if it would.
    pub fn refuses_arguments(&self) -> Option<String> {
        let arguments = self.arguments();
        if arguments.is_empty() {
            return None;
        }
        // The variables of this process are not those of the Deployment.
        let command = (self.program.command)().mut_args(|arg| {
            let is_optional = !arg.is_required_set();
            let arg = arg.env(Resettable::Reset);
            if is_optional { arg } else { arg.required(false) }
        });
        let argv = [self.program.name].into_iter().chain(arguments).map(Into::into);
        let argv = go_style(&command, argv);
        let parsed = command.args_override_self(true).try_get_matches_from(argv);
        let error = parsed.err()?.to_string();
        let first = error.lines().next().unwrap_or_default();
        Some(first.strip_prefix("error: ").unwrap_or(first).to_owned())
    }

    /// The ConfigMap that its variables are from.
    pub fn variables_from(&self) -> Option<String> {
        let mut sources = self.container.env_from.iter().flatten();
        sources
            .find_map(|source| source.config_map_ref.as_ref())
            .map(|map| map.name.clone())
    }
}
