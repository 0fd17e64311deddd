//! Certificates without cert-manager: the leader renews them in one Secret; every replica serves the content of the
//! Secret, and creates it if there is none of use.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, PostParams};
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Installed;
use super::authority::{Due, Held, due, renewed};
use super::calls::FIELD_MANAGER;
use crate::Clock;
use crate::backoff::random_seed;
use crate::error::{chain, is_conflict};
use crate::rbac::{Installation, rule};
use crate::timing::webhooks::{RENEWAL, RETRY};
use crate::tls::{Certificate, Offer, TlsError, Trusted, are_trusted};

/// The program whose certificates are managed.
#[derive(Clone, Debug)]
pub struct SelfManaged {
    /// The names of the program's objects.
    pub installed: Installed<'static>,
    /// The namespace of its pod, and of the Secret.
    pub namespace: String,
    /// The definitions whose objects it converts.
    pub definitions: Vec<String>,
    /// The definitions of its other kinds. A conversion that one of them asks for is left over from another program.
    pub unconverted: Vec<String>,
}

/// Maintains the certificate of one replica, and the Secret: while it leads, or if what the Secret holds is of no use.
pub(super) struct Keeper {
    pub client: Client,
    pub clock: Clock,
    pub leads: watch::Receiver<bool>,
    pub of: SelfManaged,
    /// Gets what is served, with the authorities to trust.
    pub offer: watch::Sender<Option<Offer>>,
    /// Of it, what everything trusts that calls this program.
    pub trusted: Trusted,
}

#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("the API server refuses to write the Secret")]
    Kube(#[from] kube::Error),
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot serve the content of the Secret")]
    Serve(#[from] TlsError),
    #[error(
        "the certificate of the old authority stays until every webhook configuration and definition trusts the new one, too"
    )]
    NotTrusted,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Runs until cancelled.
    pub async fn run(self, served: Certificate, stop: CancellationToken) {
        stop.run_until_cancelled(Box::pin(self.keep(served))).await;
    }

    /// A pass follows each change of the Secret and of the leader, and the date of the next renewal.
    async fn keep(mut self, mut served: Certificate) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.of.namespace);
        let mut seen = pin!(watch_object(secrets.clone(), &self.of.installed.secret()).default_backoff());
        // Unknown until the first answer: a leader that knows nothing makes nothing.
        let mut stored: Option<Option<Secret>> = None;
        let (mut failures, mut told) = (0, String::new());
        // A watch that keeps failing does not defer the next pass.
        let mut due = Instant::now() + RENEWAL;
        loop {
            tokio::select! {
                Some(secret) = seen.next() => match secret {
                    Ok(secret) => stored = Some(secret),
                    Err(error) => {
                        complain(&mut told, &error);
                        continue;
                    }
                },
                Ok(()) = self.leads.changed() => {}
                Ok(()) = self.trusted.changed() => {}
                () = sleep_until(due) => due = Instant::now() + RENEWAL,
            }
            let Some(stored) = &mut stored else {
                continue;
            };
            let pause = match self.pass(&secrets, stored, &mut served).await {
                Ok(next) => {
                    (failures, told) = (0, String::new());
                    until(next, self.clock.now())
                }
                Err(error) => {
                    complain(&mut told, &error);
                    failures += 1;
                    RETRY.delay(failures - 1, random_seed())
                }
            };
            due = Instant::now() + pause;
        }
    }

    /// Serves what the Secret holds, after the leader has renewed it. Returns the date of the next renewal.
    async fn pass(
        &mut self,
        secrets: &Api<Secret>,
        stored: &mut Option<Secret>,
        served: &mut Certificate,
    ) -> Result<Option<Timestamp>, KeepError> {
        let name = self.of.installed.secret();
        let mut held = stored.as_ref().and_then(|secret| Held::read(secret.data.as_ref()?));
        let leads = *self.leads.borrow_and_update();
        let is_waiting = leads && held.as_ref().is_some_and(|held| self.waits(held));
        // Without a leader that makes certificates, such as while one with files leads, a replica cannot wait for it.
        let is_urgent = matches!(
            due(held.as_ref(), &self.of.dns_names(), self.clock.now()),
            Due::Everything | Due::Leaf(Some(_))
        );
        if (leads || is_urgent)
            && !is_waiting
            && let Some(new) = self.renewed(held.as_ref(), stored.is_some())?
        {
            match write(secrets, &name, stored.clone(), &new).await {
                Ok(secret) => (*stored, held) = (Some(secret), Some(new)),
                // Another leader was faster; the watch shows its result.
                Err(error) if is_conflict(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(held) = held else {
            return Ok(None);
        };
        let next = held.next();
        let offer = Offer {
            chain: held.chain().unwrap_or_default(),
            authorities: Some(held.bundle),
        };
        self.offer.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&offer);
            *known = Some(offer.clone());
            is_new
        });
        let pem = (held.certificate.into_bytes(), held.key.into_bytes());
        // Of another authority: the Secret was deleted or replaced. What is served is trusted for longer than this takes.
        if !served.is_self_signed() && !served.serves(&pem) {
            are_trusted(&mut self.trusted, |trusted| trusted.authorities == offer.authorities).await;
        }
        if served.replace(pem, Path::new(&name))? {
            tracing::info!(secret = name, "serving a new certificate");
        }
        if is_waiting {
            return Err(KeepError::NotTrusted);
        }
        Ok(Some(next))
    }

    /// Whether a certificate is due that not everything would trust yet, while the present one is still trusted.
    fn waits(&self, held: &Held) -> bool {
        let (names, now) = (self.of.dns_names(), self.clock.now());
        due(Some(held), &names, now) == Due::Leaf(None)
            && held.changes_authority(&names, now)
            && !is_trusted(self.trusted.borrow().as_ref(), &held.bundle)
    }

    /// The content to write, if any is due, and a log of why.
    fn renewed(&self, held: Option<&Held>, exists: bool) -> Result<Option<Held>, rcgen::Error> {
        let (names, now) = (self.of.dns_names(), self.clock.now());
        let secret = self.of.installed.secret();
        match due(held, &names, now) {
            Due::Leaf(Some(unusable)) => {
                tracing::warn!(secret, %unusable, "replacing a certificate that is of no use");
            }
            Due::Everything if exists => {
                tracing::warn!(secret, "replacing a Secret without a usable authority");
            }
            Due::Nothing | Due::Leaf(None) | Due::Authority | Due::Everything => {}
        }
        renewed(held, &names, now)
    }
}

