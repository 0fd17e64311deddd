//! A server that really boots: an emulated machine with UEFI firmware behind a stock Redfish emulator, a stock Ironic as packaged,
//! and the real ramdisk agent. What the lab's other servers play is real here: firmware, virtual media, inventory, disks, boot
//! entries, and the written image.
//!
//! ```text
//!   lab (network namespace of the machine)     one network, mount and PID namespace for everything else
//!     API server, our operator ──── cable ──── bridge ─┬─ Ironic ─┬─▶ emulated BMC ─▶ libvirt ─▶ QEMU (UEFI, disk, CD)
//!                                                      ├─ images ◀┴──────────────────────────────┤ network card
//!                                                      └─ DHCP ◀─────────────────────────────────┘
//! ```
//!
//! Addresses are fixed, so a machine can have one such lab at a time. It ends with the process that started it, however that ends,
//! and leaves a folder that the next one removes. `lab/metal` has the scripts.

mod probe;
mod recipes;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

pub use probe::probe;
pub use recipes::{Parts, ensure};

use crate::instance::{Claim, Scratch};
use crate::ironic::files::{fill, make_folders};
use crate::ironic::{Credentials, environment};
use crate::operator::{IronicAccess, Ramdisk};
use crate::process::{Child, Program};
use crate::{cache, private_file};

/// The folder in the cache that the one lab with such a server holds.
const CLAIMED: &str = "metal";
/// The cable's end in the lab.
const PORT: &str = "metal3-metal";
/// Its address.
const OUTSIDE: &str = "203.0.113.254";
/// The address of Ironic, the BMC and the images.
const ADDRESS: &str = "203.0.113.1";
/// How long it may take until Ironic serves: four seconds, on a busy machine eight.
const START: Duration = Duration::from_secs(120);
/// The size of the server's disk: eight times that of the image. The ramdisk agent waits for a larger one below 4 GB.
const DISK: u64 = 8 << 30;

/// What is known of the server from outside.
#[derive(Debug, Clone)]
pub struct Server {
    /// The name of the virtual machine.
    pub name: &'static str,
    /// Its UUID, by which its BMC knows it.
    pub uuid: &'static str,
    /// The MAC address of its network card.
    pub mac: &'static str,
    /// How many processors it has.
    pub cpus: u32,
    /// Its memory in MiB: kubeadm wants two thirds of it.
    pub memory: u64,
    /// The serial number of its disk.
    pub serial: &'static str,
    /// An address that no DHCP server gives away, for its network data.
    pub address: &'static str,
    /// Its gateway.
    pub gateway: &'static str,
}

const SERVER: Server = Server {
    name: "metal-1",
    uuid: "11111111-2222-4333-8444-000000000001",
    mac: "52:54:00:00:00:10",
    cpus: 2,
    memory: 3072,
    serial: "LAB-DISK-1",
    address: "203.0.113.50",
    gateway: ADDRESS,
};

/// An image of the server's system.
#[derive(Debug, Clone)]
pub struct Image {
    /// `raw` or `qcow2`.
    pub format: String,
    /// Where it is.
    pub url: String,
    /// The same by way of a redirect.
    pub redirected_url: String,
    /// Its SHA-256 checksum.
    pub sha256: String,
}

/// Such a server with its Ironic. Dropping it ends all of it.
#[derive(Debug)]
pub struct Metal {
    // Dropped in this order.
    process: Child,
    inside: u32,
    folder: Scratch,
    _claim: Claim,
}

impl Metal {
    /// Starts everything, with the server switched off and its disk empty, and returns when Ironic serves. Fails where another
    /// lab has such a server. Makes what is missing, as [`ensure`] does. `patience` is how long Ironic waits for its ramdisk, whose
    /// boot takes one minute without hardware virtualisation, and three on a busy machine.
    pub async fn start(patience: Duration) -> Result<Self> {
        rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
        let claim = Claim::take(&cache::root()?.join(CLAIMED))
            .context("a machine can have one lab at a time with an emulated server")?;
        let folder = Scratch::new("metal3-lab-metal")?;
        let made = tokio::task::spawn_blocking({
            let folder = folder.folder().to_owned();
            move || prepare(&folder, patience)
        });
        let program = made.await.context("the preparation was cut off")??;
        let process = Child::spawn(&program)?;
        let ready = folder.folder().join(READY);
        let up = async || {
            fs::read_to_string(&ready).map(drop).context("its network is not up")?;
            ask_ironic().await
        };
        process.wait_until("Ironic", START, up).await?;
        let inside = fs::read_to_string(&ready).context("it has not started")?;
        Ok(Self {
            process,
            inside: inside.trim().parse().context("a process without a number")?,
            folder,
            _claim: claim,
        })
    }

    /// The folder with its logs.
    pub fn folder(&self) -> &Path {
        self.folder.folder()
    }

    /// An error if it has ended.
    pub fn ensure_alive(&self) -> Result<()> {
        self.process.ensure_alive()
    }

