//! The three programs.

use metal3_runtime::rbac::Objects;
use serde_json::{Value, json};

/// One program as it is installed. Names are upstream's, so that one replaces the other.
pub struct Program {
    /// The name of its image and of its files.
    pub name: &'static str,
    /// The folder of its sources in `crates`.
    pub folder: &'static str,
    /// What it is called in the chart's values.
    pub key: &'static str,
    /// Its namespace, where nobody chooses another.
    pub namespace: &'static str,
    /// A label that all its objects and pods carry.
    pub label: (&'static str, &'static str),
    /// The prefix of its objects' names.
    pub prefix: &'static str,
    /// Its service account.
    pub service_account: &'static str,
    /// Its executable in the image.
    pub command: &'static str,
    /// The Secret in which cert-manager stores the certificate of its webhooks.
    pub certificate: &'static str,
    /// Flags of its Deployment that only it has.
    pub flags: &'static [&'static str],
    /// Settings that `clusterctl` takes from variables.
    pub variables: &'static [Variable],
    /// Its permissions.
    pub rights: Objects,
    /// The Service and the configurations of its webhooks.
    pub webhooks: Vec<Value>,
    /// The group of the kinds that it brings.
    pub group: &'static str,
}

/// A flag or an environment variable that `clusterctl` sets from a variable of its user.
pub struct Variable {
    /// Where the value goes.
    pub target: Target,
    /// The variable.
    pub name: &'static str,
    /// Its value if the user sets none.
    pub default: &'static str,
}

/// Where a variable's value goes.
#[derive(Clone, Copy)]
pub enum Target {
    /// A flag, with its dashes.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
}

const OPERATOR: &str = "baremetal-operator";

impl Program {
    /// Whether it needs the address and the credentials of Ironic.
    pub fn drives_ironic(&self) -> bool {
        self.name == OPERATOR
    }

    /// Whether it brings the definition of this name.
    pub fn brings(&self, definition: &str) -> bool {
        definition.split_once('.').is_some_and(|(_, group)| group == self.group)
    }

    /// The name of one of its objects.
    pub fn object(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The metadata of one of its objects.
    pub fn metadata(&self, name: &str) -> Value {
        json!({"name": self.object(name), "namespace": self.namespace, "labels": self.labels()})
    }

    /// The labels that select its pods. A Deployment's selector cannot change, so the providers of Cluster API have upstream's.
    /// Upstream's operator has the first only, which all programs
    /// in a namespace would share.
    pub fn labels(&self) -> Value {
        let mut labels = json!({"control-plane": "controller-manager", self.label.0: self.label.1});
        if self.drives_ironic() {
            let (name, value) = baremetal_operator::webhooks::INSTALLED.label;
            labels[name] = json!(value);
        } else {
            labels["controller-tools.k8s.io"] = json!("1.0");
        }
        labels
    }
}

/// All programs, in the order in which they are installed.
pub fn all() -> [Program; 3] {
    [operator(), ipam(), provider()]
}

fn operator() -> Program {
    use baremetal_operator::{rbac, webhooks};
    Program {
        name: OPERATOR,
        folder: "baremetal-operator",
        key: "operator",
        namespace: rbac::NAMESPACE,
        label: rbac::LABEL,
        prefix: webhooks::INSTALLED.prefix,
        service_account: rbac::SERVICE_ACCOUNT,
        command: "/baremetal-operator",
        certificate: "bmo-webhook-server-cert",
        // As upstream's Deployment has it.
        flags: &["--hostclaims"],
        variables: &[],
        rights: rbac::objects(),
        // Whose interfaces use an attachment is asked in a cluster only.
        webhooks: webhooks::INSTALLED.objects(&webhooks::all(|_| Ok(Vec::new()))),
        group: "metal3.io",
    }
}

fn ipam() -> Program {
    use ip_address_manager::{rbac, webhooks};
    Program {
        name: "ip-address-manager",
        folder: "ipam",
        key: "ipam",
        namespace: rbac::NAMESPACE,
        label: rbac::LABEL,
        prefix: webhooks::INSTALLED.prefix,
        service_account: rbac::SERVICE_ACCOUNT,
        command: "/manager",
        certificate: "ipam-webhook-service-cert",
        flags: &[],
        variables: &[
            Variable {
                target: Target::Flag("--diagnostics-address"),
                name: "IPAM_DIAGNOSTICS_ADDRESS",
                default: ":8443",
            },
            Variable {
                target: Target::Flag("--insecure-diagnostics"),
                name: "IPAM_INSECURE_DIAGNOSTICS",
                default: "false",
            },
        ],
        rights: rbac::objects(),
        webhooks: webhooks::INSTALLED.objects(&webhooks::all()),
        group: "ipam.metal3.io",
    }
}

fn provider() -> Program {
    use cluster_api_provider_metal3::{rbac, webhooks};
    Program {
        name: "cluster-api-provider-metal3",
        folder: "capm3",
        key: "provider",
        namespace: rbac::NAMESPACE,
        label: rbac::LABEL,
        prefix: webhooks::installed::INSTALLED.prefix,
        service_account: rbac::SERVICE_ACCOUNT,
        command: "/manager",
        certificate: "capm3-webhook-service-cert",
        flags: &[],
        variables: &[
            Variable {
                target: Target::Flag("--enable-bmh-name-based-preallocation"),
                name: "ENABLE_BMH_NAME_BASED_PREALLOCATION",
                default: "false",
            },
            Variable {
                target: Target::Flag("--diagnostics-address"),
                name: "CAPM3_DIAGNOSTICS_ADDRESS",
                default: ":8443",
            },
            Variable {
                target: Target::Flag("--insecure-diagnostics"),
                name: "CAPM3_INSECURE_DIAGNOSTICS",
                default: "false",
            },
            Variable {
                target: Target::Environment("CAPM3_FAST_TRACK"),
                name: "CAPM3_FAST_TRACK",
                default: "false",
            },
        ],
        rights: rbac::objects(),
        webhooks: webhooks::installed::INSTALLED.objects(&webhooks::all()),
        group: "infrastructure.cluster.x-k8s.io",
    }
}
