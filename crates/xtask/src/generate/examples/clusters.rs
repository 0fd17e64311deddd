//! `examples/cluster`: Cluster API clusters on servers.

mod objects;
mod small;

use super::file::{File, metadata};
use super::{Examples, named};
use metal3_api::infra::v1beta2::{
    AnnotationRef, ApiEndpoint, BondLink, BondMode, BondParameter, DynamicNetwork, EthernetLink, EthernetType, Gateway,
    LinkMac, MetaData, MetaDataAnnotation, MetaDataFromPool, MetaDataHostInterface, MetaDataIndex, MetaDataLabel,
    MetaDataNamespace, MetaDataObjectName, MetaDataString, Metal3ClusterSpec, Metal3ClusterTemplate,
    Metal3ClusterTemplateResource, Metal3ClusterTemplateSpec, Metal3DataTemplate, Metal3DataTemplateSpec, NetworkData,
    NetworkLinks, NetworkServices, Networks, PoolReference, Route, RouteServices, SourceObject, StaticNetwork,
    VlanLink,
};
use objects::{
    REGISTRATION, bootstrap_template, cluster, cluster_class, cluster_spec, control_plane, control_plane_template,
    data_template, deployment, health_check, machine_template, metal3_cluster, remediation_template, topology_cluster,
    without_surge,
};
use serde_json::json;

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named(
        "cluster",
        [
            ("cluster", whole_cluster()?),
            ("cluster-class", class()?),
            ("data-template", rendered_data()?),
            ("remediation", remediation()?),
            ("small", small::small()?),
            ("hosts", small::hosts()?),
        ],
    ))
}

fn whole_cluster() -> anyhow::Result<String> {
    let mut file = File::new(
        "A cluster of three servers for its control plane and two workers. Hosts are chosen by the labels that\n\
         hostSelector asks for; see ../baremetalhost for the hosts.",
    );
    file.add(
        &cluster("production"),
        &[("spec.infrastructureRef", "Both must be in this namespace.")],
    )?;
    file.add(
        &metal3_cluster("production"),
        &[
            (
                "spec.controlPlaneEndpoint",
                "A virtual address or a load balancer. Nothing here sets it up.",
            ),
            (
                "spec.cloudProviderEnabled",
                "Without a cloud provider the provider ID of nodes is set here.",
            ),
        ],
    )?;
    file.add(
        &without_surge(control_plane("production", 3)),
        &[
            REGISTRATION,
            (
                "spec.rollout.strategy.rollingUpdate.maxSurge",
                "0 replaces machines on their own servers, one after the other; 1 needs a free server more.",
            ),
        ],
    )?;
    file.add(
        &machine_template("production-control-plane", "control-plane", "production"),
        &[
            (
                "spec.nodeReuse",
                "With maxSurge 0 a new machine gets the server of the machine that it replaces.",
            ),
            (
                "spec.template.spec.image",
                "The checksum may also be the digest itself.",
            ),
            ("spec.template.spec.hostSelector", "Labels of BareMetalHosts."),
            (
                "spec.template.spec.automatedCleaningMode",
                "disabled keeps what is on the disks of a server that is used again.",
            ),
        ],
    )?;
    file.add(&deployment("production", 2), &[])?;
    file.add(&bootstrap_template("production-workers"), &[])?;
    file.add(&machine_template("production-workers", "worker", "production"), &[])?;
    file.add(
        &data_template("production"),
        &[
            (
                "spec.metaData",
                "Cannot be changed. Machines get changes by way of a new template.",
            ),
            ("spec.metaData.fromHostInterfaces", "What the host boots from."),
        ],
    )?;
    Ok(file.text)
}

fn class() -> anyhow::Result<String> {
    let mut file = File::new("A ClusterClass, and a cluster that is made from it.");
    file.add(
        &cluster_class("metal3"),
        &[(
            "spec.variables",
            "Each cluster of the class has an endpoint of its own.",
        )],
    )?;
    let template = Metal3ClusterTemplate {
        metadata: metadata("metal3"),
        spec: Metal3ClusterTemplateSpec {
            template: Metal3ClusterTemplateResource {
                spec: Metal3ClusterSpec {
                    control_plane_endpoint: ApiEndpoint::default(),
                    ..cluster_spec()
                },
                ..Default::default()
            },
        },
    };
    file.add(&template, &[])?;
    file.add(&control_plane_template("metal3"), &[])?;
    file.add(&bootstrap_template("metal3-workers"), &[])?;
    file.add(
        &machine_template("metal3-control-plane", "control-plane", "metal3"),
        &[],
    )?;
    file.add(&machine_template("metal3-workers", "worker", "metal3"), &[])?;
    file.add(&data_template("metal3"), &[])?;
    file.add(&topology_cluster("from-class", "metal3"), &[])?;
    Ok(file.text)
}

