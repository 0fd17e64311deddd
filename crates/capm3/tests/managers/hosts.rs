//! The operator's part: a host that is told what to run runs it, and one that is told no longer is made ready for others.

use kube::Api;
use kube::api::ListParams;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::ProvisioningState::{self, Available, Provisioned};

use crate::support::Site;

/// The hosts that are to change now, and what each becomes.
pub async fn turns(site: &Site) -> Vec<(BareMetalHost, ProvisioningState)> {
    let hosts: Api<BareMetalHost> = site.namespace.api();
    let listed = hosts.list(&ListParams::default()).await.unwrap();
    let turn = |host: BareMetalHost| next(&host).map(|state| (host, state));
    listed.into_iter().filter_map(turn).collect()
}

fn next(host: &BareMetalHost) -> Option<ProvisioningState> {
    let state = &host.status.as_ref()?.provisioning.state;
    match (host.spec.image.is_some(), state) {
        (true, Available) => Some(Provisioned),
        (false, Provisioned) => Some(Available),
        _ => None,
    }
}
