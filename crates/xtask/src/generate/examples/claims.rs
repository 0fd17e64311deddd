//! `examples/hostclaim`: hosts for whom it may concern.

use super::file::{File, image, metadata, reference, secret};
use super::{Examples, named};
use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{
    HostClaim, HostClaimNamespaces, HostClaimSpec, HostDeployPolicy, HostDeployPolicySpec, HostSelector,
    HostSelectorRequirement, NameValuePair,
};

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named("hostclaim", [("claim", claim()?), ("policy", policy()?)]))
}

/// A claim on a host of somebody else's.
fn claim() -> anyhow::Result<String> {
    let claim = HostClaim {
        metadata: metadata("web-1"),
        spec: HostClaimSpec {
            powered_on: true,
            image: Some(image()),
            user_data: Some(reference("web-1-user-data")),
            failure_domain: "rack1".to_owned(),
            host_selector: HostSelector {
                match_labels: [("size".to_owned(), "large".to_owned())].into(),
                match_expressions: vec![HostSelectorRequirement {
                    key: "disk".to_owned(),
                    operator: "in".to_owned(),
                    values: vec!["nvme".to_owned(), "ssd".to_owned()],
                }],
                in_namespace: "hosts".to_owned(),
            },
            ..Default::default()
        },
        status: None,
    };
    let mut file = File::new(
        "Asks for a server that lies in another namespace. Needs a HostDeployPolicy there, as in policy.yaml.",
    );
    file.add(
        &secret(
            "web-1-user-data",
            secret_key::USER_DATA,
            "#cloud-config\nlocale: C.UTF-8\n",
        ),
        &[],
    )?;
    file.add(
        &claim,
        &[
            (
                "spec.failureDomain",
                "Preferred, not required: the host's label infrastructure.cluster.x-k8s.io/failure-domain.",
            ),
            (
                "spec.hostSelector",
                "All that is given must hold for the host's labels.",
            ),
            (
                "spec.hostSelector.inNamespace",
                "Absent: any namespace whose policy permits it.",
            ),
        ],
    )?;
    Ok(file.text)
}

/// Who may claim hosts.
fn policy() -> anyhow::Result<String> {
    let policy = HostDeployPolicy {
        metadata: metadata("tenants"),
        spec: HostDeployPolicySpec {
            host_claim_namespaces: Some(HostClaimNamespaces {
                name_matches: "^tenant-".to_owned(),
                has_labels: vec![NameValuePair {
                    name: "metal3.example.org/may-claim".to_owned(),
                    value: String::new(),
                }],
                ..Default::default()
            }),
        },
        status: None,
    };
    let mut file = File::new("Lets claims of certain namespaces have the servers of this namespace.");
    file.add(
        &policy,
        &[
            (
                "spec.hostClaimNamespaces",
                "All conditions must hold. Several policies in a namespace permit what one of them permits.",
            ),
            ("spec.hostClaimNamespaces.hasLabels", "Without a value, any will do."),
        ],
    )?;
    Ok(file.text)
}
