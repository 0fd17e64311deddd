//! How many bytes a watched object takes in a store: `cargo xtask bench sizes`.
//!
//! Objects are read from JSON as a watch reads them and put into kube's store. What is counted is what the program has
//! asked of the allocator and not given back, so the map of the store, its keys and the reference counters are in it;
//! what the allocator loses by rounding is not.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made has no other use")]

mod managed;
mod objects;

use std::alloc::System;
use std::fmt::Debug;

use cap::Cap;
use kube::Resource;
use kube::runtime::{reflector, watcher::Event};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3Machine};
use metal3_api::ipam::IPAddress;
use metal3_api::metal3::{BareMetalHost, HardwareData, HostFirmwareSettings};
use metal3_runtime::cache;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// So many of each, for the store's map to weigh what it weighs in earnest.
const OBJECTS: usize = 500;

/// The settings of a large fleet.
const MANY: usize = 10_000;

/// Bytes for each object in a store of these, or 0 where none is kept.
fn stored<K, T: AsRef<[u8]>>(texts: impl Iterator<Item = T>, keep: impl Fn(&mut K)) -> usize
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let before = ALLOCATOR.allocated();
    let (store, mut writer) = reflector::store::<K>();
    writer.apply_watcher_event(&Event::Init);
    for text in texts {
        let mut object: K = serde_json::from_slice(text.as_ref()).unwrap();
        keep(&mut object);
        writer.apply_watcher_event(&Event::InitApply(object));
    }
    writer.apply_watcher_event(&Event::InitDone);
    let bytes = ALLOCATOR.allocated() - before;
    bytes / store.len()
}

/// Prints one line: an object as JSON, as it would be kept whole, and as it is kept.
fn line<K>(what: &str, keep: impl Fn(&mut K), make: impl Fn(usize) -> Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let texts: Vec<_> = (0..OBJECTS).map(|n| serde_json::to_vec(&make(n)).unwrap()).collect();
    let json = texts.iter().map(Vec::len).sum::<usize>() / texts.len();
    let whole = stored::<K, _>(texts.iter(), |_| {});
    let kept = stored::<K, _>(texts.iter(), keep);
    println!("{what:<44}{json:>9}{whole:>9}{kept:>9}{:>8} %", kept * 100 / whole);
}

/// As the baremetal-operator keeps its hosts.
fn trim_host(host: &mut BareMetalHost) {
    cache::trim(host);
    if let Some(hardware) = host.status.as_mut().and_then(|status| status.hardware.as_mut()) {
        **hardware = hardware.outline();
    }
}

/// As the infrastructure provider keeps its hosts.
fn trim_candidate(host: &mut BareMetalHost) {
    cache::trim(host);
    if let Some(hardware) = host.status.as_mut().and_then(|status| status.hardware.as_mut()) {
        **hardware = hardware.reachability(32);
    }
}

/// A digest as the baremetal-operator makes them.
const DIGEST: &str = "0123456789abcdef";

/// As the baremetal-operator keeps settings: one entry with the digest of all.
fn trim_settings(settings: &mut HostFirmwareSettings) {
    cache::trim(settings);
    if !settings.spec.settings.is_empty() {
        settings.spec.settings = [(String::new(), DIGEST.into())].into();
    }
    if let Some(status) = &mut settings.status {
        status.settings = [(String::new(), DIGEST.into())].into();
    }
}

fn main() {
    println!(
        "{:<44}{:>9}{:>9}{:>9}{:>10}",
        "bytes per object", "JSON", "whole", "kept", "kept"
    );
    line("BareMetalHost, registered only", trim_host, objects::new_host);
    line("BareMetalHost, 4 NICs, 2 disks", trim_host, |n| objects::host(n, 4, 2));
    line("BareMetalHost, 200 NICs, 200 disks", trim_host, |n| {
        objects::host(n, 200, 200)
    });
    line("the same for machines, 4 NICs, 2 disks", trim_candidate, |n| {
        objects::host(n, 4, 2)
    });
    line("the same for machines, 200 NICs, 200 disks", trim_candidate, |n| {
        objects::host(n, 200, 200)
    });
    let trim_data = cache::trim::<HardwareData>;
    line("HardwareData, 4 NICs, 2 disks", trim_data, |n| {
        objects::hardware_data(n, 4, 2)
    });
    line("HardwareData, 200 NICs, 200 disks", trim_data, |n| {
        objects::hardware_data(n, 200, 200)
    });
    line("HostFirmwareSettings, 150 of one model", trim_settings, |n| {
        objects::firmware_settings(n, 150)
    });
    line("Metal3Machine", cache::trim::<Metal3Machine>, objects::metal3_machine);
    line("Metal3Data", cache::trim::<Metal3Data>, objects::metal3_data);
    line("IPAddress", cache::trim::<IPAddress>, objects::ip_address);
    let mut settings = objects::firmware_settings(0, 150);
    let many = (0..MANY).map(|n| {
        settings["metadata"]["name"] = format!("node-{n}").into();
        serde_json::to_vec(&settings).unwrap()
    });
    let kept = stored::<HostFirmwareSettings, _>(many, trim_settings);
    println!(
        "{MANY} HostFirmwareSettings of 150 settings, of one model: {kept} bytes each, {} KiB in all",
        kept * MANY / 1024
    );
    println!("HardwareData is read when it is needed; no store keeps it.");
}
