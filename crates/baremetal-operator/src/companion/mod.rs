//! What the controllers of a host's firmware objects have in common: which hosts have such objects, and when Ironic is
//! asked what it knows.
//!
//! Ironic reads a host's BIOS and firmware when it has verified the host, and after steps that change something. Each of
//! these ends in another state of the node. So a controller looks again when the node's state has changed since its last
//! look, and when a user has edited the object; never on a timer.

#[cfg(test)]
mod tests;
mod writes;

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::metal3::{BareMetalHost, ErrorType, OperationalStatus, ProvisioningState};
use metal3_ironic::{Node, ProvisionState};
use metal3_runtime::controller::Next;
use metal3_runtime::error::{Class, Classified as _, chain};
use metal3_runtime::store::{Change, ObjectKey};
use metal3_runtime::timing::operator::PROOF_AGAIN;
use metal3_runtime::work::Queue;
use parking_lot::Mutex;

pub use self::writes::{adopt, adopt_policy, delete_seen};
use crate::fleet::NodeView;
use crate::host::context::Context;
use crate::host::error::ObserveError;
use crate::host::firmware::Trouble;
use crate::host::text::for_tenant;
use crate::host::{OwnNode, ReconcileError, annotations, identity, is_paused, read_own_node};

/// A host and its node.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The host.
    pub host: Arc<BareMetalHost>,
    /// Its node as the fleet's view shows it.
    pub node: NodeView,
    /// The node at the last look of this process.
    pub last_look: Option<String>,
    /// Whether the node is not proven to be the host's.
    pub is_unproven: bool,
}

/// What a controller wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Whether it has to look whatever happened to the node: its object was edited, or nothing was said of it yet.
    pub is_open: bool,
    /// Whether it looks before inspection too.
    pub is_early: bool,
}

impl Surroundings {
    /// What the caches know of a host; `None` if it is gone.
    pub fn of(ctx: &Context, key: &ObjectKey, looks: &Looks) -> Option<Self> {
        let Some(host) = ctx.hosts.get(key) else {
            looks.forget(key);
            return None;
        };
        if !ctx.companions.are_listed(&key.namespace) {
            return None;
        }
        let id = identity::stored_uuid(host.status.as_ref()).unwrap_or_default();
        Some(Self {
            node: ctx.fleet.of(id, identity::own_uuid(&host), key),
            last_look: looks.last(key, &host),
            is_unproven: false,
            host,
        })
    }

    /// Whether the host has such objects: it is managed and stays so.
    pub fn has_companions(&self) -> bool {
        let host = &*self.host;
        let is_managed = match state(host) {
            ProvisioningState::None | ProvisioningState::Unmanaged => false,
            ProvisioningState::Registering
            | ProvisioningState::MatchProfile
            | ProvisioningState::Inspecting
            | ProvisioningState::Preparing
            | ProvisioningState::Ready
            | ProvisioningState::Available
            | ProvisioningState::Provisioning
            | ProvisioningState::Provisioned
            | ProvisioningState::ExternallyProvisioned
            | ProvisioningState::Deprovisioning
            | ProvisioningState::PoweringOffBeforeDelete
            | ProvisioningState::Deleting
            | ProvisioningState::Other(_) => true,
        };
        is_managed && host.metadata.deletion_timestamp.is_none() && !is_left_alone(host)
    }

    /// When to look again if nothing changes. The BMC of an unproven node may only have been away, and a Secret that is mended changes
    /// nothing of its host.
    pub fn again(&self) -> Next {
        if self.is_unproven {
            Next::After(PROOF_AGAIN)
        } else {
            Next::Change
        }
    }

    /// The node to look at now, and the name of this look; `None` if nothing new is to be expected.
    pub fn due(&self, question: Question) -> Option<(&Node, String)> {
        let (NodeView::Listed(node) | NodeView::Live(node)) = &self.node else {
            return None;
        };
        let is_own = identity::is_own(node, &self.host, self.host.status.as_ref()?);
        let is_verified = !matches!(node.provision_state, ProvisionState::Enroll | ProvisionState::Verifying);
        let is_early = matches!(
            state(&self.host),
            ProvisioningState::Registering | ProvisioningState::Inspecting
        );
        if !is_own || !is_verified || is_early && !question.is_early {
            return None;
        }
        let since = node.provision_updated_at.as_deref().unwrap_or_default();
        let look = format!("{} {} {since}", node.uuid, node.provision_state);
        let is_new = self.last_look.as_ref() != Some(&look) && is_at_rest(&node.provision_state);
        // The host records itself what it changes, before it reports that it is done.
        let is_due = is_new && !is_being_changed(&self.host) || question.is_open;
        is_due.then_some((node, look))
    }
}

/// The UUID of the node to read from, if it is proven to be the host's: its status and its name alone, which a user may have written,
/// lead to nothing of anybody else's. Without the proof nothing is to be expected from the node until the host has it, or
/// [the BMC may be asked again](Surroundings::again).
pub async fn proven_node(ctx: &Context, around: &mut Surroundings) -> Result<Option<String>, ObserveError> {
    let found = read_own_node(ctx, &around.host).await?;
    if let OwnNode::Own(node) = found {
        return Ok(Some(node));
    }
    around.node = NodeView::Gone;
    around.is_unproven = matches!(found, OwnNode::Unproven(_));
    Ok(None)
}

