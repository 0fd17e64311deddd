//! The smallest cluster that has everything. `cargo xtask demo` applies it with the lab's addresses.

use super::super::file::{CREDENTIALS, File, bmc, credentials, host, metadata};
use super::objects::{
    REGISTRATION, bootstrap_template, cluster, control_plane, deployment, machine_template, metal3_cluster,
};
use metal3_api::infra::v1beta2::{
    EthernetLink, EthernetType, Gateway, LinkMac, MetaData, MetaDataFromPool, MetaDataObjectName, Metal3DataTemplate,
    Metal3DataTemplateSpec, NetworkData, NetworkLinks, Networks, Route, RouteServices, SourceObject, StaticNetwork,
};
use metal3_api::ipam::{IPPool, IPPoolSpec, PoolEntry};
use metal3_api::metal3::BareMetalHostSpec;

/// The name of the cluster and of most of its objects.
const NAME: &str = "small";

pub fn small() -> anyhow::Result<String> {
    let mut file = File::new(
        "A cluster of one server for its control plane and two workers, with addresses from a pool. Its hosts are in hosts.yaml.",
    );
    file.add(&cluster(NAME), &[])?;
    file.add(
        &metal3_cluster(NAME),
        &[(
            "spec.controlPlaneEndpoint",
            "Where the control plane's server will answer.",
        )],
    )?;
    file.add(&control_plane(NAME, 1), &[REGISTRATION])?;
    file.add(&machine_template("small-control-plane", "control-plane", NAME), &[])?;
    file.add(&deployment(NAME, 2), &[])?;
    file.add(&bootstrap_template("small-workers"), &[])?;
    file.add(&machine_template("small-workers", "worker", NAME), &[])?;
    file.add(
        &data_template(),
        &[
            ("spec.metaData.objectNames", "What nodes are called: as their hosts."),
            (
                "spec.networkData.networks.ipv4",
                "An address of the pool for each machine.",
            ),
        ],
    )?;
    file.add(
        &pool(),
        &[("spec.clusterName", "The pool is deleted with the Cluster of this name.")],
    )?;
    Ok(file.text)
}

/// The servers of the cluster, with one worker to spare.
pub fn hosts() -> anyhow::Result<String> {
    let mut file = File::new("Servers for small.yaml: one for the control plane, and three for workers.");
    let servers = [
        ("master-0", "control-plane"),
        ("worker-0", "worker"),
        ("worker-1", "worker"),
        ("worker-2", "worker"),
    ];
    for (number, (name, role)) in (1_u8..).zip(servers) {
        let secret = format!("{name}-bmc");
        let spec = BareMetalHostSpec {
            bmc: bmc(
                &format!("redfish-virtualmedia://192.0.2.{}/redfish/v1/Systems/1", 40 + number),
                &secret,
            ),
            boot_mac_address: format!("52:54:00:12:36:{number:02x}"),
            ..Default::default()
        };
        let mut server = host(name, spec);
        server.metadata.labels = Some([("example.org/role".to_owned(), role.to_owned())].into());
        let comments: &[_] = &[
            ("metadata.labels", "Machines choose their host by it."),
            ("spec.online", "It is switched on for the machine that gets it."),
        ];
        let is_first = number == 1;
        file.add(&credentials(&secret), if is_first { CREDENTIALS } else { &[] })?;
        file.add(&server, if is_first { comments } else { &[] })?;
    }
    Ok(file.text)
}

fn data_template() -> Metal3DataTemplate {
    let key = |key: &str| key.to_owned();
    let meta_data = MetaData {
        object_names: vec![MetaDataObjectName {
            key: key("local-hostname"),
            object: SourceObject::BareMetalHost,
        }],
        ip_addresses_from_pool: vec![MetaDataFromPool {
            key: key("address"),
            name: key(NAME),
            ..Default::default()
        }],
        ..Default::default()
    };
    let network = StaticNetwork {
        id: key("front"),
        link: key("eth0"),
        ip_address_from_ip_pool: key(NAME),
        routes: vec![Route {
            network: "0.0.0.0".into(),
            prefix: Some(0),
            gateway: Gateway {
                from_ip_pool: key(NAME),
                ..Default::default()
            },
            services: RouteServices {
                dns_from_ip_pool: key(NAME),
                ..Default::default()
            },
        }],
        ..Default::default()
    };
    let link = EthernetLink {
        type_: EthernetType::Phy,
        id: key("eth0"),
        name: key("eth0"),
        mtu: 1500,
        mac_address: LinkMac {
            from_host_interface: key("eth0"),
            ..Default::default()
        },
    };
    let network_data = NetworkData {
        links: NetworkLinks {
            ethernets: vec![link],
            ..Default::default()
        },
        networks: Networks {
            ipv4: vec![network],
            ..Default::default()
        },
        ..Default::default()
    };
    Metal3DataTemplate {
        metadata: metadata(NAME),
        spec: Metal3DataTemplateSpec {
            meta_data: Some(meta_data),
            network_data: Some(network_data),
            ..Default::default()
        },
        status: None,
    }
}

fn pool() -> IPPool {
    let entry = PoolEntry {
        start: "198.51.100.100".to_owned(),
        end: "198.51.100.150".to_owned(),
        ..Default::default()
    };
    IPPool {
        metadata: metadata(NAME),
        spec: IPPoolSpec {
            cluster_name: NAME.to_owned(),
            name_prefix: NAME.to_owned(),
            pools: vec![entry],
            prefix: 24,
            gateway: "198.51.100.1".to_owned(),
            dns_servers: vec!["198.51.100.53".to_owned()],
            ..Default::default()
        },
        status: None,
    }
}
