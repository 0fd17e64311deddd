//! Chooses the host of a claim. Pure: the same claim and the same hosts give the same host, in whatever order they come. The rules
//! and the order of preference are those of machines, in `metal3::choice`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use metal3_api::labels::selector::{Expression, Requirement, Selector};
use metal3_api::metal3::choice::{Rejection, Verdict, Wanted};
use metal3_api::metal3::names::label;
use metal3_api::metal3::{BareMetalHost, HostClaim, Unfit};
use metal3_runtime::backoff::{hash, mixed};
use metal3_runtime::store::ObjectKey;

use super::rings::{Label, Ring, spot};

/// A claim's requirements on its host.
#[derive(Clone, Debug)]
pub struct Request {
    /// The namespaces whose hosts it may take.
    pub namespaces: BTreeSet<String>,
    selector: Selector,
    failure_domain: String,
    /// Decides among equal hosts: the next one from here on.
    start: u64,
}

impl Request {
    /// Reads the requirements of a claim.
    ///
    /// # Errors
    ///
    /// What is invalid in its selector.
    pub fn of(claim: &HostClaim, namespaces: BTreeSet<String>) -> Result<Self, String> {
        let wanted = &claim.spec.host_selector;
        let expressions = wanted.match_expressions.iter().map(|expression| Expression {
            key: &expression.key,
            operator: &expression.operator,
            values: &expression.values,
        });
        let selector = Selector::parse(&wanted.match_labels, expressions).map_err(|errors| {
            let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
            words.join("; ")
        })?;
        Ok(Self {
            namespaces,
            selector,
            failure_domain: claim.spec.failure_domain.clone(),
            start: mixed(hash(claim.metadata.uid.as_deref().unwrap_or_default())),
        })
    }

    /// A label that every host of the claim has, if it asks for one.
    pub fn label(&self) -> Option<Label> {
        let (key, value) = self.selector.exact().next()?;
        Some((key.to_owned(), value.to_owned()))
    }

    /// Where to look for hosts.
    pub fn rings(&self) -> Vec<Ring> {
        let domain =
            (!self.failure_domain.is_empty()).then(|| (label::FAILURE_DOMAIN.to_owned(), self.failure_domain.clone()));
        let labels = [domain.map(Some), Some(self.label())];
        let of_namespace = |namespace: &String| {
            let namespace = namespace.clone();
            let rings = labels.clone().into_iter().flatten();
            rings.map(move |label| Ring {
                namespace: namespace.clone(),
                label,
            })
        };
        self.namespaces.iter().flat_map(of_namespace).collect()
    }

    /// From which place on the claim looks.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Whether the claim may take this host now.
    pub fn suits(&self, host: &BareMetalHost) -> bool {
        self.refusal(host).is_none()
    }

