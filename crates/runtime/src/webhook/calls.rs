//! Follows the objects that tell the API server to call this program: its webhook configurations, and the definitions
//! whose objects it converts. The leader writes the authority that they must trust into them; each replica reports those
//! that call what does not exist, such as what another version has left behind.
//!
//! Only metadata is watched, of each object by its name. An object is read when its content has changed.

use std::collections::BTreeSet;
use std::fmt;

use futures::stream::{BoxStream, StreamExt, select_all};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::SelfManaged;
use super::called::{Ours, ServiceKey, is_left_to_us, not_injected, services, trusting, unanswered};
use crate::backoff::random_seed;
use crate::error::chain;
use crate::events::{Event, Recorder};
use crate::probes::Check;
use crate::timing::webhooks::{RECHECK_CALLS, RETRY};

/// The field manager of our writes.
pub(super) const FIELD_MANAGER: &str = "metal3-webhook-certificates";

/// The reason of events about objects that call what does not exist.
const REASON: &str = "WebhookUnanswered";

/// The objects, and what is done about them.
pub(super) struct Calls {
    pub client: Client,
    pub of: SelfManaged,
    pub leads: watch::Receiver<bool>,
    /// The authorities to trust; `None` as long as there are none.
    pub bundle: watch::Receiver<Option<String>>,
    /// Whether the certificate comes from files. Then another program tells the API server what to trust, and this one only takes
    /// its own authority back.
    pub has_files: bool,
    /// Gets the authorities that every object trusts.
    pub trusted: watch::Sender<Option<String>>,
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
    /// Its webhooks that nobody answers.
    void: Vec<String>,
    /// Those of the last event.
    announced: Vec<String>,
    /// The last error that was logged.
    told: String,
}

impl Target {
    fn new((resource, name): (ApiResource, String)) -> Self {
        Self {
            resource,
            name,
            is_known: false,
            seen: None,
            done: None,
            void: Vec::new(),
            announced: Vec::new(),
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

/// A content, and the authorities that it was to trust.
#[derive(Clone, Debug, PartialEq)]
struct Done {
    version: Version,
    bundle: Option<Value>,
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
        let mut failures = 0;
        // A watch that keeps failing does not defer the next pass.
        let mut due = Instant::now() + RECHECK_CALLS;
        loop {
            let is_void = targets.iter().any(|target| !target.void.is_empty());
            tokio::select! {
                Some((at, seen)) = events.next() => match seen {
                    Ok(object) => targets[at].saw(object.as_ref().map(|object| &object.metadata)),
                    Err(error) => {
                        targets[at].complain(&error);
                        continue;
                    }
                },
                Ok(()) = self.bundle.changed() => {}
                Ok(()) = self.leads.changed() => {}
                () = sleep_until(due), if failures > 0 || is_void => {
                    targets.iter_mut().filter(|target| !target.void.is_empty()).for_each(|target| target.done = None);
                }
            }
            failures = if self.pass(&mut targets).await { 0 } else { failures + 1 };
            let pause = match failures {
                0 => RECHECK_CALLS,
                _ => RETRY.delay(failures - 1, random_seed()),
            };
            due = Instant::now() + pause;
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
        let leads = *self.leads.borrow_and_update();
        let offered = self.bundle.borrow_and_update().clone().filter(|_| leads);
        let bundle = offered.clone().map(|bundle| json!(ByteString(bundle.into_bytes())));
        let (mut is_done, mut is_changed) = (true, false);
        for target in targets.iter_mut() {
            let wanted = target.seen.clone().map(|version| Done {
                version,
                bundle: bundle.clone(),
            });
            if target.done != wanted {
                match self.handle(target, bundle.clone()).await {
                    Ok(void) => {
                        target.told.clear();
                        if void != target.void {
                            target.void = void;
                            is_changed = true;
                            log(target);
                        }
                    }
                    Err(error) => {
                        target.complain(&error);
                        is_done = false;
                    }
                }
            }
            // What was found before this replica became the leader has not been announced.
            if leads && target.announced != target.void {
                self.announce(target).await;
                target.announced.clone_from(&target.void);
            }
        }
        if is_changed {
            self.check.note(note(targets));
        }
        let is_trusted = is_done && targets.iter().all(|target| target.is_known);
        let by_all = offered.filter(|_| is_trusted);
        self.trusted.send_if_modified(|trusted| {
            let is_new = *trusted != by_all;
            *trusted = by_all;
            is_new
        });
        is_done
    }

    /// Reads an object, has it trust the authorities, and returns its webhooks that nobody answers.
    async fn handle(&self, target: &mut Target, bundle: Option<Value>) -> Result<Vec<String>, kube::Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &target.resource);
        let Some(object) = api.get_opt(&target.name).await? else {
            (target.seen, target.done) = (None, None);
            return Ok(Vec::new());
        };
        let ours = self.ours();
        let written = match &bundle {
            Some(bundle) if !self.has_files || is_left_to_us(&object.metadata, FIELD_MANAGER) => {
                self.trust(&api, target, &object, bundle).await?
            }
            Some(_) | None => None,
        };
        let version = Version::of(written.as_ref().map_or(&object.metadata, |written| &written.metadata));
        let missing = self.missing(services(&object.data)).await?;
        target.seen = Some(version.clone());
        target.done = Some(Done { version, bundle });
        Ok(unanswered(&object.data, &ours, &missing))
    }

    /// Has an object trust the authorities, and no other program overwrite them. Returns what the last write has made of it.
    async fn trust(
        &self,
        api: &Api<DynamicObject>,
        target: &Target,
        object: &DynamicObject,
        bundle: &Value,
    ) -> Result<Option<DynamicObject>, kube::Error> {
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
        if let Some(spec) = trusting(&object.data, bundle, &ours) {
            let mut apply =
                json!({"apiVersion": target.resource.api_version, "kind": kind, "metadata": {"name": name}});
            json_patch::merge(&mut apply, &spec);
            let params = PatchParams::apply(FIELD_MANAGER).force();
            written = Some(api.patch(name, &params, &Patch::Apply(&apply)).await?);
            tracing::info!(kind, name, "the API server trusts the webhooks now");
        }
        Ok(written)
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
        if target.void.is_empty() {
            return;
        }
        let regarding = ObjectReference {
            api_version: Some(target.resource.api_version.clone()),
            kind: Some(target.resource.kind.clone()),
            name: Some(target.name.clone()),
            uid: target.seen.as_ref().and_then(|seen| seen.uid.clone()),
            ..ObjectReference::default()
        };
        let event = Event::warning(REASON, message(target));
        self.recorder.publish(&regarding, None, &event).await;
    }
}

fn message(target: &Target) -> String {
    format!("{}: {}", target.void.join("; "), HELP)
}

/// On the log of each replica.
fn log(target: &Target) {
    let (kind, name) = (&target.resource.kind, &target.name);
    if target.void.is_empty() {
        tracing::info!(kind, name, "everything that the API server is told to call here exists");
        return;
    }
    tracing::warn!(
        kind,
        name,
        message = message(target),
        "the API server calls what does not exist, and rejects what depends on it"
    );
}

const HELP: &str =
    "apply the webhook configurations and definitions of this version, or delete what is left of another";

/// The message of the readiness check. It never fails because of this: a replica that is not ready could not answer the
/// calls that are right.
fn note(targets: &[Target]) -> String {
    let void = targets.iter().filter(|target| !target.void.is_empty());
    let notes: Vec<String> = void
        .map(|target| format!("{} {}: {}", target.resource.kind, target.name, target.void.join("; ")))
        .collect();
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::Clock;
    use crate::events::Reporter;
    use crate::mock;
    use crate::probes::Probes;
    use crate::webhook::Installed;

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
            bundle: watch::channel(None).1,
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
        assert_eq!((targets[0].void.len(), events()), (1, 0));
        leading.send_replace(true);
        assert!(calls.pass(&mut targets).await);
        assert_eq!(events(), 1);
        assert!(calls.pass(&mut targets).await);
        assert_eq!(events(), 1, "once");
    }

