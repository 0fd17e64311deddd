//! What all passes over hosts share.

use std::collections::HashSet;
use std::sync::Arc;

use kube::Client;
use metal3_api::metal3::BareMetalHost;
use metal3_ironic::Link;
use metal3_runtime::Clock;
use metal3_runtime::events::Recorder;
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use metal3_runtime::store::{Awaited, ObjectKey, Store};
use parking_lot::RwLock;

use super::bmc_names::BmcNames;
use super::companions::Companions;
use super::config_drive::Room;
use super::memory::Memories;
use super::rights::Rights;
use super::{cached, held, secret_marks, waits};
use crate::fleet::Fleet;
use crate::metrics::HostMetrics;
use crate::settings::HostSettings;

/// The clients, caches and settings of the host controller.
pub struct Context {
    /// The Kubernetes API.
    pub kube: Client,
    /// Ironic.
    pub ironic: Link,
    /// The nodes as Ironic last listed them.
    pub fleet: Fleet,
    /// The hosts, and which of them use which Secrets: see [`held::used`].
    pub hosts: Store<BareMetalHost, SecretKey>,
    /// The namespaces whose hosts were listed once; `None` stands for the whole cluster.
    listed: RwLock<HashSet<Option<String>>>,
    /// Called when a namespace, or the cluster, was listed.
    at_list: RwLock<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Reached when the hosts of all watched namespaces were listed once.
    pub all_hosts: Awaited,
    /// The current versions of referenced Secrets.
    pub secrets: SecretVersions<ObjectKey>,
    /// The cached companion objects of hosts.
    pub companions: Companions,
    /// The resolved host names of BMCs.
    pub bmc_names: BmcNames,
    /// Events.
    pub recorder: Recorder,
    /// Time.
    pub clock: Clock,
    /// Settings that decisions depend on.
    pub settings: Arc<HostSettings>,
    /// Metrics.
    pub metrics: HostMetrics,
    /// The memory of each host.
    pub memory: Memories,
    /// The operator's own permissions.
    pub rights: Rights,
    /// The memory for config drives.
    pub drives: Room,
}

impl Context {
    /// A context with empty caches.
    pub fn new(
        kube: Client,
        ironic: Link,
        fleet: Fleet,
        recorder: Recorder,
        settings: HostSettings,
        metrics: HostMetrics,
        clock: Clock,
    ) -> Self {
        Self {
            kube,
            ironic,
            fleet,
            hosts: Store::reduced(held::used, cached::trim),
            listed: RwLock::default(),
            at_list: RwLock::default(),
            all_hosts: Awaited::default(),
            secrets: SecretVersions::marked_by(secret_marks::is_held),
            companions: Companions::default(),
            bmc_names: BmcNames::default(),
            recorder,
            clock,
            settings: Arc::new(settings),
            metrics,
            memory: Memories::default(),
            rights: Rights::default(),
            drives: Room::default(),
        }
    }

    /// Records that all hosts of this namespace, or of the cluster, are in the store. Returns true the first time.
    pub fn hosts_listed(&self, namespace: Option<&str>) -> bool {
        let is_first = self.listed.write().insert(namespace.map(str::to_owned));
        if is_first {
            self.at_list.read().iter().for_each(|listener| listener());
        }
        is_first
    }

    /// Calls `listener` whenever the hosts of a namespace have been listed for the first time: until then it is not known
    /// whether an object's host is gone.
    pub fn at_list(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.at_list.write().push(Box::new(listener));
    }

    /// Whether a host that is not in the store is gone.
    pub fn is_listed(&self, host: &ObjectKey) -> bool {
        let listed = self.listed.read();
        listed
            .iter()
            .any(|namespace| namespace.as_ref().is_none_or(|name| *name == host.namespace))
    }

    /// Drops everything that is kept of a host that is gone.
    pub fn forget(&self, host: &ObjectKey) {
        if let Some(wait) = self.memory.forget(host) {
            waits::ended(self, host, wait);
        }
        self.fleet.forget(host);
        self.secrets.remove_owner(host);
        self.metrics.forget(host);
    }
}

/// A context with this many slots, whose API server and Ironic are unreachable, and its metrics registry.
#[cfg(test)]
pub(crate) fn out_of_reach(slots: usize) -> (Context, metal3_runtime::metrics::Registry) {
    use metal3_runtime::events::Reporter;
    use metal3_runtime::metrics::{Build, Registry};

    use crate::metrics::Catalogue;

    rustls::crypto::ring::default_provider().install_default().ok();
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let kube = kube::Client::try_from(nowhere).unwrap();
    let ironic = metal3_ironic::ClientConfig::new("http://127.0.0.1:1".parse().unwrap());
    let registry = Registry::new(Build {
        component: "test",
        version: "1",
    });
    let clock = Clock::system();
    let reporter = Reporter {
        component: "test",
        controller: "metal3.io/test",
    };
    let ctx = Context::new(
        kube.clone(),
        Link::to(metal3_ironic::Client::new(ironic).unwrap()),
        Fleet::new(slots).0,
        Recorder::new(kube, reporter, clock.clone()),
        HostSettings::default(),
        HostMetrics::new(&mut Catalogue::new(&registry), clock.clone(), false),
        clock,
    );
    (ctx, registry)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::fleet::Turn;
    use crate::host::observed::Memory;
    use crate::host::observed::Observed;

    #[tokio::test]
    async fn a_host_that_goes_without_us_leaves_nothing_behind() {
        let (ctx, registry) = out_of_reach(0);
        let key = ObjectKey::new("n", "h");
        let host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h", "namespace": "n"},
            "spec": {"online": true},
            "status": {"operationalStatus": "OK", "errorMessage": "", "poweredOn": false,
                "provisioning": {"state": "available", "ID": "u"}, "conditions": [{"type": "Waiting", "status": "True",
                "reason": "Queued", "message": "", "lastTransitionTime": "2026-01-02T11:00:00Z"}]}
        }))
        .unwrap();
        ctx.metrics.see(&key, host.status.as_ref());
        ctx.fleet.ask_for_slot(&key, "u", Turn::Wanted(Timestamp::UNIX_EPOCH));
        ctx.memory.begin(&key);
        let mut seen = Observed::new(host, ctx.settings.clone());
        seen.memory.is_untried = true;
        ctx.memory.end(&key, &seen, 1, None);
        let count = |series: &str, number: u8| {
            let text = registry.text().unwrap();
            assert!(
                text.contains(&format!("{series} {number}\n")),
                "{series} {number}:\n{text}"
            );
        };
        let series = [
            r#"metal3_hosts{state="available"}"#,
            r#"metal3_hosts_waiting{reason="Queued"}"#,
        ];
        for series in series {
            count(series, 1);
        }

        ctx.forget(&key);
        for series in series {
            count(series, 0);
        }
        assert_eq!(ctx.fleet.occupancy()[2], 0, "nobody waits for a slot");
        let begin = ctx.memory.begin(&key);
        assert_eq!((begin.memory, begin.failures), (Memory::default(), 0));
    }
}
