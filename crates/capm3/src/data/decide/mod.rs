//! Decides what to do about a Metal3Data. Pure.
//!
//! | state | next |
//! |---|---|
//! | its claim names it | finalizer, claims on addresses, Secrets, ready |
//! | ready and the Secrets are there | nothing |
//! | a Secret is lost | it is created again, from the same addresses and the same template |
//! | a Secret has lost its owner | it is taken over, if it is just what would be created again |
//! | deleted, its claim is gone | addresses and Secrets are released, then it goes |
//!
//! Secrets are never rewritten: a machine that is provisioned again gets the same data.

mod addresses;
pub(crate) mod origin;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use metal3_api::capi::Machine;
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataStatus, Metal3DataTemplate, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_api::reference::SecretReference;
use metal3_render::{Facts, Metadata, NetworkData, pools, render};
use metal3_runtime::controller::{Next, Report};
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::{POOL_PATIENCE, UNWATCHED};

use self::addresses::addresses;
use self::origin::was_ready;
pub use self::origin::{digest, rendered_again};
use super::address::AddressClaim;
use super::effect::{Decision, Effect, Plan, Read, Secret};
use super::observed::{Answers, Host, Observed, View};
use crate::conditions::cut;
use crate::stores::{Hold, answers};

/// Key of a Secret with metadata.
pub const META_DATA: &str = "metaData";
/// Key of a Secret with network data.
pub const NETWORK_DATA: &str = "networkData";

/// Maximum characters of an error message.
const MESSAGE: usize = 512;

/// The next step of a pass.
enum Step {
    /// Read this first.
    Fetch(Read),
    /// Apply this, then decide on the responses.
    Write(Vec<Effect>),
    /// Nothing to do or report: an event expected soon triggers the next pass.
    Idle,
    /// The Secrets exist.
    Ready,
    /// The Secrets do not exist yet, and why. Without a reason the status stays unchanged. `again`: requeue, because no watch
    /// covers what is missing.
    Wait {
        why: Option<String>,
        again: Option<Duration>,
    },
    /// Deletion is blocked, and why. Ready stays true.
    Held(String),
}

/// The next step, given what was read in this pass.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    if let Some(step) = sweep(seen) {
        return step;
    }
    let Some(view) = &seen.view else {
        return Decision::idle();
    };
    let (data, stored) = (&*view.data, view.data.status.as_ref());
    let (status, again) = match step(view, &seen.answers, now) {
        Step::Fetch(read) => return Decision::Fetch(read),
        Step::Write(effects) => return write(view, effects).into(),
        Step::Idle => return Decision::idle(),
        Step::Ready => (Some(status(Some(true), String::new())), None),
        Step::Wait { why, again } => (why.map(|why| status(Some(false), why)), again),
        Step::Held(why) => (Some(status(stored.and_then(|stored| stored.ready), why)), None),
    };
    Plan {
        report: status.map_or_else(Report::default, |status| report(data, status)),
        next: again.map_or(Next::Change, Next::After),
        ..Plan::default()
    }
    .into()
}

/// Claims of an earlier Metal3Data are released first, once that object is known to be gone.
fn sweep(seen: &Observed) -> Option<Decision> {
    let is_done = |claim: &AddressClaim| {
        seen.answers
            .gone
            .contains(claim.meta.uid.as_deref().unwrap_or_default())
    };
    let mut left = seen.left.iter().filter(|claim| !is_done(claim)).peekable();
    left.peek()?;
    let Some(uid) = &seen.answers.uid else {
        return Some(Decision::Fetch(Read::Uid));
    };
    let is_of_other = |claim: &&AddressClaim| claim.owner().is_some_and(|(_, of)| of != uid);
    let effects: Vec<_> = left
        .filter(is_of_other)
        .map(|claim| Effect::Sweep(Box::new(claim.clone())))
        .collect();
    let plan = Plan {
        effects,
        next: Next::Decide,
        ..Plan::default()
    };
    (!plan.effects.is_empty()).then(|| plan.into())
}

fn write(view: &View, effects: Vec<Effect>) -> Plan {
    let is_last = effects.contains(&Effect::RemoveFinalizer);
    let secrets = effects.iter().filter_map(|effect| match effect {
        Effect::Secret(secret) => rendered_again(view, secret),
        Effect::Adopt { .. }
        | Effect::Claim { .. }
        | Effect::Release(_)
        | Effect::Sweep(_)
        | Effect::TakeOver(_)
        | Effect::DeleteSecret(..)
        | Effect::RemoveFinalizer => None,
    });
    let report = Report {
        status: None,
        events: secrets.collect(),
    };
    Plan {
        effects,
        report,
        next: if is_last { Next::Change } else { Next::Decide },
        ..Plan::default()
    }
}

