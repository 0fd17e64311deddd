//! A namespace per test.

use std::fmt::Debug;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Config, Resource, ResourceExt};
use metal3_lab::{ControlPlane, binaries};
use metal3_runtime::webhook::{Installed, Webhooks};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::eventually::at;
use crate::leaks::{self, Search};
use crate::webhooks::Served;
use crate::{DEADLINE, another_server, eventually, fail, server, server_without_rules};

/// A namespace used by one test only, on the API server shared by the tests of this binary. It is not deleted: the server ends
/// with the binary, and until then the objects of a failed test can be inspected. When the last clone is dropped, what the test
/// has emitted is searched for secrets.
#[derive(Clone)]
pub struct TestNamespace {
    /// The administrator's client.
    pub client: Client,
    /// The namespace's name: the test's name with a random suffix.
    pub name: String,
    server: &'static ControlPlane,
    _search: Arc<Search>,
}

impl Debug for TestNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestNamespace")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A namespaced kind.
pub trait NamespacedKind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + DeserializeOwned
    + Serialize
    + Debug
    + Send
    + 'static
{
}

impl<K> NamespacedKind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug
        + Send
        + 'static
{
}

/// Creates a [`TestNamespace`] named after the calling test: `namespace!().await`.
#[macro_export]
macro_rules! namespace {
    () => {{
        fn here() {}
        $crate::TestNamespace::new($crate::test_name(::std::any::type_name_of_val(&here)))
    }};
}

/// The name of the function in which [`namespace!`] stands, from the path of the function that the macro declares there.
pub fn test_name(path: &str) -> &str {
    path.rsplit("::")
        .skip(1)
        .find(|part| !part.starts_with('{'))
        .unwrap_or("test")
}

