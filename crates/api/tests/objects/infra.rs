//! Group `infrastructure.cluster.x-k8s.io`.

use super::Kind;
use metal3_api::infra::{v1beta1, v1beta2};
use serde_json::{Value, json};

/// One row for each version of each kind.
pub fn kinds() -> Vec<Kind> {
    [older(), newer()].into_iter().flatten().collect()
}

/// v1beta1, which is converted. In it v1beta2's defaults show as well.
fn older() -> Vec<Kind> {
    vec![
        Kind::of::<v1beta1::Metal3Cluster>().that_refuses(
            "/spec/controlPlaneEndpoint/port",
            Value::Null,
            "spec.controlPlaneEndpoint.port: Required value",
        ),
        Kind::of::<v1beta1::Metal3ClusterTemplate>().that_refuses(
            "/spec/template/spec",
            Value::Null,
            "spec.template.spec: Required value",
        ),
        Kind::of::<v1beta1::Metal3Machine>()
            .that_refuses(
                "/spec/image/checksumType",
                json!(""),
                "spec.image.checksumType: Unsupported value: \"\"",
            )
            .that_refuses(
                "/spec/hostSelector/matchExpressions/0/values",
                Value::Null,
                "spec.hostSelector.matchExpressions[0].values: Required value",
            ),
        Kind::of::<v1beta1::Metal3MachineTemplate>()
            .with_defaults(&[("/spec/nodeReuse", json!(false))])
            .that_refuses("/spec/template", Value::Null, "spec.template: Required value"),
        Kind::of::<v1beta1::Metal3DataTemplate>()
            .with_defaults(&[
                ("/spec/metaData/indexes/*/step", json!(1)),
                ("/spec/networkData/links/ethernets/*/mtu", json!(1500)),
                ("/spec/networkData/links/bonds/*/mtu", json!(1500)),
                ("/spec/networkData/links/vlans/*/mtu", json!(1500)),
            ])
            .that_reads_as(name_pools)
            .that_is_valid_if(is_written_as_read)
            .that_refuses("/spec/clusterName", json!(""), "spec.clusterName: Invalid value: \"\"")
            .that_refuses(
                "/spec/networkData/networks/ipv6/0/ipAddressFromIPPool",
                Value::Null,
                "spec.networkData.networks.ipv6[0].ipAddressFromIPPool: Required value",
            ),
        Kind::of::<v1beta1::Metal3DataClaim>().that_refuses(
            "/spec/template",
            Value::Null,
            "spec.template: Required value",
        ),
        Kind::of::<v1beta1::Metal3Data>().that_refuses("/spec/claim", Value::Null, "spec.claim: Required value"),
        Kind::of::<v1beta1::Metal3Remediation>()
            .that_stores(|object| default_strategy(object, "/spec/strategy"))
            .that_refuses(
                "/spec/strategy/timeout",
                json!(600),
                "spec.strategy.timeout: Invalid value",
            ),
        Kind::of::<v1beta1::Metal3RemediationTemplate>()
            .that_stores(|object| default_strategy(object, "/spec/template/spec/strategy"))
            .that_refuses("/status/status", Value::Null, "status.status: Required value"),
    ]
}

/// v1beta2, as it is stored.
fn newer() -> Vec<Kind> {
    vec![
        Kind::of::<v1beta2::Metal3Cluster>()
            .that_keeps_empty(&["/spec/cloudProviderEnabled", "/status/initialization/provisioned"])
            .that_refuses(
                "/spec/controlPlaneEndpoint",
                json!({}),
                "spec.controlPlaneEndpoint: Invalid value",
            )
            .that_refuses(
                "/spec/failureDomains/0/name",
                Value::Null,
                "spec.failureDomains[0].name: Required value",
            ),
        Kind::of::<v1beta2::Metal3ClusterTemplate>()
            .that_keeps_empty(&["/spec/template/spec/cloudProviderEnabled"])
            .that_refuses("/spec", Value::Null, "spec: Required value")
            .that_refuses(
                "/spec/template/metadata",
                json!({}),
                "spec.template.metadata: Invalid value",
            ),
        Kind::of::<v1beta2::Metal3Machine>()
            .that_keeps_empty(&["/spec/image/checksum", "/status/initialization/provisioned"])
            .that_refuses("/spec/image/url", json!("no url"), "spec.image.url: Invalid value")
            .that_refuses(
                "/spec/hostSelector/matchExpressions/0/values",
                Value::Null,
                "spec.hostSelector.matchExpressions[0].values: Required value",
            )
            .that_refuses(
                "/status/addresses/0/type",
                json!("PublicIP"),
                "status.addresses[0].type: Unsupported value: \"PublicIP\"",
            ),
        Kind::of::<v1beta2::Metal3MachineTemplate>()
            .with_defaults(&[("/spec/nodeReuse", json!(false))])
            .that_keeps_empty(&["/spec/nodeReuse", "/spec/template/spec/image/checksum"])
            .that_refuses("/spec", Value::Null, "spec: Required value")
            .that_refuses(
                "/spec/template/spec/automatedCleaningMode",
                json!("full"),
                "spec.template.spec.automatedCleaningMode: Unsupported value: \"full\"",
            ),
        Kind::of::<v1beta2::Metal3DataTemplate>()
            .with_defaults(&data_template_defaults())
            .that_refuses(
                "/spec/networkData/links/bonds/0/parameters",
                Value::Null,
                "spec.networkData.links.bonds[0].parameters: Required value",
            )
            .that_refuses(
                "/spec/networkData/networks/ipv4/0/routes/0/prefix",
                json!(33),
                "spec.networkData.networks.ipv4[0].routes[0].prefix: Invalid value: 33",
            )
            .that_refuses(
                "/spec/metaData/strings",
                json!([{ "key": "a", "value": "b" }, { "key": "a", "value": "c" }]),
                "spec.metaData.strings[1]: Duplicate value",
            ),
        Kind::of::<v1beta2::Metal3DataClaim>().that_refuses(
            "/spec/template/name",
            json!(""),
            "spec.template.name: Invalid value: \"\"",
        ),
        Kind::of::<v1beta2::Metal3Data>()
            .that_keeps_empty(&["/spec/index", "/status/ready"])
            .that_refuses("/spec/index", json!(-1), "spec.index: Invalid value: -1"),
        Kind::of::<v1beta2::Metal3Remediation>()
            .with_defaults(&[
                ("/spec/strategy/retryLimit", json!(1)),
                ("/spec/strategy/timeoutSeconds", json!(600)),
            ])
            .that_refuses(
                "/spec/strategy/timeoutSeconds",
                json!(99),
                "spec.strategy.timeoutSeconds: Invalid value: 99",
            )
            .that_refuses("/status/phase", json!(""), "status.phase: Unsupported value: \"\""),
        Kind::of::<v1beta2::Metal3RemediationTemplate>()
            .with_defaults(&[
                ("/spec/template/spec/strategy/retryLimit", json!(1)),
                ("/spec/template/spec/strategy/timeoutSeconds", json!(600)),
            ])
            .that_refuses("/spec/template", Value::Null, "spec.template: Required value"),
    ]
}