fn is_trusted(trusted: Option<&Offer>, bundle: &str) -> bool {
    trusted.is_some_and(|trusted| trusted.authorities.as_deref() == Some(bundle))
}

/// Logs an error unless it is the last one that was logged.
fn complain(told: &mut String, error: &(dyn std::error::Error + 'static)) {
    let error = chain(error).to_string();
    if *told != error {
        tracing::warn!(error, "cannot keep the certificate of the webhooks");
        *told = error;
    }
}

/// The pause until the next renewal, with a look at the time of day now and then.
fn until(next: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
    // A renewal that is overdue is the leader's to make, which the watch shows.
    left.filter(|left| !left.is_zero()).unwrap_or(RENEWAL).min(RENEWAL)
}

/// Conditional on the version that was read.
async fn write(secrets: &Api<Secret>, name: &str, stored: Option<Secret>, held: &Held) -> Result<Secret, kube::Error> {
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    if let Some(mut secret) = stored {
        secret.data = Some(held.write());
        return secrets.replace(name, &params, &secret).await;
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(held.write()),
        ..Secret::default()
    };
    secrets.create(&params, &secret).await
}

impl SelfManaged {
    /// The names that the API server may call: those of the Service, and localhost for tests and development.
    pub(super) fn dns_names(&self) -> Vec<String> {
        let service = format!("{}.{}.svc", self.installed.service_name(), self.namespace);
        vec![format!("{service}.cluster.local"), service, "localhost".to_owned()]
    }

    /// The permissions to follow and configure what the API server calls, in these objects and no others. A list or a
    /// watch of one object by its name is allowed by a rule for that name.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let seen = |group: &str, resource: &str, names: &[String], verbs: &[&str]| PolicyRule {
            resource_names: Some(names.to_vec()),
            ..rule(group, &[resource], &[&["get", "list", "watch"], verbs].concat())
        };
        let of = |group: &str, resource: &str, names: &[String]| seen(group, resource, names, &["patch"]);
        let [mutating, validating] = self.installed.configurations();
        let group = "admissionregistration.k8s.io";
        let mut rules = vec![
            of(group, "validatingwebhookconfigurations", &[validating]),
            // Whether a Service exists that a configuration names; another version may have named any.
            rule("", &["services"], &["get"]),
        ];
        if self.installed.has_defaults {
            rules.insert(0, of(group, "mutatingwebhookconfigurations", &[mutating]));
        }
        // Those that another version has left behind may have any name.
        let all = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        rules.push(rule(group, &all, &["list"]));
        let (group, definitions) = ("apiextensions.k8s.io", "customresourcedefinitions");
        if !self.definitions.is_empty() {
            rules.push(of(group, definitions, &self.definitions));
        }
        if !self.unconverted.is_empty() {
            rules.push(seen(group, definitions, &self.unconverted, &[]));
        }
        rules
    }

    /// The permissions for the Secret, as a role in the program's namespace.
    pub fn role(&self, installation: &Installation<'_>) -> [Value; 2] {
        let name = format!("{}webhook-certificate-role", self.installed.prefix);
        let followed = PolicyRule {
            resource_names: Some(vec![self.installed.secret()]),
            ..rule("", &["secrets"], &["list", "watch", "update"])
        };
        // A create request has no resource name yet when it is authorized.
        installation.at_home(&name, vec![followed, rule("", &["secrets"], &["create"])])
    }

    /// The definitions of its kinds, which are named `PLURAL.GROUP`.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().chain(&self.unconverted).map(String::as_str)
    }

    /// The kinds of webhook configurations.
    pub(super) fn configurations() -> [ApiResource; 2] {
        [
            ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ]
    }

    /// Every object that may name one of the webhooks.
    pub(super) fn targets(&self) -> impl Iterator<Item = (ApiResource, String)> {
        let [mutating, validating] = self.installed.configurations();
        let [of_mutating, of_validating] = Self::configurations();
        let mutating = self.installed.has_defaults.then_some((of_mutating, mutating));
        let configurations = mutating.into_iter().chain([(of_validating, validating)]);
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        let definitions = self.kinds().map(move |name| (definition.clone(), name.to_owned()));
        configurations.chain(definitions)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use clap::Parser;
    use jiff::SignedDuration;
    use metal3_testkit::played;

    use super::*;
    use crate::args::TlsArgs;
    use crate::mock;
    use crate::timing::webhooks::TRUSTED_WITHIN;
    use crate::tls::Policy;

    #[test]
    fn the_time_of_day_is_looked_at_while_a_renewal_is_far_away() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |seconds| Some(now + SignedDuration::from_secs(seconds));
        assert_eq!(until(at(10), now), Duration::from_secs(10));
        assert_eq!(until(at(10_000_000), now), RENEWAL);
        assert_eq!(until(at(-10), now), RENEWAL);
        assert_eq!(until(None, now), RENEWAL);
    }

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        tls: TlsArgs,
    }

    fn keeper(client: Client, clock: Clock) -> (Keeper, watch::Sender<Option<Offer>>) {
        let (trusting, trusted) = watch::channel(None);
        let installed = Installed {
            namespace: "n",
            prefix: "p-",
            label: ("a", "b"),
            validating: "validation.",
            has_defaults: true,
        };
        let keeper = Keeper {
            client,
            clock,
            leads: watch::channel(true).1,
            of: SelfManaged {
                installed,
                namespace: "n".to_owned(),
                definitions: Vec::new(),
                unconverted: Vec::new(),
            },
            offer: watch::channel(None).0,
            trusted,
        };
        (keeper, trusting)
    }

    fn served() -> Certificate {
        rustls::crypto::ring::default_provider().install_default().ok();
        let policy = Policy::from_args(&Flags::parse_from(["test"]).tls).unwrap();
        Certificate::load(policy, "/does/not/exist".as_ref()).unwrap()
    }

    // OWN 30wg: a new authority signed after a day, whether or not the API server could be made to trust it.
    #[tokio::test(start_paused = true)]
    async fn a_new_authority_signs_only_when_it_is_trusted() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let days = |days: i64| Duration::from_secs(u64::try_from(days * 24 * 3600).unwrap());
        let clock = Clock::manual(start);
        let (client, requests) = mock::echo();
        let (mut keeper, trusting) = keeper(client.clone(), clock.clone());
        let secrets: Api<Secret> = Api::namespaced(client, "n");
        let (mut stored, mut served) = (None, served());
        let writes = || requests.lock().len();
        let bundle = |stored: &Option<Secret>| Held::read(stored.as_ref()?.data.as_ref()?).map(|held| held.bundle);
        // The first authority, its last certificate, and the second authority.
        for later in [0, 3000, 0] {
            clock.advance(days(later));
            keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        }
        assert_eq!(writes(), 3);
        clock.advance(days(1));
        let offer = |authorities| Offer {
            authorities,
            chain: Vec::new(),
        };
        let offered = |keeper: &Keeper| keeper.offer.borrow().as_ref()?.authorities.clone();
        for trusted in [None, Some("the first".to_owned())] {
            trusting.send_replace(trusted.map(|trusted| offer(Some(trusted))));
            let waiting = keeper.pass(&secrets, &mut stored, &mut served).await;
            assert!(matches!(waiting, Err(KeepError::NotTrusted)), "{waiting:?}");
            assert_eq!((writes(), offered(&keeper)), (3, bundle(&stored)), "it is offered");
        }
        trusting.send_replace(Some(offer(bundle(&stored))));
        keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        assert_eq!(writes(), 4);
        // A certificate that has expired is of no use to anybody.
        trusting.send_replace(None);
        clock.advance(days(3001));
        keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        assert_eq!(writes(), 5);
    }

    // OWN 31sh: a replica that did not lead had no certificate until one led that makes them: while it replaced one with files,
    // nothing trusted it.
    #[tokio::test(start_paused = true)]
    async fn a_replica_that_does_not_lead_creates_the_secret_and_renews_nothing() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::manual(start);
        let (client, requests) = mock::echo();
        let (mut keeper, _trusting) = keeper(client.clone(), clock.clone());
        keeper.leads = watch::channel(false).1;
        let secrets: Api<Secret> = Api::namespaced(client, "n");
        let (mut stored, mut served) = (None, served());
        let writes = || requests.lock().len();
        keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        assert_eq!(writes(), 1);
        assert!(keeper.offer.borrow().is_some());
        // A renewal that is due is the leader's.
        clock.advance(Duration::from_secs(300 * 24 * 3600));
        keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        assert_eq!(writes(), 1);
        // What has expired is of no use to anybody.
        clock.advance(Duration::from_secs(100 * 24 * 3600));
        keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        assert_eq!(writes(), 2);
    }

    // OWN 31sm: after its Secret was lost, a replica served a certificate that nothing trusted yet.
    #[tokio::test(start_paused = true)]
    async fn a_certificate_of_another_authority_is_served_when_it_is_trusted() {
        let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let (client, _requests) = mock::echo();
        let (mut keeper, trusting) = keeper(client.clone(), clock);
        let secrets: Api<Secret> = Api::namespaced(client, "n");
        let mut served = served();
        keeper.pass(&secrets, &mut None, &mut served).await.unwrap();
        trusting.send_replace(keeper.offer.borrow().clone());
        let (config, mut offer) = (served.server_config(), keeper.offer.subscribe());
        let old = config.get_inner();
        let watched = async {
            offer.changed().await.unwrap();
            tokio::time::sleep(TRUSTED_WITHIN / 2).await;
            assert!(Arc::ptr_eq(&old, &config.get_inner()), "nothing trusts the other yet");
            trusting.send_replace(offer.borrow().clone());
        };
        let mut stored = None;
        let (passed, ()) = tokio::join!(keeper.pass(&secrets, &mut stored, &mut served), watched);
        passed.unwrap();
        assert!(!Arc::ptr_eq(&old, &config.get_inner()));

        // It may have no right to write what is trusted.
        let (new, mut stored) = (config.get_inner(), None);
        keeper.pass(&secrets, &mut stored, &mut served).await.unwrap();
        assert!(!Arc::ptr_eq(&new, &config.get_inner()));
    }

    // OWN 30e: a keeper heeded the end of the process only between two rounds.
    #[tokio::test]
    async fn a_server_that_does_not_answer_does_not_delay_the_end() {
        let (asked, is_asked) = watch::channel(false);
        let client = played::client("default", move |_| {
            asked.send_replace(true);
            std::future::pending()
        });
        let (keeper, _trusting) = keeper(client, Clock::system());
        let served = served();
        let stop = CancellationToken::new();
        let mut is_asked = is_asked;
        let ends = async {
            is_asked.wait_for(|asked| *asked).await.unwrap();
            stop.cancel();
        };
        tokio::join!(keeper.run(served, stop.clone()), ends);
    }
}
