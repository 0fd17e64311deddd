//! Decides what to do about a Metal3Cluster. Pure.

use std::convert::Infallible;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::capi::Cluster;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::{condition, reason};
use metal3_api::infra::names::{finalizer, label};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3ClusterStatus};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::conditions;
use metal3_runtime::controller::{self, Report};
use metal3_runtime::events::Event;
use serde_json::{Value, json};

use super::is_externally_managed;
use super::observed::{Observed, Owner};
use crate::conditions::{LegacySeverity, Setter};
use crate::label_sync::Prefixes;
use crate::refusals::UPDATE_ERROR;

/// Condition: the control plane endpoint is set, so machines can be created.
pub const INFRASTRUCTURE: &str = "BaremetalInfrastructureReady";

/// Condition: present, and false, only while an annotation has an invalid value.
pub const ANNOTATIONS: &str = "AnnotationsValid";

/// Reason: the label prefixes are invalid.
const BAD_PREFIXES: &str = "InvalidLabelSyncPrefixes";

/// Default port of API servers. The webhook sets it if none is given.
pub const API_SERVER_PORT: i32 = 6443;

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds the finalizer.
    AddFinalizer,
    /// Sets the endpoint's port to the default.
    SetPort {
        /// The patch, guarded by the observed resource version.
        patch: Value,
    },
    /// Releases a host reserved for the next machine of a deployment or of the cluster.
    ReleaseHost {
        /// The host's name.
        host: String,
        /// The patch, guarded by the observed resource version.
        patch: Value,
    },
    /// Removes the finalizer.
    RemoveFinalizer,
}

impl Effect {
    /// Describes the effect in errors.
    pub fn label(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add the finalizer",
            Self::SetPort { .. } => "set the endpoint's port",
            Self::ReleaseHost { .. } => "release a host that was kept for the cluster",
            Self::RemoveFinalizer => "remove the finalizer",
        }
    }

    /// The object that is written, for errors, if it is not the Metal3Cluster.
    pub fn object(&self) -> Option<String> {
        match self {
            Self::ReleaseHost { host, .. } => Some(format!("BareMetalHost {host}")),
            Self::AddFinalizer | Self::SetPort { .. } | Self::RemoveFinalizer => None,
        }
    }
}

/// Decides what to do. The report comes first, then host releases, then the finalizer: a cluster never waits for its hosts.
pub type Plan = controller::Plan<Effect, Metal3ClusterStatus>;

/// The decision. Everything it needs has been observed.
pub type Decision = controller::Decision<Infallible, Effect, Metal3ClusterStatus>;

/// Idle if another controller manages the cluster, or if it is deleted and has no finalizer of ours.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let cluster = &*seen.cluster;
    if is_externally_managed(cluster) {
        return Decision::idle();
    }
    let mut builder = PlanBuilder::new(cluster, now);
    if let Some(why) = seen.paused() {
        builder.paused(Some(&why));
        return builder.plan().into();
    }
    builder.paused(None);
    builder.annotations();
    if cluster.metadata.deletion_timestamp.is_some() {
        return delete(seen, builder);
    }
    match &seen.owner {
        Owner::Unset => {
            let message = "waiting until Cluster API names the Cluster that this belongs to; \
                           it does so when a Cluster's spec.infrastructureRef names this object";
            builder.not_ready("WaitingForClusterOwnerRef", message, None);
            builder.plan().into()
        }
        Owner::Missing(name) => {
            let message = format!("the owner, Cluster {name}, does not exist");
            let failure = ("InternalFailureOccured", Some("unable to get owner cluster"));
            builder.not_ready("FailedToGetOwnerCluster", &message, Some(failure));
            builder.plan().into()
        }
        Owner::Found(owner) => serve(seen, owner, builder).into(),
    }
}

fn serve(seen: &Observed, owner: &Cluster, mut builder: PlanBuilder<'_>) -> Plan {
    let cluster = &*seen.cluster;
    builder.status.failure_domains.clone_from(&cluster.spec.failure_domains);
    let endpoint = &cluster.spec.control_plane_endpoint;
    let mut effects = Vec::new();
    // Cluster API copies the endpoint from here only if the Cluster has none.
    let is_taken = !owner.spec.control_plane_endpoint.is_complete();
    if endpoint.host.is_empty() && is_taken {
        let message = "spec.controlPlaneEndpoint.host is not set: set it to where the API servers of the cluster are to be reached";
        let failure = ("ControlPlaneEndpointFailed", Some(message));
        builder.not_ready("InvalidConfiguration", message, Some(failure));
    } else {
        if endpoint.port == 0 && is_taken {
            effects.push(Effect::SetPort {
                patch: json!({
                    "metadata": {"resourceVersion": cluster.metadata.resource_version},
                    "spec": {"controlPlaneEndpoint": {"port": API_SERVER_PORT}},
                }),
            });
        }
        builder.ready();
    }
    if !has_finalizer(cluster) {
        effects.push(Effect::AddFinalizer);
    }
    Plan {
        effects,
        afterwards: seen.kept.iter().map(|host| release(host)).collect(),
        ..builder.plan()
    }
}

/// Reports a rejection by the API server. The report of the next successful pass replaces it.
pub fn refused(cluster: &Metal3Cluster, message: &str, now: Timestamp) -> Report<Metal3ClusterStatus> {
    let mut builder = PlanBuilder::new(cluster, now);
    builder.events.push(Event::warning(UPDATE_ERROR, message));
    let ready = (condition::READY, UPDATE_ERROR, message);
    builder.does_not_hold(ready, (LegacySeverity::Error, UPDATE_ERROR, message));
    builder.plan().report
}