/// Group and kind of every reference to a pool, and the numbers.
fn data_template_defaults() -> Vec<(&'static str, Value)> {
    macro_rules! pools {
        ($($path:literal),+ $(,)?) => {
            vec![$(
                (concat!($path, "/kind"), json!("IPPool")),
                (concat!($path, "/apiGroup"), json!("ipam.metal3.io")),
            )+]
        };
    }
    let mut defaults = pools!(
        "/spec/metaData/ipAddressesFromPool/*",
        "/spec/metaData/prefixesFromPool/*",
        "/spec/metaData/gatewaysFromPool/*",
        "/spec/metaData/dnsServersFromPool/*",
        "/spec/networkData/networks/ipv4/*/fromPoolRef",
        "/spec/networkData/networks/ipv4/*/routes/*/gateway/fromPoolRef",
        "/spec/networkData/networks/ipv4DHCP/*/routes/*/gateway/fromPoolRef",
        "/spec/networkData/networks/ipv6/*/fromPoolRef",
        "/spec/networkData/networks/ipv6/*/routes/*/gateway/fromPoolRef",
        "/spec/networkData/networks/ipv6DHCP/*/routes/*/gateway/fromPoolRef",
        "/spec/networkData/networks/ipv6SLAAC/*/routes/*/gateway/fromPoolRef",
    );
    defaults.extend([
        ("/spec/metaData/indexes/*/step", json!(1)),
        ("/spec/networkData/links/ethernets/*/mtu", json!(1500)),
        ("/spec/networkData/links/bonds/*/mtu", json!(1500)),
        ("/spec/networkData/links/vlans/*/mtu", json!(1500)),
    ]);
    defaults
}

/// v1beta1 has no defaults for the kind and the group of a pool; none and an empty one mean Metal3's. A reference without a name
/// is none.
fn name_pools(value: &mut Value) {
    let complete = |reference: &mut Value| {
        for (field, default) in [("kind", "IPPool"), ("apiGroup", "ipam.metal3.io")] {
            if reference[field].as_str().is_none_or(str::is_empty) {
                reference[field] = json!(default);
            }
        }
    };
    match value {
        Value::Object(fields) => {
            if fields
                .get("fromPoolRef")
                .is_some_and(|reference| reference["name"] == "")
            {
                fields.remove("fromPoolRef");
            }
            for (key, below) in fields {
                match below {
                    Value::Object(_) if key == "fromPoolRef" => complete(below),
                    Value::Array(items) if key.ends_with("FromIPPool") => items.iter_mut().for_each(complete),
                    _ => name_pools(below),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(name_pools),
        _ => {}
    }
}

/// Zero and an empty text are not written. Where the one would get a default and the other is required, the object would
/// become another one.
fn is_written_as_read(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(key, value)| match key.as_str() {
            "mtu" | "step" => value != &json!(0),
            "ipAddressFromIPPool" => value != &json!(""),
            _ => is_written_as_read(value),
        }),
        Value::Array(items) => items.iter().all(is_written_as_read),
        _ => true,
    }
}

/// The defaults of v1beta2's strategy, as v1beta1 shows them. What is no duration counts as none.
fn default_strategy(object: &mut Value, pointer: &str) {
    let Some(strategy) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else {
        return;
    };
    strategy.entry("retryLimit").or_insert_with(|| json!(1));
    if strategy.get("timeout") != Some(&json!("5m0s")) {
        strategy.insert("timeout".to_owned(), json!("10m0s"));
    }
}