    /// What an operator is to use.
    pub fn access(&self) -> IronicAccess {
        IronicAccess {
            endpoint: endpoint(),
            credentials: None,
            ca_file: None,
            ramdisk: Ramdisk::Pair(["ipa.kernel", "ipa.initramfs"].map(image_url)),
        }
    }

    /// The server.
    pub fn server(&self) -> Server {
        SERVER
    }

    /// Its BMC's address, for a host's `spec.bmc.address`.
    pub fn bmc_address(&self) -> String {
        format!(
            "redfish-virtualmedia+http://{ADDRESS}:8000/redfish/v1/Systems/{}",
            SERVER.uuid
        )
    }

    /// What its BMC takes.
    pub fn credentials(&self) -> Credentials {
        credentials()
    }

    /// An image by its file's name: `disk.raw` and `disk.qcow2`, which are the same system, or `large.qcow2`, which is larger than
    /// the server's disk.
    pub fn image(&self, file: &str) -> Result<Image> {
        let (_, format) = file.rsplit_once('.').context("an image without a format")?;
        let sum = self.folder().join(format!("http/images/{file}.sha256sum"));
        let sha256 = fs::read_to_string(&sum).with_context(|| format!("cannot read {}", sum.display()))?;
        Ok(Image {
            format: format.to_owned(),
            url: image_url(file),
            redirected_url: format!("http://{ADDRESS}:8080/redirected/{file}"),
            sha256: sha256.trim().to_owned(),
        })
    }

    /// What was asked of the server of images, one line each.
    pub fn image_requests(&self) -> String {
        fs::read_to_string(self.folder().join("log/images.log")).unwrap_or_default()
    }

    /// What the server said on its serial console since the lab started.
    pub fn console(&self) -> String {
        let bytes = fs::read(self.folder().join("machine/console")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "\n")
    }

    /// The server's disk, as a raw image.
    pub fn disk(&self) -> PathBuf {
        self.folder().join("machine/disk")
    }

    /// A file of the system that was installed, as its disk has it now; what went wrong if it cannot be read.
    pub fn installed_file(&self, path: &str) -> String {
        let root = format!("{}?offset={}", self.disk().display(), 129 << 20);
        match self.run(&["debugfs", "-c", "-R", &format!("cat {path}"), &root]) {
            Ok(said) if !said.stdout.is_empty() => String::from_utf8_lossy(&said.stdout).into_owned(),
            Ok(said) => String::from_utf8_lossy(&said.stderr).into_owned(),
            Err(error) => format!("{error:#}"),
        }
    }

    /// How much of the disk's image is allocated, in bytes.
    pub fn written(&self) -> Result<u64> {
        let data = fs::metadata(self.disk()).context("the server has no disk")?;
        Ok(data.blocks() * 512)
    }

    /// Runs a command of libvirt's `virsh` on the server, such as `destroy` (its power is cut), `reset` or `suspend`.
    pub fn virsh(&self, command: &str) -> Result<String> {
        let said = self.run(&["virsh", "-q", command, SERVER.name])?;
        let error = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "virsh {command}: {}", error.trim());
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }

    /// Runs a command in the root tree of tools, where the server runs.
    fn run(&self, command: &[&str]) -> Result<Output> {
        Command::new("nsenter")
            .args([
                "--target",
                &self.inside.to_string(),
                "--net",
                "--mount",
                "--pid",
                "chroot",
            ])
            .arg(self.folder().join("root"))
            .args(["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin", "LANG=C.UTF-8"])
            .args(command)
            .output()
            .context("cannot start nsenter, which is part of util-linux")
    }

    /// Ends all of it.
    pub fn stop(self) {
        self.process.kill();
    }
}

/// Says that everything was started, with the number of process 1.
const READY: &str = "ready";

fn endpoint() -> String {
    format!("http://{ADDRESS}:6385")
}

fn image_url(file: &str) -> String {
    format!("http://{ADDRESS}:8080/images/{file}")
}

fn credentials() -> Credentials {
    Credentials::new("admin", "secret-of-metal-1")
}

/// The API answers before the conductor has registered.
async fn ask_ironic() -> Result<()> {
    let request = reqwest::Client::new().get(format!("{}/v1/drivers", endpoint()));
    let request = request
        .header("X-OpenStack-Ironic-API-Version", "1.95")
        .timeout(Duration::from_secs(5));
    let text = request.send().await?.error_for_status()?.text().await?;
    ensure!(text.contains("redfish"), "no drivers yet");
    Ok(())
}