fn status(ready: Option<bool>, mut error_message: String) -> Metal3DataStatus {
    cut(&mut error_message, MESSAGE);
    Metal3DataStatus { ready, error_message }
}

/// The status if it changed, and a warning event.
fn report(data: &Metal3Data, status: Metal3DataStatus) -> Report<Metal3DataStatus> {
    if data.status.as_ref() == Some(&status) {
        return Report::default();
    }
    let message = status.error_message.clone();
    let event = (!message.is_empty()).then(|| Event::warning("NotRendered", message));
    Report {
        status: Some(status),
        events: event.into_iter().collect(),
    }
}

/// Reports a rejection by the API server. The report of the next successful pass replaces it.
pub fn refused(data: &Metal3Data, message: String) -> Report<Metal3DataStatus> {
    let is_leaving = data.metadata.deletion_timestamp.is_some();
    let ready = data.status.as_ref().and_then(|stored| stored.ready);
    report(data, status(if is_leaving { ready } else { Some(false) }, message))
}

fn step(seen: &View, read: &Answers, now: Timestamp) -> Step {
    if seen.hold == Some(Hold::Paused) {
        return Step::Idle;
    }
    if seen.data.metadata.deletion_timestamp.is_some() {
        return release(seen, read);
    }
    match serve(seen, read, now) {
        Ok(step) | Err(step) => step,
    }
}

fn wait(why: impl Into<String>) -> Step {
    Step::Wait {
        why: Some(why.into()),
        again: None,
    }
}

/// The same for an object without a watch: requeue after this time.
fn wait_unwatched(why: String, again: Duration) -> Step {
    Step::Wait {
        why: Some(why),
        again: Some(again),
    }
}

/// The input objects of rendering.
struct Sources<'a> {
    template: &'a Metal3DataTemplate,
    metal3_machine: &'a Metal3Machine,
    wanted: [Option<SecretReference>; 2],
}

/// Whether rendering is done and its results still exist. Later changes to the template then do not matter.
fn is_settled(seen: &View) -> bool {
    let is_ready = seen.data.status.as_ref().and_then(|status| status.ready) == Some(true);
    let named = [&seen.data.spec.meta_data, &seen.data.spec.network_data];
    let is_there = |reference: &SecretReference| {
        let mut owned = seen.secrets.iter().filter(|secret| seen.owns(secret));
        owned.any(|secret| secret.name.as_deref() == Some(&reference.name) && secret.deletion_timestamp.is_none())
    };
    is_ready && has_finalizer(seen) && named.into_iter().flatten().all(is_there)
}

fn serve(seen: &View, read: &Answers, now: Timestamp) -> Result<Step, Step> {
    if is_settled(seen) {
        return Ok(Step::Idle);
    }
    let sources = sources(seen)?;
    let data = &seen.data;
    let missing = missing(seen, read, &sources)?;
    let spec = [&data.spec.meta_data, &data.spec.network_data];
    let rendered_from = origin::to_note(seen, sources.template);
    let is_adopted = has_finalizer(seen) && spec.into_iter().eq(&sources.wanted) && rendered_from.is_none();
    if !is_adopted {
        let [meta_data, network_data] = sources.wanted.clone();
        return Ok(Step::Write(vec![Effect::Adopt {
            meta_data,
            network_data,
            rendered_from,
        }]));
    }
    let Some(first) = missing.first() else {
        return Ok(Step::Ready);
    };
    let is_known = |lost: &Lost| lost.is_there || read.absent.contains(&lost.name);
    // One that was there before may only have lost its owner.
    if let Some(lost) = missing.iter().find(|lost| was_ready(seen) && !is_known(lost)) {
        return Ok(Step::Fetch(Read::Secret(lost.name.clone())));
    }
    origin::check(seen, sources.template, first).map_err(wait)?;
    let machine = seen.machine.as_deref().ok_or_else(|| {
        wait(format!(
            "waiting until Cluster API names the Machine that owns Metal3Machine {}",
            sources.metal3_machine.name_any()
        ))
    })?;
    let host = host(seen, read, &sources)?;
    let facts = facts(seen, &sources, machine, host);
    let pools = pools(&sources.template.spec, &facts).map_err(|error| wait(words(seen, &error)))?;
    let addresses = addresses(seen, read, &sources, &pools, now)?;
    if read.host == Host::Unread {
        // Data is rendered once, so read the host from the API server rather than the store.
        return Ok(Step::Fetch(Read::Host(host.name_any())));
    }
    // The error may come from an address, and addresses are not watched.
    let rendered = render(&sources.template.spec, &facts, &addresses)
        .map_err(|error| wait_unwatched(words(seen, &error), UNWATCHED))?;
    let mut secrets = Vec::new();
    for Lost { name, key, is_there } in missing {
        let text = if key == META_DATA {
            rendered.metadata.as_ref().map(Metadata::to_yaml)
        } else {
            rendered.network_data.as_ref().map(NetworkData::to_yaml)
        };
        let Some(text) = text else { continue };
        let secret = Secret {
            name,
            key,
            text: text.map_err(|error| wait(error.to_string()))?,
            cluster: machine.spec.cluster_name.clone(),
        };
        secrets.push(if is_there {
            Effect::TakeOver(secret)
        } else {
            Effect::Secret(secret)
        });
    }
    Ok(if secrets.is_empty() {
        Step::Idle
    } else {
        Step::Write(secrets)
    })
}

