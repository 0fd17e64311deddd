//! Group `ipam.metal3.io`.

use super::Kind;
use metal3_api::ipam::{IPAddress, IPClaim, IPPool};
use serde_json::{Value, json};

/// One row for each version of each kind.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::of::<IPAddress>()
            .that_refuses("/spec/address", Value::Null, "spec.address: Required value")
            .that_refuses(
                "/spec/address",
                json!("192.0.2.256"),
                "spec.address: Invalid value: \"192.0.2.256\"",
            )
            .that_refuses("/spec/prefix", json!(129), "spec.prefix: Invalid value: 129")
            .that_refuses(
                "/spec/dnsServers/1",
                json!(""),
                "spec.dnsServers[1]: Invalid value: \"\"",
            ),
        Kind::of::<IPClaim>()
            .that_keeps_empty(&["/status/errorMessage", "/status/address"])
            .that_refuses("/spec/pool", Value::Null, "spec.pool: Required value"),
        Kind::of::<IPPool>()
            .with_defaults(&[("/spec/allocationStrategy", json!("sequential"))])
            .that_keeps_empty(&["/status/usage"])
            .that_refuses("/spec/namePrefix", Value::Null, "spec.namePrefix: Required value")
            .that_refuses("/spec/namePrefix", json!(""), "spec.namePrefix: Invalid value: \"\"")
            .that_refuses(
                "/spec/pools/0/subnet",
                json!("192.0.2.0/33"),
                "spec.pools[0].subnet: Invalid value",
            )
            .that_refuses(
                "/spec/preAllocations/host-0",
                json!("host-0"),
                "spec.preAllocations.host-0: Invalid value",
            )
            .that_refuses(
                "/spec/allocationStrategy",
                json!("highest"),
                "spec.allocationStrategy: Unsupported value: \"highest\"",
            ),
    ]
}
