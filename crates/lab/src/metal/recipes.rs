//! What a server that really boots is made of, once per machine: a root tree of tools, the ramdisk, a disk image. The scripts are
//! in `lab/metal`. Nothing is installed on the machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::{self, Making};
use crate::debian;
use crate::image::{self, SUITE};

/// To be changed with what is done with packages and scripts.
const STEPS: &str = "1";

/// What was made.
#[derive(Debug, Clone)]
pub struct Parts {
    /// A root tree with QEMU, its firmware, libvirt, a DHCP server, the emulator of BMCs, and what makes images.
    pub tools: PathBuf,
    /// The folder of `ipa.kernel`, `ipa.initramfs`, and `esp.img`, the boot loader of Ironic's ISO.
    pub ramdisk: PathBuf,
    /// The folder of `disk.raw` and `disk.qcow2`, with their checksums.
    pub disk: PathBuf,
}

/// Makes what is not there yet: five minutes, and those that [`image::ensure`] takes. Blocks meanwhile.
pub fn ensure() -> Result<Parts> {
    let image = image::ensure()?;
    let tools = tools()?;
    let ramdisk = ramdisk(&tools)?;
    let disk = disk(&image.tree, &ramdisk, &tools)?;
    Ok(Parts { tools, ramdisk, disk })
}

/// The folder of the scripts.
pub(super) fn scripts() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/metal");
    path.canonicalize()
        .with_context(|| format!("the recipe of servers that really boot is not at {}", path.display()))
}

fn tools() -> Result<PathBuf> {
    let files = ["packages.tools", "emulator.lock", "in-root.sh", "tools.sh"];
    let folder = once(
        "tools",
        &files,
        &[],
        "the tools of servers that really boot",
        |making, scripts| {
            let tree = making.folder.join("tree");
            install(making, &scripts.join("packages.tools"), &tree)?;
            let what = "installing the emulator of management controllers";
            making.run(what, &scripts.join("tools.sh"), vec![tree.into()])
        },
    )?;
    Ok(folder.join("tree"))
}

fn ramdisk(tools: &Path) -> Result<PathBuf> {
    let files = [
        "packages.ramdisk",
        "agent.lock",
        "in-root.sh",
        "ramdisk.sh",
        "ramdisk/init",
        "ramdisk/udhcpc.sh",
    ];
    once(
        "ramdisk",
        &files,
        &[tools],
        "the ramdisk of servers that really boot",
        |making, scripts| {
            let tree = making.folder.join("tree");
            install(making, &scripts.join("packages.ramdisk"), &tree)?;
            let args = vec![tree.clone().into(), tools.into(), making.folder.clone().into()];
            making.run("making a ramdisk", &scripts.join("ramdisk.sh"), args)?;
            fs::remove_dir_all(&tree).context("cannot remove the ramdisk's tree")
        },
    )
}

fn disk(image: &Path, ramdisk: &Path, tools: &Path) -> Result<PathBuf> {
    let files = ["in-root.sh", "disk.sh"];
    once(
        "disk",
        &files,
        &[image, ramdisk, tools],
        "the disk image of servers that really boot",
        |making, scripts| {
            let args = [image, ramdisk, tools, &making.folder].map(Into::into).into();
            making.run("making a disk image", &scripts.join("disk.sh"), args)
        },
    )
}

/// The folder that `make` makes by these files of the recipe, of these results in the cache, which are named by a checksum too.
fn once(
    name: &str,
    files: &[&str],
    of: &[&Path],
    what: &str,
    make: impl FnOnce(&Making, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let scripts = scripts()?;
    let mut parts = vec![STEPS.as_bytes().to_vec(), SUITE.as_bytes().to_vec()];
    for file in files {
        parts.push(fs::read(scripts.join(file)).with_context(|| format!("cannot read {file}"))?);
    }
    parts.extend(of.iter().map(|path| path.as_os_str().as_encoded_bytes().to_vec()));
    let name = format!("metal-{name}-{}", cache::checksum(parts));
    cache::once(&name, what, true, |making| make(making, &scripts))
}

fn install(making: &Making, list: &Path, tree: &Path) -> Result<()> {
    let packages = fs::read_to_string(list).with_context(|| format!("cannot read {}", list.display()))?;
    let packages: Vec<&str> = packages.lines().collect();
    let what = "installing Debian's packages into a folder (once per machine)";
    debian::install(making, what, SUITE, &packages, tree)
}
