//! An Ironic that Helm deploys in a real cluster: its image, its certificate, its credentials and its database. It drives a simulated
//! server, whose BMC and ramdisk are outside of the cluster.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use metal3_lab::instance::Scratch;
use metal3_lab::ironic::{AloneConfig, ServersAlone};
use metal3_lab::pki::Authority;
use metal3_lab::process::{Child, Program};
use metal3_lab::{nodes, oci};
use metal3_scenarios::{Kind, run};
use metal3_testkit::eventually;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{NODE, Shell, VERSION, images, megabytes, read, real_cluster, root};

/// The lab's address in the network of the nodes.
const LAB: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// How long a host or a pod may take for a step. A kubelet brings a changed Secret to a pod within a minute or two.
const LIMIT: Duration = Duration::from_secs(300);

/// A disk of the node, which has this folder.
const VOLUME: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {
    "capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/srv"},
    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}}}"#;

impl Shell {
    /// A part of an object in the namespace of the programs.
    async fn part(&self, object: &str, path: &str) -> String {
        self.expect(&format!(
            "kubectl -n metal3-system get {object} -o jsonpath='{{{path}}}'"
        ))
        .await
    }

    /// Waits until a command says something.
    async fn until(&self, command: &str, says: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let said = self.run(command).await.0;
            if says(&said) {
                return said;
            }
            if begin.elapsed() > LIMIT {
                let events = self
                    .run("kubectl get events -A --sort-by .lastTimestamp | tail -40")
                    .await
                    .0;
                let log = "kubectl -n metal3-system logs ironic-0 --all-containers --prefix --tail 60";
                let log = self.run(log).await.0;
                unreachable!("{command} says {said}\n{events}\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn until_state(&self, state: &str) {
        let command = "kubectl get bmh server -o jsonpath='{.status.provisioning.state}'";
        self.until(command, |said| said == state).await;
    }

    /// Waits until the pod is one that began after the last call, and is ready.
    async fn until_ready(&self, set: &str) {
        self.expect(&format!("kubectl -n metal3-system rollout status {set} --timeout 145s"))
            .await;
    }

    /// What must outlive everything but an uninstallation.
    async fn kept(&self) -> [String; 3] {
        [
            self.part("secret ironic-credentials", ".data").await,
            self.part("secret ironic-tls", ".data").await,
            self.part("pvc ironic", ".metadata.uid").await,
        ]
    }

    /// How often containers of a pod were started again.
    async fn restarts(&self) -> String {
        let all =
            "kubectl -n metal3-system get pods -o jsonpath='{.items[*].status.containerStatuses[*].restartCount}'";
        self.expect(all).await
    }
}

/// What the deployed Ironic answers, to whom has its Secrets.
struct Client {
    http: reqwest::Client,
    url: String,
    password: String,
}

impl Client {
    async fn new(shell: &Shell, url: &str) -> Self {
        let ca = decoded(shell, "secret ironic-tls", r".data.ca\.crt").await;
        let trusted = reqwest::Certificate::from_pem(ca.as_bytes()).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([trusted]).build().unwrap();
        let password = decoded(shell, "secret ironic-credentials", ".data.password").await;
        Self {
            http,
            url: url.to_owned(),
            password,
        }
    }

    async fn node(&self, id: &str) -> (u16, Value) {
        let request = self.http.get(format!("{}/v1/nodes/{id}", self.url));
        let request = request.header("X-OpenStack-Ironic-API-Version", "1.95");
        let answer = request.basic_auth("ironic", Some(&self.password)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }
}

async fn decoded(shell: &Shell, object: &str, path: &str) -> String {
    let get = format!("kubectl -n metal3-system get {object} -o jsonpath='{{{path}}}' | base64 -d");
    shell.expect(&get).await
}

/// Builds the image.
async fn image() -> oci::Unpacked {
    static BUILT: OnceCell<oci::Unpacked> = OnceCell::const_new();
    let build = async || {
        let built = tokio::task::spawn_blocking(|| {
            let source = oci::Source {
                context: &root().join("charts/ironic-image"),
                version: VERSION,
            };
            oci::build_ironic(&source)
        });
        built.await.unwrap().unwrap_or_else(|error| unreachable!("{error:#}"))
    };
    BUILT.get_or_init(build).await.clone()
}

/// What Ironic calls, with something that each does quickly.
const CALLED: &str = "ironic-dbsync --version; mkisofs -version; qemu-img --version; ipmitool -V; mkfs -t vfat --help; mcopy --version; \
    zstd --version; nginx -v; test -s /usr/lib/ISOLINUX/isolinux.bin; test -s /usr/lib/syslinux/modules/bios/ldlinux.c32; \
    mdir -i /usr/share/ironic/esp.img ::EFI/BOOT";

#[tokio::test]
#[ignore = "builds an image of Ironic, for minutes: cargo xtask test --images"]
async fn the_image_of_ironic_has_what_ironic_calls() {
    let image = image().await;
    let process = &read(&image.config)["process"];
    assert_eq!(process["user"], json!({"uid": 65532, "gid": 65532}));
    let variables = process["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable.as_str().unwrap());
    let output = tokio::process::Command::new("chroot")
        .args(["--userspec=65532:65532".as_ref(), image.root.as_os_str()])
        .args(["env", "-i"])
        .args(variables)
        .args(["sh", "-exc", CALLED])
        .output();
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        ["BOOTX64  EFI", "GRUBX64  EFI"]
            .iter()
            .all(|file| said.to_uppercase().contains(file)),
        "{said}"
    );
}

/// Runs a command in an image's root as the pod's user; what it writes lies in `$2/upper`.
const WRITING: &str = r#"mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root" && root=$2/root && shift 2 &&
    mount --bind /dev "$root/dev" && exec chroot --userspec=65532:65532 "$root" env -i PATH=/opt/ironic/bin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/tmp "$@""#;

/// A folder of what a pod has besides its image.
struct Volumes {
    image: oci::Unpacked,
    folder: Scratch,
}

impl Volumes {
    fn new(image: oci::Unpacked) -> Self {
        let folder = Scratch::new("metal3-ironic-image").unwrap();
        for name in ["upper", "work", "root"] {
            std::fs::create_dir(folder.folder().join(name)).unwrap();
        }
        let volumes = Self { image, folder };
        for name in ["auth", "certs", "data", "etc/ironic", "logs", "run/ironic", "tmp"] {
            let path = volumes.path(name);
            std::fs::create_dir_all(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(65532), Some(65532)).unwrap();
        }
        volumes
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.folder().join("upper").join(name)
    }

    /// The arguments of `unshare` that run a command there, in a network of its own.
    fn args(&self, command: &[&str]) -> Vec<OsString> {
        let options = "--mount --propagation private --net --pid --fork --kill-child sh -ec";
        let mut args: Vec<OsString> = options.split(' ').chain([WRITING, "sh"]).map(Into::into).collect();
        args.extend([self.image.root.clone().into(), self.folder.folder().into()]);
        args.extend(command.iter().map(Into::into));
        args
    }

    /// What a command says, and whether it succeeds.
    async fn run(&self, command: &[&str]) -> (String, bool) {
        let output = tokio::process::Command::new("unshare")
            .args(self.args(command))
            .output();
        let output = output.await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&said).into_owned(), output.status.success())
    }
}

#[tokio::test]
#[ignore = "builds an image of Ironic, for minutes: cargo xtask test --images"]
async fn a_database_is_kept_and_one_that_cannot_be_upgraded_is_not_touched() {
    let volumes = Volumes::new(image().await);
    let database = volumes.path("data/db/ironic.sqlite");
    let password = |text: &str| std::fs::write(volumes.path("auth/password"), text).unwrap();
    std::fs::write(volumes.path("auth/username"), "ironic").unwrap();
    std::fs::write(volumes.path("certs/ca.crt"), "OURS").unwrap();

    password(&"x".repeat(73));
    let (said, is_ok) = volumes.run(&["ironic-prepare"]).await;
    assert!(!is_ok && said.contains("more than 72 bytes"), "{said}");
    password("secret\n");
    let (said, is_ok) = volumes.run(&["ironic-prepare"]).await;
    assert!(is_ok && database.exists(), "{said}");
    let users = std::fs::read_to_string(volumes.path("run/ironic/htpasswd")).unwrap();
    assert!(users.starts_with("ironic:$2b$"), "{users}");
    let authorities = std::fs::read_to_string(volumes.path("run/ironic/ca.crt")).unwrap();
    assert!(authorities.starts_with("-----BEGIN CERTIFICATE-----") && authorities.ends_with("OURS"));

    // As a ConfigMap is mounted: keys are links into a folder whose name begins with a dot.
    let others = volumes.path("authorities");
    std::fs::create_dir_all(others.join("..data")).unwrap();
    let key = |text: &str| std::fs::write(others.join("..data/bmc.crt"), text).unwrap();
    std::os::unix::fs::symlink("..data/bmc.crt", others.join("bmc.crt")).unwrap();
    key("bmc.example.org");
    let (said, is_ok) = volumes.run(&["ironic-prepare"]).await;
    assert!(!is_ok && said.contains("the key bmc.crt"), "{said}");
    key("-----BEGIN CERTIFICATE-----\nTHEIRS");
    let (said, is_ok) = volumes.run(&["ironic-prepare"]).await;
    assert!(is_ok, "{said}");
    let authorities = std::fs::read_to_string(volumes.path("run/ironic/ca.crt")).unwrap();
    assert!(authorities.ends_with("OURS\n-----BEGIN CERTIFICATE-----\nTHEIRS"));

    let change = |text: &str| {
        format!("import sqlite3; db = sqlite3.connect('/data/db/ironic.sqlite'); db.execute(\"{text}\"); db.commit()")
    };
    let mark = change("INSERT INTO chassis (uuid, description, version) VALUES ('u', 'kept', '1.4')");
    let (said, is_ok) = volumes.run(&["python3", "-c", &mark]).await;
    assert!(is_ok, "{said}");
    let (said, is_ok) = volumes.run(&["ironic-prepare"]).await;
    assert!(is_ok, "{said}");
    let bytes = || std::fs::read(&database).unwrap();
    assert!(bytes().windows(4).any(|part| part == b"kept"));

    // As if it were of an older Ironic, so that the upgrade makes what is there.
    let older = change("UPDATE alembic_version SET version_num = '15e9d00367b0'");
    let (said, is_ok) = volumes.run(&["python3", "-c", &older]).await;
    assert!(is_ok, "{said}");
    let before = bytes();
    let (said, is_ok) = volumes.run(&["ironic-prepare"]).await;
    assert!(!is_ok && said.contains("The database is as it was"), "{said}");
    assert!(bytes() == before, "it has changed");
}

/// The configuration of the web server, as the chart has it.
async fn web_configuration() -> String {
    let helm = tokio::task::spawn_blocking(metal3_lab::binaries::ensure_helm)
        .await
        .unwrap()
        .unwrap();
    let values =
        "image.registry=r,ironic.deploy.enabled=true,ironic.deployKernelUrl=http://k,ironic.deployRamdiskUrl=http://r";
    let args = [
        "template",
        "m",
        "charts/metal3",
        "--show-only",
        "templates/ironic.yaml",
        "--set",
        values,
    ];
    let output = tokio::process::Command::new(helm)
        .args(args)
        .current_dir(root())
        .output()
        .await
        .unwrap();
    let objects = metal3_testkit::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let configuration = objects.iter().find_map(|object| object.data["data"]["nginx"].as_str());
    configuration.unwrap().to_owned()
}

#[tokio::test]
#[ignore = "builds an image of Ironic, for minutes: cargo xtask test --images"]
async fn the_web_server_outlives_a_certificate_that_cannot_be_used_and_old_logs_go() {
    let volumes = Volumes::new(image().await);
    let write = |name: &str, text: &str| std::fs::write(volumes.path(name), text).unwrap();
    let certificate = || Authority::generate("ironic").unwrap().pair();
    let (first, second) = (certificate(), certificate());
    for (name, text) in [("tls.crt", &first.certificate), ("tls.key", &first.key)] {
        write(&format!("certs/{name}"), text);
    }
    write("etc/ironic/nginx", &web_configuration().await);
    std::fs::create_dir(volumes.path("data/html")).unwrap();
    for number in 0..203 {
        write(&format!("logs/{number}.tar.gz"), "");
    }
    let server = Child::spawn(&Program {
        name: "Ironic's web server".to_owned(),
        executable: "unshare".into(),
        args: volumes.args(&["ironic-web"]),
        log: volumes.folder.folder().join("log"),
        ..Program::default()
    })
    .unwrap();
    let says = async |what: &str| {
        eventually(LIMIT, what, async || {
            server.ensure_alive().unwrap_or_else(|error| unreachable!("{error:#}"));
            let said = server.log_tail();
            if said.contains(what) { Ok(()) } else { Err(said) }
        })
        .await;
    };
    eventually(LIMIT, "the newest logs are left", async || {
        match std::fs::read_dir(volumes.path("logs")).unwrap().count() {
            200 => Ok(()),
            count => Err(format!("{count}: {}", server.log_tail())),
        }
    })
    .await;
    write("certs/tls.crt", &second.certificate);
    says("the new certificate cannot be used, and the last one still is").await;
    write("certs/tls.key", &second.key);
    says("the certificate is a new one").await;
}

/// The host of a simulated server, and its credentials.
fn host(servers: &ServersAlone) -> String {
    let server = &servers.hosts()[0];
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"}, "stringData": server.credentials});
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "server"},
        "spec": {
            "online": true, "bootMACAddress": server.boot_mac(),
            "bmc": {
                "address": servers.bmc_address(server), "credentialsName": "bmc",
            },
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [secret, host]}).to_string()
}

