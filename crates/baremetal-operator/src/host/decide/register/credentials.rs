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
pub(super) fn credentials<'a>(draft: &mut PlanBuilder<'a>) -> Result<Option<Secret<'a>>, Step> {
    let name = draft.spec().bmc.credentials_name.as_str();
    let namespace = draft.seen.host.metadata.namespace.as_deref().unwrap_or_default();
    if name.is_empty() {
        if draft.is_deleting() {
            return Ok(None);
        }
        return Err(draft.refuse(
            ErrorType::Registration,
            WaitReason::InvalidBMCDetails,
            EventReason::BMCCredentialError,
            "spec.bmc.credentialsName is empty: name a Secret with the keys username and password",
        ));
    }
    match &draft.seen.secret {
        SecretView::NotLooked { version: Some(version) }
            if *version == draft.status.tried_credentials.credentials_version =>
        {
            Ok(Some(Secret { version, found: None }))
        }
        SecretView::NotLooked { .. }
            if draft.seen.may_claim_unread && !draft.is_deleting() && is_first(draft, name) =>
        {
            claim(draft, name);
            Err(Step::Again)
        }
        SecretView::NotLooked { .. } => Err(Step::Fetch(Read::Credentials)),
        SecretView::Missing | SecretView::Invalid { .. } if draft.is_deleting() => Ok(None),
        SecretView::Missing => Err(draft.refuse(
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
        SecretView::Invalid { claimed: true, .. } if !was_given(draft, name) => {
            draft.effects.push(Effect::UnclaimSecret);
            Err(Step::Again)
        }
        SecretView::Invalid { problem, .. } => {
            let message = format!("Secret {namespace}/{name}: {problem}");
            Err(draft.refuse(
                ErrorType::Registration,
                WaitReason::InvalidBMCDetails,
                EventReason::BMCCredentialError,
                message,
            ))
        }
        SecretView::Found(found) => {
            if !draft.is_deleting() {
                if !found.claimed {
                    claim(draft, name);
                    return Err(Step::Again);
                }
                // It was marked before anybody noted it.
                held::note(draft, name);
                note_claim(draft);
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
fn is_first(draft: &PlanBuilder<'_>, name: &str) -> bool {
    let has_node = matches!(draft.seen.node, NodeView::Listed(_) | NodeView::Live(_));
    name_of(&draft.status.tried_credentials).map_or(!has_node, |tried| tried != name)
}

/// Whether Ironic was given credentials of a Secret of this name.
fn was_given(draft: &PlanBuilder<'_>, name: &str) -> bool {
    let given = [&draft.status.tried_credentials, &draft.status.good_credentials];
    given
        .into_iter()
        .any(|given| name_of(given) == Some(name) && !given.credentials_version.is_empty())
}

/// Marks the Secret as ours.
fn claim(draft: &mut PlanBuilder<'_>, name: &str) {
    held::note(draft, name);
    draft.effects.push(Effect::ClaimSecret);
    note_claim(draft);
}

/// Remembers that this is the Secret to be tried, without a version until Ironic is given it: it was marked, and is only read from
/// now on.
fn note_claim(draft: &mut PlanBuilder<'_>) {
    let claimed = named(draft, "");
    if name_of(&draft.status.tried_credentials) != name_of(&claimed) {
        draft.status.tried_credentials = claimed;
    }
}

/// Whether Ironic was given other credentials, or none yet.
pub(super) fn is_new(draft: &PlanBuilder<'_>, secret: &Secret<'_>) -> bool {
    match (secret.found, draft.seen.memory.accepted_digest) {
        (Some(found), Some(digest)) => digest != found.digest,
        (Some(found), None) => draft.status.tried_credentials.credentials_version != found.version,
        (None, _) => false,
    }
}

/// Ironic has the present credentials, and has not been seen to reach the BMC by them. A registration proves them itself.
pub(super) fn is_tried_only(draft: &PlanBuilder<'_>, secret: &Secret<'_>) -> bool {
    let current = reference(draft, secret);
    let tried = &draft.status.tried_credentials;
    *draft.state() != ProvisioningState::Registering
        // One without a version was not given to Ironic. It may say what another one said that was, and that nobody has proven.
        && (*tried == current || tried.credentials_version.is_empty())
        && draft.status.good_credentials != current
}

/// Remembers which credentials Ironic was given.
pub(super) fn try_credentials(draft: &mut PlanBuilder<'_>, secret: &Secret<'_>) {
    let current = reference(draft, secret);
    if draft.status.tried_credentials != current {
        draft.status.tried_credentials = current;
        if *draft.state() != ProvisioningState::Registering {
            draft.begin_registration();
        }
    }
}

/// The credentials were proven, or belong to a node that was proven before.
pub(super) fn accepted(draft: &mut PlanBuilder<'_>, secret: &Secret<'_>) {
    let current = reference(draft, secret);
    // A Secret whose metadata alone changed has another version but the same content: nothing to tell.
    let was_tried = draft.status.tried_credentials == current;
    draft.status.tried_credentials.clone_from(&current);
    if draft.status.good_credentials != current {
        // The one before is held until here: no other one was known to be good.
        draft.status.good_credentials = current;
        if was_tried {
            draft.event(EventReason::BMCAccessValidated, "Verified access to BMC");
        }
    }
    if draft.status.error_type == Some(ErrorType::Registration) {
        draft.clear_error(OperationalStatus::Ok);
        draft.status.error_count = 0;
    }
    if draft.status.operational_status == OperationalStatus::None
        || draft.status.operational_status == OperationalStatus::Discovered
    {
        draft.status.operational_status = OperationalStatus::Ok;
    }
    if *draft.state() != ProvisioningState::Registering {
        draft.end_registration();
    }
}

fn reference(draft: &PlanBuilder<'_>, secret: &Secret<'_>) -> CredentialsStatus {
    named(draft, secret.version)
}

/// The Secret that the specification names, in this version.
fn named(draft: &PlanBuilder<'_>, version: &str) -> CredentialsStatus {
    CredentialsStatus {
        credentials: Some(SecretReference {
            name: draft.spec().bmc.credentials_name.clone(),
            namespace: draft.seen.host.metadata.namespace.clone().unwrap_or_default(),
        }),
        credentials_version: version.to_owned(),
    }
}
