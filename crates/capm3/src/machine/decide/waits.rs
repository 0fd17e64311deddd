//! Preconditions for choosing a host and for provisioning it.

use kube::ResourceExt;
use metal3_api::capi::Machine;
use metal3_api::capi::names::reason;

use super::builder::{PlanBuilder, Why};
use crate::conditions::LegacySeverity;
use crate::machine::decide::plan::{Decision, Read};
use crate::machine::observed::{Observed, Related};

/// The v1beta1 and standard reasons, and the message.
type Wait = (&'static str, &'static str, String);

/// The Machine to find a host for, or the missing precondition: its reason in both styles, and the message.
pub(super) fn waits(seen: &Observed) -> Result<&Machine, Wait> {
    let owner = match &seen.owner {
        Related::Found(owner) => owner,
        Related::Unset => {
            let message = "waiting until Cluster API names the Machine that this belongs to".to_owned();
            return Err((
                "WaitingForMetal3MachineOwnerRef",
                "WaitingForM3MachineOwnerRef",
                message,
            ));
        }
        Related::Missing(name) => {
            let message = format!("the owner, Machine {name}, does not exist");
            return Err((
                "WaitingForMetal3MachineOwnerRef",
                "WaitingForM3MachineOwnerRef",
                message,
            ));
        }
    };
    let infrastructure = |message| {
        let reason = reason::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY;
        Err((reason, "WaitingForClusterInfrastructure", message))
    };
    let cluster = match &seen.cluster {
        Related::Found(cluster) => cluster,
        Related::Unset => return infrastructure("the Machine names no Cluster in spec.clusterName".to_owned()),
        Related::Missing(name) => return infrastructure(format!("Cluster {name} does not exist")),
    };
    if !cluster.is_infrastructure_ready() {
        let name = cluster.name_any();
        return infrastructure(format!("waiting for the infrastructure of Cluster {name}"));
    }
    let ours = |message| Err(("WaitingforMetal3Cluster", "WaitingforMetal3Cluster", message));
    match &seen.metal3_cluster {
        Related::Found(_) => {}
        Related::Unset => {
            let name = cluster.name_any();
            return ours(format!(
                "Cluster {name} names no Metal3Cluster in spec.infrastructureRef"
            ));
        }
        Related::Missing(name) => return ours(format!("Metal3Cluster {name} does not exist")),
    }
    let bootstrap = |message| {
        let reason = reason::WAITING_FOR_BOOTSTRAP_DATA;
        Err((reason, "WaitingForBootstrapReady", message))
    };
    if owner.metadata.deletion_timestamp.is_some() {
        return bootstrap(format!(
            "Machine {} is being deleted: it gets no host",
            owner.name_any()
        ));
    }
    if bootstrap_secret(owner).is_none() {
        return bootstrap(match &owner.spec.bootstrap.config_ref {
            Some(config) => format!("waiting for the bootstrap data of {} {}", config.kind, config.name),
            None => format!(
                "Machine {} has no bootstrap data: set spec.bootstrap.dataSecretName or spec.bootstrap.configRef",
                owner.name_any()
            ),
        });
    }
    Ok(owner)
}

/// Reports what is awaited.
pub(super) fn say(builder: &mut PlanBuilder<'_>, (reason, legacy, message): &Wait) {
    let why = Why {
        reason,
        legacy,
        severity: LegacySeverity::Info,
        message,
    };
    if builder.seen.has_host() {
        builder.not_ready(why);
    } else {
        builder.not_associated(why, None);
    }
}

/// There is no Cluster, or no Machine that names one: reports that and writes nothing else.
pub(super) fn without_cluster(mut builder: PlanBuilder<'_>) -> Decision {
    if let Err(wait) = waits(builder.seen) {
        say(&mut builder, &wait);
    }
    builder.plan()
}

/// The bootstrap data Secret.
pub(super) fn bootstrap_secret(owner: &Machine) -> Option<&str> {
    let name = owner.spec.bootstrap.data_secret_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// Which Secrets are missing, as text; or that they must be looked up first.
pub(super) fn missing_secrets(builder: &PlanBuilder<'_>) -> Result<Option<String>, Read> {
    let wanted = builder.seen.wanted_secrets();
    let Some(found) = &builder.seen.reads.secrets else {
        return Err(Read::Secrets(wanted.into_iter().map(|(name, _)| name).collect()));
    };
    let is_missing = |name: &str| found.get(name) == Some(&false);
    let missing: Vec<String> = wanted
        .iter()
        .filter(|(name, _)| is_missing(name))
        .map(|(name, field)| format!("Secret {name}, named by {field}, does not exist"))
        .collect();
    Ok((!missing.is_empty()).then(|| missing.join("; ")))
}
