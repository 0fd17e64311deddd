//! Objects as they are in a cluster at work.

use serde_json::{Value, json};

use super::managed;

/// Feature flags of one processor of a present-day server.
const FLAGS: &str = "3dnowprefetch abm acpi adx aes amx_bf16 amx_int8 amx_tile aperfmperf apic arat arch_perfmon art avx \
    avx2 avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2 avx512_vnni avx512_vpopcntdq avx512bw avx512cd avx512dq \
    avx512f avx512ifma avx512vbmi avx512vl avx_vnni bmi1 bmi2 bts bus_lock_detect cat_l2 cat_l3 cdp_l2 cdp_l3 cldemote \
    clflush clflushopt clwb cmov constant_tsc cpuid cqm cqm_llc cqm_mbm_local cqm_mbm_total cqm_occup_llc cx16 cx8 dca \
    de ds_cpl dtes64 dtherm dts enqcmd epb ept ept_ad erms est f16c flexpriority flush_l1d fma fpu fsgsbase fsrm fxsr \
    gfni hfi ht ibpb ibrs ibrs_enhanced ibt ida intel_ppin intel_pt invpcid la57 lahf_lm lm mba mca mce md_clear mmx \
    monitor movbe movdir64b movdiri msr mtrr nonstop_tsc nopl nx ospke pae pat pbe pcid pclmulqdq pdcm pdpe1gb pebs pge \
    pku pln pni popcnt pse pse36 pts rdpid rdrand rdseed rdt_a rdtscp rep_good sdbg sep serialize sha_ni smap smep smx \
    split_lock_detect ss ssbd sse sse2 sse4_1 sse4_2 ssse3 stibp syscall tm tm2 tme tpr_shadow tsc \
    tsc_deadline_timer tsc_known_freq tsxldtrk umip user_shstk vaes vme vmx vnmi vpclmulqdq vpid waitpkg wbnoinvd \
    x2apic xgetbv1 xsave xsavec xsaveopt xsaves xtopology xtpr";

fn metadata(name: &str, n: usize) -> Value {
    json!({
        "name": name,
        "namespace": "metal3",
        "uid": format!("4d1f9d6c-3df0-4e4c-8c3e-{n:012x}"),
        "resourceVersion": format!("{}", 100_000 + n),
        "generation": 4,
        "creationTimestamp": "2026-02-03T04:05:06Z",
    })
}

fn owner(kind: &str, name: &str, n: usize) -> Value {
    json!([{
        "apiVersion": "metal3.io/v1alpha1", "kind": kind, "name": name, "uid": format!("4d1f9d6c-3df0-4e4c-8c3e-{n:012x}"),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

fn hardware(n: usize, nics: usize, disks: usize) -> Value {
    let nics: Vec<_> = (0..nics)
        .map(|i| {
            json!({
                "name": format!("ens{i}f0np0"),
                "model": "0x8086 0x1593",
                "mac": format!("52:54:{:02x}:{:02x}:{:02x}:{:02x}", n >> 8 & 255, n & 255, i >> 8, i & 255),
                "ip": format!("192.0.2.{}", i % 250),
                "speedGbps": 25,
                "pciAddress": format!("0000:{:02x}:00.0", i & 255),
                "pxe": i == 0,
                "lldp": { "switchID": "02:00:00:00:00:01", "portID": format!("Ethernet1/{i}"), "switchSystemName": "leaf-1" },
            })
        })
        .collect();
    let storage: Vec<_> = (0..disks)
        .map(|i| {
            let path = format!("/dev/disk/by-path/pci-0000:{i:02x}:00.0-nvme-1");
            json!({
                "name": path,
                "alternateNames": [format!("/dev/nvme{i}n1"), path],
                "type": "NVME",
                "sizeBytes": 1_920_383_410_176_i64,
                "model": "SAMSUNG MZQL21T9HCJR-00A07",
                "serialNumber": format!("S64GNE0R{i:06}"),
                "wwn": format!("eui.36344730526{i:05}0025385300000001"),
            })
        })
        .collect();
    json!({
        "systemVendor": { "manufacturer": "Dell Inc.", "productName": "PowerEdge R760 (SKU=0A6B;ModelName=PowerEdge R760)", "serialNumber": format!("ABC{n:04}") },
        "firmware": { "bios": { "date": "01/29/2025", "vendor": "Dell Inc.", "version": "2.22.2" } },
        "ramMebibytes": 524_288,
        "hostname": format!("node-{n}.rack-1.example"),
        "cpu": { "arch": "x86_64", "model": "Intel(R) Xeon(R) Gold 6438Y+", "clockMegahertz": 4000, "count": 128,
                 "flags": FLAGS.split(' ').collect::<Vec<_>>() },
        "nics": nics,
        "storage": storage,
    })
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": 4,
        "lastTransitionTime": "2026-02-03T04:05:06Z",
    })
}

/// A host that was only just made known.
pub fn new_host(n: usize) -> Value {
    let mut metadata = metadata(&format!("node-{n}"), n);
    metadata["finalizers"] = json!(["baremetalhost.metal3.io"]);
    managed::record(json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": metadata,
        "spec": {
            "online": true,
            "automatedCleaningMode": "metadata",
            "bmc": { "address": format!("redfish-virtualmedia://192.0.2.{}/redfish/v1/Systems/System.Embedded.1", n % 250), "credentialsName": format!("node-{n}-bmc") },
            "bootMACAddress": format!("52:54:00:00:{:02x}:{:02x}", n >> 8, n & 255),
            "bootMode": "UEFI",
        },
        "status": {
            "operationalStatus": "OK", "errorMessage": "", "errorCount": 0, "provisioningFailCount": 0, "poweredOn": false,
            "lastUpdated": "2026-02-03T04:05:06Z",
            "provisioning": { "state": "registering", "ID": "", "bootMode": "UEFI" },
            "operationHistory": { "register": { "start": "2026-02-03T04:05:06Z" } },
        },
    }))
}

