//! Group `metal3.io`.

use super::Kind;
use metal3_api::metal3::*;
use serde_json::{Value, json};

/// One row for each version of each kind.
pub fn kinds() -> Vec<Kind> {
    vec![
        bare_metal_host(),
        bare_metal_switch(),
        bmc_event_subscription(),
        Kind::of::<DataImage>()
            .that_refuses("/spec/url", Value::Null, "spec.url: Required value")
            .that_refuses("/status/error/count", json!("1"), "status.error.count: Invalid value"),
        firmware_schema(),
        Kind::of::<HardwareData>().that_refuses(
            "/spec/hardware/storage/0/type",
            json!("TAPE"),
            "spec.hardware.storage[0].type: Unsupported value: \"TAPE\"",
        ),
        host_claim(),
        Kind::of::<HostDeployPolicy>()
            .that_keeps_empty(&["/spec/hostClaimNamespaces", "/spec/hostClaimNamespaces/names"])
            .that_refuses(
                "/spec/hostClaimNamespaces/hasLabels/0/name",
                Value::Null,
                "spec.hostClaimNamespaces.hasLabels[0].name: Required value",
            ),
        Kind::of::<HostFirmwareComponents>()
            .that_refuses("/spec/updates", Value::Null, "spec.updates: Required value")
            .that_refuses(
                "/spec/updates/0/url",
                Value::Null,
                "spec.updates[0].url: Required value",
            )
            .that_refuses(
                "/status/components/0/initialVersion",
                Value::Null,
                "status.components[0].initialVersion: Required value",
            ),
        Kind::of::<HostFirmwareSettings>()
            .that_keeps_empty(&["/spec/settings/*"])
            .that_refuses("/spec/settings", Value::Null, "spec.settings: Required value")
            .that_refuses(
                "/spec/settings/SriovGlobalEnable",
                json!(true),
                "spec.settings.SriovGlobalEnable",
            )
            .that_refuses(
                "/status/settings/NumCores",
                json!(16),
                "status.settings.NumCores: Invalid value",
            )
            .that_refuses(
                "/status/schema/namespace",
                Value::Null,
                "status.schema.namespace: Required value",
            ),
        host_network_attachment(),
        Kind::of::<HostUpdatePolicy>().that_refuses(
            "/spec/firmwareUpdates",
            json!("OnReboot"),
            "spec.firmwareUpdates: Unsupported value: \"OnReboot\"",
        ),
        Kind::of::<PreprovisioningImage>()
            .that_refuses(
                "/spec/acceptFormats/1",
                json!("qcow2"),
                "spec.acceptFormats[1]: Unsupported value: \"qcow2\"",
            )
            .that_refuses("/status/format", json!(""), "status.format: Unsupported value: \"\""),
    ]
}

fn bare_metal_host() -> Kind {
    Kind::of::<BareMetalHost>()
        .with_defaults(&[
            ("/spec/automatedCleaningMode", json!("metadata")),
            ("/spec/raid/softwareRAIDVolumes/*/rootVolume", json!(false)),
            ("/status/errorCount", json!(0)),
            (
                "/status/provisioning/raid/softwareRAIDVolumes/*/rootVolume",
                json!(false),
            ),
            ("/status/provisioningFailCount", json!(0)),
        ])
        .that_keeps_empty(&[
            "/spec/raid/hardwareRAIDVolumes",
            "/spec/raid/softwareRAIDVolumes",
            "/spec/raid/hardwareRAIDVolumes/*/rotational",
            "/spec/rootDeviceHints/rotational",
            "/status/provisioning/raid/hardwareRAIDVolumes",
            "/status/provisioning/raid/softwareRAIDVolumes",
            "/status/provisioning/raid/hardwareRAIDVolumes/*/rotational",
            "/status/provisioning/rootDeviceHints/rotational",
        ])
        .that_reads_as(|host| {
            let image = host.pointer("/status/provisioning/image/url");
            let has_none = image.is_some_and(|url| url == "");
            if let Some(status) = host.pointer_mut("/status/provisioning").and_then(Value::as_object_mut)
                && has_none
            {
                status.remove("image");
            }
        })
        .that_refuses("/spec/online", Value::Null, "spec.online: Required value")
        .that_refuses(
            "/spec/bootMode",
            json!("UEFI2"),
            "spec.bootMode: Unsupported value: \"UEFI2\"",
        )
        .that_refuses("/spec/bootMode", json!(""), "spec.bootMode: Unsupported value: \"\"")
        .that_refuses(
            "/spec/bmc/credentialsName",
            Value::Null,
            "spec.bmc.credentialsName: Required value",
        )
        .that_refuses(
            "/status/errorType",
            json!(""),
            "status.errorType: Unsupported value: \"\"",
        )
        .that_refuses(
            "/status/errorMessage",
            Value::Null,
            "status.errorMessage: Required value",
        )
        .that_refuses(
            "/status/provisioning/ID",
            Value::Null,
            "status.provisioning.ID: Required value",
        )
}

