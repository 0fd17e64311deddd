//! Which machine claimed which host when, from the API server's history of the hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_testkit::TestNamespace;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{LIMIT, state};

/// Watches all hosts and Metal3Machines of a namespace, one version after the other.
#[derive(Debug)]
pub struct Claims {
    seen: watch::Receiver<Seen>,
    _watches: JoinSet<()>,
}

/// Among the wrongs: an API server has ended a watch, and what was between that and the next list is not known.
pub const GAP: &str = "a part of the history was not seen";

/// What has been seen so far.
#[derive(Clone, Default)]
pub struct Seen {
    /// The consumer of each host that has one: name and UID.
    pub consumers: BTreeMap<String, (String, String)>,
    /// Hosts that are available.
    pub available: BTreeSet<String>,
    /// Metal3Machines that are provisioned.
    pub provisioned: BTreeSet<String>,
    /// All Metal3Machines.
    pub machines: BTreeSet<String>,
    /// How many times a host without consumer got one.
    pub claims: usize,
    /// How many times a host lost its consumer.
    pub releases: usize,
    /// Hosts that were told what to run, and the consumer for which.
    pub deployed: BTreeMap<String, (String, String)>,
    /// What must never be: a host that goes from one consumer to another, a consumer with two hosts that were told what to run,
    /// and what of the history was not seen. A second host without an image is the late claim of a process that was overtaken:
    /// the next pass releases it.
    pub wrongs: Vec<String>,
    is_listed: bool,
}

impl fmt::Debug for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting: Vec<_> = self.machines.difference(&self.provisioned).collect();
        write!(
            out,
            "{} hosts available, {} claimed ({} claims, {} releases), {} machines, not provisioned of them {waiting:?}, wrong: {:?}",
            self.available.len(),
            self.consumers.len(),
            self.claims,
            self.releases,
            self.machines.len(),
            self.wrongs
        )
    }
}

impl Seen {
    /// How much has happened.
    pub fn steps(&self) -> usize {
        self.claims + self.releases + self.provisioned.len()
    }

    fn host(&mut self, event: Event<BareMetalHost>) {
        match event {
            // A first list that fails is begun again, and nothing was missed.
            Event::Init if self.is_listed => self.wrongs.push(GAP.to_owned()),
            Event::Init => {}
            Event::InitDone => self.is_listed = true,
            Event::Apply(host) | Event::InitApply(host) => self.consumer(&host),
            Event::Delete(host) => self.wrongs.push(format!("{} was deleted", host.name_any())),
        }
    }

    fn consumer(&mut self, host: &BareMetalHost) {
        let name = host.name_any();
        if state(host) == ProvisioningState::Available {
            self.available.insert(name.clone());
        } else {
            self.available.remove(&name);
        }
        let consumer = host.spec.consumer_ref.as_ref().filter(|one| !one.name.is_empty());
        let now = consumer.map(|one| (one.name.clone(), one.uid.clone()));
        match now.clone().filter(|_| host.spec.image.is_some()) {
            Some(now) => {
                let mut deployed = self.deployed.iter();
                if let Some((other, _)) = deployed.find(|(other, consumer)| **other != name && **consumer == now) {
                    self.wrongs.push(format!("{} runs on {other} and {name}", now.0));
                }
                self.deployed.insert(name.clone(), now);
            }
            None => {
                self.deployed.remove(&name);
            }
        }
        let before = match &now {
            Some(now) => self.consumers.insert(name.clone(), now.clone()),
            None => self.consumers.remove(&name),
        };
        match (before, now) {
            (None, Some(_)) => self.claims += 1,
            (Some(_), None) => self.releases += 1,
            (Some(before), Some(now)) if before != now => {
                self.wrongs
                    .push(format!("{name} went from {} to {} at once", before.0, now.0));
            }
            _ => {}
        }
    }

    fn machine(&mut self, event: Event<Metal3Machine>) {
        match event {
            Event::Init | Event::InitDone => {}
            Event::Apply(machine) | Event::InitApply(machine) => {
                let status = machine.status.as_ref();
                if status.is_some_and(|status| status.initialization.provisioned == Some(true)) {
                    self.provisioned.insert(machine.name_any());
                }
                self.machines.insert(machine.name_any());
            }
            Event::Delete(machine) => {
                self.machines.remove(&machine.name_any());
                self.provisioned.remove(&machine.name_any());
            }
        }
    }
}

impl Claims {
    /// Begins to watch.
    pub fn watch(namespace: &TestNamespace) -> Self {
        let (tell, seen) = watch::channel(Seen::default());
        let mut watches = JoinSet::new();
        let told = tell.clone();
        let hosts = watcher(namespace.api::<BareMetalHost>(), watcher::Config::default()).default_backoff();
        watches.spawn(hosts.for_each(move |event| {
            if let Ok(event) = event {
                told.send_modify(|seen| seen.host(event));
            }
            std::future::ready(())
        }));
        let machines = watcher(namespace.api::<Metal3Machine>(), watcher::Config::default()).default_backoff();
        watches.spawn(machines.for_each(move |event| {
            if let Ok(event) = event {
                tell.send_modify(|seen| seen.machine(event));
            }
            std::future::ready(())
        }));
        Self {
            seen,
            _watches: watches,
        }
    }

    /// What has been seen so far.
    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, holds: impl FnMut(&Seen) -> bool) {
        let mut seen = self.seen.clone();
        let outcome = tokio::time::timeout(LIMIT, seen.wait_for(holds)).await;
        let is_there = matches!(&outcome, Ok(Ok(_)));
        drop(outcome);
        assert!(is_there, "never {what}: {:?}", self.seen());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host(name: &str, consumer: Option<&str>) -> Event<BareMetalHost> {
        with_image(name, consumer, &json!(null))
    }

    fn with_image(name: &str, consumer: Option<&str>, image: &serde_json::Value) -> Event<BareMetalHost> {
        let consumer = consumer.map(|name| json!({"kind": "Metal3Machine", "name": name, "uid": name}));
        Event::Apply(
            serde_json::from_value(json!({
                "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
                "spec": {"online": false, "consumerRef": consumer, "image": image},
            }))
            .expect("a host"),
        )
    }

    #[test]
    fn what_must_never_be_is_noticed() {
        let mut seen = Seen::default();
        for event in [
            host("h1", Some("a")),
            host("h1", Some("a")),
            host("h1", None),
            host("h1", Some("b")),
        ] {
            seen.host(event);
        }
        assert_eq!((seen.claims, seen.releases, seen.wrongs.len()), (2, 1, 0), "{seen:?}");
        let image = json!({"url": "http://images/a"});
        seen.host(with_image("h1", Some("b"), &image));
        seen.host(host("h2", Some("b")));
        assert!(
            seen.wrongs.is_empty(),
            "a late claim is released by the next pass: {seen:?}"
        );
        seen.host(with_image("h2", Some("b"), &image));
        assert_eq!(seen.wrongs, ["b runs on h1 and h2"]);
        seen.host(host("h1", Some("c")));
        assert_eq!(seen.wrongs[1..], ["h1 went from b to c at once"]);
    }

    #[test]
    fn only_a_list_after_the_first_has_missed_something() {
        let mut seen = Seen::default();
        for event in [Event::Init, Event::Init, Event::InitDone] {
            seen.host(event);
        }
        assert!(seen.wrongs.is_empty(), "{seen:?}");
        seen.host(Event::Init);
        assert_eq!(seen.wrongs, [GAP]);
    }
}
