//! `examples/ipam`: pools of addresses, and claims on them.

use super::file::{File, metadata};
use super::{Examples, named};
use metal3_api::capi::{IPAddressClaim, IPAddressClaimSpec, PoolReference};
use metal3_api::ipam::names::{GROUP, annotation};
use metal3_api::ipam::{AllocationStrategy, IPClaim, IPClaimSpec, IPPool, IPPoolSpec, PoolEntry};
use metal3_api::reference::ObjectReference;

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named(
        "ipam",
        [
            ("range", range()?),
            ("subnets", subnets()?),
            ("dual-stack", dual_stack()?),
            ("random", random()?),
            ("reserved", reserved()?),
            ("claim", claim()?),
            ("requested-address", requested_address()?),
            ("cluster-api-claim", cluster_api_claim()?),
        ],
    ))
}

fn pool(name: &str, spec: IPPoolSpec) -> IPPool {
    IPPool {
        metadata: metadata(name),
        spec: IPPoolSpec {
            name_prefix: name.to_owned(),
            ..spec
        },
        status: None,
    }
}

fn entry(start: &str, end: &str, subnet: &str) -> PoolEntry {
    PoolEntry {
        start: start.to_owned(),
        end: end.to_owned(),
        subnet: subnet.to_owned(),
        ..Default::default()
    }
}

const NAME_PREFIX: &str = "An address 198.51.100.50 will be called by this and -198-51-100-50. Cannot be changed.";

fn range() -> anyhow::Result<String> {
    let pool = pool(
        "lab",
        IPPoolSpec {
            pools: vec![entry("198.51.100.50", "198.51.100.99", "")],
            prefix: 24,
            gateway: "198.51.100.1".to_owned(),
            dns_servers: vec!["198.51.100.53".to_owned()],
            ..Default::default()
        },
    );
    let mut file = File::new("A pool of fifty addresses.");
    file.add(
        &pool,
        &[
            (
                "spec.pools",
                "Both ends are given out. Keep gateways and the like outside.",
            ),
            ("spec.namePrefix", NAME_PREFIX),
            ("spec.allocationStrategy", "The lowest free address first."),
        ],
    )?;
    Ok(file.text)
}

fn subnets() -> anyhow::Result<String> {
    let pool = pool(
        "racks",
        IPPoolSpec {
            cluster_name: "production".to_owned(),
            pools: vec![
                PoolEntry {
                    gateway: "192.0.2.1".to_owned(),
                    ..entry("192.0.2.10", "", "192.0.2.0/25")
                },
                PoolEntry {
                    prefix: 26,
                    gateway: "192.0.2.129".to_owned(),
                    dns_servers: vec!["192.0.2.130".to_owned()],
                    ..entry("192.0.2.140", "192.0.2.190", "192.0.2.128/26")
                },
            ],
            prefix: 25,
            dns_servers: vec!["198.51.100.53".to_owned()],
            ..Default::default()
        },
    );
    let mut file = File::new("A pool of a Cluster with two subnets. The second is used when the first is used up.");
    file.add(
        &pool,
        &[
            (
                "spec.clusterName",
                "The pool is paused and moved with this Cluster, and deleted with it.",
            ),
            (
                "spec.pools.subnet",
                "With start alone, addresses go on to the end of the subnet. Its last address is given out, too: use end to\n\
                 keep a broadcast address back.",
            ),
            ("spec.prefix", "For entries that say nothing else. The same holds for gateway and dnsServers."),
        ],
    )?;
    Ok(file.text)
}

fn dual_stack() -> anyhow::Result<String> {
    let v4 = pool(
        "web-v4",
        IPPoolSpec {
            pools: vec![entry("203.0.113.20", "203.0.113.60", "")],
            prefix: 24,
            gateway: "203.0.113.1".to_owned(),
            ..Default::default()
        },
    );
    let v6 = pool(
        "web-v6",
        IPPoolSpec {
            pools: vec![entry("2001:db8:0:1::100", "", "2001:db8:0:1::/64")],
            prefix: 64,
            gateway: "2001:db8:0:1::1".to_owned(),
            dns_servers: vec!["2001:db8::53".to_owned()],
            ..Default::default()
        },
    );
    let mut file = File::new("Addresses of both families: a pool for each, and a claim on each.");
    file.add(&v4, &[])?;
    file.add(
        &v6,
        &[(
            "spec.namePrefix",
            "The address 2001:db8:0:1::100 will be called web-v6-2001-db8-0-1--100.",
        )],
    )?;
    Ok(file.text)
}