    /// The host to take: one with the fewest refusals, and one in the failure domain before others.
    pub fn choose<'a>(
        &self,
        hosts: &'a [Arc<BareMetalHost>],
        refusals: impl Fn(&BareMetalHost) -> u32,
    ) -> Option<&'a Arc<BareMetalHost>> {
        let fitting = hosts.iter().filter(|host| self.suits(host));
        fitting.min_by_key(|host| {
            let distance = spot(&ObjectKey::of(&***host)).wrapping_sub(self.start);
            (refusals(host), self.wanted().rank(host, distance))
        })
    }

    /// The host to take among those that name the claim already: one with the fewest refusals, and of equal ones the first.
    pub fn choose_named<'a>(
        &self,
        named: &'a [Arc<BareMetalHost>],
        refusals: impl Fn(&BareMetalHost) -> u32,
    ) -> Option<&'a Arc<BareMetalHost>> {
        let fitting = named.iter().filter(|host| self.suits(&without_consumer(host)));
        fitting.min_by_key(|host| refusals(host))
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            selector: &self.selector,
            failure_domain: &self.failure_domain,
            ..anything(&self.selector)
        }
    }

    /// Why none of these hosts fits. It names no host, no namespace and no consumer, which the user of a claim need not know, and
    /// no numbers, so that it changes only with the reasons.
    pub fn explain(&self, hosts: &[Arc<BareMetalHost>]) -> String {
        let (mut rules, mut unmet) = (BTreeSet::new(), HashMap::new());
        for host in hosts {
            match self.refusal(host) {
                None => {}
                Some(Refusal::Rule(words)) => {
                    rules.insert(words.to_owned());
                }
                // Written once, and not for each host: a requirement may be as long as an object.
                Some(Refusal::Unmet(requirement)) => {
                    unmet.insert(Arc::as_ptr(&requirement), requirement);
                }
            }
        }
        rules.extend(
            unmet
                .into_values()
                .map(|requirement| format!("some do not meet {requirement}")),
        );
        if rules.is_empty() {
            return "the namespaces that permit this claim have no hosts".to_owned();
        }
        let refusals: Vec<String> = rules.into_iter().collect();
        format!(
            "no host fits: {}; the claim gets the first that does",
            refusals.join("; ")
        )
    }

    /// The first rule that a host does not meet.
    fn refusal(&self, host: &BareMetalHost) -> Option<Refusal> {
        let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
        if !self.namespaces.contains(namespace) {
            return Some(Refusal::Rule("some are in namespaces without a policy for this claim"));
        }
        // Claims that look at the same time reserve before they judge.
        match host.judge(&self.wanted(), || false) {
            Verdict::Rejected(Rejection::Label(unmet)) => Some(Refusal::Unmet(unmet)),
            verdict => rule(&verdict).map(Refusal::Rule),
        }
    }
}

/// Why a host does not fit.
enum Refusal {
    /// A rule for all claims.
    Rule(&'static str),
    /// The claim's own.
    Unmet(Arc<Requirement>),
}

/// Whether a host may be taken, apart from a claim's own requirements.
pub fn is_free(host: &BareMetalHost) -> bool {
    host.judge(&anything(&Selector::default()), || false) == Verdict::Free
}

/// Whether a host could be taken if it had no consumer.
pub fn is_free_without_consumer(host: &BareMetalHost) -> bool {
    is_free(&without_consumer(host))
}

fn without_consumer(host: &BareMetalHost) -> BareMetalHost {
    let mut host = host.clone();
    host.spec.consumer_ref = None;
    host
}

/// A claim never waits for a host of its own: none is kept for it.
fn anything(selector: &Selector) -> Wanted<'_> {
    Wanted {
        selector,
        failure_domain: "",
        is_domain_strict: false,
        reuse: None,
    }
}

/// Why a host may not be taken. What else there is to know of it is not for the user of a claim.
fn rule(verdict: &Verdict<'_>) -> Option<&'static str> {
    let why = match verdict {
        Verdict::Free | Verdict::Kept => return None,
        Verdict::Coming(unfit) => return Some(unfitness(unfit)),
        Verdict::Rejected(why) => why,
    };
    Some(match why {
        Rejection::Label(_) => "some lack a label",
        Rejection::KeptFor(_) => "some are kept for machines of a cluster",
        Rejection::InUse(_) | Rejection::Reserved => "some are in use",
        Rejection::FailureDomain(_) => "some are in another failure domain",
        Rejection::Unfit(unfit) => unfitness(unfit),
    })
}

fn unfitness(unfit: &Unfit) -> &'static str {
    match unfit {
        Unfit::Deleting => "some are being deleted",
        Unfit::Error(_) => "some report an error",
        Unfit::Paused => "some are paused",
        Unfit::Detached => "some are detached",
        Unfit::Unhealthy => "some are marked as unhealthy (capm3.metal3.io/unhealthy)",
        Unfit::State(_) => "some are not available yet",
        Unfit::HasImage => "some have an image that no claim asked for",
    }
}
