//! Simulated servers whose Ironic is not the lab's: it runs in a network of its own, such as a Pod's, and reaches them at an address
//! of this machine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::environment::{self, Environment};
use super::files::{Files, make_folders};
use super::{Host, Image, IronicConfig, Ports, Protocol, READY, Servers, ended, image_at, machines_program};
use crate::instance::Folder;
use crate::pki::{Authority, Name};
use crate::private_file;
use crate::process::Child;

/// The name of the servers' authority.
const AUTHORITY: &str = "metal3-lab-servers";
/// The authorities that agents trust; below `tls`.
const TRUSTED: &str = "trusted.crt";

/// What to start.
#[derive(Debug, Clone)]
pub struct AloneConfig {
    /// How many servers there are, all with Redfish.
    pub hosts: u16,
    /// The address of their BMCs, their agents and their images.
    pub address: Ipv4Addr,
    /// Where ramdisks that were not made by Ironic call it, without `/v1`.
    pub ironic_url: String,
}

/// Servers without an Ironic. Dropping it kills them.
#[derive(Debug)]
pub struct ServersAlone {
    machines: Child,
    servers: Servers,
    hosts: Vec<Host>,
    address: Ipv4Addr,
    ports: Ports,
    files: Files,
    _folder: Folder,
}

impl ServersAlone {
    /// Starts them, and returns when they answer.
    pub async fn start(config: &AloneConfig) -> Result<Self> {
        let environment = tokio::task::spawn_blocking(environment::ensure);
        let environment = environment.await.context("the installation of Ironic was cut off")??;
        let folder = Folder::take(None, "metal3-lab-servers")?;
        let files = Files {
            folder: folder.path().to_owned(),
        };
        let ports = Ports::take(config.hosts)?;
        let bmcs = ports.bmcs.iter().zip(1..);
        let hosts: Vec<Host> = bmcs
            .map(|(port, number)| Host::new(Protocol::Redfish, number, port.number(), true))
            .collect();
        write(&files, config, &ports, &hosts)?;
        prepare(&environment, &files).await?;
        let alone = Self {
            machines: Child::spawn(&machines_program(&environment, &files))?,
            servers: Servers::at(&ports.control_url())?,
            hosts,
            address: config.address,
            ports,
            files,
            _folder: folder,
        };
        let answer = async || alone.servers.machines().await.map(drop);
        alone
            .machines
            .wait_until("an answer of the simulated servers", READY, answer)
            .await?;
        Ok(alone)
    }

    /// The authority of the BMCs' certificates, PEM.
    pub fn authority(&self) -> Result<String> {
        let authority = Authority::open_or_generate(&self.files.folder.join("tls"), AUTHORITY)?;
        Ok(authority.certificate().to_owned())
    }

    /// Has agents trust this authority, PEM, too: that of Ironic's certificate. Those that run already do not.
    pub fn trust(&self, authority: &str) -> Result<()> {
        let path = self.files.folder.join("tls").join(TRUSTED);
        let trusted = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::write(&path, format!("{trusted}\n{authority}")).context("cannot write certificates")
    }

    /// The servers.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// What they are doing and went through.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The address of a server's BMC, as a BareMetalHost has it in `spec.bmc.address`.
    pub fn bmc_address(&self, host: &Host) -> String {
        host.bmc_address().replace("127.0.0.1", &self.address.to_string())
    }

    /// The image that servers can be given.
    pub fn image(&self) -> Result<Image> {
        image_at(&self.files, &self.images())
    }

    /// A ramdisk as a kernel and a ramdisk.
    pub fn ramdisk_urls(&self) -> [String; 2] {
        ["ipa.kernel", "ipa.initramfs"].map(|name| format!("{}/images/{name}", self.images()))
    }

    /// What agents did, a line for each event.
    pub fn agents_log(&self) -> String {
        fs::read_to_string(self.files.log("agents.jsonl")).unwrap_or_default() // nothing yet
    }

    fn images(&self) -> String {
        format!("http://{}:{}", self.address, self.ports.image.number())
    }
}

fn write(files: &Files, config: &AloneConfig, ports: &Ports, hosts: &[Host]) -> Result<()> {
    make_folders(&files.folder)?;
    let tls = files.folder.join("tls");
    let authority = Authority::open_or_generate(&tls, AUTHORITY)?;
    let names = [Name::Ip(IpAddr::V4(config.address))];
    authority.server("servers", &names)?.write(&tls, "server")?;
    fs::write(tls.join(TRUSTED), authority.certificate()).context("cannot write certificates")?;
    let mut instance = files.instance_json(&IronicConfig::default(), ports, hosts, None);
    instance["address"] = json!(config.address);
    instance["ironic_url"] = json!(config.ironic_url);
    instance["tls"]["ca"] = json!(tls.join(TRUSTED));
    let text = serde_json::to_string_pretty(&instance).context("cannot write JSON")?;
    private_file::write(&files.instance(), &text)
}

async fn prepare(environment: &Environment, files: &Files) -> Result<()> {
    let prepare = Child::spawn(&environment.program("prepare", &files.instance(), files.log("prepare.log")))?;
    let status = ended(&prepare).await;
    ensure!(
        status.success(),
        "preparing the servers failed ({status}){}",
        prepare.log_tail()
    );
    Ok(())
}