/// BMCs and ramdisks reach Ironic by a port of the node.
const BY_SERVICE: &str = "ironic.deploy.hostNetwork=false,ironic.deploy.service.type=NodePort,\
    ironic.deploy.service.nodePorts.api=30385,ironic.deploy.service.nodePorts.images=30180";

/// Helm's values.
fn values(network: &str, address: &str, [kernel, ramdisk]: &[String; 2]) -> String {
    [
        "--set image.registry=localhost,operator.replicas=1,provider.enabled=false,ipam.enabled=false,secrets.allNamespaces=true",
        &format!("--set ironic.deploy.enabled=true,ironic.deploy.tls.authorities=bmcs,{network}"),
        &format!("--set ironic.deploy.address={address},ironic.deployKernelUrl={kernel},ironic.deployRamdiskUrl={ramdisk}"),
    ]
    .join(" ")
}

/// The lab has no DNS, and so the operator's pod is told where the name of Ironic's Service leads.
async fn name_ironic(shell: &Shell) {
    let address = shell.part("service ironic", ".spec.clusterIP").await;
    let patch = json!({"spec": {"template": {"spec": {
        "hostAliases": [{"ip": address, "hostnames": ["ironic.metal3-system.svc"]}]}}}});
    let deployment = "kubectl -n metal3-system patch deployment baremetal-operator-controller-manager";
    shell
        .expect(&format!("{deployment} --type strategic -p '{patch}'"))
        .await;
}

