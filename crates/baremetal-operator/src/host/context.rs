//! What reconciliations share.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::Client;
use kube::runtime::reflector::ObjectRef;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::Clock;
use metal3_runtime::backoff::Attempts;
use metal3_runtime::events::Recorder;
use metal3_runtime::index::SharedIndex;
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::written::Written;

use super::bmc_names::BmcNames;
use super::companions::Companions;
use super::observed::Memory;
use super::quiet::Quiet;
use crate::fleet::Fleet;
use crate::host::rights::Rights;
use crate::metrics::HostMetrics;
use crate::settings::HostSettings;

/// The hands and eyes of the host controller.
pub struct Context {
    /// The Kubernetes API.
    pub kube: Client,
    /// Ironic.
    pub ironic: metal3_ironic::Link,
    /// What Ironic last listed.
    pub fleet: Fleet,
    /// Which versions of referenced Secrets exist.
    pub secrets: SecretVersions<ObjectRef<BareMetalHost>>,
    /// Which hosts use which Secrets, as the watch shows the hosts: see [`held::used`](super::held::used).
    pub secret_users: SharedIndex<BareMetalHost, SecretKey>,
    /// What is known of the objects beside the hosts.
    pub companions: Companions,
    /// What the names of BMCs stand for.
    pub bmc_names: BmcNames,
    /// Our writes that the cache may not have seen.
    pub written: Written<BareMetalHost>,
    /// Events.
    pub recorder: Recorder,
    /// Time.
    pub clock: Clock,
    /// Settings that decisions depend on.
    pub settings: Arc<HostSettings>,
    /// Figures.
    pub metrics: HostMetrics,
    /// Failures in a row, per host.
    pub attempts: Attempts<ObjectKey>,
    /// Clashes with somebody else's writes in a row, per host.
    pub conflicts: Attempts<ObjectKey>,
    /// How each host's last reconciliation left the world.
    pub quiet: Quiet,
    /// Hints that may be lost.
    pub memory: Memories,
    /// What we may do.
    pub rights: Rights,
}

/// What is remembered of hosts between reconciliations.
#[derive(Debug, Default)]
pub struct Memories(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    hosts: HashMap<ObjectKey, Memory>,
    /// Those whose ramdisk has changed since their last reconciliation began: one that is under way writes back what it
    /// knew before.
    new_ramdisks: HashSet<ObjectKey>,
}

impl Memories {
    /// What is remembered of one host, whose reconciliation begins.
    pub fn get(&self, host: &ObjectKey) -> Memory {
        let mut all = self.lock();
        if all.new_ramdisks.remove(host)
            && let Some(memory) = all.hosts.get_mut(host)
        {
            memory.ramdisk = None;
        }
        all.hosts.get(host).cloned().unwrap_or_default()
    }

    /// The ramdisk that is built for the host is another one than is remembered.
    pub fn ramdisk_changed(&self, host: &ObjectKey) {
        self.lock().new_ramdisks.insert(host.clone());
    }

    /// Remembers.
    pub fn set(&self, host: &ObjectKey, memory: Memory) {
        if memory == Memory::default() {
            self.lock().hosts.remove(host);
        } else {
            self.lock().hosts.insert(host.clone(), memory);
        }
    }

    /// The host is gone.
    pub fn forget(&self, host: &ObjectKey) {
        let mut all = self.lock();
        all.hosts.remove(host);
        all.new_ramdisks.remove(host);
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock()
    }
}

/// A context with so many slots, whose API server and Ironic nobody can reach, and what it counts.
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
    let (fleet, _woken) = Fleet::new(slots);
    let ctx = Context {
        kube: kube.clone(),
        ironic: metal3_ironic::Link::to(metal3_ironic::Client::new(ironic).unwrap()),
        fleet,
        secrets: crate::host::secret_marks::secret_versions(),
        secret_users: metal3_runtime::index::SharedIndex::default(),
        companions: crate::host::companions::Companions::default(),
        bmc_names: crate::host::bmc_names::BmcNames::default(),
        written: metal3_runtime::written::Written::default(),
        recorder: Recorder::new(
            kube,
            Reporter {
                component: "test",
                controller: "metal3.io/test",
            },
            clock.clone(),
        ),
        settings: Arc::new(HostSettings::default()),
        metrics: HostMetrics::new(&mut Catalogue::new(&registry), clock.clone(), false),
        clock,
        attempts: metal3_runtime::backoff::Attempts::default(),
        conflicts: metal3_runtime::backoff::Attempts::default(),
        quiet: crate::host::quiet::Quiet::default(),
        memory: crate::host::context::Memories::default(),
        rights: crate::host::rights::Rights::default(),
    };
    (ctx, registry)
}