/// A host that runs what its consumer wants.
pub fn host(n: usize, nics: usize, disks: usize) -> Value {
    let mut host = new_host(n);
    let image = json!({
        "url": "http://images.example/ubuntu-24.04-kube-v1.36.0.qcow2",
        "checksum": "http://images.example/ubuntu-24.04-kube-v1.36.0.qcow2.sha256", "checksumType": "sha256", "format": "qcow2",
    });
    let spec = json!({
        "image": image,
        "architecture": "x86_64",
        "rootDeviceHints": { "wwn": "eui.36344730526000010025385300000001" },
        "consumerRef": { "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine", "name": format!("worker-{n}"), "namespace": "metal3" },
        "userData": { "name": format!("worker-{n}-user-data"), "namespace": "metal3" },
        "metaData": { "name": format!("worker-{n}-metadata"), "namespace": "metal3" },
        "networkData": { "name": format!("worker-{n}-networkdata"), "namespace": "metal3" },
    });
    let credentials = json!({ "credentials": { "name": format!("node-{n}-bmc"), "namespace": "metal3" }, "credentialsVersion": "4711" });
    let operation = json!({ "start": "2026-02-03T04:05:06Z", "end": "2026-02-03T04:15:06Z" });
    let status = json!({
        "poweredOn": true,
        "hardware": hardware(n, nics, disks),
        "hardwareProfile": "unknown",
        "goodCredentials": credentials,
        "triedCredentials": credentials,
        "operationHistory": { "register": operation, "inspect": operation, "provision": operation },
        "provisioning": { "state": "provisioned", "ID": format!("0e3c9a8b-5c5e-4c34-9c2b-{n:012x}"), "bootMode": "UEFI", "image": image,
                          "rootDeviceHints": { "wwn": "eui.36344730526000010025385300000001" } },
        "conditions": [
            condition("Ready", "True", "Provisioned"),
            condition("AvailableForProvisioning", "False", "NotAvailable"),
            condition("Healthy", "True", "Healthy"),
            condition("Manageable", "True", "Manageable"),
            condition("Progressing", "False", "NotProgressing"),
            condition("Provisioned", "True", "Provisioned"),
            condition("Waiting", "False", "NotWaiting"),
        ],
    });
    for (part, more) in [("spec", spec), ("status", status)] {
        for (key, value) in more.as_object().into_iter().flatten() {
            host[part][key] = value.clone();
        }
    }
    host["metadata"]["labels"] = json!({ "cluster.x-k8s.io/cluster-name": "c", "rack": "1" });
    managed::record(host)
}

/// The inventory of a host.
pub fn hardware_data(n: usize, nics: usize, disks: usize) -> Value {
    let name = format!("node-{n}");
    let mut metadata = metadata(&name, n);
    metadata["finalizers"] = json!(["baremetalhost.metal3.io/hardwareData"]);
    metadata["ownerReferences"] = owner("BareMetalHost", &name, n);
    managed::made(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HardwareData", "metadata": metadata, "spec": { "hardware": hardware(n, nics, disks) },
    }))
}

/// An address that a machine has.
pub fn ip_address(n: usize) -> Value {
    let address = format!("10.0.{}.{}", n >> 8, n & 255);
    let mut metadata = metadata(&format!("provisioning-{}", address.replace('.', "-")), n);
    metadata["finalizers"] = json!(["ipaddress.ipam.metal3.io"]);
    metadata["ownerReferences"] = owner("IPPool", "provisioning", 1);
    metadata["labels"] = json!({ "cluster.x-k8s.io/cluster-name": "c" });
    managed::made(json!({
        "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPAddress", "metadata": metadata,
        "spec": {
            "address": address, "gateway": "10.0.0.1", "prefix": 16, "dnsServers": ["10.0.0.53"],
            "claim": { "name": format!("worker-{n}-provisioning"), "namespace": "metal3" },
            "pool": { "name": "provisioning", "namespace": "metal3" },
        },
    }))
}

