//! The values of the Ironic that the operator drives: one that runs elsewhere, or one that the chart deploys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The Ironic that the operator drives.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ironic {
    /// Its base URL, such as `https://ironic.example:6385/v1/`; one of this, `resource.name` and `deploy.enabled` is required for the
    /// operator
    #[schemars(regex(pattern = r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$"))]
    endpoint: String,
    /// An `Ironic` resource of the ironic-standalone-operator, instead of an endpoint, credentials and CA. In its namespace, which
    /// must exist, the operator gets the rights to Secrets that `secrets.namespaces` gives it elsewhere
    resource: Resource,
    /// A Secret with the keys `username` and `password`; `ironic-credentials` if empty, used if it exists. An Ironic that is deployed
    /// takes these credentials, and without this value gets some of its own
    credentials_secret: String,
    /// A Secret with the CA under the key `tls.crt`; `ironic-cacert` if empty, used if it exists. Of an Ironic that is deployed it is
    /// known
    ca_secret: String,
    /// Whether Ironic's certificate is accepted unverified
    insecure: bool,
    /// The kernel of the ramdisk that inspects and deploys; together with the ramdisk, or alone with `--build-preprov-image`
    deploy_kernel_url: String,
    /// The ramdisk that inspects and deploys; together with its kernel
    deploy_ramdisk_url: String,
    /// An ISO with both, instead of them
    deploy_iso_url: String,
    /// An Ironic that the chart deploys
    deploy: Deploy,
}

/// An `Ironic` resource.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resource {
    /// Its name
    name: String,
    /// Its namespace; that of the release if empty
    namespace: String,
}

/// An Ironic that the chart deploys.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Deploy {
    /// Whether it is deployed, with TLS and credentials, and the operator uses it
    enabled: bool,
    /// Its image; `ironic` under `image.registry` with `image.tag` if empty
    #[schemars(regex(pattern = r"^\S*$"))]
    image: String,
    /// Whether it listens in the network of its node, which Pod Security `baseline` and `restricted` forbid. Otherwise BMCs and servers
    /// reach it by its Service
    host_network: bool,
    /// The address or the name at which BMCs and servers reach it. May be empty with the network of the node: that of its node, IPv4
    #[schemars(regex(pattern = r"^([0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)?$"))]
    address: String,
    /// The ports that it listens on
    ports: Ports,
    /// Its Service, which the operator uses in any case
    service: Service,
    /// The certificate of its API
    tls: Tls,
    /// Where its database, its images and what else it keeps lie
    storage: Storage,
    /// More parameters for the kernel of the ramdisk
    #[schemars(regex(pattern = r"^[^\n]*$"))]
    kernel_params: String,
    /// Lines of `ironic.conf`, which win over those of the chart, but for `[deploy]http_url` and `[service_catalog]endpoint_override`, such as `[conductor]` and `automated_clean = false`
    extra_config: String,
    /// Resource requests and limits
    resources: Map<String, Value>,
    /// Labels of the nodes that it runs on
    node_selector: BTreeMap<String, String>,
    /// Tolerations besides those for nodes of the control plane
    tolerations: Vec<Map<String, Value>>,
    /// Affinity of its pod
    affinity: Map<String, Value>,
    /// Its priority class
    priority_class_name: String,
}

impl Default for Deploy {
    fn default() -> Self {
        Self {
            enabled: false,
            image: String::new(),
            host_network: true,
            address: String::new(),
            ports: Ports::default(),
            service: Service::default(),
            tls: Tls::default(),
            storage: Storage::default(),
            kernel_params: String::new(),
            extra_config: String::new(),
            resources: super::requests("250m", "512Mi"),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            affinity: Map::new(),
            priority_class_name: String::new(),
        }
    }
}

/// Ports. Those below 1024 are root's.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Ports {
    /// Of the API, by TLS
    #[schemars(range(min = 1024, max = 65535))]
    api: u16,
    /// Of the images and virtual media that it makes
    #[schemars(range(min = 1024, max = 65535))]
    images: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            api: 6385,
            images: 6180,
        }
    }
}

/// A Service.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Service {
    /// `ClusterIP`, which only the network of the node leaves room for, `NodePort` or `LoadBalancer`
    r#type: ServiceType,
    /// Annotations, such as those that give a load balancer its address
    annotations: BTreeMap<String, String>,
    /// The ports on the nodes, both required with `NodePort`
    node_ports: NodePorts,
}

#[derive(Serialize, JsonSchema, Default)]
#[expect(dead_code, reason = "the schema names all; the default is one of them")]
enum ServiceType {
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    NodePort,
    LoadBalancer,
}

/// Ports on the nodes; 0 is none.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodePorts {
    /// Of the API
    #[schemars(range(max = 65535))]
    api: u16,
    /// Of the images
    #[schemars(range(max = 65535))]
    images: u16,
}

/// Certificates.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tls {
    /// A Secret with `tls.crt`, `tls.key` and `ca.crt`. If empty, the chart makes one when it is installed and keeps it, or has it made
    /// with `certificates=cert-manager`
    secret: String,
    /// Names and addresses in a certificate that is made, besides those of the Service and `address`
    names: Vec<String>,
    /// Whether the ramdisk checks certificates: that of Ironic, whose CA it is told then, and those of servers of images, by this, the
    /// public authorities and `authorities`. The certificate must name the address that it calls
    verified_by_ramdisk: bool,
    /// A ConfigMap with certificates of authorities, PEM, under keys of any name. Ironic trusts them besides the public ones: those of
    /// BMCs and of servers of images
    authorities: String,
    /// Whether images and virtual media are served by TLS, too. There are BMCs that cannot read these by TLS
    images: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            secret: String::new(),
            names: Vec::new(),
            verified_by_ramdisk: false,
            authorities: String::new(),
            images: true,
        }
    }
}

/// A volume.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Storage {
    /// A PersistentVolumeClaim that exists, instead of one that the chart makes and leaves when it is uninstalled
    existing_claim: String,
    /// Its size
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?)?$"))]
    size: String,
    /// Its storage class; the cluster's default if empty
    #[serde(rename = "storageClass")]
    class: String,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            existing_claim: String::new(),
            size: "20Gi".to_owned(),
            class: String::new(),
        }
    }
}