#[test]
#[ignore = "builds all programs as they are released, and an image of Ironic, for minutes: cargo xtask test --images"]
fn helm_deploys_an_ironic_that_keeps_what_it_knows() {
    let _turn = nodes::turn().unwrap();
    if let Err(reason) = nodes::probe() {
        println!("NOT RUN: servers cannot really boot here: {reason:#}");
        return;
    }
    run(async {
        let (images, ironic) = (images().await, image().await);
        let (env, shell) = real_cluster("ironic").await;
        let begin = Instant::now();
        let size = std::fs::metadata(&ironic.archive).unwrap().len();
        let operator = images.iter().find(|image| image.name == "baremetal-operator").unwrap();
        for archive in [&ironic.archive, &operator.archive] {
            env.servers().import_image(NODE, archive).unwrap();
        }
        println!(
            "ironic: archive {:.1} MB, imported after {:.1} s",
            megabytes(size),
            begin.elapsed().as_secs_f64()
        );
        life_of_an_ironic(&shell).await;
        env.delete(Kind::CLUSTER, "small").await;
        env.expect_available(1).await;
        env.stop().await;
    });
}

async fn life_of_an_ironic(shell: &Shell) {
    shell.expect(&format!("echo '{VOLUME}' | kubectl apply -f -")).await;
    let address = r#"kubectl get nodes -o jsonpath='{.items[0].status.addresses[?(@.type=="InternalIP")].address}'"#;
    let address = shell.expect(address).await;
    let url = format!("https://{address}:30385");
    let config = AloneConfig {
        hosts: 1,
        address: LAB,
        ironic_url: url.clone(),
    };
    let servers = ServersAlone::start(&config).await.unwrap();

    let begin = Instant::now();
    let values = |network| values(network, &address, &servers.ramdisk_urls());
    let install = |network| {
        format!(
            "helm install metal3 charts/metal3 --namespace metal3-system {}",
            values(network)
        )
    };
    let authority = servers.authority().unwrap();
    shell
        .expect(&format!(
            "kubectl -n metal3-system create configmap bmcs --from-literal=ca.crt='{authority}'"
        ))
        .await;
    shell.expect(&install(BY_SERVICE)).await;
    name_ironic(shell).await;
    shell.until_ready("statefulset ironic").await;
    println!(
        "Ironic is ready {:.1} s after helm install",
        begin.elapsed().as_secs_f64()
    );
    shell
        .until_ready("deployment baremetal-operator-controller-manager")
        .await;

    // The operator speaks TLS with it, with the credentials of the Secret; it speaks with the BMC, and the ramdisk with it.
    servers
        .trust(&decoded(shell, "secret ironic-tls", r".data.ca\.crt").await)
        .unwrap();
    let ironic = Client::new(shell, &url).await;
    shell
        .expect(&format!("echo '{}' | kubectl apply -f -", host(&servers)))
        .await;
    shell.until_state("available").await;
    println!(
        "the first host is available {:.1} s after helm install",
        begin.elapsed().as_secs_f64()
    );
    let id = shell
        .expect("kubectl get bmh server -o jsonpath='{.status.provisioning.ID}'")
        .await;
    assert_eq!(ironic.node(&id).await.1["provision_state"], "manageable");
    let refused = Client {
        password: "wrong".to_owned(),
        http: ironic.http.clone(),
        url: url.clone(),
    };
    assert_eq!(refused.node(&id).await.0, 401);

    a_pod_that_is_lost(shell, &ironic, &id).await;
    an_upgrade(shell, &ironic, &id).await;
    a_changed_password(shell, &id, &url).await;

    shell
        .expect("helm uninstall metal3 --namespace metal3-system --wait")
        .await;
    let left = shell
        .expect("kubectl get bmh server -o jsonpath='{.status.provisioning.state}'")
        .await;
    assert_eq!(left, "available");
    shell.part("pvc ironic", ".metadata.name").await;
    let gone = shell.refused("kubectl -n metal3-system get secret ironic-tls").await;
    assert!(gone.contains("NotFound"), "{gone}");
    another_installation(shell, &install("ironic.deploy.hostNetwork=true"), &id, &address).await;
    let machine = servers.servers().machine(&servers.hosts()[0].uuid).await.unwrap();
    assert_eq!(machine.inspections(), 1, "nothing was done again");
}

