//! What to do about a Metal3Data. Pure.
//!
//! | state | next |
//! |---|---|
//! | its claim names it | finalizer, claims on addresses, Secrets, ready |
//! | ready and the Secrets are there | nothing |
//! | a Secret is lost | it is made again, from the same addresses and the same template |
//! | deleted, its claim is gone | addresses and Secrets are released, then it goes |
//!
//! Secrets are never rewritten: a machine that is provisioned again gets what it got before.

mod addresses;
pub(crate) mod origin;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use metal3_api::capi::Machine;
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataTemplate, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_api::reference::SecretReference;
use metal3_render::{Facts, pools, render};

use self::addresses::{PATIENCE, SILENT, addresses};
pub use self::origin::{digest, rendered_again};
use super::effect::{Effect, Need, Rest, Says, Secret, Step};
use super::observed::{Host, Observed, Read};
use crate::data_template::observed::{Hold, answers};

/// Key of a Secret with metadata.
pub const META_DATA: &str = "metaData";
/// Key of a Secret with network data.
pub const NETWORK_DATA: &str = "networkData";

/// The next step, given what has been read in this pass.
pub fn decide(seen: &Observed, read: &Read, now: Timestamp) -> Step {
    if seen.hold == Some(Hold::Paused) {
        return quiet();
    }
    if seen.data.metadata.deletion_timestamp.is_some() {
        return release(seen, read);
    }
    match serve(seen, read, now) {
        Ok(step) | Err(step) => step,
    }
}

/// Nothing to do and nothing to say: what comes next comes soon, and brings its own news.
fn quiet() -> Step {
    Step::Rest(Rest {
        says: None,
        again: None,
    })
}

fn wait(why: impl Into<String>) -> Step {
    let says = Some(Says::Waiting(why.into()));
    Step::Rest(Rest { says, again: None })
}

/// The same for something of others that no watch shows: it is looked at after so many seconds.
fn wait_for_others(why: String, seconds: u64) -> Step {
    let says = Some(Says::Waiting(why));
    let again = Some(seconds);
    Step::Rest(Rest { says, again })
}

/// What the status says of a write that was refused.
pub fn refused(data: &Metal3Data, message: String) -> Says {
    let is_leaving = data.metadata.deletion_timestamp.is_some();
    if is_leaving {
        Says::Held(message)
    } else {
        Says::Waiting(message)
    }
}

/// The objects that data is rendered from.
struct Sources<'a> {
    template: &'a Metal3DataTemplate,
    metal3_machine: &'a Metal3Machine,
    wanted: [Option<SecretReference>; 2],
}

/// Whether it has been rendered and everything is still there. Whatever becomes of its template then does not matter.
fn is_settled(seen: &Observed) -> bool {
    let is_ready = seen.data.status.as_ref().and_then(|status| status.ready) == Some(true);
    let named = [&seen.data.spec.meta_data, &seen.data.spec.network_data];
    let is_there = |reference: &SecretReference| {
        let mut owned = seen.secrets.iter().filter(|secret| seen.owns(secret));
        owned.any(|secret| secret.name.as_deref() == Some(&reference.name) && secret.deletion_timestamp.is_none())
    };
    is_ready && has_finalizer(seen) && named.into_iter().flatten().all(is_there)
}

fn serve(seen: &Observed, read: &Read, now: Timestamp) -> Result<Step, Step> {
    if is_settled(seen) {
        return Ok(quiet());
    }
    let sources = sources(seen)?;
    let data = &seen.data;
    let missing = missing(seen, read, &sources)?;
    let spec = [&data.spec.meta_data, &data.spec.network_data];
    let rendered_from = origin::to_note(seen, sources.template);
    let is_adopted = has_finalizer(seen) && spec.into_iter().eq(&sources.wanted) && rendered_from.is_none();
    if !is_adopted {
        let [meta_data, network_data] = sources.wanted.clone();
        return Ok(Step::Write(Effect::Adopt {
            meta_data,
            network_data,
            rendered_from,
        }));
    }
    let Some((name, key)) = missing else {
        let says = Some(Says::Ready);
        return Ok(Step::Rest(Rest { says, again: None }));
    };
    origin::check(seen, sources.template, &name).map_err(wait)?;
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
    if read.host == Host::Unseen {
        // What is rendered once and for all is rendered from the host as it is, not as the store has it.
        return Ok(Step::Look(Need::Host(host.name_any())));
    }
    // What is wrong may be an address, and these are not watched.
    let rendered = render(&sources.template.spec, &facts, &addresses)
        .map_err(|error| wait_for_others(words(seen, &error), SILENT))?;
    let text = if key == META_DATA {
        rendered.metadata.map(|data| data.to_yaml())
    } else {
        rendered.network_data.map(|data| data.to_yaml())
    };
    match text {
        Some(Ok(text)) => {
            let cluster = machine.spec.cluster_name.clone();
            Ok(Step::Write(Effect::Secret(Secret {
                name,
                key,
                text,
                cluster,
            })))
        }
        Some(Err(error)) => Err(wait(error.to_string())),
        None => Ok(quiet()),
    }
}

