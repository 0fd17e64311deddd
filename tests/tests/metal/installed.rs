//! What is on the server's disk, and what answers there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use metal3_lab::metal::Server;
use metal3_lab::pki::Authority;
use metal3_scenarios::MetalEnv;
use serde_json::json;

/// A control plane that user data make of the server.
pub struct Cluster {
    pub user_data: String,
    authority: Authority,
    address: &'static str,
}

impl Cluster {
    pub fn new(env: &MetalEnv) -> Self {
        let authority = Authority::generate("kubernetes").unwrap();
        let pair = authority.pair();
        let version = metal3_lab::image::ensure().unwrap().version;
        let address = env.metal.server().address;
        let values = [
            ("@CA_CERTIFICATE@", base64(&pair.certificate)),
            ("@CA_KEY@", base64(&pair.key)),
            ("@ADDRESS@", address.to_owned()),
            ("@VERSION@", version),
        ];
        let template = include_str!("user-data.yaml").to_owned();
        Self {
            user_data: values
                .iter()
                .fold(template, |text, (name, value)| text.replace(name, value)),
            authority,
            address,
        }
    }

    /// Waits until the server's Node is Ready and has the provider ID that the host's metadata say.
    pub async fn expect_ready_node(&self, env: &MetalEnv) {
        let uid = env.host().await.uid().unwrap();
        let client = self.client().await;
        // By its system's own words, in the file that kubeadm writes to.
        let log = || env.metal.installed_file("/var/log/kubeadm.log");
        let node = env
            .until("the Node is Ready", async || {
                let said = log();
                assert!(!said.contains("error execution phase"), "kubeadm fails: {said}");
                let nodes: Api<Node> = Api::all(client.clone());
                let node = nodes.get(env.name()).await.map_err(|err| format!("{err}; {said}"))?;
                let status = node.status.clone().unwrap_or_default();
                let is_ready = |one: &NodeCondition| one.type_ == "Ready" && one.status == "True";
                if status.conditions.iter().flatten().any(is_ready) {
                    Ok(node)
                } else {
                    Err(format!("{:?}", status.conditions))
                }
            })
            .await;
        assert_eq!(node.spec.unwrap().provider_id.unwrap(), format!("metal3://{uid}"));
        // A Node can be Ready although kubeadm died behind the start of the kubelet.
        env.until("kubeadm ended well", async || {
            let said = log();
            if said.contains("initialized successfully") {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
    }

    async fn client(&self) -> Client {
        let admin = self.authority.client("admin", &["system:masters"]).unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{}:6443", self.address),
                "certificate-authority-data": base64(self.authority.certificate()),
            }}],
            "users": [{"name": "c", "user": {
                "client-certificate-data": base64(&admin.certificate), "client-key-data": base64(&admin.key),
            }}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(Duration::from_secs(30));
        Client::try_from(config).unwrap()
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

/// A static address on the server's one network card.
pub fn network_data(server: &Server) -> String {
    json!({
        "links": [{"id": "e0", "type": "phy", "ethernet_mac_address": server.mac, "mtu": 1500}],
        "networks": [{
            "id": "n0", "link": "e0", "type": "ipv4", "ip_address": server.address, "netmask": "255.255.255.0",
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": server.gateway}],
        }],
        "services": [],
    })
    .to_string()
}

/// Whether a disk has neither a partition table, at its beginning or at its end, nor a file system where the image has its
/// partitions or Ironic the config drive: nothing that a system or a firmware would find.
pub fn is_empty(disk: &Path) -> bool {
    const MIB: u64 = 1 << 20;
    let file = File::open(disk).unwrap();
    let size = file.metadata().unwrap().len();
    let is = |at: u64, mark: &[u8]| {
        let mut found = vec![0; mark.len()];
        file.read_exact_at(&mut found, at).unwrap();
        found == mark
    };
    let table = is(510, b"\x55\xaa") || is(512, b"EFI PART") || is(size - 512, b"EFI PART");
    let esp = is(MIB + 510, b"\x55\xaa");
    let root = is(129 * MIB + 1080, b"\x53\xef");
    println!("partition table: {table}, ESP: {esp}, root: {root}");
    !(table || esp || root)
}
