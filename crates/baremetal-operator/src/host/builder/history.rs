//! Passing from one state to another, and `status.operationHistory`, which tells when.

use jiff::Timestamp;
use metal3_api::metal3::{
    BareMetalHostStatus, BootMode, ErrorType, OperationMetric, OperationalStatus, ProvisioningState,
};

use super::{PlanBuilder, seconds};
use crate::host::conditions;

impl PlanBuilder<'_> {
    /// Enters `next`: closes the history of the old state, opens that of the new one.
    pub fn enter(&mut self, next: ProvisioningState) {
        let now = self.now;
        self.savepoint = None;
        // A deletion gives up after failures of its own, not after those of a deployment before it.
        if next == ProvisioningState::Deprovisioning && self.is_deleting() {
            self.status.error_count = 0;
        }
        // Whoever starts the count afresh has succeeded: what failed on the way there is over.
        if self.status.error_count == 0 && self.status.error_type.is_some() {
            self.clear_error(OperationalStatus::Ok);
        }
        let old = std::mem::replace(&mut self.status.provisioning.state, next);
        // Only what is in use is serviced. Left standing, the word of another operator, or of another life of this host,
        // would have us end a service that somebody else began.
        let is_in_use = matches!(
            old,
            ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned
        );
        let is_serviced = self.status.operational_status == OperationalStatus::Servicing
            || self.status.error_type == Some(ErrorType::Servicing);
        if !is_in_use && is_serviced {
            self.clear_error(OperationalStatus::Ok);
        }
        if let Some(metric) = metric_of(&mut self.status, &old) {
            end(metric, now);
        }
        let next = self.status.provisioning.state.clone();
        if let Some(metric) = metric_of(&mut self.status, &next) {
            begin(metric, now);
        }
        // Boot mode edits take effect on entry to these states only, so that a running operation is not changed under way.
        if matches!(
            next,
            ProvisioningState::Registering | ProvisioningState::Inspecting | ProvisioningState::Provisioning
        ) {
            let wanted = Some(self.spec().boot_mode.clone().unwrap_or(BootMode::Uefi));
            if self.status.provisioning.boot_mode != wanted {
                self.status.provisioning.boot_mode = wanted;
                // The node was configured for the old one.
                conditions::confirm(&mut self.status, None, now);
            }
        }
    }

    /// Opens a new interval of `operationHistory.register` for a registration after the first.
    pub fn begin_registration(&mut self) {
        begin(&mut self.status.operation_history.register, self.now);
    }

    /// Closes it.
    pub fn end_registration(&mut self) {
        end(&mut self.status.operation_history.register, self.now);
    }
}

fn metric_of<'s>(status: &'s mut BareMetalHostStatus, state: &ProvisioningState) -> Option<&'s mut OperationMetric> {
    let history = &mut status.operation_history;
    match state {
        ProvisioningState::Registering => Some(&mut history.register),
        ProvisioningState::Inspecting => Some(&mut history.inspect),
        ProvisioningState::Provisioning => Some(&mut history.provision),
        ProvisioningState::Deprovisioning => Some(&mut history.deprovision),
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::MatchProfile
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => None,
    }
}

/// A retried operation keeps its earliest start.
fn begin(metric: &mut OperationMetric, now: Timestamp) {
    if metric.start.is_none() || metric.end.is_some() {
        *metric = OperationMetric {
            start: Some(seconds(now)),
            end: None,
        };
    }
}

fn end(metric: &mut OperationMetric, now: Timestamp) {
    if metric.start.is_some() && metric.end.is_none() {
        metric.end = Some(seconds(now));
    }
}
