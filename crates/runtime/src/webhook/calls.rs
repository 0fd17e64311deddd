//! Follows the objects that tell the API server to call this program: its webhook configurations, and the definitions
//! whose objects it converts. Each replica adds the authority of its certificate to those that they trust; the leader takes away
//! what no replica uses any more. Each replica reports those that call what does not exist, such as what another version has left
//! behind, and those that do not trust its certificate.
//!
//! Only metadata is watched, of each object by its name. An object is read when its content has changed. Configurations under
//! other names, which no version of ours has, are listed once, by the leader, and again only while one of them calls into the void.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, select_all};
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client, ResourceExt};
use rustls::pki_types::CertificateDer;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::SelfManaged;
use super::authority::AUTHORITY;
use super::called::{
    Ours, ServiceKey, blocking, is_left_to_us, not_injected, others, services, trusting, unanswered, untrusting,
};
use super::trust::{is_named, merged, vouches};
use crate::Clock;
use crate::backoff::random_seed;
use crate::error::{chain, is_conflict};
use crate::events::{Event, Recorder};
use crate::probes::Check;
use crate::readable::Readable;
use crate::timing::webhooks::{KEPT, OWN_KEPT, RECHECK_CALLS, RETRY, TRUSTED_WITHIN};
use crate::tls::Offer;

/// The field manager of our writes.
pub(super) const FIELD_MANAGER: &str = "metal3-webhook-certificates";

/// The reason of events about objects that call what does not exist, and of those about objects that do not trust who answers.
const UNANSWERED: &str = "WebhookUnanswered";
const UNTRUSTED: &str = "WebhookUntrusted";

/// How often a write is tried that another replica gets ahead of.
const TRIES: usize = 5;

/// The objects, and what is done about them.
pub(super) struct Calls {
    pub client: Client,
    pub of: SelfManaged,
    pub leads: watch::Receiver<bool>,
    pub clock: Clock,
    /// What is served, or about to be; `None` as long as there is nothing.
    pub offer: watch::Receiver<Option<Offer>>,
    /// Whether the certificate comes from files. Then another program tells the API server what to trust, and this one only writes
    /// where it has written before.
    pub has_files: bool,
    /// Gets the offer that every object trusts.
    pub trusted: watch::Sender<Option<Offer>>,
    /// The paths that this program answers on.
    pub paths: BTreeSet<String>,
    pub recorder: Recorder,
    pub check: Check,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("of", &self.of).finish_non_exhaustive()
    }
}

/// One object, and what is known of it.
struct Target {
    resource: ApiResource,
    name: String,
    /// Whether it has been seen, or is known not to exist.
    is_known: bool,
    /// `None` if it does not exist, or is not known.
    seen: Option<Version>,
    /// What has been done.
    done: Option<Done>,
    /// What is wrong with its webhooks.
    found: Found,
    /// Since when the ones that do not trust the certificate have not; by the clock that measures.
    untrusting: Option<Duration>,
    /// What the last events said.
    announced: Found,
    /// The authorities that it trusts besides those offered, and since when this replica knows.
    others: Vec<(CertificateDer<'static>, Duration)>,
    /// The last error that was logged.
    told: String,
    /// Whether it has another name than ours, and is only reported.
    is_stray: bool,
}

impl Target {
    fn new((resource, name): (ApiResource, String)) -> Self {
        Self {
            is_stray: false,
            resource,
            name,
            is_known: false,
            seen: None,
            done: None,
            found: Found::default(),
            untrusting: None,
            announced: Found::default(),
            others: Vec::new(),
            told: String::new(),
        }
    }

    fn saw(&mut self, metadata: Option<&ObjectMeta>) {
        self.is_known = true;
        self.seen = metadata.map(Version::of);
    }

    /// Logs an error unless it is the last one that was logged.
    fn complain(&mut self, error: &(dyn std::error::Error + 'static)) {
        let error = chain(error).to_string();
        if self.told != error {
            let (kind, name) = (&self.resource.kind, &self.name);
            tracing::warn!(%kind, %name, error, "cannot keep what the API server calls");
            self.told = error;
        }
    }
}

/// Webhooks of an object, in words.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    /// Those that nobody answers.
    unanswered: Vec<String>,
    /// Those that do not trust the certificate of who answers.
    untrusting: Vec<String>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.unanswered.is_empty() && self.untrusting.is_empty()
    }
}

/// Identifies a content: status and metadata do not count.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    uid: Option<String>,
    generation: Option<i64>,
}

impl Version {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
        }
    }
}

/// A content, and what it was to trust.
#[derive(Clone, Debug, PartialEq)]
struct Done {
    version: Version,
    offer: Option<Offer>,
}

type Seen = (usize, Result<Option<PartialObjectMeta<DynamicObject>>, watcher::Error>);

