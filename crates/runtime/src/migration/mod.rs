//! Brings the objects of definitions with several versions to the version that is to be stored, as Cluster API's
//! crdmigrator does for its own kinds: clusterctl no longer does.
//!
//! ```text
//!  definition ──metadata watch──▶ generation not observed ──▶ Work (pure) ──▶ list of all metadata, page by page
//!                                                                              └─▶ one write at a time, unchanged
//!  definition ◀── status.storedVersions, then the annotation with the generation ── all objects written
//! ```
//!
//! The list is complete before the first write: its token expires after minutes, and the writes can take hours.
//!
//! A write that fails for the API server's sake is tried again where it stands.
//!
//! The annotation on the definition is all that is remembered. A migration that is interrupted starts again with the first
//! object: for one that is stored as it should be, the API server writes nothing, and no watch shows an event.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;

use futures::StreamExt;
use futures::stream::select_all;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ObjectList, PartialObjectMeta, Request};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Resource, ResourceExt};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::plan::Phase;
use self::plan::{Metadata, OBSERVED_GENERATION, Object, Work, is_done, work};
use crate::backoff::random_seed;
use crate::error::{chain, is_conflict, is_not_found};
use crate::events::{Event, Recorder};
use crate::metrics::{Build, Catalogue, Kind, Registry, Row};
use crate::rbac::rule;
use crate::readable::Readable;
use crate::timing::migration::{PACE, RETRY, SETTLE};

/// The field manager of our writes.
const FIELD_MANAGER: &str = "metal3-storage-migration";
/// Objects that are listed at once.
const PAGE: u32 = 500;
/// Objects that are named in a report.
const NAMED: usize = 5;
/// How often a write is tried again before the attempt is given up and reported: for some ten minutes.
const PATIENCE: u32 = 7;

/// The migration of a program's definitions, by its leader.
#[derive(Clone)]
pub struct Migration {
    /// The Kubernetes API.
    pub client: Client,
    /// The definitions, by their names.
    pub definitions: Vec<String>,
    /// What is done.
    pub phases: BTreeSet<Phase>,
    /// Tells of progress.
    pub recorder: Recorder,
    /// Counts.
    pub metrics: Metrics,
}

impl fmt::Debug for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migration")
            .field("definitions", &self.definitions)
            .field("phases", &self.phases)
            .finish_non_exhaustive()
    }
}

/// What was done for one definition.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    seen: usize,
    written: usize,
}

/// The answer to a write, which is not looked at.
type Written = Readable<PartialObjectMeta<DynamicObject>>;

/// A write to do.
struct Write {
    namespace: String,
    name: String,
    patch: Patch<serde_json::Value>,
}

impl Write {
    fn of(work: &Work, object: &Metadata) -> Option<Self> {
        Some(Self {
            patch: work.write(object)?,
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        })
    }
}

#[derive(Debug, thiserror::Error)]
enum MigrationError {
    #[error("the API server refuses")]
    Kube(#[from] kube::Error),
    #[error("{count} objects cannot be written unchanged, first of all {named}")]
    Refused { count: usize, named: String },
    #[error("the definition has changed in the meantime")]
    Changed,
}

/// The phases to do, from those to skip.
pub fn phases(skipped: &[Phase]) -> BTreeSet<Phase> {
    let all = [Phase::StorageVersionMigration, Phase::CleanupManagedFields];
    all.into_iter().filter(|phase| !skipped.contains(phase)).collect()
}

/// The permissions for the objects and the status of these definitions. Those for the definitions themselves come with the
/// webhooks' certificates ([`crate::webhook::SelfManaged::rules`]).
pub fn rules(definitions: &[String]) -> Vec<PolicyRule> {
    let status = PolicyRule {
        resource_names: Some(definitions.to_vec()),
        ..rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions/status"],
            &["patch"],
        )
    };
    let kinds = definitions.iter().filter_map(|definition| definition.split_once('.'));
    let kinds = kinds.map(|(plural, group)| rule(group, &[plural], &["list", "patch"]));
    std::iter::once(status).chain(kinds).collect()
}

impl Migration {
    /// Migrates while leading, until cancelled.
    pub async fn run(self, leads: watch::Receiver<bool>, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(Box::pin(self.lead(leads))).await;
        Ok(())
    }