fn random() -> anyhow::Result<String> {
    let pool = pool(
        "scattered",
        IPPoolSpec {
            pools: vec![entry("2001:db8:0:2::1000", "2001:db8:0:2::ffff", "")],
            prefix: 64,
            allocation_strategy: AllocationStrategy::Random,
            ..Default::default()
        },
    );
    let mut file = File::new("A pool whose addresses are given out in no order.");
    file.add(
        &pool,
        &[(
            "spec.allocationStrategy",
            "Each entry needs an end then, or a subnet with at most 63 bits for hosts. Cannot be changed.",
        )],
    )?;
    Ok(file.text)
}

fn reserved() -> anyhow::Result<String> {
    let kept = [
        ("rack1-node1-fixed", "198.51.100.120"),
        ("rack1-node2-fixed", "198.51.100.121"),
    ];
    let pool = pool(
        "fixed",
        IPPoolSpec {
            pools: vec![entry("198.51.100.110", "198.51.100.130", "")],
            pre_allocations: kept
                .map(|(claim, address)| (claim.to_owned(), address.to_owned()))
                .into(),
            prefix: 24,
            ..Default::default()
        },
    );
    let mut file = File::new(
        "A pool with addresses that only claims of a certain name get. With names that stay the same, a server has the same\n\
         address again when it is installed anew.",
    );
    file.add(
        &pool,
        &[(
            "spec.preAllocations",
            "By the claim's name. The provider calls claims <data>-<pool>, or <host>-<pool> if it is told to.",
        )],
    )?;
    Ok(file.text)
}

fn ip_claim(name: &str, pool: &str) -> IPClaim {
    IPClaim {
        metadata: metadata(name),
        spec: IPClaimSpec {
            pool: ObjectReference {
                name: pool.to_owned(),
                ..Default::default()
            },
        },
        status: None,
    }
}

fn claim() -> anyhow::Result<String> {
    let mut file = File::new(
        "Asks for an address of the pool in range.yaml. status.address names the IPAddress, or status.errorMessage says why\n\
         there is none.",
    );
    file.add(
        &ip_claim("printer", "lab"),
        &[("spec.pool", "In the namespace of the claim. Cannot be changed.")],
    )?;
    Ok(file.text)
}

fn requested_address() -> anyhow::Result<String> {
    let mut claim = ip_claim("gateway-backup", "lab");
    claim.metadata.annotations = Some([(annotation::REQUESTED_ADDRESS.to_owned(), "198.51.100.99".to_owned())].into());
    let mut file = File::new("Asks for a certain address of the pool in range.yaml.");
    file.add(
        &claim,
        &[("metadata.annotations", "If somebody else has it, the claim gets none.")],
    )?;
    Ok(file.text)
}

fn cluster_api_claim() -> anyhow::Result<String> {
    let claim = IPAddressClaim {
        metadata: metadata("load-balancer"),
        spec: IPAddressClaimSpec {
            cluster_name: "production".to_owned(),
            pool_ref: PoolReference {
                api_group: GROUP.to_owned(),
                kind: "IPPool".to_owned(),
                name: "racks".to_owned(),
            },
            ..Default::default()
        },
        status: None,
    };
    let mut file = File::new(
        "Asks for an address of the pool in subnets.yaml as any Cluster API provider does. Needs Cluster API. The answer is\n\
         an IPAddress of Cluster API, which knows no DNS servers.",
    );
    file.add(
        &claim,
        &[(
            "spec.clusterName",
            "The claim waits while this Cluster is paused. May be absent.",
        )],
    )?;
    Ok(file.text)
}