/// A machine whose node has joined its cluster.
pub fn metal3_machine(n: usize) -> Value {
    let name = format!("worker-{n}");
    let mut metadata = metadata(&name, n);
    metadata["finalizers"] = json!(["metal3machine.infrastructure.cluster.x-k8s.io"]);
    metadata["ownerReferences"] = owner("Machine", &name, n);
    metadata["labels"] = json!({
        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "workers",
        "cluster.x-k8s.io/set-name": "workers-7c9d8", "machine-template-hash": "1234567890-7c9d8",
    });
    metadata["annotations"] = json!({
        "metal3.io/BareMetalHost": format!("metal3/node-{n}"),
        "cluster.x-k8s.io/cloned-from-groupkind": "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io",
        "cluster.x-k8s.io/cloned-from-name": "workers",
    });
    managed::made(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine", "metadata": metadata,
        "spec": {
            "providerID": format!("metal3://metal3/node-{n}/{name}"),
            "automatedCleaningMode": "metadata",
            "image": {
                "url": "http://images.example/ubuntu-24.04-kube-v1.36.0.qcow2",
                "checksum": "http://images.example/ubuntu-24.04-kube-v1.36.0.qcow2.sha256", "checksumType": "sha256", "diskFormat": "qcow2",
            },
            "dataTemplate": { "name": "workers", "namespace": "metal3" },
            "hostSelector": { "matchLabels": { "rack": "1" } },
        },
        "status": {
            "lastUpdated": "2026-02-03T04:05:06Z",
            "initialization": { "provisioned": true },
            "userData": { "name": format!("{name}-user-data"), "namespace": "metal3" },
            "metaData": { "name": format!("{name}-metadata"), "namespace": "metal3" },
            "networkData": { "name": format!("{name}-networkdata"), "namespace": "metal3" },
            "renderedData": { "name": name, "namespace": "metal3" },
            "addresses": [
                { "type": "InternalIP", "address": format!("10.0.{}.{}", n >> 8, n & 255) },
                { "type": "Hostname", "address": format!("node-{n}") },
                { "type": "InternalDNS", "address": format!("node-{n}") },
            ],
            "conditions": [
                condition("Ready", "True", "Ready"),
                condition("AssociateBareMetalHost", "True", "AssociateBareMetalHostSuccess"),
                condition("AssociateMetal3MachineMetaData", "True", "AssociateMetal3MachineMetaDataSuccess"),
                condition("Metal3DataReady", "True", "Metal3DataSecretsReady"),
                condition("Paused", "False", "NotPaused"),
            ],
        },
    }))
}

/// The rendered data of a machine.
pub fn metal3_data(n: usize) -> Value {
    let name = format!("workers-{n}");
    let mut metadata = metadata(&name, n);
    metadata["finalizers"] = json!(["metal3data.infrastructure.cluster.x-k8s.io"]);
    metadata["ownerReferences"] = owner("Metal3DataTemplate", "workers", 1);
    metadata["labels"] = json!({ "cluster.x-k8s.io/cluster-name": "c" });
    managed::made(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data", "metadata": metadata,
        "spec": {
            "index": n,
            "claim": { "name": format!("worker-{n}"), "namespace": "metal3" },
            "template": { "name": "workers", "namespace": "metal3" },
            "metaData": { "name": format!("worker-{n}-metadata"), "namespace": "metal3" },
            "networkData": { "name": format!("worker-{n}-networkdata"), "namespace": "metal3" },
        },
        "status": { "ready": true },
    }))
}

/// The firmware settings of a host, so many of them. All hosts of a model share the schema.
pub fn firmware_settings(n: usize, settings: usize) -> Value {
    let name = format!("node-{n}");
    let mut metadata = metadata(&name, n);
    metadata["ownerReferences"] = owner("BareMetalHost", &name, n);
    let settings = (0..settings).map(|i| (format!("ProcVirtualization{i}"), json!("Enabled")));
    managed::record(json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "HostFirmwareSettings",
        "metadata": metadata,
        "spec": { "settings": { "ProcVirtualization1": "Disabled" } },
        "status": {
            "schema": { "namespace": "metal3", "name": "schema-4d1f9d6c" },
            "settings": settings.collect::<serde_json::Map<_, _>>(),
            "lastUpdated": "2026-02-03T04:05:06Z",
            "conditions": [condition("ChangeDetected", "False", "Success"), condition("Valid", "True", "Success")],
        },
    }))
}
