//! The programs' command lines, with the reasons for the less obvious flags.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::ControlPlaneConfig;
use crate::audit::AuditLog;
use crate::binaries::Binaries;
use crate::pki::Name;
use crate::process::Program;

/// The API server's own service in the cluster: the first address of the range of services, and its name.
pub fn service_names() -> Vec<Name> {
    vec![
        Name::Ip(Ipv4Addr::new(10, 96, 0, 1).into()),
        Name::Dns("kubernetes.default.svc".to_owned()),
    ]
}

pub fn etcd_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

pub fn etcd(folder: &Path, binaries: &Binaries, port: u16) -> Program {
    let url = etcd_url(port);
    let mut flags = Flags::default();
    flags.path("data-dir", folder.join("etcd"));
    flags.text("listen-client-urls", &url);
    flags.text("advertise-client-urls", &url);
    flags.text("listen-peer-urls", "http://127.0.0.1:0"); // there are no peers: any port will do
    flags.text("unsafe-no-fsync", "true"); // a lab's data need not survive a power cut
    flags.text("quota-backend-bytes", &(4_u64 << 30).to_string());
    flags.text("auto-compaction-retention", "5m");
    flags.text("log-level", "warn");
    flags.program("etcd", &binaries.etcd, folder)
}

pub fn api_server(folder: &Path, binaries: &Binaries, port: u16, etcd: u16, config: &ControlPlaneConfig) -> Program {
    let pki = folder.join("pki");
    let mut flags = Flags::default();
    flags.text("bind-address", "127.0.0.1");
    flags.text("advertise-address", "127.0.0.1");
    // The API server rejects loopback as an endpoint of the service `kubernetes`, so no endpoint is written.
    flags.text("endpoint-reconciler-type", "none");
    flags.text("secure-port", &port.to_string());
    flags.text("etcd-servers", &etcd_url(etcd));
    flags.path("tls-cert-file", pki.join("apiserver.crt"));
    flags.path("tls-private-key-file", pki.join("apiserver.key"));
    flags.path("client-ca-file", pki.join("ca.crt"));
    flags.text("authorization-mode", "Node,RBAC");
    flags.text("enable-bootstrap-token-auth", "true");
    flags.text("allow-privileged", "true");
    flags.text("service-account-issuer", "https://kubernetes.default.svc");
    flags.path("service-account-key-file", pki.join("sa.pub"));
    flags.path("service-account-signing-key-file", pki.join("sa.key"));
    flags.text("service-cluster-ip-range", "10.96.0.0/16");
    flags.text("profiling", "false");
    // Ends open watches on shutdown. Without it the server waits for them until it is killed.
    flags.text("shutdown-watch-termination-grace-period", "1s");
    if config.audit {
        flags.path("audit-policy-file", folder.join("audit/policy.yaml"));
        flags.path("audit-log-path", audit_log(folder, config));
        flags.text("audit-log-maxsize", "100000"); // megabytes: never rotate, counts need the whole
        flags.text("audit-log-mode", "blocking"); // never drop an entry
    }
    flags.program("kube-apiserver", &binaries.kube_apiserver, folder)
}

pub fn controller_manager(folder: &Path, binaries: &Binaries, kubeconfig: &Path) -> Result<Program> {
    // Not those for which a lab has nothing: nodes that report, routes, clouds, volumes. With nodes that never report,
    // the node lifecycle controller would evict what tests put on them.
    const CONTROLLERS: &str = "*,bootstrap-signer-controller,token-cleaner-controller,\
        -node-lifecycle-controller,-node-ipam-controller,-node-route-controller,-service-lb-controller,\
        -cloud-node-lifecycle-controller,-persistentvolume-binder-controller,\
        -persistentvolume-attach-detach-controller,-persistentvolume-expander-controller";
    let executable = binaries
        .kube_controller_manager
        .as_ref()
        .context("no kube-controller-manager at hand")?;
    let pki = folder.join("pki");
    let mut flags = Flags::default();
    flags.path("kubeconfig", kubeconfig.to_owned());
    flags.text("leader-elect", "false");
    flags.text("secure-port", "0"); // serves nothing
    flags.text("use-service-account-credentials", "true");
    // It asks for a token per controller at its start: four seconds at the default rate.
    flags.text("kube-api-qps", "500");
    flags.text("kube-api-burst", "500");
    flags.path("service-account-private-key-file", pki.join("sa.key"));
    flags.path("root-ca-file", pki.join("ca.crt"));
    flags.path("cluster-signing-cert-file", pki.join("ca.crt"));
    flags.path("cluster-signing-key-file", pki.join("ca.key"));
    flags.text("controllers", CONTROLLERS);
    Ok(flags.program("kube-controller-manager", executable, folder))
}

/// Everything at level Metadata, without the stage at which the answer is not yet known.
pub fn write_audit_policy(folder: &Path, config: &ControlPlaneConfig) -> Result<AuditLog> {
    const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
        rules:\n- level: Metadata\n";
    let log = audit_log(folder, config);
    let folder = folder.join("audit");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("policy.yaml"), POLICY))
        .with_context(|| format!("cannot write the audit policy to {}", folder.display()))?;
    Ok(AuditLog::at(log))
}

fn audit_log(folder: &Path, config: &ControlPlaneConfig) -> PathBuf {
    let own = || folder.join("audit/audit.log");
    config.audit_log.clone().unwrap_or_else(own)
}

/// `--name=value` flags.
#[derive(Default)]
struct Flags(Vec<OsString>);

impl Flags {
    fn text(&mut self, name: &str, value: &str) {
        self.0.push(format!("--{name}={value}").into());
    }

    fn path(&mut self, name: &str, value: PathBuf) {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.0.push(flag);
    }

    fn program(self, name: &str, executable: &Path, folder: &Path) -> Program {
        Program {
            name: name.to_owned(),
            executable: executable.to_owned(),
            args: self.0,
            log: folder.join("logs").join(format!("{name}.log")),
            ..Program::default()
        }
    }
}
