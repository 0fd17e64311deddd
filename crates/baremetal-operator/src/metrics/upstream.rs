//! The counters that existing dashboards use. Series for individual hosts exist only if requested: with thousands of
//! hosts they are most of what a monitoring system would have to store. Without them the labels `namespace` and `host`
//! are empty, which Prometheus treats as absent, and sums stay the same.

mod operations;
mod waits;

use metal3_api::condition::Condition;
use metal3_api::metal3::{BareMetalHostStatus, ErrorType, OperationalStatus, ProvisioningState};
use metal3_runtime::conditions;
use metal3_runtime::store::ObjectKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use self::operations::Operations;
use self::waits::Waits;
use super::hosts::state_label;
use super::{Catalogue, Kind};
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

const PER_HOST: &[&str] = &["namespace", "host"];

/// Upstream's counters.
#[derive(Clone, Debug)]
pub struct Upstream {
    is_per_host: bool,
    reconciles: Family<Host, Counter>,
    reconcile_errors: Counter,
    credentials_failed: Counter,
    credentials_updated: Counter,
    no_management_access: Counter,
    waits: Waits,
    operations: Operations,
    power_changes: Family<PowerChange, Counter>,
    state_changes: Family<StateChange, Counter>,
    registration_required: Counter,
    unmanaged: Counter,
    without_deprovisioning: Counter,
    without_power_off: Counter,
    delayed_for_detached: Counter,
}

fn counter(catalogue: &mut Catalogue<'_>, name: &str, help: &'static str) -> Counter {
    catalogue.add(Kind::Counter, name, &[], help, Counter::default())
}

impl Upstream {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>, is_per_host: bool) -> Self {
        catalogue.upstream();
        let reconciles = catalogue.add(
            Kind::Counter,
            "metal3_reconcile",
            PER_HOST,
            "Reconciliations of hosts",
            Family::default(),
        );
        let power_changes = catalogue.add(
            Kind::Counter,
            "metal3_operation_power_change",
            &["namespace", "host", "on_off"],
            "Power changes that Ironic accepted",
            Family::default(),
        );
        let state_changes = catalogue.add(
            Kind::Counter,
            "metal3_provisioning_state_change",
            &["prev_state", "new_state"],
            "Changes of the provisioning state",
            Family::default(),
        );
        let (waits, operations) = (Waits::new(catalogue), Operations::new(catalogue));
        let mut count = |name, help| counter(catalogue, name, help);
        Self {
            is_per_host,
            reconciles,
            power_changes,
            state_changes,
            waits,
            operations,
            reconcile_errors: count(
                "metal3_reconcile_error",
                "Reconciliations of hosts that failed as a whole",
            ),
            credentials_failed: count(
                "metal3_credentials_unhandled_error",
                "Failed reads of Secrets and other objects of hosts",
            ),
            credentials_updated: count("metal3_credentials_updated", "New credentials that were tried"),
            no_management_access: count("metal3_credentials_no_management_access", "Registrations that failed"),
            registration_required: count(
                "metal3_host_registration_required",
                "Passes that waited for a registration",
            ),
            unmanaged: count("metal3_host_unmanaged", "Hosts that became unmanaged"),
            without_deprovisioning: count(
                "metal3_delete_without_deprovisioning",
                "Deletions that gave up deprovisioning",
            ),
            without_power_off: count(
                "metal3_delete_without_powering_off",
                "Deletions that gave up switching the host off",
            ),
            delayed_for_detached: count(
                "metal3_delete_delayed_for_detached",
                "Looks at detached hosts whose deletion waits",
            ),
        }
    }

    fn host(&self, key: &ObjectKey) -> Host {
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
    pub fn reconciled(&self, key: &ObjectKey, is_ok: bool) {
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
    pub fn power(&self, key: &ObjectKey, on: bool) {
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
    pub fn status(&self, key: &ObjectKey, before: Option<&BareMetalHostStatus>, after: &BareMetalHostStatus) {
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
            self.waits.began(&self.host(key), waiting, after);
        }
        let (old, new) = (&before.operation_history, &after.operation_history);
        self.operations.status(&self.host(key), old, new);
    }

    fn state(&self, before: &BareMetalHostStatus, after: &BareMetalHostStatus) {
        let (from, to) = (&before.provisioning.state, &after.provisioning.state);
        if from == to {
            return;
        }
        let change = StateChange {
            prev_state: state_label(from).to_owned(),
            new_state: state_label(to).to_owned(),
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

    /// The host is gone, and with it its series.
    pub fn forget(&self, key: &ObjectKey) {
        if !self.is_per_host {
            return;
        }
        let host = self.host(key);
        self.reconciles.remove(&host);
        self.waits.forget(&host);
        self.operations.forget(&host);
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
