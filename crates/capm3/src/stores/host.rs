//! By what hosts are found, and what is kept of them.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use metal3_api::infra::names::label;
use metal3_api::metal3::{BareMetalHost, HardwareDetails};
use metal3_runtime::backoff::{hash, mixed};
use metal3_runtime::cache;
use metal3_runtime::store::ObjectKey;

use crate::select;
use crate::stores::remediation::requested_by;

/// The status of a machine has room for so many addresses.
pub const MOST_ADDRESSES: usize = 32;

/// What a host is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostBy {
    /// Its namespace.
    Namespace(String),
    /// Its UID, which nodes carry as a label.
    Uid(String),
    /// Its host name, as its inspection found it.
    Hostname(String),
    /// The UID of a Metal3Remediation that keeps it switched off.
    Remediation(String),
    /// The Metal3Machine that uses it.
    Consumer(ObjectKey),
    /// The Cluster for whose machines it is kept.
    Keeper(ObjectKey),
    /// Free in this namespace: available, used by nobody and kept for nobody. The number is that of a part, of [`PARTS`].
    Free(String, u64),
    /// The same with this label: namespace, key, value and part.
    FreeWith(String, String, String, u64),
    /// Kept in this namespace for the machines of the control plane or deployment that the value of its label names.
    Kept(String, String),
}

/// Free hosts are found in so many parts of about the same size: whoever needs one host does not look at all.
pub const PARTS: u64 = 64;

/// Names that differ in one digit are spread over the parts, too.
fn part_of(name: &str) -> u64 {
    mixed(hash(name)) % PARTS
}

impl HostBy {
    /// A part of the free hosts of a namespace, of those with this label if there is one.
    pub fn free(namespace: &str, with: Option<(&str, &str)>, part: u64) -> Self {
        with.map_or_else(
            || Self::Free(namespace.to_owned(), part),
            |(key, value)| Self::FreeWith(namespace.to_owned(), key.to_owned(), value.to_owned(), part),
        )
    }
}

pub(super) fn keys_of(host: &BareMetalHost) -> Vec<HostBy> {
    let namespace = host.namespace().unwrap_or_default();
    let mut keys = vec![HostBy::Namespace(namespace.clone())];
    keys.extend(host.uid().map(HostBy::Uid));
    let hardware = host.status.as_ref().and_then(|status| status.hardware.as_ref());
    let hostname = hardware.map(|hardware| hardware.hostname.clone());
    keys.extend(hostname.filter(|name| !name.is_empty()).map(HostBy::Hostname));
    keys.extend(requested_by(host).map(|uid| HostBy::Remediation(uid.to_owned())));
    keys.extend(select::consumer_of(host).map(HostBy::Consumer));
    keys.extend(select::keeper_of(host).map(HostBy::Keeper));
    if let Some(kept_for) = host.labels().get(label::NODE_REUSE) {
        keys.push(HostBy::Kept(namespace, kept_for.clone()));
    } else if host.consumer().is_none() && host.is_available() {
        let part = part_of(&host.name_any());
        let labels = host.labels().iter();
        keys.extend(labels.map(|(key, value)| HostBy::free(&namespace, Some((key, value)), part)));
        keys.push(HostBy::free(&namespace, None, part));
    }
    keys
}

/// What data is rendered from is read when it is: once for each machine.
pub(super) fn reduce(host: &mut BareMetalHost) {
    if let Some(hardware) = host.status.as_mut().and_then(|status| status.hardware.as_mut()) {
        **hardware = hardware.reachability(MOST_ADDRESSES);
    }
}

/// Hosts as they were claimed, with their network interfaces: the answer to the claim has shown all that data is rendered
/// from, which then need not be read. Each serves once, and only the last few are kept. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct ClaimedHosts(Arc<Mutex<VecDeque<(Duration, BareMetalHost)>>>);

/// So many are kept: data is rendered within a second of the claim, even where many machines come at once.
const MOST_CLAIMED: usize = 256;
/// After this the host is read: a watch that stands still would not show that somebody has written it.
const FRESH: Duration = Duration::from_secs(5);

impl ClaimedHosts {
    /// A host was claimed at this time of the process's clock.
    pub fn keep(&self, host: &BareMetalHost, now: Duration) {
        let mut host = host.clone();
        cache::trim(&mut host);
        if let Some(hardware) = host.status.as_mut().and_then(|status| status.hardware.as_mut()) {
            **hardware = HardwareDetails {
                nics: std::mem::take(&mut hardware.nics),
                ..HardwareDetails::default()
            };
        }
        let mut hosts = self.lock();
        if hosts.len() >= MOST_CLAIMED {
            hosts.pop_front();
        }
        hosts.push_back((now, host));
    }

