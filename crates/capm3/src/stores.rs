//! What all controllers see: one watch for each kind, and an index for each question that is asked of it.

pub(crate) mod cluster;
pub(crate) mod data;
pub(crate) mod hold;
pub(crate) mod host;
pub(crate) mod machine;
pub(crate) mod owner;
pub(crate) mod remediation;
pub(crate) mod space;
mod watches;

use kube::ResourceExt;
use metal3_api::capi::{self, Cluster, IPAddressClaim, Machine, MachineSet};
use metal3_api::infra::v1beta2::{
    Metal3Cluster, Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine, Metal3MachineTemplate,
    Metal3Remediation,
};
use metal3_api::ipam::IPClaim;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::Store;

pub use self::cluster::{ClusterBy, cluster_of, infrastructure};
pub use self::data::{
    DataBy, DataTemplateBy, KnownClaims, OfDataBy, SECRET_TYPE, SecretMeta, answers, data_of, machine_of,
    template_asked, template_of,
};
pub use self::hold::{Hold, hold_of};
pub use self::host::{ClaimedHosts, HostBy, PARTS};
pub use self::machine::{MachineBy, Metal3MachineBy, host_of};
pub use self::owner::{group_of, owner, owner_of};
pub use self::remediation::{RemediationBy, machine_of_remediation};
pub use self::space::{slot_of, space_of};

/// The stores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stores {
    /// Cluster API's Clusters.
    pub clusters: Store<Cluster, ClusterBy>,
    /// Cluster API's Machines.
    pub machines: Store<Machine, MachineBy>,
    /// Cluster API's MachineSets.
    pub machine_sets: Store<MachineSet>,
    /// Our side of the Clusters.
    pub metal3_clusters: Store<Metal3Cluster>,
    /// Our side of the Machines.
    pub metal3_machines: Store<Metal3Machine, Metal3MachineBy>,
    /// What those are made from.
    pub templates: Store<Metal3MachineTemplate>,
    /// The hosts. Of their hardware only addresses and the host name are kept.
    pub hosts: Store<BareMetalHost, HostBy>,
    /// Those that were claimed just now, with what data is rendered from.
    pub claimed_hosts: ClaimedHosts,
    /// What metadata and network data are rendered from.
    pub data_templates: Store<Metal3DataTemplate, DataTemplateBy>,
    /// The machines' wishes for such data.
    pub data_claims: Store<Metal3DataClaim, DataBy>,
    /// Those of which it is known what was made for them.
    pub known_claims: KnownClaims,
    /// The data of single machines.
    pub datas: Store<Metal3Data, DataBy>,
    /// The Secrets with rendered data, without what is in them.
    pub secrets: Store<SecretMeta, OfDataBy>,
    /// Claims on addresses of Metal3's pools.
    pub ip_claims: Store<IPClaim, OfDataBy>,
    /// Claims on addresses of other pools.
    pub ip_address_claims: Store<IPAddressClaim, OfDataBy>,
    /// Requests to remedy machines.
    pub remediations: Store<Metal3Remediation, RemediationBy>,
    filter: String,
}

impl Stores {
    /// Empty stores. Objects that the controllers work on must carry `filter` in the label for that, unless it is empty.
    pub fn new(filter: &str) -> Self {
        Self {
            clusters: Store::new(cluster::keys_of),
            machines: Store::new(machine::keys_of_machine),
            machine_sets: Store::new(|_| Vec::new()),
            metal3_clusters: Store::new(|_| Vec::new()),
            metal3_machines: Store::new(machine::keys_of_metal3_machine),
            templates: Store::new(|_| Vec::new()),
            hosts: Store::reduced(host::keys_of, host::reduce),
            claimed_hosts: ClaimedHosts::default(),
            data_templates: Store::new(data::keys_of_template),
            data_claims: Store::new(data::keys_of_claim),
            known_claims: KnownClaims::default(),
            datas: Store::new(data::keys_of_data),
            secrets: Store::new(data::keys_of_owned),
            ip_claims: Store::new(data::keys_of_owned),
            ip_address_claims: Store::new(data::keys_of_owned),
            remediations: Store::new(remediation::keys_of),
            filter: filter.to_owned(),
        }
    }

    /// Whether the controllers work on this object, as far as the watch filter goes.
    pub fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(capi::names::label::WATCH_FILTER) == Some(&self.filter)
    }
}