    async fn lead(&self, mut leads: watch::Receiver<bool>) {
        if self.phases.is_empty() || leads.wait_for(|leads| *leads).await.is_err() {
            return std::future::pending().await;
        }
        let watches = self.definitions.iter().enumerate().map(|(at, name)| {
            let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
            let seen = watch_object(api, name).default_backoff();
            seen.map(move |seen| (at, seen)).boxed()
        });
        let mut events = select_all(watches);
        let mut open: BTreeSet<usize> = BTreeSet::new();
        let mut failures = 0;
        let mut unseen: BTreeSet<usize> = BTreeSet::new();
        // A watch that keeps failing does not defer the next attempt.
        let mut due = Instant::now() + SETTLE;
        loop {
            tokio::select! {
                Some((at, seen)) = events.next() => {
                    let is_first = match &seen {
                        Ok(_) => unseen.remove(&at),
                        Err(_) => unseen.insert(at),
                    };
                    match seen {
                        Ok(Some(definition)) if !is_done(&definition.metadata) => {
                            open.insert(at);
                            failures = 0;
                            due = Instant::now() + SETTLE;
                        }
                        Ok(_) => _ = open.remove(&at),
                        Err(error) if is_first => {
                            tracing::warn!(definition = self.definitions[at], error = %chain(&error), "cannot watch the definition");
                        }
                        Err(_) => {}
                    }
                },
                () = sleep_until(due), if !open.is_empty() => {
                    open = self.pass(open).await;
                    due = Instant::now() + RETRY.delay(failures, random_seed());
                    failures = if open.is_empty() { 0 } else { failures + 1 };
                }
            }
        }
    }

    /// One definition after the other. Returns those that are not done.
    async fn pass(&self, open: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut left = BTreeSet::new();
        for at in open {
            let name = &self.definitions[at];
            if let Err(error) = self.migrate(name).await {
                let error = chain(&error).to_string();
                tracing::warn!(
                    definition = name,
                    error,
                    "the migration of stored versions is not complete; it is tried again"
                );
                self.report(name, None, &Event::warning("StorageMigrationIncomplete", error))
                    .await;
                left.insert(at);
            }
        }
        left
    }