impl TestNamespace {
    /// Creates a namespace with a name like `name`. See [`namespace!`].
    pub async fn new(name: &str) -> Self {
        let server = server().await;
        // A label of 63 characters, of which the API server needs five.
        let mut prefix: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .take(50)
            .collect();
        prefix.insert_str(
            0,
            if prefix.starts_with(|c: char| c.is_ascii_lowercase()) {
                ""
            } else {
                "t"
            },
        );
        let meta = ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            ..ObjectMeta::default()
        };
        Self::make(server, meta).await
    }

    /// A namespace of the same name on another, newly started API server.
    pub async fn elsewhere(&self) -> Self {
        self.on(another_server().await).await
    }

    /// The same on one whose definitions have no rules: what is rejected there is rejected by webhooks.
    pub async fn without_rules(&self) -> Self {
        self.on(server_without_rules().await).await
    }

    /// A namespace of the same name on the control plane of another namespace.
    pub async fn at(&self, other: &Self) -> Self {
        self.on(other.server).await
    }

    async fn on(&self, server: &'static ControlPlane) -> Self {
        let meta = ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        Self::make(server, meta).await
    }

    async fn make(server: &'static ControlPlane, meta: ObjectMeta) -> Self {
        let client = server.client().await.unwrap_or_else(|err| fail("no client", &err));
        let namespace = Namespace {
            metadata: meta,
            ..Namespace::default()
        };
        let made = Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("cannot create it")
            .unwrap_or_else(|err| fail("no namespace", &err));
        let name = made.name_any();
        let search = Search {
            namespace: name.clone(),
            server,
        };
        Self {
            client,
            name,
            server,
            _search: Arc::new(search),
        }
    }

    /// The control plane: its audit log, other identities and its address.
    pub fn server(&self) -> &'static ControlPlane {
        self.server
    }

    /// An administrator's client for a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies the objects in a YAML text; namespaced objects without a namespace go here. Returns them as stored, namespaces and
    /// CRDs first.
    pub async fn apply(&self, yaml: &str) -> Vec<DynamicObject> {
        self.try_apply(yaml)
            .await
            .unwrap_or_else(|err| fail("cannot apply", &err))
    }

    /// The same, but may be rejected.
    pub async fn try_apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        let mut objects = metal3_lab::apply::parse(yaml)?;
        objects.iter_mut().for_each(leaks::mark);
        metal3_lab::apply::apply(&self.client, &objects, Some(&self.name)).await
    }

    /// Expects the API server to reject a YAML text, with a message that contains `because`.
    pub async fn expect_refused(&self, yaml: &str, because: &str) {
        let answer = self.try_apply(yaml).await;
        let message = answer.map_or_else(|err| format!("{err:#}"), |_| "it was accepted".to_owned());
        assert!(
            message.contains(because),
            "should be refused because of {because:?}, but: {message}"
        );
    }

    /// Expects each YAML text to be rejected with the message next to it.
    pub async fn expect_all_refused(&self, cases: &[(String, &str)]) {
        let mut surprises = Vec::new();
        for (yaml, because) in cases {
            match self.try_apply(yaml).await {
                Err(refusal) if format!("{refusal:#}").contains(because) => {}
                Err(refusal) => surprises.push(format!("{because:?}: {refusal:#}")),
                Ok(_) => surprises.push(format!("{because:?}: it was accepted")),
            }
        }
        assert!(surprises.is_empty(), "refused for other reasons: {surprises:#?}");
    }

    /// Expects the first object of each row to be rejected with the words beside it, and the second one to be admitted, in this order.
    /// The real kubectl applies them all.
    pub async fn expect_rules(&self, rows: &[(Value, String, Value)]) {
        let objects = rows.iter().flat_map(|(wrong, _, right)| [wrong, right]);
        let answers = self.apply_by_kubectl(objects).await;
        let mut surprises = Vec::new();
        for ((wrong, words, right), answers) in rows.iter().zip(answers.chunks(2)) {
            match answers {
                [Some(refusal), _] if !refusal.contains(words) => surprises.push(format!("{words:?}: {refusal}")),
                [None, _] => surprises.push(format!("{words:?}: it was accepted: {wrong}")),
                _ => {}
            }
            if let [_, Some(refusal)] = answers {
                surprises.push(format!("{right}: {refusal}"));
            }
        }
        assert!(surprises.is_empty(), "{surprises:#?}");
    }

    /// `kubectl apply` of these objects, one after the other: the reason for each that is rejected.
    pub async fn apply_by_kubectl<'o>(&self, objects: impl IntoIterator<Item = &'o Value>) -> Vec<Option<String>> {
        let found = tokio::task::spawn_blocking(binaries::ensure_complete).await;
        let kubectl = match found {
            Ok(Ok(found)) => found.kubectl.unwrap_or_else(|| panic!("no kubectl")),
            other => panic!("no kubectl: {other:?}"),
        };
        self.applied(&kubectl, objects)
            .await
            .unwrap_or_else(|err| fail("cannot apply by kubectl", &err))
    }

    async fn applied<'o>(
        &self,
        kubectl: &Path,
        objects: impl IntoIterator<Item = &'o Value>,
    ) -> Result<Vec<Option<String>>> {
        let (home, folder) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let mut files = Vec::new();
        // It takes the files of a folder in the order of their names.
        for (number, object) in objects.into_iter().enumerate() {
            let file = folder.path().join(format!("{number:05}.json"));
            std::fs::write(&file, object.to_string())?;
            files.push(file);
        }
        let mut command = Command::new(kubectl);
        command
            .args(["apply", "--namespace", &self.name, "--filename"])
            .arg(folder.path())
            .env("KUBECONFIG", self.server.admin_kubeconfig())
            .env("HOME", home.path());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&output.stderr);
        let answers: Vec<_> = files.iter().map(|file| reason(&said, file)).collect();
        let done = String::from_utf8_lossy(&output.stdout).lines().count();
        let rejected = answers.iter().flatten().count();
        anyhow::ensure!(
            done + rejected == files.len(),
            "{done} of {} objects are applied, and {rejected} rejected: {said}",
            files.len()
        );
        Ok(answers)
    }

    /// Serves a program's webhooks for this namespace until the test binary ends, and waits until the API server rejects `wrong`,
    /// a YAML text: the configurations take a moment to become active.
    pub async fn serve(&self, webhooks: Webhooks, installed: Installed<'_>, wrong: &str) {
        let asked = installed.objects(&webhooks);
        let served = Served::start(webhooks, self.server.authority()).unwrap_or_else(|err| fail("no webhooks", &err));
        self.admit_by(&served, asked).await;
        let wrong = metal3_lab::apply::parse(wrong).unwrap_or_else(|err| fail("no object", &err));
        eventually(DEADLINE, "the API server asks the webhooks", async || {
            for object in &wrong {
                match self.tried(object).await {
                    Err(kube::Error::Api(refusal)) if refusal.message.contains("admission webhook") => {}
                    other => return Err(format!("{other:?}")),
                }
            }
            Ok(())
        })
        .await;
    }

    /// Lets the API server ask about the objects of this namespace, with these configurations. It takes a moment until it does.
    pub async fn admit_by(&self, served: &Served, installed: Vec<Value>) {
        let configurations = installed.into_iter().filter(|object| object["webhooks"].is_array());
        for mut configuration in configurations {
            served.admit(&mut configuration, &self.name);
            self.apply(&configuration.to_string()).await;
        }
    }

    /// Creates an object with dry run.
    async fn tried(&self, object: &DynamicObject) -> Result<DynamicObject, kube::Error> {
        let kind = object
            .types
            .as_ref()
            .and_then(|types| GroupVersionKind::try_from(types).ok());
        let resource = ApiResource::from_gvk(&kind.unwrap_or_else(|| GroupVersionKind::gvk("", "v1", "")));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.name, &resource);
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        api.create(&params, object).await
    }

    /// Waits until the object of this name exists and satisfies `holds`, and returns it. `what` completes the sentence "the
    /// object …".
    #[track_caller]
    pub fn expect<K: NamespacedKind>(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&K) -> bool,
    ) -> impl Future<Output = K> {
        let what = format!("{} {}/{name} {what}", K::kind(&()), self.name);
        let holds = Arc::new(holds);
        let probe = self.probe::<K>(name);
        at(Location::caller(), DEADLINE, what, move || {
            let (found, holds) = (probe(), Arc::clone(&holds));
            async move {
                match found.await? {
                    Some(object) if holds(&object) => Ok(object),
                    Some(object) => Err(shown(&object)),
                    None => Err("no such object".to_owned()),
                }
            }
        })
    }

    /// Waits until the object of this name does not exist.
    #[track_caller]
    pub fn expect_gone<K: NamespacedKind>(&self, name: &str) -> impl Future<Output = ()> {
        let what = format!("{} {}/{name} is gone", K::kind(&()), self.name);
        let probe = self.probe::<K>(name);
        at(Location::caller(), DEADLINE, what, move || {
            let found = probe();
            async move { found.await?.map_or(Ok(()), |object| Err(shown(&object))) }
        })
    }

    /// Polls an object.
    fn probe<K: NamespacedKind>(
        &self,
        name: &str,
    ) -> impl Fn() -> BoxFuture<'static, Result<Option<K>, String>> + use<K> {
        let (api, name) = (self.api::<K>(), name.to_owned());
        move || {
            let (api, name) = (api.clone(), name.clone());
            Box::pin(async move { api.get_opt(&name).await.map_err(|err| format!("error: {err}")) })
        }
    }

    /// Waits for an event on the object of this name, of any kind, with this reason.
    #[track_caller]
    pub fn expect_event(&self, about: &str, reason: &str) -> impl Future<Output = Event> {
        let api = self.api::<Event>();
        let what = format!("an event {reason} about {}/{about}", self.name);
        let selector = ListParams::default().fields(&format!("involvedObject.name={about}"));
        let reason = reason.to_owned();
        at(Location::caller(), DEADLINE, what, move || {
            let (api, selector, reason) = (api.clone(), selector.clone(), reason.clone());
            async move {
                let events = api.list(&selector).await.map_err(|err| format!("error: {err}"))?.items;
                let reasons: Vec<String> = events.iter().filter_map(|event| event.reason.clone()).collect();
                let wanted = events.into_iter().find(|event| event.reason.as_ref() == Some(&reason));
                wanted.ok_or_else(|| format!("events with the reasons {reasons:?}"))
            }
        })
    }

    /// A client configuration of a service account of this namespace, which is created if missing. It has no rights except
    /// through role bindings.
    pub async fn service_account_config(&self, name: &str) -> Config {
        self.server
            .service_account(&self.name, name)
            .await
            .unwrap_or_else(|err| fail("no service account", &err))
    }

    /// The same as a client.
    pub async fn service_account(&self, name: &str) -> Client {
        let config = self.service_account_config(name).await;
        Client::try_from(config)
            .context(name.to_owned())
            .unwrap_or_else(|err| fail("no client", &err))
    }

    /// The same as a kubeconfig file, for programs.
    pub async fn service_account_kubeconfig(&self, name: &str) -> PathBuf {
        self.server
            .service_account_kubeconfig(&self.name, name)
            .await
            .unwrap_or_else(|err| fail("no service account", &err))
    }

    /// The user name of a service account of this namespace, as in audit logs and role bindings.
    pub fn service_account_user(&self, name: &str) -> String {
        format!("system:serviceaccount:{}:{name}", self.name)
    }
}