fn remediation() -> anyhow::Result<String> {
    let mut file = File::new("Workers that stop answering are power-cycled, and replaced if that does not help.");
    file.add(
        &remediation_template("reboot"),
        &[
            (
                "spec.template.spec.strategy.retryLimit",
                "Once more after the first time.",
            ),
            (
                "spec.template.spec.strategy.timeoutSeconds",
                "From the beginning of one attempt to that of the next. At least 100.",
            ),
        ],
    )?;
    file.add(
        &health_check("production", "reboot"),
        &[(
            "spec.checks.nodeStartupTimeoutSeconds",
            "It begins with the Machine. The default, ten minutes, may be over while the server is still deployed.",
        )],
    )?;
    Ok(file.text)
}

fn from_pool(key: &str) -> Vec<MetaDataFromPool> {
    vec![MetaDataFromPool {
        key: key.to_owned(),
        name: "lab".to_owned(),
        ..Default::default()
    }]
}

fn of_interface(name: &str) -> LinkMac {
    LinkMac {
        from_host_interface: name.to_owned(),
        ..Default::default()
    }
}

fn pool(name: &str) -> PoolReference {
    PoolReference {
        name: name.to_owned(),
        ..Default::default()
    }
}

fn of_host(annotation: &str) -> AnnotationRef {
    AnnotationRef {
        object: SourceObject::BareMetalHost,
        annotation: annotation.to_owned(),
    }
}

/// Every way to render something.
fn rendered_data() -> anyhow::Result<String> {
    let template = Metal3DataTemplate {
        metadata: metadata("everything"),
        spec: Metal3DataTemplateSpec {
            meta_data: Some(entries()),
            network_data: Some(NetworkData {
                links: links(),
                networks: networks(),
                services: NetworkServices {
                    dns: vec!["198.51.100.53".into(), "2001:db8::53".into()],
                    ..Default::default()
                },
            }),
            ..Default::default()
        },
        status: None,
    };
    let mut file = File::new(
        "Every way to render metadata and network data. Each machine that names the template gets a Metal3Data with an\n\
         index of its own, and two Secrets. Pools are Metal3's unless something else is said.",
    );
    file.add(
        &template,
        &[
            ("spec.metaData", "Keys must differ, across all lists too."),
            ("spec.metaData.strings", "A fixed text."),
            (
                "spec.metaData.objectNames",
                "The name of a machine, a metal3machine or a baremetalhost.",
            ),
            (
                "spec.metaData.indexes",
                "rack-10 for the first machine, rack-12 for the next.",
            ),
            ("spec.metaData.namespaces", "The namespace of all of them."),
            (
                "spec.metaData.ipAddressesFromPool",
                "The address that the machine has got from the pool.",
            ),
            (
                "spec.metaData.fromHostInterfaces",
                "MAC addresses, from the host's inventory.",
            ),
            ("spec.metaData.fromLabels", "Empty where there is no such label."),
            (
                "spec.networkData.links.ethernets",
                "Found by their MAC addresses, called by name in the system.",
            ),
            (
                "spec.networkData.links.bonds.parameters",
                "At least one; values are structures in this version.",
            ),
            ("spec.networkData.links.vlans", "One of each number."),
            ("spec.networkData.networks.ipv4", "With an address from a pool."),
            ("spec.networkData.networks.ipv4DHCP", "With what a DHCP server says."),
            ("spec.networkData.networks.ipv6SLAAC", "With what routers announce."),
            ("spec.networkData.services", "Name servers for all networks."),
        ],
    )?;
    Ok(file.text)
}

