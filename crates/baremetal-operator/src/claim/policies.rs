//! The HostDeployPolicies, compiled once: which namespaces permit which claims to take their hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use metal3_api::metal3::{HostClaimNamespaces, HostDeployPolicy, NameValuePair};
use metal3_runtime::events::{Event, Recorder};
use metal3_runtime::store::{ObjectKey, Sink};
use parking_lot::{Mutex, RwLock};
use regex::bytes::{Regex, RegexBuilder};
use tokio::sync::mpsc;

use crate::host::text::for_people;
use crate::metrics::companions::{self, Tally};

/// Longer expressions are refused: a policy's author must not slow down the operator. Names of namespaces have 63 characters.
const LONGEST: usize = 1024;
/// The memory of a compiled expression.
const MOST_MEMORY: usize = 1 << 18;

/// Each policy, and what it permits, if anything.
type Compiled = HashMap<ObjectKey, (HostDeployPolicy, Option<Policy>)>;

/// All policies. Cheap to clone.
#[derive(Clone)]
pub struct Policies {
    compiled: Arc<RwLock<Compiled>>,
    changed: Arc<dyn Fn(&Change<'_>) + Send + Sync>,
    counted: Tally,
    invalid: Untold,
    /// Says that there is something to publish.
    news: mpsc::Sender<()>,
}

/// A policy that permits nothing, and why.
type Invalid = (ObjectReference, String);

/// What is still to be published, one event for each policy: whoever edits one again and again takes nobody else's place.
type Untold = Arc<Mutex<BTreeMap<ObjectKey, Invalid>>>;

/// The policies that turned out to permit nothing.
pub struct Invalids {
    untold: Untold,
    news: mpsc::Receiver<()>,
}

impl Invalids {
    fn take(&self) -> Vec<Invalid> {
        std::mem::take(&mut *self.untold.lock()).into_values().collect()
    }

    /// Publishes an event on each, for as long as there are policies.
    pub async fn report(mut self, recorder: Recorder) {
        while let Some(()) = self.news.recv().await {
            for (policy, message) in self.take() {
                recorder.publish(&policy, None, &Event::warning(INVALID, message)).await;
            }
        }
    }
}

/// Published on a policy that permits nothing, because its expression cannot be used.
const INVALID: &str = "HostDeployPolicyInvalid";

/// A policy before and after a change, as far as it permits something.
pub struct Change<'a>([Option<&'a Policy>; 2]);

impl Change<'_> {
    /// Whether it is about claims of this namespace, which has these labels.
    pub fn is_about(&self, namespace: &str, label: impl Fn(&str) -> Option<String>) -> bool {
        let mut policies = self.0.iter().flatten();
        policies.any(|policy| policy.permits(namespace, &label))
    }
}

/// One policy that permits something.
#[derive(Clone)]
struct Policy {
    names: Option<Vec<String>>,
    pattern: Option<Regex>,
    labels: Vec<NameValuePair>,
}