impl Calls {
    /// Runs until cancelled.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(Box::pin(self.follow())).await;
    }

    async fn follow(mut self) {
        let mut targets: Vec<Target> = self.of.targets().map(Target::new).collect();
        let mut events = select_all(targets.iter().enumerate().map(|(at, target)| self.watch(at, target)));
        let mut failures: u32 = 0;
        let (mut is_surveyed, mut untold) = (false, true);
        // A watch that keeps failing does not defer the next pass.
        let mut due = None;
        loop {
            tokio::select! {
                Some((at, seen)) = events.next() => match seen {
                    Ok(object) => targets[at].saw(object.as_ref().map(|object| &object.metadata)),
                    Err(error) => {
                        targets[at].complain(&error);
                        continue;
                    }
                },
                Ok(()) = self.offer.changed() => {}
                Ok(()) = self.leads.changed() => is_surveyed = false,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    let again = targets.iter_mut().filter(|target| self.recheck(target).is_some());
                    again.for_each(|target| target.done = None);
                    is_surveyed &= !targets.iter().any(|target| target.is_stray);
                }
            }
            let mut is_done = self.pass(&mut targets).await;
            // A change during the pass is left for the next turn.
            let leads = *self.leads.borrow();
            // After the pass, whose authorities are urgent.
            if leads && !is_surveyed {
                let surveyed = self.survey(&mut targets).await;
                is_surveyed = surveyed.is_ok();
                match surveyed {
                    Ok(()) => untold = true,
                    Err(error) if std::mem::take(&mut untold) => {
                        let error = chain(&error).to_string();
                        tracing::warn!(error, "cannot look for webhook configurations under other names");
                    }
                    Err(_) => {}
                }
                // Announces what was found.
                is_done &= self.pass(&mut targets).await;
            }
            failures = if is_done { 0 } else { failures + 1 };
            let retry = (failures > 0).then(|| RETRY.delay(failures.saturating_sub(1), random_seed()));
            let survey = (leads && !is_surveyed).then_some(RECHECK_CALLS);
            let pauses = targets.iter().filter_map(|target| self.recheck(target));
            let pauses = pauses.chain(retry).chain(survey);
            due = pauses.min().map(|pause| Instant::now() + pause);
        }
    }

    /// When an object is to be looked at again, though it may not have changed.
    fn recheck(&self, target: &Target) -> Option<Duration> {
        let now = self.clock.elapsed();
        let is_new = target.untrusting.is_some() && target.found.untrusting.is_empty();
        let reported = (!target.found.is_empty()).then_some(RECHECK_CALLS);
        let leaving = target.others.iter().filter(|_| *self.leads.borrow());
        let leaving = leaving.map(|(other, since)| (*since + self.kept(other)).saturating_sub(now).max(TRUSTED_WITHIN));
        leaving.chain(is_new.then_some(TRUSTED_WITHIN)).chain(reported).min()
    }

    /// How long an authority stays that this replica does not offer.
    fn kept(&self, other: &CertificateDer<'_>) -> Duration {
        if !self.has_files && is_named(other, AUTHORITY) {
            OWN_KEPT
        } else {
            KEPT
        }
    }

    fn watch(&self, at: usize, target: &Target) -> BoxStream<'static, Seen> {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.client.clone(), &target.resource);
        let events = watch_object(api, &target.name).default_backoff();
        events.map(move |seen| (at, seen)).boxed()
    }

    /// Goes through the objects that have changed. One that cannot be written must not keep the others without their
    /// authority: conversion depends on it. Returns whether all are done.
    async fn pass(&mut self, targets: &mut [Target]) -> bool {
        let leads = *self.leads.borrow();
        let offer = self.offer.borrow_and_update().clone();
        let mut is_done = true;
        for target in targets.iter_mut() {
            let wanted = target.seen.clone().map(|version| Done {
                version,
                offer: offer.clone(),
            });
            if !target.is_stray && target.done != wanted {
                match self.handle(target, offer.as_ref()).await {
                    Ok(found) => {
                        target.told.clear();
                        if found != target.found {
                            log(target, &found);
                            target.found = found;
                        }
                    }
                    Err(error) => {
                        target.complain(&error);
                        is_done = false;
                    }
                }
            }
            // What was found before this replica became the leader has not been announced.
            if leads && target.announced != target.found {
                self.announce(target).await;
                target.announced.clone_from(&target.found);
            }
        }
        self.check.note(note(targets));
        let is_trusted = is_done
            && targets
                .iter()
                .all(|target| target.is_known && target.untrusting.is_none());
        let by_all = offer.filter(|_| is_trusted);
        self.trusted.send_if_modified(|trusted| {
            let is_new = *trusted != by_all;
            *trusted = by_all;
            is_new
        });
        is_done
    }

    /// Reads an object, has it trust the authorities, and returns what is wrong with its webhooks.
    async fn handle(&self, target: &mut Target, offer: Option<&Offer>) -> Result<Found, kube::Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &target.resource);
        let mut tries = TRIES;
        let object = loop {
            let Some(object) = api.get_opt(&target.name).await? else {
                (target.seen, target.done, target.untrusting) = (None, None, None);
                target.others.clear();
                return Ok(Found::default());
            };
            tries -= 1;
            match self.trust(&api, target, &object, offer).await {
                Ok(written) => break written.unwrap_or(object),
                // Another replica was faster.
                Err(error) if is_conflict(&error) && tries > 0 => {}
                Err(error) => return Err(error),
            }
        };
        let (ours, version, now) = (self.ours(), Version::of(&object.metadata), self.clock.elapsed());
        let missing = self.missing(services(&object.data)).await?;
        let untrusting = offer.map(|offer| untrusting(&object.data, &ours, &offer.chain, self.clock.now()));
        let untrusting = untrusting.unwrap_or_default();
        target.untrusting = (!untrusting.is_empty()).then(|| target.untrusting.unwrap_or(now));
        target.seen = Some(version.clone());
        target.done = Some(Done {
            version,
            offer: offer.cloned(),
        });
        // While certificates are exchanged, no program may have written the new authority yet.
        let is_over = target.untrusting.is_some_and(|since| now >= since + TRUSTED_WITHIN);
        Ok(Found {
            unanswered: unanswered(&object.data, &ours, &missing),
            untrusting: if is_over { untrusting } else { Vec::new() },
        })
    }

    /// Has an object trust the authorities, and no other program overwrite them. The leader takes away those that have been out
    /// of use for long enough. Returns what the last write has made of it.
    async fn trust(
        &self,
        api: &Api<DynamicObject>,
        target: &mut Target,
        object: &DynamicObject,
        offer: Option<&Offer>,
    ) -> Result<Option<DynamicObject>, kube::Error> {
        let offered = offer.and_then(|offer| offer.authorities.as_deref());
        let is_ours = !self.has_files || is_left_to_us(&object.metadata, FIELD_MANAGER);
        let Some(offered) = offered.filter(|_| is_ours) else {
            target.others.clear();
            return Ok(None);
        };
        let (kind, name, ours) = (&target.resource.kind, &target.name, self.ours());
        let mut written = None;
        if let Some(patch) = not_injected(object.annotations(), &object.data, &ours) {
            // An applied configuration cannot remove what another manager has set.
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            written = Some(api.patch(name, &params, &Patch::Merge(&patch)).await?);
            tracing::warn!(
                kind,
                name,
                "removed cert-manager's annotations: this program makes the certificate of the webhooks itself"
            );
        }
        let object = written.as_ref().unwrap_or(object);
        let (leads, now) = (*self.leads.borrow(), self.clock.elapsed());
        let known = std::mem::take(&mut target.others);
        let since = |other: &CertificateDer<'_>| {
            known
                .iter()
                .find(|(known, _)| known == other)
                .map_or(now, |(_, at)| *at)
        };
        // The files' authority may be newer than their certificate.
        let is_enough = offer.is_some_and(|offer| vouches(offered, &offer.chain, self.clock.now()));
        let stays = |other: &CertificateDer<'_>| !leads || !is_enough || now < since(other) + self.kept(other);
        let others = others(&object.data, &ours, offered).into_iter();
        target.others = others
            .map(|other| (since(&other), other))
            .map(|(at, other)| (other, at))
            .collect();
        if let Some(spec) = trusting(&object.data, &ours, |bundle| merged(bundle, offered, stays)) {
            // With the version that was read: other replicas add theirs.
            let metadata = json!({"name": name, "resourceVersion": object.resource_version()});
            let mut apply = json!({"apiVersion": target.resource.api_version, "kind": kind, "metadata": metadata});
            json_patch::merge(&mut apply, &spec);
            let params = PatchParams::apply(FIELD_MANAGER).force();
            written = Some(api.patch(name, &params, &Patch::Apply(&apply)).await?);
            let before = target.others.len();
            target.others.retain(|(other, _)| stays(other));
            let removed = before - target.others.len();
            tracing::info!(
                kind,
                name,
                removed,
                "the API server trusts the webhooks by these authorities now"
            );
        }
        Ok(written)
    }

    /// Looks for configurations under other names that keep our kinds from being written because nobody answers them, such as those
    /// of upstream's files with another prefix. They come after the other objects.
    async fn survey(&self, targets: &mut Vec<Target>) -> Result<(), kube::Error> {
        let kinds: Vec<&str> = self.of.kinds().collect();
        let mut strays = Vec::new();
        for resource in SelfManaged::configurations() {
            let api: Api<Readable<DynamicObject>> = Api::all_with(self.client.clone(), &resource);
            for object in api.list(&ListParams::default()).await?.items {
                // Without its rules nobody knows what it is for.
                let Readable::Read(object) = object else { continue };
                let name = object.name_any();
                let is_it = |target: &&Target| target.resource.kind == resource.kind && target.name == name;
                let known = targets.iter().find(is_it);
                if known.is_some_and(|known| !known.is_stray) {
                    continue;
                }
                let blocking = blocking(&object.data, &kinds);
                let missing = self.missing(services(&blocking)).await?;
                let found = Found {
                    unanswered: unanswered(&blocking, &self.ours(), &missing),
                    untrusting: Vec::new(),
                };
                if found.is_empty() {
                    continue;
                }
                let mut stray = Target::new((resource.clone(), name));
                if let Some(known) = known {
                    stray.found.clone_from(&known.found);
                    stray.announced.clone_from(&known.announced);
                }
                if stray.found != found {
                    log(&stray, &found);
                }
                stray.saw(Some(&object.metadata));
                (stray.is_stray, stray.found) = (true, found);
                strays.push(stray);
            }
        }
        targets.retain(|target| !target.is_stray);
        targets.extend(strays);
        Ok(())
    }

    fn ours(&self) -> Ours {
        Ours {
            names: self.of.dns_names(),
            paths: self.paths.clone(),
        }
    }

    async fn missing(&self, services: BTreeSet<ServiceKey>) -> Result<BTreeSet<ServiceKey>, kube::Error> {
        let mut missing = BTreeSet::new();
        for (namespace, name) in services {
            let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
            if api.get_metadata_opt(&name).await?.is_none() {
                missing.insert((namespace, name));
            }
        }
        Ok(missing)
    }

    async fn announce(&self, target: &Target) {
        let regarding = ObjectReference {
            api_version: Some(target.resource.api_version.clone()),
            kind: Some(target.resource.kind.clone()),
            name: Some(target.name.clone()),
            uid: target.seen.as_ref().and_then(|seen| seen.uid.clone()),
            ..ObjectReference::default()
        };
        let (found, announced) = (&target.found, &target.announced);
        for (reason, found, announced, help) in [
            (UNANSWERED, &found.unanswered, &announced.unanswered, HELP),
            (UNTRUSTED, &found.untrusting, &announced.untrusting, HELP_TRUST),
        ] {
            if !found.is_empty() && found != announced {
                let event = Event::warning(reason, format!("{}: {help}", found.join("; ")));
                self.recorder.publish(&regarding, None, &event).await;
            }
        }
    }
}

