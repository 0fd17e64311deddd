//! Hosts that began to wait, by what they wait for.

use metal3_api::condition::Condition;
use metal3_api::metal3::{BareMetalHostStatus, ProvisioningState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::{Host, PER_HOST, counter};
use crate::host::plan::WaitReason;
use crate::metrics::{Catalogue, Kind};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DataType {
    host_data_type: &'static str,
}

#[derive(Clone, Debug)]
pub(super) struct Waits {
    credentials_missing: Counter,
    credentials_invalid: Counter,
    not_ready: Counter,
    config_data_errors: Family<DataType, Counter>,
    delayed_provisioning: Family<Host, Counter>,
    delayed_deprovisioning: Family<Host, Counter>,
    waiting_for_image: Counter,
}

impl Waits {
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        let mut delayed = |name, help| catalogue.add(Kind::Counter, name, PER_HOST, help, Family::default());
        Self {
            delayed_provisioning: delayed(
                "metal3_delayed__provisioning",
                "Hosts that began to wait for a slot to be inspected or provisioned",
            ),
            delayed_deprovisioning: delayed(
                "metal3_delayed__deprovisioning",
                "Hosts that began to wait for a slot to be deprovisioned",
            ),
            credentials_missing: counter(
                catalogue,
                "metal3_credentials_missing",
                "Hosts whose credentials Secret was found missing",
            ),
            credentials_invalid: counter(
                catalogue,
                "metal3_credentials_invalid",
                "Hosts whose BMC address or credentials were found unusable",
            ),
            not_ready: counter(
                catalogue,
                "metal3_provisioner_not_ready",
                "Hosts that began to wait for Ironic as a whole",
            ),
            waiting_for_image: counter(
                catalogue,
                "metal3_waiting_for_preprov_image",
                "Hosts that began to wait for a PreprovisioningImage",
            ),
            config_data_errors: catalogue.add(
                Kind::Counter,
                "metal3_host_config_data_error",
                &["host_data_type"],
                "Hosts that began to wait for a usable Secret of their config drive",
                Family::default(),
            ),
        }
    }

    /// A host waits for something else than before.
    pub fn began(&self, host: &Host, waiting: &Condition, status: &BareMetalHostStatus) {
        let is = |reason: WaitReason| waiting.reason == reason.as_str();
        if is(WaitReason::SecretMissing) {
            self.credentials_missing.inc();
        } else if is(WaitReason::InvalidBMCDetails) {
            self.credentials_invalid.inc();
        } else if [
            WaitReason::IronicNotReady,
            WaitReason::IronicUnreachable,
            WaitReason::IronicUnauthorized,
            WaitReason::IronicFailing,
        ]
        .into_iter()
        .any(is)
        {
            self.not_ready.inc();
        } else if is(WaitReason::ConfigDriveIncomplete) {
            let host_data_type = [
                ("userData", "userData"),
                ("networkData", "networkData"),
                ("preprovisioningNetworkDataName", "networkData"),
            ]
            .into_iter()
            .find(|(field, _)| waiting.message.contains(&format!("spec.{field}")))
            .map_or("metaData", |(_, data)| data);
            self.config_data_errors
                .get_or_create(&DataType { host_data_type })
                .inc();
        } else if is(WaitReason::Queued) {
            let is_leaving = matches!(
                status.provisioning.state,
                ProvisioningState::Provisioned | ProvisioningState::Deprovisioning
            );
            let family = if is_leaving {
                &self.delayed_deprovisioning
            } else {
                &self.delayed_provisioning
            };
            family.get_or_create(host).inc();
        } else if is(WaitReason::RamdiskBuilding) {
            self.waiting_for_image.inc();
        }
    }

    /// The host is gone, and with it its series.
    pub fn forget(&self, host: &Host) {
        self.delayed_provisioning.remove(host);
        self.delayed_deprovisioning.remove(host);
    }
}