fn entries() -> MetaData {
    let key = |key: &str| key.to_owned();
    MetaData {
        strings: vec![MetaDataString {
            key: key("site"),
            value: "berlin".to_owned(),
        }],
        object_names: vec![MetaDataObjectName {
            key: key("local-hostname"),
            object: SourceObject::BareMetalHost,
        }],
        indexes: vec![MetaDataIndex {
            key: key("place"),
            offset: Some(10),
            step: 2,
            prefix: "rack-".to_owned(),
            ..Default::default()
        }],
        namespaces: vec![MetaDataNamespace { key: key("namespace") }],
        ip_addresses_from_pool: from_pool("address"),
        prefixes_from_pool: from_pool("prefix"),
        gateways_from_pool: from_pool("gateway"),
        dns_servers_from_pool: from_pool("dns"),
        from_host_interfaces: vec![
            MetaDataHostInterface {
                key: key("mac"),
                interface: "eth0".to_owned(),
                ..Default::default()
            },
            MetaDataHostInterface {
                key: key("boot-mac"),
                from_boot_mac: Some(true),
                ..Default::default()
            },
        ],
        from_labels: vec![MetaDataLabel {
            key: key("rack"),
            object: SourceObject::BareMetalHost,
            label: "example.org/rack".to_owned(),
        }],
        from_annotations: vec![MetaDataAnnotation {
            key: key("owner"),
            object: SourceObject::Machine,
            annotation: "example.org/owner".to_owned(),
        }],
    }
}

fn links() -> NetworkLinks {
    let ethernet = |id: &str, mac_address: LinkMac| EthernetLink {
        type_: EthernetType::Phy,
        id: id.to_owned(),
        name: id.to_owned(),
        mtu: 9000,
        mac_address,
    };
    NetworkLinks {
        ethernets: vec![
            ethernet("eth0", of_interface("eth0")),
            ethernet(
                "eth1",
                LinkMac {
                    from_annotation: Some(of_host("example.org/second-mac")),
                    ..Default::default()
                },
            ),
        ],
        bonds: vec![BondLink {
            bond_mode: BondMode::Lacp,
            id: "bond0".to_owned(),
            name: "bond0".to_owned(),
            mtu: 9000,
            mac_address: of_interface("eth0"),
            bond_links: vec!["eth0".to_owned(), "eth1".to_owned()],
            parameters: vec![BondParameter {
                name: "bond_options".to_owned(),
                value: json!({ "lacp_rate": "fast" }),
            }],
            ..Default::default()
        }],
        vlans: vec![VlanLink {
            vlan_id: 42,
            id: "storage".to_owned(),
            mtu: 1500,
            mac_address: LinkMac {
                string: "02:00:00:00:00:42".to_owned(),
                ..Default::default()
            },
            vlan_link: "bond0".to_owned(),
            ..Default::default()
        }],
    }
}

fn networks() -> Networks {
    let id = |id: &str| id.to_owned();
    Networks {
        ipv4: vec![
            StaticNetwork {
                id: id("front"),
                link: id("bond0"),
                ip_address_from_ip_pool: id("lab"),
                routes: vec![Route {
                    network: "0.0.0.0".into(),
                    prefix: Some(0),
                    gateway: Gateway {
                        from_ip_pool: id("lab"),
                        ..Default::default()
                    },
                    services: RouteServices {
                        dns_from_ip_pool: id("lab"),
                        ..Default::default()
                    },
                }],
                ..Default::default()
            },
            StaticNetwork {
                id: id("storage"),
                link: id("storage"),
                from_pool_annotation: Some(of_host("example.org/storage-pool")),
                ..Default::default()
            },
        ],
        ipv4_dhcp: vec![DynamicNetwork {
            id: id("management"),
            link: id("eth0"),
            routes: vec![Route {
                network: "10.0.0.0".into(),
                prefix: Some(8),
                gateway: Gateway {
                    string: "10.1.0.1".into(),
                    ..Default::default()
                },
                ..Default::default()
            }],
        }],
        ipv6: vec![StaticNetwork {
            id: id("front6"),
            link: id("bond0"),
            from_pool_ref: Some(pool("web-v6")),
            routes: vec![Route {
                network: "::".into(),
                prefix: Some(0),
                gateway: Gateway {
                    from_pool_ref: Some(pool("web-v6")),
                    ..Default::default()
                },
                ..Default::default()
            }],
            ..Default::default()
        }],
        ipv6_dhcp: vec![DynamicNetwork {
            id: id("management6"),
            link: id("eth0"),
            ..Default::default()
        }],
        ipv6_slaac: vec![DynamicNetwork {
            id: id("announced"),
            link: id("eth1"),
            ..Default::default()
        }],
    }
}
