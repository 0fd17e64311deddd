//! The BMC credentials: whether they must be read, and whether Ironic has them.

use metal3_api::metal3::{CredentialsStatus, ErrorType, OperationalStatus, ProvisioningState};
use metal3_api::reference::SecretReference;

use crate::host::builder::{PlanBuilder, Step};
use crate::host::decide::held;
use crate::host::held::name_of;
use crate::host::observed::{NodeView, SecretFound, SecretView};
use crate::host::plan::{Effect, EventReason, Read, WaitReason};

/// What a pass knows of the credentials.
#[derive(Clone, Copy)]
pub struct Secret<'a> {
    /// The Secret's version, published in the status.
    pub version: &'a str,
    /// User name and password; `None` while the version is the one that Ironic was given: then nobody needs to read them.
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
        // Marked before it was read, it would go with the host that names it by mistake. One that Ironic was given is only being
        // changed.
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
                // It was marked before anybody noted it.
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

/// Whether Ironic was never given the credentials of this Secret: it is hardly marked as ours then.
/// The Secret of a host that has a node already was marked by an earlier life of the operator and is only read, so that a life that
/// ends after one or two effects gets further than the one before.
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

/// Remembers that this is the Secret to be tried, without a version until Ironic is given it: it was marked, and is only read from
/// now on.
fn note_claim(plan: &mut PlanBuilder<'_>) {
    let claimed = named(plan, "");
    if name_of(&plan.status.tried_credentials) != name_of(&claimed) {
        plan.status.tried_credentials = claimed;
    }
}

/// Whether Ironic was given other credentials, or none yet.
pub(super) fn is_new(plan: &PlanBuilder<'_>, secret: &Secret<'_>) -> bool {
    match (secret.found, plan.seen.memory.accepted_digest) {
        (Some(found), Some(digest)) => digest != found.digest,
        (Some(found), None) => plan.status.tried_credentials.credentials_version != found.version,
        (None, _) => false,
    }
}

/// Ironic has the present credentials, and has not been seen to reach the BMC by them. A registration proves them itself.
pub(super) fn is_tried_only(plan: &PlanBuilder<'_>, secret: &Secret<'_>) -> bool {
    let current = reference(plan, secret);
    let tried = &plan.status.tried_credentials;
    *plan.state() != ProvisioningState::Registering
        // One without a version was not given to Ironic. It may say what another one said that was, and that nobody has proven.
        && (*tried == current || tried.credentials_version.is_empty())
        && plan.status.good_credentials != current
}

/// Remembers which credentials Ironic was given.
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
    // A Secret whose metadata alone changed has another version but the same content: nothing to tell.
    let was_tried = plan.status.tried_credentials == current;
    plan.status.tried_credentials.clone_from(&current);
    if plan.status.good_credentials != current {
        // The one before is held until here: no other one was known to be good.
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
            namespace: plan.seen.host.metadata.namespace.clone().unwrap_or_default(),
        }),
        credentials_version: version.to_owned(),
    }
}