fn delete(seen: &Observed, mut builder: PlanBuilder<'_>) -> Decision {
    if !has_finalizer(&seen.cluster) {
        return Decision::idle();
    }
    if seen.machines.is_empty() {
        // The deployment or cluster will create no more machines, so the host need not be reserved.
        let kept = seen.kept.iter().map(|host| release(host));
        let effects = kept.chain([Effect::RemoveFinalizer]).collect();
        return Plan {
            effects,
            ..Plan::default()
        }
        .into();
    }
    let named: Vec<&str> = seen.machines.iter().take(3).map(String::as_str).collect();
    let more = if seen.machines.len() > named.len() { ", …" } else { "" };
    let message = format!(
        "waiting until the Machines of the cluster are gone: {} left ({}{more})",
        seen.machines.len(),
        named.join(", ")
    );
    let ready = (condition::READY, "Deleting", message.as_str());
    builder.does_not_hold(ready, (LegacySeverity::Info, "Deleting", &message));
    builder.plan().into()
}

fn release(host: &BareMetalHost) -> Effect {
    Effect::ReleaseHost {
        host: host.name_any(),
        patch: json!({
            "metadata": {
                "resourceVersion": host.metadata.resource_version,
                "labels": {label::NODE_REUSE: null},
                "annotations": {BLOCK_MOVE: null},
            },
            "spec": {"consumerRef": null},
        }),
    }
}

fn has_finalizer(cluster: &Metal3Cluster) -> bool {
    let finalizers = cluster.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|present| present == finalizer::CLUSTER)
}

/// The status being built, and its events.
struct PlanBuilder<'a> {
    cluster: &'a Metal3Cluster,
    status: Metal3ClusterStatus,
    set: Setter,
    events: Vec<Event>,
}

impl<'a> PlanBuilder<'a> {
    fn new(cluster: &'a Metal3Cluster, now: Timestamp) -> Self {
        Self {
            cluster,
            status: cluster.status.clone().unwrap_or_default(),
            set: Setter {
                generation: cluster.metadata.generation,
                now,
            },
            events: Vec::new(),
        }
    }

    fn paused(&mut self, why: Option<&str>) {
        let reason = if why.is_some() {
            condition::PAUSED
        } else {
            reason::NOT_PAUSED
        };
        let list = &mut self.status.conditions;
        self.set
            .set(list, condition::PAUSED, why.is_some(), reason, why.unwrap_or_default());
    }

    /// Reports an invalid annotation for as long as it is invalid.
    fn annotations(&mut self) {
        let list = &mut self.status.conditions;
        let Some(complaint) = Prefixes::of(self.cluster).and_then(|prefixes| prefixes.complaint()) else {
            list.retain(|condition| condition.type_ != ANNOTATIONS);
            return;
        };
        let before = conditions::get(list, ANNOTATIONS);
        let is_news = before.is_none_or(|before| before.message != complaint);
        self.set.set(list, ANNOTATIONS, false, BAD_PREFIXES, &complaint);
        if is_news {
            self.events.push(Event::warning(BAD_PREFIXES, complaint));
        }
    }

    /// Machines can be created. This never goes back to false: what was reported to Cluster API is never withdrawn.
    fn ready(&mut self) {
        if !conditions::is_true(&self.status.conditions, INFRASTRUCTURE) {
            let message = "the control plane's endpoint is known";
            self.events.push(Event::normal("InfrastructureReady", message));
        }
        for type_ in [INFRASTRUCTURE, condition::READY] {
            self.set.set(&mut self.status.conditions, type_, true, "Ready", "");
            let legacy = &mut self.status.deprecated.v1beta1;
            self.set.legacy(&mut legacy.conditions, type_, None);
        }
        self.status.initialization.provisioned = Some(true);
        let legacy = &mut self.status.deprecated.v1beta1;
        legacy.failure_reason.clear();
        legacy.failure_message.clear();
    }

    /// Machines cannot be created. `failure` is the v1beta1-style reason and message, for permanent errors only.
    fn not_ready(&mut self, reason: &'static str, message: &str, failure: Option<(&str, Option<&str>)>) {
        let before = conditions::get(&self.status.conditions, INFRASTRUCTURE);
        if failure.is_some() && before.is_none_or(|before| before.reason != reason || before.message != message) {
            self.events.push(Event::warning(reason, message));
        }
        for type_ in [INFRASTRUCTURE, condition::READY] {
            let (severity, legacy_reason) = failure.map_or((LegacySeverity::Info, reason), |(legacy_reason, _)| {
                (LegacySeverity::Error, legacy_reason)
            });
            self.does_not_hold((type_, reason, message), (severity, legacy_reason, message));
        }
        let legacy = &mut self.status.deprecated.v1beta1;
        let text = failure.and_then(|(_, text)| text);
        legacy.failure_reason = text.map_or_else(String::new, |_| "InvalidConfiguration".to_owned());
        text.unwrap_or_default().clone_into(&mut legacy.failure_message);
    }

    /// Sets a condition to false, in both styles.
    fn does_not_hold(&mut self, standard: (&str, &str, &str), legacy: (LegacySeverity, &str, &str)) {
        let (type_, reason, message) = standard;
        self.set.set(&mut self.status.conditions, type_, false, reason, message);
        let list = &mut self.status.deprecated.v1beta1.conditions;
        self.set.legacy(list, type_, Some(legacy));
    }

    fn plan(self) -> Plan {
        let is_new = self.cluster.status.as_ref() != Some(&self.status);
        Plan {
            report: Report {
                status: is_new.then_some(self.status),
                events: self.events,
            },
            ..Plan::default()
        }
    }
}