/// On the log of each replica: what is new.
fn log(target: &Target, found: &Found) {
    let (kind, name) = (&target.resource.kind, &target.name);
    if found.is_empty() {
        tracing::info!(
            kind,
            name,
            "everything that the API server is told to call here exists and is trusted"
        );
    }
    let before = &target.found;
    for (found, before, help, what) in [
        (&found.unanswered, &before.unanswered, HELP, "calls what does not exist"),
        (
            &found.untrusting,
            &before.untrusting,
            HELP_TRUST,
            "does not trust the certificate of this program",
        ),
    ] {
        if !found.is_empty() && found != before {
            let found = format!("{}: {help}", found.join("; "));
            tracing::warn!(
                kind,
                name,
                found,
                "the API server {what}, and rejects what depends on it"
            );
        }
    }
}

const HELP: &str =
    "apply the webhook configurations and definitions of this version, or delete what is left of another";
const HELP_TRUST: &str = "with certificates of cert-manager, add the annotation cert-manager.io/inject-ca-from with \
                          NAMESPACE/NAME of the Certificate; with others, set caBundle to the authority of tls.crt";

/// The message of the readiness check. It never fails because of this: a replica that is not ready could not answer the
/// calls that are right.
fn note(targets: &[Target]) -> String {
    let found = targets.iter().filter(|target| !target.found.is_empty());
    let notes: Vec<String> = found
        .map(|target| {
            let words = [target.found.unanswered.as_slice(), &target.found.untrusting].concat();
            format!("{} {}: {}", target.resource.kind, target.name, words.join("; "))
        })
        .collect();
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use k8s_openapi::ByteString;
    use serde_json::Value;

    use super::*;
    use crate::events::Reporter;
    use crate::mock;
    use crate::probes::Probes;
    use crate::webhook::Installed;
    use crate::webhook::trust::made;

    /// What another version left behind.
    fn left_over() -> Value {
        let service = json!({"namespace": "n", "name": "gone", "path": "/validate"});
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "p-validating-webhook-configuration", "uid": "u", "generation": 1},
            "webhooks": [{"name": "old", "clientConfig": {"service": service}}]})
    }

    /// A definition of upstream's, whose program converted.
    fn converting() -> Value {
        let service = json!({"namespace": "n", "name": "p-webhook-service", "path": "/convert"});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "ks.g", "uid": "u", "generation": 1},
            "spec": {"versions": [{"name": "v1"}],
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}}}})
    }

    fn version() -> Version {
        Version {
            uid: Some("u".to_owned()),
            generation: Some(1),
        }
    }

    /// What a definition trusts.
    fn bundle(object: &Value) -> String {
        let bundle = object["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone();
        let bundle: Option<ByteString> = serde_json::from_value(bundle).ok();
        bundle.map_or_else(String::new, |bundle| String::from_utf8(bundle.0).unwrap())
    }

    fn trusting(object: &mut Value, bundle: &str) {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        object["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = bundle;
    }

    fn calls(client: Client, leads: watch::Receiver<bool>) -> Calls {
        let installed = Installed {
            namespace: "n",
            prefix: "p-",
            label: ("a", "b"),
            validating: "validation.",
            has_defaults: false,
        };
        let reporter = Reporter {
            component: "tests",
            controller: "tests",
        };
        Calls {
            client: client.clone(),
            of: SelfManaged {
                installed,
                namespace: "n".to_owned(),
                definitions: Vec::new(),
                unconverted: vec!["ks.g".to_owned()],
            },
            leads,
            clock: Clock::manual("2026-01-01T00:00:00Z".parse().unwrap()),
            offer: watch::channel(None).1,
            has_files: false,
            trusted: watch::channel(None).0,
            paths: BTreeSet::new(),
            recorder: Recorder::new(client, reporter, Clock::system()),
            check: Probes::new().ready("webhook"),
        }
    }

    // OWN 30m: what a replica had found before it became the leader was no event, ever.
    #[tokio::test]
    async fn what_was_found_before_the_lease_is_won_becomes_one_event() {
        let (client, requests) = mock::answering(|request| {
            if request.path.contains("/services/") {
                mock::failure(404, "NotFound")
            } else if request.method == "GET" {
                (200, left_over())
            } else {
                (201, request.body.clone())
            }
        });
        let events = || {
            requests
                .lock()
                .iter()
                .filter(|request| request.method == "POST")
                .count()
        };
        let (leading, leads) = watch::channel(false);
        let mut calls = calls(client, leads);
        let mut targets: Vec<Target> = calls.of.targets().map(Target::new).collect();
        targets[0].seen = Some(version());
        assert!(calls.pass(&mut targets).await);
        assert_eq!((targets[0].found.unanswered.len(), events()), (1, 0));
        leading.send_replace(true);
        assert!(calls.pass(&mut targets).await);
        assert_eq!(events(), 1);
        assert!(calls.pass(&mut targets).await);
        assert_eq!(events(), 1, "once");
    }

    /// What another version has left behind under a name that this one does not know, and a Service that may be there.
    #[tokio::test]
    async fn a_configuration_under_another_name_that_calls_into_the_void_is_reported_by_the_leader() {
        let rules = json!([{"apiGroups": ["g"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["ks"]}]);
        let (mut own, mut stray, mut other) = (left_over(), left_over(), left_over());
        stray["metadata"] = json!({"name": "q-validating-webhook-configuration", "uid": "w", "generation": 1});
        stray["webhooks"][0]["rules"] = rules;
        other["metadata"]["name"] = json!("of-another-group");
        own["webhooks"][0]["rules"] = stray["webhooks"][0]["rules"].clone();
        let is_there = Arc::new(Mutex::new(false));
        let exists = is_there.clone();
        let (client, requests) = mock::answering(move |request| match request.path.as_str() {
            path if path.contains("/services/") && !*exists.lock() => mock::failure(404, "NotFound"),
            path if path.ends_with("/validatingwebhookconfigurations") => (
                200,
                json!({"kind": "List", "metadata": {}, "items": [own, stray, other]}),
            ),
            path if path.ends_with("/mutatingwebhookconfigurations") => {
                (200, json!({"kind": "List", "metadata": {}, "items": []}))
            }
            _ => (200, json!({"metadata": {"name": "gone", "namespace": "n"}})),
        });
        let events = || {
            let requests = requests.lock();
            let posted = requests.iter().filter(|request| request.method == "POST");
            posted.map(|request| request.body.clone()).collect::<Vec<_>>()
        };
        let mut calls = calls(client, watch::channel(true).1);
        let mut targets: Vec<Target> = calls.of.targets().map(Target::new).collect();
        let known = targets.len();
        for _ in 0..2 {
            calls.survey(&mut targets).await.unwrap();
            assert!(calls.pass(&mut targets).await);
        }
        assert_eq!(targets.len(), known + 1);
        assert!(calls.recheck(&targets[known]).is_some());
        let [event] = events().try_into().unwrap();
        let name = "q-validating-webhook-configuration";
        assert_eq!(
            (&event["involvedObject"]["name"], &event["reason"]),
            (&json!(name), &json!(UNANSWERED))
        );
        let shown = calls.check.shown();
        let words = format!("ValidatingWebhookConfiguration {name}: old calls Service n/gone, which does not exist");
        assert!(shown.contains(&words), "{shown}");

        *is_there.lock() = true;
        calls.survey(&mut targets).await.unwrap();
        assert!(calls.pass(&mut targets).await);
        assert_eq!((targets.len(), events().len()), (known, 1));
        assert!(!calls.check.shown().contains(name));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_leader_looks_for_configurations_under_other_names_and_looks_once() {
        for (leads, wanted) in [(false, 0), (true, 1)] {
            // The lists can be read. The watches after them get the same, and fail.
            let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"resourceVersion": "1"}, "items": []});
            let (client, requests) = mock::answering(move |_| (200, list.clone()));
            let calls = calls(client, watch::channel(leads).1);
            let stop = CancellationToken::new();
            let ends = async {
                tokio::time::sleep(10 * RECHECK_CALLS).await;
                stop.cancel();
            };
            tokio::join!(calls.run(stop.clone()), ends);
            let requests = requests.lock();
            let lists = requests
                .iter()
                .filter(|request| request.path.ends_with("/mutatingwebhookconfigurations"));
            assert_eq!(lists.count(), wanted, "{leads}");
        }
    }

    // OWN 30o: definitions of kinds with one version were not looked at.
    #[tokio::test]
    async fn a_conversion_that_another_program_left_behind_is_found() {
        let mut object = converting();
        // Of one version, nothing is ever converted.
        object["spec"]["versions"] = json!([{"name": "v1"}, {"name": "v2"}]);
        let (client, _) = mock::answering(move |_| (200, object.clone()));
        let mut calls = calls(client, watch::channel(false).1);
        let mut targets: Vec<Target> = calls.of.targets().map(Target::new).collect();
        let [_, definition] = targets.as_mut_slice() else {
            panic!("a configuration and a definition are followed");
        };
        definition.seen = Some(version());
        assert!(calls.pass(&mut targets).await);
        assert_eq!(
            targets[1].found.unanswered,
            ["its conversion calls /convert, which this version does not serve"]
        );
    }

    /// An object with upstream's annotation, and the cainjector that heeds it: after each write it restores its own authority.
    fn injected() -> (Client, mock::Log, Arc<Mutex<Value>>) {
        let mut object = converting();
        object["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "n/p-serving-cert", "other": "a"});
        object["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!("theirs");
        let state = Arc::new(Mutex::new(object));
        let stored = state.clone();
        let (client, requests) = mock::answering(move |request| {
            let mut object = stored.lock();
            if request.path.contains("/services/") {
                return (
                    200,
                    json!({"metadata": {"name": "p-webhook-service", "namespace": "n"}}),
                );
            }
            if request.method == "PATCH" {
                json_patch::merge(&mut object, &request.body);
                let answer = object.clone();
                if object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].is_string() {
                    object["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!("theirs");
                }
                let generation = object["metadata"]["generation"].as_i64().unwrap();
                object["metadata"]["generation"] = json!(generation + 1);
                return (200, answer);
            }
            (200, object.clone())
        });
        (client, requests, state)
    }

    // OWN 30wb: cert-manager and this program overwrote each other's authority without end.
    #[tokio::test]
    async fn cert_manager_does_not_overwrite_the_authority_for_ever() {
        let (client, requests, state) = injected();
        let mut calls = calls(client, watch::channel(true).1);
        let ours = made::offer("ours");
        calls.offer = watch::channel(Some(ours.clone())).1;
        calls.paths = BTreeSet::from(["/convert".to_owned()]);
        let mut targets: Vec<Target> = calls.of.targets().skip(1).map(Target::new).collect();
        for _ in 0..10 {
            let metadata = serde_json::from_value(state.lock()["metadata"].clone()).unwrap();
            targets[0].saw(Some(&metadata));
            assert!(calls.pass(&mut targets).await);
        }
        let writes = requests
            .lock()
            .iter()
            .filter(|request| request.method == "PATCH")
            .count();
        assert_eq!(writes, 2);
        let object = state.lock();
        assert_eq!(object["metadata"]["annotations"], json!({"other": "a"}));
        assert!(made::is_of(&bundle(&object), &[&ours]));
    }

    // OWN 31e: authorities counted as trusted for ever, even if one was overwritten and could not be written again.
    /// The keeper relies on it: a new authority must not sign before.
    #[tokio::test]
    async fn authorities_count_as_trusted_when_every_object_is_written() {
        let is_allowed = Arc::new(Mutex::new(false));
        let allowed = is_allowed.clone();
        let object = Mutex::new(converting());
        let (client, _) = mock::answering(move |request| match request.method.as_str() {
            "PATCH" if !*allowed.lock() => mock::failure(403, "Forbidden"),
            "PATCH" => {
                json_patch::merge(&mut object.lock(), &request.body);
                (200, object.lock().clone())
            }
            // Somebody overwrites it each time.
            _ => {
                *object.lock() = converting();
                (200, converting())
            }
        });
        let mut calls = calls(client, watch::channel(true).1);
        let ours = Some(made::offer("ours"));
        calls.offer = watch::channel(ours.clone()).1;
        calls.paths = BTreeSet::from(["/convert".to_owned()]);
        let mut targets: Vec<Target> = calls.of.targets().map(Target::new).collect();
        let metadata = serde_json::from_value(converting()["metadata"].clone()).unwrap();
        assert!(calls.pass(&mut targets).await);
        assert_eq!(*calls.trusted.borrow(), None, "nothing is known of the objects yet");
        targets[0].saw(None);
        targets[1].saw(Some(&metadata));
        assert!(!calls.pass(&mut targets).await);
        assert_eq!(*calls.trusted.borrow(), None);
        *is_allowed.lock() = true;
        assert!(calls.pass(&mut targets).await);
        assert_eq!(*calls.trusted.borrow(), ours);
        // Somebody has overwritten it, and the right to write is gone.
        *is_allowed.lock() = false;
        targets[1].done = None;
        assert!(!calls.pass(&mut targets).await);
        assert_eq!(*calls.trusted.borrow(), None);
    }

    // OWN 31c: where cert-manager took over while our leader still ran, our authority stayed, and nothing could replace it.
    #[tokio::test]
    async fn what_this_program_has_written_follows_the_files_that_replace_its_certificate() {
        let of_files = made::offer("of the files");
        let injected_by_files = json!({"cert-manager.io/inject-ca-from": "n/p-serving-cert"});
        let of = |manager: &str, fields: Value| json!([{"manager": manager, "operation": "Apply", "fieldsV1": fields}]);
        let bundle = json!({"f:spec": {"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}}});
        let ours = of(FIELD_MANAGER, bundle.clone());
        // OWN 31rd: an authority that another program had written since counted as ours.
        let overwritten = of(
            FIELD_MANAGER,
            json!({"f:webhooks": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}),
        );
        for (annotations, managers, is_written) in [
            (json!({}), ours.clone(), true),
            (json!({}), of("a-user", bundle), false),
            (json!({}), overwritten, false),
            (injected_by_files, ours, false),
        ] {
            let (client, _, state) = injected();
            state.lock()["metadata"]["annotations"] = annotations.clone();
            state.lock()["metadata"]["managedFields"] = managers;
            let mut calls = calls(client, watch::channel(true).1);
            calls.has_files = true;
            calls.offer = watch::channel(Some(of_files.clone())).1;
            calls.paths = BTreeSet::from(["/convert".to_owned()]);
            let mut targets: Vec<Target> = calls.of.targets().skip(1).map(Target::new).collect();
            targets[0].seen = Some(version());
            assert!(calls.pass(&mut targets).await);
            let object = state.lock();
            assert_eq!(
                made::is_of(&super::tests::bundle(&object), &[&of_files]),
                is_written,
                "{annotations}"
            );
            assert_eq!(object["metadata"]["annotations"], annotations);
        }
    }

    /// A definition that trusts this bundle, which this program has written.
    fn written(authorities: &str) -> (Client, Arc<Mutex<Value>>) {
        let mut object = converting();
        trusting(&mut object, authorities);
        let fields = json!({"f:spec": {"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}}});
        object["metadata"]["managedFields"] =
            json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}]);
        object["metadata"]["resourceVersion"] = json!("7");
        let state = Arc::new(Mutex::new(object));
        let stored = state.clone();
        let (client, _) = mock::answering(move |request| {
            let mut object = stored.lock();
            match request.method.as_str() {
                _ if request.path.contains("/services/") => (200, json!({"metadata": {"name": "s", "namespace": "n"}})),
                "PATCH" if request.body["metadata"]["resourceVersion"] != "7" => mock::failure(409, "Conflict"),
                "PATCH" => {
                    json_patch::merge(&mut object, &request.body);
                    (200, object.clone())
                }
                "GET" => (200, object.clone()),
                _ => (201, request.body.clone()),
            }
        });
        (client, state)
    }

    // OWN 31sg: a leader wrote its own authority in place of another replica's, which served a certificate of that one.
    #[tokio::test]
    async fn both_authorities_are_trusted_while_replicas_of_either_may_serve() {
        let (own, lost, files) = (
            made::offer(AUTHORITY),
            made::offer(AUTHORITY),
            made::offer("cert-manager"),
        );
        let before_an_end = KEPT.saturating_sub(Duration::from_secs(1));
        // Whether the replica has files and leads; what is trusted before; the time that has passed; what is trusted then.
        for (has_files, leads, before, later, wanted) in [
            // Its files are new.
            (true, false, vec![&own], Duration::ZERO, vec![&own, &files]),
            (true, true, vec![&own], Duration::ZERO, vec![&own, &files]),
            (true, true, vec![&own], before_an_end, vec![&own, &files]),
            (true, true, vec![&own], KEPT, vec![&files]),
            (true, false, vec![&own], KEPT, vec![&own, &files]),
            // It has none any more.
            (false, false, vec![&files], Duration::ZERO, vec![&own, &files]),
            (false, true, vec![&files], before_an_end, vec![&own, &files]),
            (false, true, vec![&files], KEPT, vec![&own]),
            (false, false, vec![&files], KEPT, vec![&own, &files]),
            // Somebody has deleted the Secret.
            (false, true, vec![&lost], Duration::ZERO, vec![&own, &lost]),
            (false, true, vec![&lost, &files], OWN_KEPT, vec![&own, &files]),
            (true, true, vec![&lost], OWN_KEPT, vec![&files, &lost]),
        ] {
            let authorities: Vec<_> = before.iter().map(|offer| made::authority(offer)).collect();
            let (client, state) = written(&authorities.concat());
            let mut calls = calls(client, watch::channel(leads).1);
            calls.has_files = has_files;
            let offer = if has_files { &files } else { &own };
            calls.offer = watch::channel(Some(offer.clone())).1;
            calls.paths = BTreeSet::from(["/convert".to_owned()]);
            let mut targets: Vec<Target> = calls.of.targets().skip(1).map(Target::new).collect();
            let metadata = serde_json::from_value(state.lock()["metadata"].clone()).unwrap();
            targets[0].saw(Some(&metadata));
            assert!(calls.pass(&mut targets).await);
            assert_eq!(*calls.trusted.borrow(), Some(offer.clone()));
            assert_eq!(
                calls.recheck(&targets[0]).is_some(),
                leads,
                "only the leader takes some away"
            );
            calls.clock.advance(later);
            targets[0].done = None;
            assert!(calls.pass(&mut targets).await);
            let bundle = bundle(&state.lock());
            assert!(made::is_of(&bundle, &wanted), "{has_files} {leads} {later:?}: {bundle}");
        }
    }

    // OWN 31so: a `ca.crt` that was newer than `tls.crt` took away the authority of the certificate after a day.
    #[tokio::test]
    async fn the_authority_of_the_certificate_stays_whatever_is_offered() {
        let (own, files) = (made::offer(AUTHORITY), made::offer("cert-manager"));
        let (client, state) = written(made::authority(&own));
        let mut calls = calls(client, watch::channel(true).1);
        calls.has_files = true;
        let early = Offer {
            authorities: files.authorities.clone(),
            chain: own.chain.clone(),
        };
        calls.offer = watch::channel(Some(early)).1;
        calls.paths = BTreeSet::from(["/convert".to_owned()]);
        let mut targets: Vec<Target> = calls.of.targets().skip(1).map(Target::new).collect();
        let metadata = serde_json::from_value(state.lock()["metadata"].clone()).unwrap();
        targets[0].saw(Some(&metadata));
        for _ in 0..2 {
            assert!(calls.pass(&mut targets).await);
            calls.clock.advance(KEPT * 2);
            targets[0].done = None;
        }
        let bundle = bundle(&state.lock());
        assert!(made::is_of(&bundle, &[&own, &files]), "{bundle}");
    }

    // OWN 31sk: with files that do not name their authority, what calls went on to trust another one, and nothing said so.
    #[tokio::test]
    async fn what_does_not_trust_the_files_is_reported_when_it_lasts() {
        let (own, mut files) = (made::offer(AUTHORITY), made::offer("cert-manager"));
        let authority = files.authorities.take().unwrap();
        let (client, state) = written(made::authority(&own));
        let mut calls = calls(client, watch::channel(true).1);
        calls.has_files = true;
        calls.offer = watch::channel(Some(files.clone())).1;
        calls.paths = BTreeSet::from(["/convert".to_owned()]);
        let mut targets: Vec<Target> = calls.of.targets().skip(1).map(Target::new).collect();
        let metadata = serde_json::from_value(state.lock()["metadata"].clone()).unwrap();
        targets[0].saw(Some(&metadata));
        assert!(calls.pass(&mut targets).await);
        assert_eq!(
            targets[0].found,
            Found::default(),
            "another program may be about to write it"
        );
        assert_eq!(*calls.trusted.borrow(), None);
        let again = calls.recheck(&targets[0]).unwrap();
        calls.clock.advance(again);
        targets[0].done = None;
        assert!(calls.pass(&mut targets).await);
        let words = "the caBundle of its conversion does not go with the certificate that is served";
        assert!(
            targets[0].found.untrusting[0].starts_with(words),
            "{:?}",
            targets[0].found
        );
        assert!(calls.check.shown().contains(words), "{}", calls.check.shown());
        assert_eq!(
            bundle(&state.lock()),
            made::authority(&own),
            "it cannot write what it does not know"
        );
        // Somebody does what the message says.
        trusting(&mut state.lock(), &authority);
        targets[0].done = None;
        assert!(calls.pass(&mut targets).await);
        assert_eq!(targets[0].found, Found::default());
        assert_eq!(*calls.trusted.borrow(), Some(files));
        assert!(!calls.check.shown().contains(words));
    }

    // OWN 31d: a watch that failed more often than once a minute deferred every other pass for ever.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_keeps_failing_does_not_defer_the_next_check() {
        let (client, requests) = mock::answering(|request| {
            if request.path.contains("/services/") {
                mock::failure(404, "NotFound")
            } else if request.path.ends_with("p-validating-webhook-configuration") {
                (200, left_over())
            } else if request.path.ends_with("/validatingwebhookconfigurations") {
                // The list can be read. The watch after it gets the same, and fails.
                let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                    "metadata": {"resourceVersion": "1"}, "items": [left_over()]});
                (200, list)
            } else {
                mock::failure(403, "Forbidden")
            }
        });
        let calls = calls(client, watch::channel(false).1);
        let checks = || {
            let requests = requests.lock();
            requests
                .iter()
                .filter(|request| request.path.contains("/services/"))
                .count()
        };
        let stop = CancellationToken::new();
        let ends = async {
            tokio::time::sleep(10 * RECHECK_CALLS).await;
            stop.cancel();
        };
        tokio::join!(calls.run(stop.clone()), ends);
        assert!(checks() >= 8, "{} checks in ten minutes", checks());
    }
}
