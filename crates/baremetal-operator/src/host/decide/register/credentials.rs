//! The BMC credentials: whether they must be read, and whether Ironic has them.

use metal3_api::metal3::{CredentialsStatus, ErrorType, OperationalStatus, ProvisioningState};
use metal3_api::reference::SecretReference;

use crate::host::builder::{PlanBuilder, Step};
use crate::host::decide::held;
use crate::host::held::name_of;
use crate::host::observed::{NodeView, SecretFound, SecretView};
use crate::host::plan::{Effect, EventReason, Read, WaitReason};

/// The credentials as known in a pass.
#[derive(Clone, Copy)]
pub struct Secret<'a> {
    /// The Secret's version, published in the status.
    pub version: &'a str,
    /// User name and password; `None` while the version is the one that Ironic was given, so that they need not be
    /// read.
    pub found: Option<&'a SecretFound>,
}

/// The credentials; `None` when a host that is being deleted has none.
pub(super) fn credentials<'a>(plan: &mut PlanBuilder<'a>) -> Result<Option<Secret<'a>>, Step> {
    let name = plan.spec().bmc.credentials_name.as_str();
    let namespace = plan.seen.host.metadata.namespace.as_deref().unwrap_or_default();
    if name.is_empty() {
        if plan.is_deleting() {
            return Ok(None);
        }
        return Err(plan.refuse(
            ErrorType::Registration,
            WaitReason::InvalidBMCDetails,
            EventReason::BMCCredentialError,
            "spec.bmc.credentialsName is empty: name a Secret with the keys username and password",
        ));
    }
    match &plan.seen.secret {
        SecretView::NotLooked { version: Some(version) }
            if *version == plan.status.tried_credentials.credentials_version =>
        {
            Ok(Some(Secret { version, found: None }))
        }
        SecretView::NotLooked { .. } if plan.seen.may_claim_unread && !plan.is_deleting() && is_first(plan, name) => {
            claim(plan, name);
            Err(Step::Again)
        }
        SecretView::NotLooked { .. } => Err(Step::Fetch(Read::Credentials)),
        SecretView::Missing | SecretView::Invalid { .. } if plan.is_deleting() => Ok(None),
        SecretView::Missing => Err(plan.refuse(
            ErrorType::Registration,
            WaitReason::SecretMissing,
            EventReason::BMCCredentialError,
            format!(
                "Secret {namespace}/{name}, named by spec.bmc.credentialsName, does not exist: \
                 create it with the keys username and password"
            ),
        )),
        // It was marked before it was read: a Secret named by mistake must not be treated as the host's. A Secret that
        // Ironic was given is only being edited.
        SecretView::Invalid { claimed: true, .. } if !was_given(plan, name) => {
            plan.effects.push(Effect::UnclaimSecret);
            Err(Step::Again)
        }
        SecretView::Invalid { problem, .. } => {
            let message = format!("Secret {namespace}/{name}: {problem}");
            Err(plan.refuse(
                ErrorType::Registration,
                WaitReason::InvalidBMCDetails,
                EventReason::BMCCredentialError,
                message,
            ))
        }
        SecretView::Found(found) => {
            if !plan.is_deleting() {
                if !found.claimed {
                    claim(plan, name);
                    return Err(Step::Again);
                }
                // It was marked before this was recorded.
                held::note(plan, name);
                note_claim(plan);
            }
            Ok(Some(Secret {
                version: &found.version,
                found: Some(found),
            }))
        }
    }
}

/// Whether Ironic was never given the credentials of this Secret; then it is probably not marked as ours. If the host
/// already has a node, an earlier run of the operator has marked the Secret, and it is only read. So an operator that
/// is killed after one or two effects still makes progress with each restart.
fn is_first(plan: &PlanBuilder<'_>, name: &str) -> bool {
    let has_node = matches!(plan.seen.node, NodeView::Listed(_) | NodeView::Live(_));
    name_of(&plan.status.tried_credentials).map_or(!has_node, |tried| tried != name)
}