fn bare_metal_switch() -> Kind {
    Kind::of::<BareMetalSwitch>()
        .with_defaults(&[("/spec/driver", json!("generic-switch"))])
        .that_refuses(
            "/spec/macAddress",
            json!("00:1:2:3:4:5"),
            "spec.macAddress: Invalid value",
        )
        .that_refuses("/spec/port", json!(65536), "spec.port: Invalid value: 65536")
        .that_refuses(
            "/spec/driver",
            json!("other"),
            "spec.driver: Unsupported value: \"other\"",
        )
        .that_refuses("/spec/deviceType", Value::Null, "spec.deviceType: Required value")
}

fn bmc_event_subscription() -> Kind {
    Kind::of::<BMCEventSubscription>()
        .that_refuses(
            "/spec/httpHeadersRef",
            json!("headers"),
            "spec.httpHeadersRef: Invalid value",
        )
        .that_refuses(
            "/status/subscriptionID",
            json!(7),
            "status.subscriptionID: Invalid value",
        )
}

fn firmware_schema() -> Kind {
    Kind::of::<FirmwareSchema>()
        .that_keeps_empty(&[
            "/spec/schema/*",
            "/spec/schema/*/lower_bound",
            "/spec/schema/*/upper_bound",
            "/spec/schema/*/min_length",
            "/spec/schema/*/max_length",
            "/spec/schema/*/read_only",
            "/spec/schema/*/unique",
        ])
        .that_refuses("/spec/schema", Value::Null, "spec.schema: Required value")
        .that_refuses(
            "/spec/schema/BootMode/attribute_type",
            json!("Float"),
            "spec.schema.BootMode.attribute_type: Unsupported value: \"Float\"",
        )
}

fn host_claim() -> Kind {
    Kind::of::<HostClaim>()
        .that_keeps_empty(&["/spec/hostSelector/matchLabels/*"])
        .that_refuses("/spec/poweredOn", Value::Null, "spec.poweredOn: Required value")
        .that_refuses(
            "/spec/hostSelector/matchExpressions/1/values",
            Value::Null,
            "spec.hostSelector.matchExpressions[1].values: Required value",
        )
        .that_refuses(
            "/status/bareMetalHost/namespace",
            Value::Null,
            "status.bareMetalHost.namespace: Required value",
        )
}

fn host_network_attachment() -> Kind {
    Kind::of::<HostNetworkAttachment>()
        .with_defaults(&[("/spec/mode", json!("access"))])
        .that_refuses("/spec/nativeVLAN", json!(4095), "spec.nativeVLAN: Invalid value: 4095")
        .that_refuses("/spec/nativeVLAN", json!(0), "spec.nativeVLAN: Invalid value: 0")
        .that_refuses(
            "/spec/allowedVLANs/1",
            json!("200-"),
            "spec.allowedVLANs[1]: Invalid value: \"200-\"",
        )
        .that_refuses("/spec/mtu", json!(67), "spec.mtu: Invalid value: 67")
        .that_refuses("/spec/mode", json!("Trunk"), "spec.mode: Unsupported value: \"Trunk\"")
}