impl Policies {
    /// None yet; `changed` is called after every change, and `counted` has their states.
    pub fn new(counted: Tally, changed: impl Fn(&Change<'_>) + Send + Sync + 'static) -> (Self, Invalids) {
        let (untold, (news, heard)) = (Untold::default(), mpsc::channel(1));
        let policies = Self {
            compiled: Arc::default(),
            changed: Arc::new(changed),
            counted,
            invalid: untold.clone(),
            news,
        };
        (policies, Invalids { untold, news: heard })
    }

    /// The namespaces with a policy that permits claims of this namespace, which has these labels. `only` restricts this to one.
    pub fn permitting(&self, claims_in: &str, label: impl Fn(&str) -> Option<String>, only: &str) -> BTreeSet<String> {
        let compiled = self.compiled.read();
        let here = compiled
            .iter()
            .filter(|(key, _)| only.is_empty() || key.namespace == only);
        let permitting = here.filter(|(_, (_, policy))| {
            let permits = |policy: &Policy| policy.permits(claims_in, &label);
            policy.as_ref().is_some_and(permits)
        });
        permitting.map(|(key, _)| key.namespace.clone()).collect()
    }
}

impl Sink<HostDeployPolicy> for Policies {
    fn put(&self, policy: HostDeployPolicy) {
        let key = ObjectKey::of(&policy);
        let is_known = |(known, _): &(HostDeployPolicy, _)| known.spec == policy.spec;
        if self.compiled.read().get(&key).is_some_and(is_known) {
            return;
        }
        self.invalid.lock().remove(&key);
        let constraints = policy.spec.host_claim_namespaces.as_ref();
        let compiled = constraints.and_then(|constraints| match Policy::compile(constraints) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                tracing::warn!(policy = %key, %error, "a HostDeployPolicy permits nothing, because spec.hostClaimNamespaces.nameMatches is invalid");
                let why = for_people(&error);
                let message = format!("it permits nothing, because spec.hostClaimNamespaces.nameMatches is invalid: {why}");
                self.invalid.lock().insert(key.clone(), (policy.object_ref(&()), message));
                // Full if whoever publishes has not heard the last one yet; closed where nobody does, as in some tests.
                self.news.try_send(()).ok();
                None
            }
        });
        let state = if constraints.is_some() && compiled.is_none() {
            companions::INVALID
        } else {
            companions::READY
        };
        self.counted.set(&key, Some(state));
        let before = self.compiled.write().insert(key.clone(), (policy, compiled.clone()));
        let before = before.and_then(|(_, policy)| policy);
        (self.changed)(&Change([before.as_ref(), compiled.as_ref()]));
    }

    fn remove(&self, key: &ObjectKey, _: &str) {
        self.invalid.lock().remove(key);
        self.counted.set(key, None);
        let before = self.compiled.write().remove(key).and_then(|(_, policy)| policy);
        (self.changed)(&Change([before.as_ref(), None]));
    }
}

impl Policy {
    fn compile(constraints: &HostClaimNamespaces) -> Result<Self, String> {
        Ok(Self {
            names: constraints.names.clone(),
            pattern: compile(&constraints.name_matches)?,
            labels: constraints.has_labels.clone(),
        })
    }

    fn permits(&self, namespace: &str, label: &impl Fn(&str) -> Option<String>) -> bool {
        let has =
            |pair: &NameValuePair| label(&pair.name).is_some_and(|value| pair.value.is_empty() || value == pair.value);
        let matches = |pattern: &Regex| pattern.is_match(namespace.as_bytes());
        self.names
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| name == namespace))
            && self.pattern.as_ref().is_none_or(matches)
            && self.labels.iter().all(has)
    }
}

