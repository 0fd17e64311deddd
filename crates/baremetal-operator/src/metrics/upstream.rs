//! Counters by which existing dashboards know the operator. Series of single hosts only where they are asked for: with
//! thousands of hosts they are most of what a monitoring system would have to keep. Without them the labels `namespace`
//! and `host` are empty, which Prometheus takes as absent, and sums stay what they were.

use metal3_api::condition::Condition;
use metal3_api::metal3::{BareMetalHostStatus, ErrorType, OperationMetric, OperationalStatus, ProvisioningState};
use metal3_runtime::conditions;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{Catalogue, Kind};
use crate::fleet::HostKey;
use crate::host::WAITING;
use crate::host::plan::{WaitReason, error_type};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Host {
    namespace: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PowerChange {
    namespace: String,
    host: String,
    on_off: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateChange {
    prev_state: String,
    new_state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DataType {
    host_data_type: &'static str,
}

type Durations = Family<Host, Histogram, fn() -> Histogram>;

const PER_HOST: &[&str] = &["namespace", "host"];

/// Upstream's counters.
#[derive(Clone, Debug)]
pub struct Upstream {
    is_per_host: bool,
    reconciles: Family<Host, Counter>,
    reconcile_errors: Counter,
    power_changes: Family<PowerChange, Counter>,
    credentials_missing: Counter,
    credentials_invalid: Counter,
    credentials_failed: Counter,
    credentials_updated: Counter,
    no_management_access: Counter,
    config_data_errors: Family<DataType, Counter>,
    delayed_provisioning: Family<Host, Counter>,
    delayed_deprovisioning: Family<Host, Counter>,
    register: Durations,
    inspect: Durations,
    provision: Durations,
    deprovision: Durations,
    state_changes: Family<StateChange, Counter>,
    registration_required: Counter,
    unmanaged: Counter,
    without_deprovisioning: Counter,
    without_power_off: Counter,
    not_ready: Counter,
    delayed_for_detached: Counter,
    waiting_for_image: Counter,
}

impl Upstream {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>, is_per_host: bool) -> Self {
        catalogue.upstream();
        let short: fn() -> Histogram =
            || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let long: fn() -> Histogram = || Histogram::new([30.0, 90.0, 180.0, 360.0, 720.0, 1440.0]);
        let mut counter = |name, help| catalogue.add(Kind::Counter, name, &[], help, Counter::default());
        let reconcile_errors = counter(
            "metal3_reconcile_error",
            "Reconciliations of hosts that failed as a whole",
        );
        let credentials_missing = counter(
            "metal3_credentials_missing",
            "Hosts whose credentials Secret was found missing",
        );
        let credentials_invalid = counter(
            "metal3_credentials_invalid",
            "Hosts whose BMC address or credentials were found unusable",
        );
        let credentials_failed = counter(
            "metal3_credentials_unhandled_error",
            "Failed reads of Secrets and other objects of hosts",
        );
        let credentials_updated = counter("metal3_credentials_updated", "New credentials that were tried");
        let no_management_access = counter("metal3_credentials_no_management_access", "Registrations that failed");
        let registration_required = counter(
            "metal3_host_registration_required",
            "Passes that waited for a registration",
        );
        let unmanaged = counter("metal3_host_unmanaged", "Hosts that became unmanaged");
        let without_deprovisioning = counter(
            "metal3_delete_without_deprovisioning",
            "Deletions that gave up deprovisioning",
        );
        let without_power_off = counter(
            "metal3_delete_without_powering_off",
            "Deletions that gave up switching the host off",
        );
        let not_ready = counter(
            "metal3_provisioner_not_ready",
            "Hosts that began to wait for Ironic as a whole",
        );
        let delayed_for_detached = counter(
            "metal3_delete_delayed_for_detached",
            "Looks at detached hosts whose deletion waits",
        );
        let waiting_for_image = counter(
            "metal3_waiting_for_preprov_image",
            "Hosts that began to wait for a PreprovisioningImage",
        );
        let mut per_host = |name, help| catalogue.add(Kind::Counter, name, PER_HOST, help, Family::default());
        let reconciles = per_host("metal3_reconcile", "Reconciliations of hosts");
        let delayed_provisioning = per_host(
            "metal3_delayed__provisioning",
            "Hosts that began to wait for a slot to be inspected or provisioned",
        );
        let delayed_deprovisioning = per_host(
            "metal3_delayed__deprovisioning",
            "Hosts that began to wait for a slot to be deprovisioned",
        );
        let mut durations = |name, help, buckets| {
            catalogue.add(
                Kind::Histogram,
                name,
                PER_HOST,
                help,
                Family::new_with_constructor(buckets),
            )
        };
        Self {
            is_per_host,
            reconciles,
            reconcile_errors,
            credentials_missing,
            credentials_invalid,
            credentials_failed,
            credentials_updated,
            no_management_access,
            delayed_provisioning,
            delayed_deprovisioning,
            register: durations(
                "metal3_operation_register_duration_seconds",
                "Duration of registrations",
                short,
            ),
            inspect: durations(
                "metal3_operation_inspect_duration_seconds",
                "Duration of inspections",
                long,
            ),
            provision: durations(
                "metal3_operation_provision_duration_seconds",
                "Duration of provisionings",
                long,
            ),
            deprovision: durations(
                "metal3_operation_deprovision_duration_seconds",
                "Duration of deprovisionings",
                long,
            ),
            registration_required,
            unmanaged,
            without_deprovisioning,
            without_power_off,
            not_ready,
            delayed_for_detached,
            waiting_for_image,
            power_changes: catalogue.add(
                Kind::Counter,
                "metal3_operation_power_change",
                &["namespace", "host", "on_off"],
                "Power changes that Ironic accepted",
                Family::default(),
            ),
            config_data_errors: catalogue.add(
                Kind::Counter,
                "metal3_host_config_data_error",
                &["host_data_type"],
                "Hosts that began to wait for a usable Secret of their config drive",
                Family::default(),
            ),
            state_changes: catalogue.add(
                Kind::Counter,
                "metal3_provisioning_state_change",
                &["prev_state", "new_state"],
                "Changes of the provisioning state",
                Family::default(),
            ),
        }
    }

    fn host(&self, key: &HostKey) -> Host {
        if self.is_per_host {
            Host {
                namespace: key.namespace.clone(),
                host: key.name.clone(),
            }
        } else {
            Host {
                namespace: String::new(),
                host: String::new(),
            }
        }
    }

    /// A reconciliation has ended; `is_ok` unless it failed as a whole.
    pub fn reconciled(&self, key: &HostKey, is_ok: bool) {
        self.reconciles.get_or_create(&self.host(key)).inc();
        if !is_ok {
            self.reconcile_errors.inc();
        }
    }

    /// Something of the host could not be read from the Kubernetes API.
    pub fn unreadable(&self) {
        self.credentials_failed.inc();
    }

    /// Ironic accepted a power change.
    pub fn power(&self, key: &HostKey, on: bool) {
        let Host { namespace, host } = self.host(key);
        let on_off = if on { "on" } else { "off" };
        let change = PowerChange {
            namespace,
            host,
            on_off,
        };
        self.power_changes.get_or_create(&change).inc();
    }

    /// A reconciliation ended with this wait.
    pub fn waits(&self, status: &BareMetalHostStatus, reason: Option<WaitReason>, is_deleting: bool) {
        let is_registering = status.provisioning.state == ProvisioningState::Registering;
        if reason.is_some() && (is_registering || reason == Some(WaitReason::Verifying)) {
            self.registration_required.inc();
        }
        if is_deleting && status.operational_status == OperationalStatus::Detached {
            self.delayed_for_detached.inc();
        }
    }

    /// A status was stored.
    pub fn status(&self, key: &HostKey, before: Option<&BareMetalHostStatus>, after: &BareMetalHostStatus) {
        let none = BareMetalHostStatus::default();
        let before = before.unwrap_or(&none);
        self.state(before, after);
        let tried = |s: &BareMetalHostStatus| s.tried_credentials.credentials_version.clone();
        if tried(before) != tried(after) && !tried(before).is_empty() {
            self.credentials_updated.inc();
        }
        if error_type(after) == Some(ErrorType::Registration) && before.error_count < after.error_count {
            self.no_management_access.inc();
        }
        let reason = |s: &BareMetalHostStatus| waiting(&s.conditions).map(|c| c.reason.clone());
        if let Some(waiting) = waiting(&after.conditions).filter(|_| reason(before) != reason(after)) {
            self.began_to_wait(key, waiting, after);
        }
        let (old, new) = (&before.operation_history, &after.operation_history);
        for (old, new, family) in [
            (&old.register, &new.register, &self.register),
            (&old.inspect, &new.inspect, &self.inspect),
            (&old.provision, &new.provision, &self.provision),
            (&old.deprovision, &new.deprovision, &self.deprovision),
        ] {
            if let Some(took) = ended(old, new) {
                family.get_or_create(&self.host(key)).observe(took);
            }
        }
    }

    fn state(&self, before: &BareMetalHostStatus, after: &BareMetalHostStatus) {
        let (from, to) = (&before.provisioning.state, &after.provisioning.state);
        if from == to {
            return;
        }
        let change = StateChange {
            prev_state: from.as_str().to_owned(),
            new_state: to.as_str().to_owned(),
        };
        self.state_changes.get_or_create(&change).inc();
        if *to == ProvisioningState::Unmanaged {
            self.unmanaged.inc();
        }
        let is_end = matches!(
            to,
            ProvisioningState::PoweringOffBeforeDelete | ProvisioningState::Deleting
        );
        let is_deployed = after.provisioning.image.is_some() || after.provisioning.custom_deploy.is_some();
        if *from == ProvisioningState::Deprovisioning && is_end && is_deployed {
            self.without_deprovisioning.inc();
        }
        if *from == ProvisioningState::PoweringOffBeforeDelete && is_end && after.powered_on {
            self.without_power_off.inc();
        }
    }

    fn began_to_wait(&self, key: &HostKey, waiting: &Condition, status: &BareMetalHostStatus) {
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
            family.get_or_create(&self.host(key)).inc();
        } else if is(WaitReason::RamdiskBuilding) {
            self.waiting_for_image.inc();
        }
    }

    /// The host is gone, and with it its series.
    pub fn forget(&self, key: &HostKey) {
        if !self.is_per_host {
            return;
        }
        let host = self.host(key);
        for family in [
            &self.reconciles,
            &self.delayed_provisioning,
            &self.delayed_deprovisioning,
        ] {
            family.remove(&host);
        }
        for family in [&self.register, &self.inspect, &self.provision, &self.deprovision] {
            family.remove(&host);
        }
        for on_off in ["on", "off"] {
            let (namespace, host) = (host.namespace.clone(), host.host.clone());
            self.power_changes.remove(&PowerChange {
                namespace,
                host,
                on_off,
            });
        }
    }
}

fn waiting(conditions: &[Condition]) -> Option<&Condition> {
    conditions::get(conditions, WAITING)
}

/// The seconds of an interval that is closed now and was not before.
fn ended(before: &OperationMetric, after: &OperationMetric) -> Option<f64> {
    let (start, end) = (after.start.as_ref()?.0, after.end.as_ref()?.0);
    (before.start.as_ref() != after.start.as_ref() || before.end.is_none())
        .then(|| end.duration_since(start).as_secs_f64().max(0.0))
}