/// Why kubectl says that the object of a file was rejected. What precedes the file's name may have the whole object.
fn reason(said: &str, file: &Path) -> Option<String> {
    let named = format!("\"{}\": ", file.display());
    let (_, behind) = said.rsplit_once(&named)?;
    let end = behind.find("\nError from server").unwrap_or(behind.len());
    Some(behind[..end].trim_end().to_owned())
}

/// An object as readable YAML, without managed fields.
fn shown<K: Resource + Clone + Serialize>(object: &K) -> String {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    serde_saphyr::to_string(&object).map_or_else(|err| err.to_string(), |text| format!("\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_the_reason_of_its_own_rejection() {
        let said = "Warning: spec.a: is old\n\
            Error from server (Forbidden): error when creating \"/d/0.json\": denied: spec.a\nspec.b\n\
            Error from server (Forbidden): error when applying patch:\n{\"spec\":\"c\"}\nto:\nName: \"n\"\n\
            for: \"/d/2.json\": error when patching \"/d/2.json\": denied: spec.d\n";
        let reasons = ["/d/0.json", "/d/1.json", "/d/2.json"].map(|file| reason(said, Path::new(file)));
        let expected = [Some("denied: spec.a\nspec.b"), None, Some("denied: spec.d")];
        assert_eq!(reasons.each_ref().map(Option::as_deref), expected);
    }
}