/// Whether Ironic was given credentials of a Secret of this name.
fn was_given(plan: &PlanBuilder<'_>, name: &str) -> bool {
    let given = [&plan.status.tried_credentials, &plan.status.good_credentials];
    given
        .into_iter()
        .any(|given| name_of(given) == Some(name) && !given.credentials_version.is_empty())
}

/// Marks the Secret as ours.
fn claim(plan: &mut PlanBuilder<'_>, name: &str) {
    held::note(plan, name);
    plan.effects.push(Effect::ClaimSecret);
    note_claim(plan);
}

/// Records the Secret as the one to try, without a version until Ironic is given it: it is marked, and only read from
/// now on.
fn note_claim(plan: &mut PlanBuilder<'_>) {
    let claimed = named(plan, "");
    if name_of(&plan.status.tried_credentials) != name_of(&claimed) {
        plan.status.tried_credentials = claimed;
    }
}

/// Whether Ironic was given different credentials, or none yet.
pub(super) fn is_new(plan: &PlanBuilder<'_>, secret: &Secret<'_>) -> bool {
    match (secret.found, plan.seen.memory.accepted_digest) {
        (Some(found), Some(digest)) => digest != found.digest,
        (Some(found), None) => plan.status.tried_credentials.credentials_version != found.version,
        (None, _) => false,
    }
}

/// Whether Ironic has the current credentials but has not been seen to reach the BMC with them. A registration proves
/// them itself.
pub(super) fn is_tried_only(plan: &PlanBuilder<'_>, secret: &Secret<'_>) -> bool {
    let current = reference(plan, secret);
    let tried = &plan.status.tried_credentials;
    *plan.state() != ProvisioningState::Registering
        // Credentials without a version were not given to Ironic. They may equal earlier ones that were given but never
        // proven.
        && (*tried == current || tried.credentials_version.is_empty())
        && plan.status.good_credentials != current
}

/// Records which credentials Ironic was given.
pub(super) fn try_credentials(plan: &mut PlanBuilder<'_>, secret: &Secret<'_>) {
    let current = reference(plan, secret);
    if plan.status.tried_credentials != current {
        plan.status.tried_credentials = current;
        if *plan.state() != ProvisioningState::Registering {
            plan.begin_registration();
        }
    }
}

/// The credentials were proven, or belong to a node that was proven before.
pub(super) fn accepted(plan: &mut PlanBuilder<'_>, secret: &Secret<'_>) {
    let current = reference(plan, secret);
    // If only the metadata of a Secret changed, its version differs but the content is the same: nothing to report.
    let was_tried = plan.status.tried_credentials == current;
    plan.status.tried_credentials.clone_from(&current);
    if plan.status.good_credentials != current {
        // The previous Secret is held until here, because no other one was known to be good.
        plan.status.good_credentials = current;
        if was_tried {
            plan.event(EventReason::BMCAccessValidated, "Verified access to BMC");
        }
    }
    if plan.status.error_type == Some(ErrorType::Registration) {
        plan.clear_error(OperationalStatus::Ok);
        plan.status.error_count = 0;
    }
    if plan.status.operational_status == OperationalStatus::None
        || plan.status.operational_status == OperationalStatus::Discovered
    {
        plan.status.operational_status = OperationalStatus::Ok;
    }
    if *plan.state() != ProvisioningState::Registering {
        plan.end_registration();
    }
}

fn reference(plan: &PlanBuilder<'_>, secret: &Secret<'_>) -> CredentialsStatus {
    named(plan, secret.version)
}

/// The Secret that the specification names, in this version.
fn named(plan: &PlanBuilder<'_>, version: &str) -> CredentialsStatus {
    CredentialsStatus {
        credentials: Some(SecretReference {
            name: plan.spec().bmc.credentials_name.clone(),
            namespace: plan.seen.host.metadata.namespace.as_deref().unwrap_or_default().into(),
        }),
        credentials_version: version.to_owned(),
    }
}