fn words(seen: &View, error: &metal3_render::RenderError) -> String {
    format!("Metal3DataTemplate {}: {error}", seen.data.spec.template.name)
}

/// The input objects, or which one is missing.
fn sources(seen: &View) -> Result<Sources<'_>, Step> {
    let data = &seen.data;
    if let Some(Hold::NoCluster(name)) = &seen.hold {
        return Err(wait(format!("waiting for Cluster {name}, which does not exist")));
    }
    let template = &data.spec.template.name;
    let Some(template) = seen.template.as_deref() else {
        return Err(wait(format!(
            "waiting for Metal3DataTemplate {template}, which does not exist in this namespace: create it"
        )));
    };
    let name = &data.spec.claim.name;
    let Some(claim) = seen.claim.as_deref().filter(|claim| answers(data, claim)) else {
        return Err(wait(format!(
            "its claim, Metal3DataClaim {name}, does not exist any more"
        )));
    };
    let answer = claim.status.as_ref().map(|status| status.rendered_data.name.as_str());
    if answer != data.metadata.name.as_deref() || claim.metadata.deletion_timestamp.is_some() {
        return Err(Step::Idle);
    }
    let Some(metal3_machine) = seen.metal3_machine.as_deref() else {
        return Err(wait(format!(
            "waiting for the Metal3Machine that owns Metal3DataClaim {name}: it does not exist"
        )));
    };
    if metal3_machine.spec.data_template.name != data.spec.template.name {
        return Err(wait(format!(
            "Metal3Machine {} does not name Metal3DataTemplate {} in spec.dataTemplate any more: it is rendered for nobody",
            metal3_machine.name_any(),
            data.spec.template.name
        )));
    }
    // Conditions reported once are kept.
    let stays = |said: &Option<SecretReference>, new: Option<SecretReference>| {
        let is_named = said.as_ref().is_some_and(|said| !said.name.is_empty());
        if is_named || new.is_none() { said.clone() } else { new }
    };
    let [meta_data, network_data] = secrets_of(template, &metal3_machine.name_any(), &seen.namespace());
    let wanted = [
        stays(&data.spec.meta_data, meta_data),
        stays(&data.spec.network_data, network_data),
    ];
    Ok(Sources {
        template,
        metal3_machine,
        wanted,
    })
}

/// The Secrets that a template renders for this Metal3Machine: metadata, network data.
pub fn secrets_of(template: &Metal3DataTemplate, machine: &str, namespace: &str) -> [Option<SecretReference>; 2] {
    let secret = |suffix: &str| SecretReference {
        name: format!("{machine}-{suffix}"),
        namespace: namespace.into(),
    };
    let spec = &template.spec;
    [
        spec.meta_data.is_some().then(|| secret("metadata")),
        spec.network_data.is_some().then(|| secret("networkdata")),
    ]
}

/// A Secret still to be created.
pub struct Lost {
    /// Its name.
    pub name: String,
    /// The key of the rendered data.
    key: &'static str,
    /// Whether there is one of the name that is nobody's.
    pub is_there: bool,
}

/// Whether an object has nobody that it belongs to.
pub fn is_nobodys(meta: &ObjectMeta) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    meta.deletion_timestamp.is_none()
        && !owners.any(|owner| owner.controller == Some(true) || owner.kind == Metal3Data::kind(&()))
}