    async fn migrate(&self, name: &str) -> Result<(), MigrationError> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let Some(definition) = definitions.get_opt(name).await? else {
            return Ok(());
        };
        // Done by a write of this pass, whose events come later.
        if is_done(&definition.metadata) {
            return Ok(());
        }
        let Some(work) = work(&definition, &self.phases).filter(|work| !work.is_empty()) else {
            return Ok(());
        };
        if work.rewrites {
            let version = &work.resource.api_version;
            tracing::info!(definition = name, %version, "bringing objects to the version that is to be stored");
        }
        let progress = self.objects(name, &work).await?;
        self.metrics.left(name, 0);
        self.finish(&definitions, name, &work).await?;
        if progress.written > 0 || work.rewrites {
            let Progress { seen, written } = progress;
            let message = format!(
                "{written} of {seen} objects were written unchanged; all are stored as {}",
                work.resource.api_version
            );
            tracing::info!(
                definition = name,
                message,
                "the migration of stored versions is complete"
            );
            let event = Event::normal("StorageMigrated", message);
            self.report(name, definition.uid(), &event).await;
        }
        Ok(())
    }

    /// Writes each object that needs it. Objects in deletion and paused ones are no exception.
    async fn objects(&self, name: &str, work: &Work) -> Result<Progress, MigrationError> {
        let (seen, writes) = self.writes(work).await?;
        tracing::debug!(definition = name, seen, writes = writes.len(), "the objects are listed");
        let (mut written, mut refused) = (0, Vec::new());
        for (at, write) in writes.iter().enumerate() {
            self.metrics.left(name, writes.len() - at);
            match self.write_patiently(work, write).await {
                Ok(()) => written += 1,
                Err(error) if is_lasting(&error) => {
                    refused.push(format!("{}/{} ({})", write.namespace, write.name, chain(&error)));
                }
                Err(error) => return Err(error.into()),
            }
            self.metrics.written(name);
            sleep(PACE).await;
        }
        if refused.is_empty() {
            return Ok(Progress { seen, written });
        }
        let named = refused.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        Err(MigrationError::Refused {
            count: refused.len(),
            named,
        })
    }

    /// Lists the objects. Returns their number, and the writes that they need.
    async fn writes(&self, work: &Work) -> Result<(usize, Vec<Write>), MigrationError> {
        let (mut seen, mut writes) = (0, Vec::new());
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let next = match self.list(work, None, &page).await {
                Ok(list) => {
                    seen += list.items.len();
                    writes.extend(list.items.iter().filter_map(|object| Write::of(work, &object.metadata)));
                    list.metadata.continue_
                }
                // The token has expired. The answer has one for the objects that follow, as they are now; those that were
                // created since are stored as they should be.
                Err(error) => Some(fresh_token(&error).ok_or(error)?),
            };
            match next.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok((seen, writes)),
            }
        }
    }

    /// Lists the metadata of the objects of a namespace, or of all.
    async fn list(
        &self,
        work: &Work,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<ObjectList<Object>, kube::Error> {
        let request = Request::new(DynamicObject::url_path(&work.resource, namespace));
        let request = request.list_metadata(page).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// Waits for an API server that is away or busy, because another attempt would begin with the first object.
    async fn write_patiently(&self, work: &Work, write: &Write) -> Result<(), kube::Error> {
        let mut failures = 0;
        loop {
            match self.write(work, write).await {
                Err(error) if !is_lasting(&error) && failures < PATIENCE => {
                    tracing::debug!(name = write.name, error = %chain(&error), "the API server does not take a write");
                    sleep(RETRY.delay(failures, random_seed())).await;
                    failures += 1;
                }
                done => return done,
            }
        }
    }

    async fn write(&self, work: &Work, write: &Write) -> Result<(), kube::Error> {
        let api: Api<Written> = Api::namespaced_with(self.client.clone(), &write.namespace, &work.resource);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let Err(refusal) = api.patch(&write.name, &params, &write.patch).await else {
            return Ok(());
        };
        // It is gone, or another write has stored it as it should be.
        let is_settled = is_not_found(&refusal) || is_conflict(&refusal) && matches!(write.patch, Patch::Merge(_));
        if is_settled {
            return Ok(());
        }
        if !is_conflict(&refusal) {
            return Err(refusal);
        }
        // The other write may have left the entries to remove.
        let same = ListParams::default().fields(&format!("metadata.name={}", write.name));
        let same = self.list(work, Some(&write.namespace), &same).await?.items;
        let mut again = same.iter().filter_map(|object| Write::of(work, &object.metadata));
        match again.next_back() {
            Some(again) if matches!(again.patch, Patch::Json(_)) => {
                let written = api.patch(&again.name, &params, &again.patch).await;
                written.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Records on the definition that all objects are migrated.
    async fn finish(
        &self,
        definitions: &Api<CustomResourceDefinition>,
        name: &str,
        work: &Work,
    ) -> Result<(), MigrationError> {
        let mut now = definitions.get(name).await?;
        if plan::work(&now, &self.phases).as_ref() != Some(work) {
            return Err(MigrationError::Changed);
        }
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        if work.rewrites {
            let patch = json!({
                "metadata": {"resourceVersion": now.resource_version()},
                "status": {"storedVersions": [work.resource.version]},
            });
            now = definitions.patch_status(name, &params, &Patch::Merge(&patch)).await?;
        }
        // A phase that is skipped now may be wanted later.
        if self.phases == phases(&[]) {
            let generation = now.metadata.generation.unwrap_or_default().to_string();
            let patch = json!({"metadata": {
                "resourceVersion": now.resource_version(),
                "annotations": {OBSERVED_GENERATION: generation},
            }});
            definitions.patch_metadata(name, &params, &Patch::Merge(&patch)).await?;
        }
        Ok(())
    }

    async fn report(&self, name: &str, uid: Option<String>, event: &Event) {
        let regarding = ObjectReference {
            api_version: Some("apiextensions.k8s.io/v1".to_owned()),
            kind: Some("CustomResourceDefinition".to_owned()),
            name: Some(name.to_owned()),
            uid,
            ..ObjectReference::default()
        };
        self.recorder.publish(&regarding, None, event).await;
    }
}

/// Whether an object is refused for its own sake: the others are written nevertheless.
fn is_lasting(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && ![401, 429].contains(&status.code))
}

/// The token with which a list goes on whose own has expired.
fn fresh_token(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let token = status.metadata.as_ref()?.continue_.clone()?;
    (status.code == 410 && !token.is_empty()).then_some(token)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDefinition {
    definition: String,
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    left: Family<OfDefinition, Gauge>,
    written: Family<OfDefinition, Counter>,
}

impl Metrics {
    /// Registers all.
    pub fn listed(catalogue: &mut Catalogue<'_>) -> Self {
        let left = catalogue.add(
            Kind::Gauge,
            "metal3_storage_migration_objects_left",
            &["definition"],
            "Objects that the migration of stored versions has not written yet; absent before the first",
            Family::default(),
        );
        let written = catalogue.add(
            Kind::Counter,
            "metal3_storage_migration_writes",
            &["definition"],
            "Writes of objects by the migration of stored versions, including those that were refused",
            Family::default(),
        );
        Self { left, written }
    }

    fn left(&self, definition: &str, count: usize) {
        let (definition, count) = (definition.to_owned(), i64::try_from(count).unwrap_or(i64::MAX));
        self.left.get_or_create(&OfDefinition { definition }).set(count);
    }

    fn written(&self, definition: &str) {
        let definition = definition.to_owned();
        self.written.get_or_create(&OfDefinition { definition }).inc();
    }
}

/// What is counted, for the reference.
pub fn rows() -> Vec<Row> {
    let registry = Registry::new(Build {
        component: "reference",
        version: "",
    });
    let mut catalogue = Catalogue::new(&registry);
    Metrics::listed(&mut catalogue);
    catalogue.into_rows()
}