fn state(host: &BareMetalHost) -> ProvisioningState {
    let status = host.status.as_ref();
    status.map_or(ProvisioningState::None, |status| status.provisioning.state.clone())
}

fn is_left_alone(host: &BareMetalHost) -> bool {
    let operational = host.status.as_ref().map(|status| &status.operational_status);
    is_paused(host) || annotations::detached(host).is_some() || operational == Some(&OperationalStatus::Detached)
}

fn is_being_changed(host: &BareMetalHost) -> bool {
    let status = host.status.as_ref();
    let is_serviced = status.is_some_and(|status| {
        status.operational_status == OperationalStatus::Servicing || status.error_type == Some(ErrorType::Servicing)
    });
    is_serviced || state(host) == ProvisioningState::Preparing
}

/// Whether no operation is in progress that may change what Ironic knows.
fn is_at_rest(state: &ProvisionState) -> bool {
    match state {
        ProvisionState::Manageable
        | ProvisionState::Available
        | ProvisionState::Active
        | ProvisionState::DeployFailed
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::InspectFailed
        | ProvisionState::AdoptFailed
        | ProvisionState::Rescue
        | ProvisionState::RescueFailed
        | ProvisionState::UnrescueFailed
        | ProvisionState::ServiceFailed => true,
        ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::DeployHold
        | ProvisionState::Deleting
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::CleanHold
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::Adopting
        | ProvisionState::Rescuing
        | ProvisionState::RescueWait
        | ProvisionState::Unrescuing
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceHold
        | ProvisionState::Other(_) => false,
    }
}

/// What this process has looked at. Losing it costs one look at each host.
#[derive(Clone, Debug, Default)]
pub struct Looks(Arc<Mutex<HashMap<ObjectKey, Look>>>);

#[derive(Debug, Default)]
struct Look {
    /// The UID of the host: a host that is created anew inherits nothing.
    host: Option<String>,
    node: Option<String>,
    schema: Option<ObjectKey>,
}

impl Looks {
    fn last(&self, key: &ObjectKey, host: &BareMetalHost) -> Option<String> {
        let looks = self.0.lock();
        let look = looks.get(key).filter(|look| look.host == host.metadata.uid)?;
        look.node.clone()
    }

    /// The host's node was looked at, and the result is stored.
    pub fn done(&self, host: &BareMetalHost, node: String) {
        let look = Look {
            host: host.uid(),
            node: Some(node),
            schema: None,
        };
        self.0.lock().insert(ObjectKey::of(host), look);
    }

    /// The host's settings are about to refer to this schema.
    pub fn expect_schema(&self, host: &ObjectKey, schema: ObjectKey) {
        self.0.lock().entry(host.clone()).or_default().schema = Some(schema);
    }

    /// The hosts whose settings are about to refer to this schema.
    pub fn expecting(&self, schema: &ObjectKey) -> Vec<ObjectKey> {
        let looks = self.0.lock();
        let those = looks.iter().filter(|(_, look)| look.schema.as_ref() == Some(schema));
        those.map(|(host, _)| host.clone()).collect()
    }

    /// Drops what is remembered of a host.
    pub fn forget(&self, host: &ObjectKey) {
        self.0.lock().remove(host);
    }
}

/// Enqueues hosts of which something changes that [`Surroundings`] show.
pub fn listen(ctx: &Arc<Context>, queue: &Queue<ObjectKey>) {
    let of_host = queue.clone();
    ctx.hosts.listen(move |change: &Change<BareMetalHost>| {
        let read = |host: &BareMetalHost| {
            let id = host.status.as_ref().map(|status| status.provisioning.id.clone());
            let is_going = host.metadata.deletion_timestamp.is_some();
            (
                host.uid(),
                state(host),
                id,
                is_going,
                is_left_alone(host),
                is_being_changed(host),
                host.spec.online,
            )
        };
        if change.affects(read) {
            of_host.push(change.key.clone());
        }
    });
    ctx.fleet.follow(queue.clone());
    let (all, keys) = (ctx.clone(), queue.clone());
    ctx.companions.on_list(move || {
        for host in all.hosts.all() {
            keys.push(host);
        }
    });
}

/// Tells the host how a pass over its firmware objects has ended. What passes by itself at once is no news.
pub fn ended(
    ctx: &Context,
    host: &ObjectKey,
    of_kind: fn(&mut Trouble) -> &mut Option<Arc<str>>,
    done: &Result<Next, ReconcileError>,
) {
    let failure = match done {
        Ok(_) => None,
        Err(error) if matches!(error.class(), Class::Stale | Class::Throttled(_)) => return,
        Err(error) => Some(for_tenant(&chain(error).to_string(), &host.namespace).into()),
    };
    let is_gone = ctx.hosts.get(host).is_none();
    ctx.companions
        .passed(host, of_kind, failure.as_ref().filter(|_| !is_gone));
}

/// What wakes the controller of an object: its content, its owner, and that it comes or goes.
pub fn identity_of<K: ResourceExt>(object: &K) -> impl PartialEq + use<K> {
    let meta = object.meta();
    (
        meta.uid.clone(),
        meta.generation,
        meta.owner_references.clone(),
        meta.deletion_timestamp.is_some(),
    )
}