    // OWN 30o: definitions of kinds with one version were not looked at.
    #[tokio::test]
    async fn a_conversion_that_another_program_left_behind_is_found() {
        let (client, _) = mock::answering(|_| (200, converting()));
        let mut calls = calls(client, watch::channel(false).1);
        let mut targets: Vec<Target> = calls.of.targets().map(Target::new).collect();
        let [_, definition] = targets.as_mut_slice() else {
            panic!("a configuration and a definition are followed");
        };
        definition.seen = Some(version());
        assert!(calls.pass(&mut targets).await);
        assert_eq!(
            targets[1].void,
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
        calls.bundle = watch::channel(Some("ours".to_owned())).1;
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
        let bundle = &object["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"];
        assert_eq!(bundle, &json!(ByteString(b"ours".to_vec())));
    }

    // OWN 31e: authorities counted as trusted for ever, even if one was overwritten and could not be written again.
    /// The keeper relies on it: a new authority must not sign before.
    #[tokio::test]
    async fn authorities_count_as_trusted_when_every_object_is_written() {
        let is_allowed = Arc::new(Mutex::new(false));
        let allowed = is_allowed.clone();
        let (client, _) = mock::answering(move |request| match request.method.as_str() {
            "PATCH" if !*allowed.lock() => mock::failure(403, "Forbidden"),
            _ => (200, converting()),
        });
        let mut calls = calls(client, watch::channel(true).1);
        calls.bundle = watch::channel(Some("ours".to_owned())).1;
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
        assert_eq!(*calls.trusted.borrow(), Some("ours".to_owned()));
        // Somebody has overwritten it, and the right to write is gone.
        *is_allowed.lock() = false;
        targets[1].done = None;
        assert!(!calls.pass(&mut targets).await);
        assert_eq!(*calls.trusted.borrow(), None);
    }

    // OWN 31c: where cert-manager took over while our leader still ran, our authority stayed, and nothing could replace it.
    #[tokio::test]
    async fn what_this_program_has_written_follows_the_files_that_replace_its_certificate() {
        let bundle_of = |object: &Value| object["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone();
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
            calls.bundle = watch::channel(Some("of the files".to_owned())).1;
            calls.paths = BTreeSet::from(["/convert".to_owned()]);
            let mut targets: Vec<Target> = calls.of.targets().skip(1).map(Target::new).collect();
            targets[0].seen = Some(version());
            assert!(calls.pass(&mut targets).await);
            let object = state.lock();
            let wanted = if is_written {
                json!(ByteString(b"of the files".to_vec()))
            } else {
                json!("theirs")
            };
            assert_eq!(bundle_of(&object), wanted, "{annotations}");
            assert_eq!(object["metadata"]["annotations"], annotations);
        }
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