fn words(seen: &Observed, error: &metal3_render::RenderError) -> String {
    format!("Metal3DataTemplate {}: {error}", seen.data.spec.template.name)
}

/// The objects behind it, or what is missing of them.
fn sources(seen: &Observed) -> Result<Sources<'_>, Step> {
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
        return Err(quiet());
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
    // What was said once stays.
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

/// The Secrets for what a template renders for this Metal3Machine: metadata, network data.
pub fn secrets_of(template: &Metal3DataTemplate, machine: &str, namespace: &str) -> [Option<SecretReference>; 2] {
    let secret = |suffix: &str| SecretReference {
        name: format!("{machine}-{suffix}"),
        namespace: namespace.to_owned(),
    };
    let spec = &template.spec;
    [
        spec.meta_data.is_some().then(|| secret("metadata")),
        spec.network_data.is_some().then(|| secret("networkdata")),
    ]
}

/// The first Secret that is yet to be made, and under which key it holds what is rendered.
fn missing(seen: &Observed, read: &Read, sources: &Sources<'_>) -> Result<Option<(String, &'static str)>, Step> {
    let mut missing = None;
    let spec = &sources.template.spec;
    let is_asked = [spec.meta_data.is_some(), spec.network_data.is_some()];
    for ((wanted, key), is_asked) in sources.wanted.iter().zip([META_DATA, NETWORK_DATA]).zip(is_asked) {
        let Some(reference) = wanted.as_ref().filter(|_| is_asked) else {
            continue;
        };
        let is_this = |meta: &&ObjectMeta| meta.name.as_deref() == Some(&reference.name);
        let there = seen
            .secrets
            .iter()
            .find(is_this)
            .or_else(|| read.secrets.get(&reference.name));
        match there {
            None => missing = missing.or_else(|| Some((reference.name.clone(), key))),
            Some(meta) if seen.owns(meta) => {
                if meta.deletion_timestamp.is_some() {
                    return Err(quiet()); // it is about to go, and is made again then
                }
            }
            Some(_) => {
                let why = format!(
                    "Secret {}, which is to be made, exists already and does not belong to this Metal3Data: delete it if \
                     nobody needs it",
                    reference.name
                );
                return Err(wait_for_others(why, PATIENCE));
            }
        }
    }
    Ok(missing)
}

/// The host: as it was read in this pass, else in outline.
fn host<'a>(seen: &'a Observed, read: &'a Read, sources: &Sources<'_>) -> Result<&'a BareMetalHost, Step> {
    let machine = sources.metal3_machine.name_any();
    let host = match &read.host {
        Host::Here(host) => Some(&**host),
        Host::Gone => None,
        Host::Unseen => seen.host.as_deref(),
    };
    host.ok_or_else(|| {
        wait(format!(
            "waiting until Metal3Machine {machine} has a BareMetalHost that exists"
        ))
    })
}

fn facts<'a>(seen: &'a Observed, sources: &'a Sources<'a>, machine: &'a Machine, host: &'a BareMetalHost) -> Facts<'a> {
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

/// The next step of one that is being deleted.
fn release(seen: &Observed, read: &Read) -> Step {
    if !has_finalizer(seen) {
        return quiet();
    }
    if let Some(claim) = seen.claim.as_deref().filter(|claim| answers(&seen.data, claim)) {
        let answer = claim.status.as_ref().map(|status| status.rendered_data.name.as_str());
        let answer = answer.unwrap_or_default();
        if claim.metadata.deletion_timestamp.is_some() || answer.is_empty() {
            return quiet();
        }
        if answer != seen.data.name_any() {
            // Of two that were made for one claim it is the other one.
            return let_go(seen, read);
        }
        let says = Some(Says::Held(format!(
            "it is to go, but Metal3DataClaim {} still needs it: it goes with the claim",
            claim.name_any()
        )));
        return Step::Rest(Rest { says, again: None });
    }
    let_go(seen, read)
}

/// Everything that was made for it goes, and then it goes itself.
fn let_go(seen: &Observed, read: &Read) -> Step {
    let is_left = |meta: &ObjectMeta| seen.owns(meta) && !read.gone.contains(meta.uid.as_deref().unwrap_or_default());
    for claim in seen.address_claims.iter().filter(|claim| is_left(&claim.meta)) {
        if claim.is_held() || !claim.is_deleting() {
            return Step::Write(Effect::Release(Box::new(claim.clone())));
        }
    }
    for secret in seen.secrets.iter().filter(|secret| is_left(secret)) {
        if secret.deletion_timestamp.is_none() {
            let name = secret.name.clone().unwrap_or_default();
            return Step::Write(Effect::DeleteSecret(name, secret.uid.clone().unwrap_or_default()));
        }
    }
    Step::Write(Effect::LetGo)
}

fn has_finalizer(seen: &Observed) -> bool {
    let mut finalizers = seen.data.metadata.finalizers.iter().flatten();
    finalizers.any(|present| present == finalizer::DATA)
}
