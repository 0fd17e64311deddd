//! The label prefixes to copy from hosts to Nodes.

use std::collections::BTreeSet;

use kube::ResourceExt;
use metal3_api::infra::names::annotation::LABEL_SYNC_PREFIXES;
use metal3_api::infra::v1beta2::Metal3Cluster;

use crate::conditions::cut;
use crate::workload::nodes::{HOST_UID, HOSTNAME};
use metal3_api::labels::is_subdomain;

/// Limits of an error message: number of prefixes, and bytes of each. An annotation may be longer than a condition.
const NAMED: usize = 3;
const LONGEST_NAMED: usize = 60;

/// Reserved prefixes used by Kubernetes to identify Nodes and schedule Pods. A host has none of these labels, and every Node
/// needs them.
const NEVER: [&str; 4] = [HOST_UID, HOSTNAME, "kubernetes.io/os", "kubernetes.io/arch"];

/// The parsed annotation of a Metal3Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// The valid prefixes.
    pub good: BTreeSet<String>,
    /// The invalid ones, as written.
    pub bad: Vec<String>,
}

impl Prefixes {
    /// Parses the annotation, if it is set.
    pub fn of(cluster: &Metal3Cluster) -> Option<Self> {
        let text = cluster.annotations().get(LABEL_SYNC_PREFIXES)?;
        Some(Self::parse(text))
    }

    /// Parses a comma-separated list.
    pub fn parse(text: &str) -> Self {
        let mut prefixes = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if is_subdomain(part) {
                prefixes.good.insert(part.to_owned());
            } else {
                prefixes.bad.push(part.to_owned());
            }
        }
        prefixes
    }

    /// Whether a label is synced. A label without a prefix never is.
    pub fn cover(&self, label: &str) -> bool {
        let prefix = label.split_once('/').map(|(prefix, _)| prefix);
        prefix.is_some_and(|prefix| self.good.contains(prefix)) && !NEVER.contains(&label)
    }

    /// The error message, which says how to fix it.
    pub fn complaint(&self) -> Option<String> {
        let named = self.bad.iter().take(NAMED).map(|prefix| {
            let mut prefix = prefix.clone();
            cut(&mut prefix, LONGEST_NAMED);
            format!("{prefix:?}")
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match self.bad.len() {
            0..=NAMED => String::new(),
            all => format!(" and {} more", all - NAMED),
        };
        (!named.is_empty()).then(|| {
            format!(
                "annotation {LABEL_SYNC_PREFIXES}: {named}{more} cannot be the prefix of a label and is not followed: write DNS \
                 names in lower case, such as example.com, with commas between"
            )
        })
    }
}