/// Takes the database over that the last one has left, here in the network of the node.
async fn another_installation(shell: &Shell, install: &str, id: &str, address: &str) {
    shell
        .expect("kubectl label namespace metal3-system pod-security.kubernetes.io/enforce-")
        .await;
    shell
        .expect(&format!("{install} --take-ownership --force-conflicts"))
        .await;
    name_ironic(shell).await;
    shell.until_ready("statefulset ironic").await;
    shell
        .until_ready("deployment baremetal-operator-controller-manager")
        .await;
    let ironic = Client::new(shell, &format!("https://{address}:6385")).await;
    let (status, node) = ironic.node(id).await;
    assert_eq!((status, &node["provision_state"]), (200, &json!("manageable")));
    shell.until_state("available").await;
    shell
        .expect("kubectl patch bmh server --type merge -p '{\"spec\": {\"online\": false}}'")
        .await;
    let power = "kubectl get bmh server -o jsonpath='{.status.poweredOn}'";
    shell.until(power, |said| said == "false").await;
}

/// The database and the servers are none the worse.
async fn a_pod_that_is_lost(shell: &Shell, ironic: &Client, id: &str) {
    let begin = Instant::now();
    let before = shell.part("pod ironic-0", ".metadata.uid").await;
    shell.expect("kubectl -n metal3-system delete pod ironic-0").await;
    let uid = "kubectl -n metal3-system get pod ironic-0 -o jsonpath='{.metadata.uid}'";
    shell
        .until(uid, |said| !said.contains("NotFound") && said != before)
        .await;
    shell.until_ready("statefulset ironic").await;
    println!(
        "Ironic is back {:.1} s after its pod was deleted",
        begin.elapsed().as_secs_f64()
    );
    assert_eq!(ironic.node(id).await.1["provision_state"], "manageable");
}