/// Writes everything that is read at the start. Returns what starts it.
fn prepare(folder: &Path, patience: Duration) -> Result<Program> {
    let parts = recipes::ensure()?;
    let ironic = environment::ensure()?;
    let is_quick = probe::has_kvm(&parts, folder)?;
    let scripts = recipes::scripts()?;
    make_folders(folder)?;
    for below in ["machine", "cds"] {
        fs::create_dir_all(folder.join(below)).with_context(|| format!("cannot make {below}"))?;
    }
    for (from, names) in [
        (&parts.ramdisk, &["ipa.kernel", "ipa.initramfs", "esp.img"][..]),
        (
            &parts.disk,
            &["disk.raw", "disk.raw.sha256sum", "disk.qcow2", "disk.qcow2.sha256sum"][..],
        ),
    ] {
        for name in names {
            let to = folder.join("http/images").join(name);
            // A gigabyte each, which a link need not copy; the cache may lie on another file system.
            if fs::hard_link(from.join(name), &to).is_err() {
                fs::copy(from.join(name), &to).with_context(|| format!("cannot copy {name}"))?;
            }
        }
    }
    // Ironic makes hybrid ISO images, and these are for firmware that is none.
    for name in ["isolinux.bin", "ldlinux.c32"] {
        File::create(folder.join("boot").join(name)).with_context(|| format!("cannot make {name}"))?;
    }
    let disk = File::create(folder.join("machine/disk")).context("cannot make a disk")?;
    disk.set_len(DISK).context("cannot size a disk")?;
    let qemu = folder.join("machine/qemu");
    fs::write(&qemu, "#!/bin/sh\nexec nice -n 5 /usr/bin/qemu-system-x86_64 \"$@\"\n")
        .context("cannot write a script")?;
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).context("cannot make a script runnable")?;
    let user = credentials();
    private_file::write(
        &folder.join("bmc.user"),
        &format!("{} {}\n", user.username, user.password),
    )?;
    fs::copy(ironic.empty_database(), folder.join("ironic.sqlite")).context("cannot copy the empty database")?;

    let values = values(folder, is_quick, patience);
    let filled = |path: PathBuf| -> Result<String> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(fill(&text, &values))
    };
    for name in ["domain.xml", "emulator.conf", "qemu.conf"] {
        let suffix = if name == "qemu.conf" { "" } else { ".in" };
        fs::write(folder.join(name), filled(scripts.join(format!("{name}{suffix}")))?)
            .with_context(|| format!("cannot write {name}"))?;
    }
    // A group may appear again, and the last value of an option wins.
    let conf = filled(ironic.sources().join("ironic.conf.in"))? + &filled(scripts.join("ironic.conf.in"))?;
    fs::write(folder.join("ironic.conf"), conf).context("cannot write Ironic's configuration")?;

    let mut args: Vec<OsString> = "--net --mount --pid --fork --kill-child --propagation private"
        .split(' ')
        .map(Into::into)
        .collect();
    args.extend([
        scripts.join("start.sh").into(),
        folder.join(READY).into(),
        std::process::id().to_string().into(),
    ]);
    args.extend([PORT, OUTSIDE, ADDRESS].map(OsString::from));
    args.extend([folder.into(), parts.tools.into(), ironic.folder().into()]);
    Ok(Program {
        name: "the emulated server".to_owned(),
        executable: "unshare".into(),
        args,
        log: folder.join("log/start.log"),
        ..Program::default()
    })
}

/// What stands between @ signs in the files.
fn values(folder: &Path, is_quick: bool, patience: Duration) -> Vec<(&'static str, String)> {
    let (kind, cpu) = if is_quick {
        ("kvm", "host-passthrough")
    } else {
        ("qemu", "maximum")
    };
    let Server {
        name,
        uuid,
        mac,
        cpus,
        memory,
        serial,
        ..
    } = SERVER;
    let patience = patience.as_secs().to_string();
    let values = [
        ("FOLDER", folder.display().to_string()),
        ("IP", ADDRESS.to_owned()),
        ("TYPE", kind.to_owned()),
        ("CPU", cpu.to_owned()),
        ("NAME", name.to_owned()),
        ("UUID", uuid.to_owned()),
        ("MAC", mac.to_owned()),
        ("CPUS", cpus.to_string()),
        ("MEMORY", memory.to_string()),
        ("SERIAL", serial.to_owned()),
        ("AUTH_STRATEGY", "noauth".to_owned()),
        ("API_PORT", "6385".to_owned()),
        ("API_URL", endpoint()),
        ("IMAGE_URL", format!("http://{ADDRESS}:8080")),
        ("IMAGE_CA", "true".to_owned()),
        ("TLS", "false".to_owned()),
        ("CALLBACK_TIMEOUT", patience.clone()),
        ("INSPECTION_TIMEOUT", patience.clone()),
        ("CLEAN_TIMEOUT", patience),
        ("CHECK_INTERVAL", "10".to_owned()),
        ("POWER_SYNC_INTERVAL", "30".to_owned()),
        ("POWER_RECOVERY_INTERVAL", "30".to_owned()),
    ];
    values.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_filled_in_completely() {
        let values = values(Path::new("/x"), false, START);
        let scripts = recipes::scripts().unwrap();
        let ironic = environment::sources().unwrap();
        for file in [
            scripts.join("domain.xml.in"),
            scripts.join("emulator.conf.in"),
            scripts.join("ironic.conf.in"),
            ironic.join("ironic.conf.in"),
        ] {
            let text = fill(&fs::read_to_string(&file).unwrap(), &values);
            let left = text.lines().find(|line| !line.starts_with('#') && line.contains('@'));
            assert_eq!(left, None, "{}", file.display());
        }
    }
}