    /// The host that was claimed just now, if it is still as `seen` shows it: nobody has written it since.
    pub fn take(&self, seen: &BareMetalHost, now: Duration) -> Option<BareMetalHost> {
        let of = |host: &BareMetalHost| (host.metadata.uid.clone(), host.metadata.resource_version.clone());
        let mut hosts = self.lock();
        let at = hosts
            .iter()
            .position(|(_, host)| host.metadata.resource_version.is_some() && of(host) == of(seen))?;
        let (claimed, host) = hosts.remove(at)?;
        (now.saturating_sub(claimed) <= FRESH).then_some(host)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Duration, BareMetalHost)>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn keys(metadata: &Value, spec: &Value, state: &str) -> Vec<HostBy> {
        let mut host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": metadata, "spec": spec,
            "status": {"provisioning": {"state": state, "ID": ""}},
        }))
        .unwrap();
        host.metadata.namespace = Some("ns".to_owned());
        keys_of(&host)
    }

    #[test]
    fn hosts_are_found_by_what_makes_them_candidates() {
        let all = HostBy::Namespace("ns".to_owned());
        let part = part_of("");
        let free = [
            all.clone(),
            HostBy::free("ns", Some(("rack", "a")), part),
            HostBy::free("ns", None, part),
        ];
        let labels = json!({"labels": {"rack": "a"}});
        assert_eq!(keys(&labels, &json!({}), "available"), free);
        assert_eq!(keys(&labels, &json!({"consumerRef": {}}), "ready"), free);
        assert_eq!(keys(&labels, &json!({}), "inspecting"), std::slice::from_ref(&all));
        let off = json!({"annotations": {"reboot.metal3.io/metal3-remediation-r": "", "reboot.metal3.io/x": ""}});
        let by = [all.clone(), HostBy::Remediation("r".into())];
        assert_eq!(keys(&off, &json!({}), "provisioned"), by);
        let mut named: BareMetalHost =
            serde_json::from_value(json!({"metadata": {}, "spec": {}, "status": {"poweredOn": true,
            "hardware": {"hostname": "h.example"}}}))
            .unwrap();
        named.metadata.namespace = Some("ns".to_owned());
        assert_eq!(keys_of(&named), [all.clone(), HostBy::Hostname("h.example".into())]);
        let used = json!({"consumerRef": {"kind": "Metal3Machine", "name": "m",
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}});
        let consumer = HostBy::Consumer(ObjectKey::new("ns", "m"));
        assert_eq!(keys(&json!({}), &used, "available"), [all.clone(), consumer]);
        let kept = json!({"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "cp-a"}, "uid": "u"});
        let by = [all, HostBy::Uid("u".into()), HostBy::Kept("ns".into(), "cp-a".into())];
        assert_eq!(keys(&kept, &json!({}), "available"), by);
    }

    // OWN 9b: a host found its way to machines and clusters of other namespaces.
    #[test]
    fn a_host_is_found_by_its_neighbours_only() {
        for (kind, api, name) in [
            ("Metal3Machine", "infrastructure.cluster.x-k8s.io/v1beta2", "m"),
            ("Cluster", "cluster.x-k8s.io/v1beta2", "c"),
        ] {
            let reference =
                |namespace: &str| json!({"kind": kind, "name": name, "namespace": namespace, "apiVersion": api});
            for (namespace, is_found) in [("ns", true), ("", true), ("other", false)] {
                let keys = keys(&json!({}), &json!({"consumerRef": reference(namespace)}), "available");
                let found = keys
                    .iter()
                    .any(|key| matches!(key, HostBy::Consumer(_) | HostBy::Keeper(_)));
                assert_eq!(found, is_found, "{kind} in {namespace:?}");
                let is_free = keys.iter().any(|key| matches!(key, HostBy::Free(..)));
                assert!(!is_free, "a host that somebody uses is free for nobody");
            }
        }
    }

    #[test]
    fn of_a_hosts_hardware_its_name_and_addresses_are_kept() {
        let nic = |name: &str, ip: &str| json!({"name": name, "mac": "52:54:00:00:00:01", "model": "m", "ip": ip, "pxe": true});
        let hardware = json!({"hostname": "h", "ramMebibytes": 4096, "cpu": {"arch": "x86_64"},
            "nics": [nic("a", "192.0.2.1"), nic("b", ""), nic("a", "2001:db8::1"), nic("c", "192.0.2.1")]});
        let mut host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h"}, "spec": {},
            "status": {"poweredOn": true, "hardware": hardware},
        }))
        .unwrap();
        reduce(&mut host);
        let status = host.status.unwrap();
        let kept = json!({"hostname": "h", "nics": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(serde_json::to_value(&status.hardware).unwrap(), kept);
        assert!(status.powered_on);
    }

    #[test]
    fn a_host_that_was_claimed_serves_once_and_only_as_it_was() {
        let host = |version: &str| -> BareMetalHost {
            let hardware = json!({"hostname": "h", "nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]});
            serde_json::from_value(
                json!({"metadata": {"name": "h", "uid": "u", "resourceVersion": version}, "spec": {},
                "status": {"poweredOn": true, "hardware": hardware}}),
            )
            .unwrap()
        };
        let (claimed, now) = (ClaimedHosts::default(), Duration::from_secs(9));
        claimed.keep(&host("7"), now);
        assert_eq!(claimed.take(&host("8"), now), None, "somebody has written it since");
        let taken = claimed.take(&host("7"), now).unwrap();
        assert_eq!(taken.status.unwrap().hardware.unwrap().nics[0].name, "eth0");
        assert_eq!(claimed.take(&host("7"), now), None);
        for version in 0..=MOST_CLAIMED {
            claimed.keep(&host(&version.to_string()), now);
        }
        assert_eq!(claimed.take(&host("0"), now), None, "the oldest makes room");
        assert!(claimed.take(&host("1"), now).is_some());
        let later = now + FRESH + Duration::from_millis(1);
        assert_eq!(claimed.take(&host("2"), later), None, "the watch may stand still");
    }
}