/// Keeps certificate, password and database, and brings what has changed.
async fn an_upgrade(shell: &Shell, ironic: &Client, id: &str) {
    let kept = shell.kept().await;
    let begin = Instant::now();
    let more = json!({"ironic": {"deploy": {"extraConfig": "[conductor]\npower_state_change_timeout = 77\n"}}});
    let upgrade = "helm upgrade metal3 charts/metal3 --namespace metal3-system --reuse-values --values -";
    shell.expect(&format!("printf %s '{more}' | {upgrade}")).await;
    shell.until_ready("statefulset ironic").await;
    println!(
        "Ironic is ready {:.1} s after helm upgrade",
        begin.elapsed().as_secs_f64()
    );
    assert_eq!(shell.kept().await, kept);
    let read = "kubectl -n metal3-system exec ironic-0 -- cat /etc/ironic/zz-extra.conf";
    assert!(shell.expect(read).await.contains("\npower_state_change_timeout = 77"));
    assert_eq!(ironic.node(id).await.1["provision_state"], "manageable");
    shell.until_state("available").await;
}

/// Ironic takes it when it is started again. Until then the hosts say so, and no pod ends.
async fn a_changed_password(shell: &Shell, id: &str, url: &str) {
    let restarts = shell.restarts().await;
    let patch =
        "kubectl -n metal3-system patch secret ironic-credentials -p '{\"stringData\": {\"password\": \"another\"}}'";
    shell.expect(patch).await;
    let begin = Instant::now();
    let reason = r#"kubectl get bmh server -o jsonpath='{.status.conditions[?(@.type=="Waiting")].reason}'"#;
    // A host that rests asks nothing of Ironic.
    let mut is_on = true;
    while shell.expect(reason).await != "IronicUnauthorized" {
        assert!(begin.elapsed() < LIMIT, "the host does not say it");
        is_on = !is_on;
        let patch = json!({"spec": {"online": is_on}});
        let patch = format!("kubectl patch bmh server --type merge -p '{patch}'");
        shell.expect(&patch).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    println!(
        "the host says that the password is wrong {:.1} s after it was changed",
        begin.elapsed().as_secs_f64()
    );
    assert_eq!(shell.restarts().await, restarts);
    shell
        .expect("kubectl -n metal3-system rollout restart statefulset ironic")
        .await;
    shell.until_ready("statefulset ironic").await;
    shell.until(reason, |said| said != "IronicUnauthorized").await;
    let ironic = Client::new(shell, url).await;
    assert_eq!(ironic.password, "another");
    assert_eq!(ironic.node(id).await.1["provision_state"], "manageable");
}