/// An expression that must match a whole name. Upstream lets it match a part, so that "prod" also permits "not-prod".
fn compile(expression: &str) -> Result<Option<Regex>, String> {
    if expression.is_empty() {
        return Ok(None);
    }
    if expression.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let build = |text: &str| {
        let mut builder = RegexBuilder::new(text);
        let built = builder.unicode(false).size_limit(MOST_MEMORY).build();
        built.map_err(|error| error.to_string())
    };
    // Alone first: "a)|(b" must not become valid, and mean something else, by what is put around it.
    build(expression)?;
    build(&format!(r"\A(?:{expression})\z")).map(Some)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn policy(namespace: &str, spec: &Value) -> HostDeployPolicy {
        let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"name": "p", "namespace": namespace, "uid": "u"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn permits(constraints: &Value) -> bool {
        let (policies, _) = Policies::new(Tally::default(), |_| ());
        policies.put(policy("hosts", &json!({"hostClaimNamespaces": constraints})));
        let label = |key: &str| (key == "team").then(|| "blue".to_owned());
        !policies.permitting("prod", label, "").is_empty()
    }

    // DEFECT 14: upstream's expression matches a part of the name, and one that is invalid ends the search for all claims.
    #[rstest]
    #[case::nothing_said(json!(null), false)]
    #[case::everybody(json!({}), true)]
    #[case::named(json!({"names": ["prod"]}), true)]
    #[case::nobody_named(json!({"names": []}), false)]
    #[case::matched(json!({"nameMatches": "prod"}), true)]
    #[case::anchored_already(json!({"nameMatches": "^prod$"}), true)]
    #[case::a_part(json!({"nameMatches": "pro"}), false)]
    #[case::another_part(json!({"nameMatches": "ro.*"}), false)]
    #[case::one_of_several(json!({"nameMatches": "test|prod"}), true)]
    #[case::beginning_of_one_of_several(json!({"nameMatches": "pro|x"}), false)]
    #[case::class(json!({"nameMatches": r"p[a-z]{3}\d*"}), true)]
    #[case::closes_what_it_did_not_open(json!({"nameMatches": "x)|(?:prod"}), false)]
    #[case::invalid(json!({"nameMatches": "("}), false)]
    #[case::needs_much_memory(json!({"nameMatches": "(((a{99}){99}){99})?prod"}), false)]
    #[case::long(json!({"nameMatches": format!("prod{}", "|x".repeat(600))}), false)]
    #[case::labelled(json!({"hasLabels": [{"name": "team"}]}), true)]
    #[case::labelled_so(json!({"hasLabels": [{"name": "team", "value": "blue"}]}), true)]
    #[case::labelled_otherwise(json!({"hasLabels": [{"name": "team", "value": "red"}]}), false)]
    #[case::unlabelled(json!({"hasLabels": [{"name": "team"}, {"name": "other"}]}), false)]
    #[case::all_must_hold(json!({"names": ["prod"], "nameMatches": "test"}), false)]
    fn a_policy_permits_what_it_says(#[case] constraints: Value, #[case] is_permitted: bool) {
        assert_eq!(permits(&constraints), is_permitted);
    }

    // OWN 31wu: only the operator's log said so, and the claims that no policy permits them.
    #[tokio::test]
    async fn an_expression_that_cannot_be_used_is_an_event_of_its_policy() {
        let (policies, mut invalid) = Policies::new(Tally::default(), |_| ());
        policies.put(policy("a", &json!({"hostClaimNamespaces": {"nameMatches": "prod"}})));
        for _ in 0..2 {
            policies.put(policy("b", &json!({"hostClaimNamespaces": {"nameMatches": "("}})));
        }
        // Who edits one again and again takes nobody else's place.
        for number in 0..1_000 {
            let expression = format!("({number}");
            policies.put(policy(
                "c",
                &json!({"hostClaimNamespaces": {"nameMatches": expression}}),
            ));
        }
        drop(policies);
        invalid.news.recv().await.unwrap();
        let mut told = invalid.take();
        assert_eq!(told.len(), 2, "{told:?}");
        let (regarding, message) = told.swap_remove(0);
        assert_eq!(
            (
                regarding.kind.as_deref(),
                regarding.namespace.as_deref(),
                regarding.name.as_deref()
            ),
            (Some("HostDeployPolicy"), Some("b"), Some("p"))
        );
        assert!(
            message.contains("spec.hostClaimNamespaces.nameMatches is invalid"),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
        assert!(invalid.news.recv().await.is_none());
    }

    // OWN 31cg: a change of any policy woke all claims.
    #[test]
    fn one_policy_of_a_namespace_is_enough_and_only_changes_count() {
        let changes = Arc::new(AtomicUsize::new(0));
        let count = changes.clone();
        let (policies, _) = Policies::new(Tally::default(), move |change| {
            assert!(!change.is_about("other", |_| None), "it is about no other namespace");
            let is_about = change.is_about("n", |_| None);
            count.fetch_add(usize::from(is_about), Ordering::Relaxed);
        });
        let all = json!({"hostClaimNamespaces": {"names": ["n"]}});
        for _ in 0..2 {
            policies.put(policy("a", &all));
        }
        policies.put(policy("b", &all));
        policies.put(policy("c", &json!({})));
        let found = |only| policies.permitting("n", |_| None, only).into_iter().collect::<Vec<_>>();
        assert_eq!(
            (found(""), found("b"), found("c")),
            (vec!["a".into(), "b".into()], vec!["b".into()], vec![])
        );
        policies.remove(&ObjectKey::new("a", "p"), "u");
        assert_eq!(found(""), ["b"]);
        assert_eq!(changes.load(Ordering::Relaxed), 3);
    }
}