/// The Secrets still to be created.
fn missing(seen: &View, read: &Answers, sources: &Sources<'_>) -> Result<Vec<Lost>, Step> {
    let mut missing = Vec::new();
    let spec = &sources.template.spec;
    let is_asked = [spec.meta_data.is_some(), spec.network_data.is_some()];
    for ((wanted, key), is_asked) in sources.wanted.iter().zip([META_DATA, NETWORK_DATA]).zip(is_asked) {
        let Some(reference) = wanted.as_ref().filter(|_| is_asked) else {
            continue;
        };
        let is_this = |meta: &&ObjectMeta| meta.name.as_deref() == Some(&reference.name);
        let stored = seen.secrets.iter().find(is_this);
        let mut push = |is_there| {
            let name = reference.name.clone();
            missing.push(Lost { name, key, is_there });
        };
        match stored.or_else(|| read.secrets.get(&reference.name)) {
            None => push(false),
            Some(meta) if seen.owns(meta) => {
                if meta.deletion_timestamp.is_some() {
                    return Err(Step::Idle); // about to be deleted; it is recreated afterwards
                }
            }
            Some(meta) if is_nobodys(meta) && !read.different.contains(&reference.name) => push(true),
            Some(meta) => {
                let holds = if is_nobodys(meta) {
                    ", and holds something else than this Metal3Data renders"
                } else {
                    ""
                };
                let why = format!(
                    "Secret {}, which is to be made, exists already and does not belong to this Metal3Data{holds}: delete it if \
                     nobody needs it",
                    reference.name
                );
                return Err(wait_unwatched(why, POOL_PATIENCE));
            }
        }
    }
    Ok(missing)
}

/// The host: as read in this pass, otherwise the summary from the store.
fn host<'a>(seen: &'a View, read: &'a Answers, sources: &Sources<'_>) -> Result<&'a BareMetalHost, Step> {
    let machine = sources.metal3_machine.name_any();
    let host = match &read.host {
        Host::Here(host) => Some(&**host),
        Host::Gone => None,
        Host::Unread => seen.host.as_deref(),
    };
    host.ok_or_else(|| {
        wait(format!(
            "waiting until Metal3Machine {machine} has a BareMetalHost that exists"
        ))
    })
}

fn facts<'a>(seen: &'a View, sources: &'a Sources<'a>, machine: &'a Machine, host: &'a BareMetalHost) -> Facts<'a> {
    let hardware = host.status.as_ref().and_then(|status| status.hardware.as_deref());
    Facts {
        namespace: seen.data.metadata.namespace.as_deref().unwrap_or_default(),
        index: seen.data.spec.index.unwrap_or_default(),
        machine: &machine.metadata,
        metal3_machine: &sources.metal3_machine.metadata,
        host: &host.metadata,
        boot_mac: &host.spec.boot_mac_address,
        nics: hardware.map_or(&[], |hardware| hardware.nics.as_slice()),
    }
}

/// The next step while deleting.
fn release(seen: &View, read: &Answers) -> Step {
    if !has_finalizer(seen) {
        return Step::Idle;
    }
    if let Some(claim) = seen.claim.as_deref().filter(|claim| answers(&seen.data, claim)) {
        let answer = claim.status.as_ref().map(|status| status.rendered_data.name.as_str());
        let answer = answer.unwrap_or_default();
        if claim.metadata.deletion_timestamp.is_some() || answer.is_empty() {
            return Step::Idle;
        }
        if answer != seen.data.name_any() {
            // Two were created for one claim; this is the other one.
            return let_go(seen, read);
        }
        return Step::Held(format!(
            "it is to go, but Metal3DataClaim {} still needs it: it goes with the claim",
            claim.name_any()
        ));
    }
    let_go(seen, read)
}

/// Releases everything created for it, then removes the finalizer.
fn let_go(seen: &View, read: &Answers) -> Step {
    let is_left = |meta: &ObjectMeta| seen.owns(meta) && !read.gone.contains(meta.uid.as_deref().unwrap_or_default());
    let claims = seen.address_claims.iter().filter(|claim| is_left(&claim.meta));
    let claims = claims.filter(|claim| claim.is_held() || !claim.is_deleting());
    let secrets = seen.secrets.iter().filter(|secret| is_left(secret));
    let secrets = secrets.filter(|secret| secret.deletion_timestamp.is_none());
    let delete = |secret: &ObjectMeta| {
        let (name, uid) = (secret.name.clone(), secret.uid.clone());
        Effect::DeleteSecret(name.unwrap_or_default(), uid.unwrap_or_default())
    };
    let claims = claims.map(|claim| Effect::Release(Box::new(claim.clone())));
    let effects: Vec<_> = claims.chain(secrets.map(delete)).collect();
    Step::Write(if effects.is_empty() {
        vec![Effect::RemoveFinalizer]
    } else {
        effects
    })
}

fn has_finalizer(seen: &View) -> bool {
    let mut finalizers = seen.data.metadata.finalizers.iter().flatten();
    finalizers.any(|present| present == finalizer::DATA)
}
