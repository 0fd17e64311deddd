//! The images of our programs, made from the project's own `Dockerfile`, without an engine and without a registry: buildah, in a
//! root tree of Debian's packages, with a builder's image that has this machine's Rust. The script is `lab/images/build.sh`.

mod ironic;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub use self::ironic::build_ironic;

use crate::cache;
use crate::image::SUITE;
use crate::process::Program;
use crate::{cargo, debian};

/// To be changed with what is done with the packages.
const STEPS: &str = "1";
/// The version that the Dockerfile names, too.
const AUDITABLE: &str = "0.7.7";
/// What builds images, and unpacks them.
const TOOLS: [&str; 3] = ["buildah", "netavark", "umoci"];
/// What the builder's image has besides Rust.
const BUILDER: [&str; 3] = ["ca-certificates", "gcc", "libc6-dev"];

/// What is built of.
#[derive(Debug)]
pub struct Source<'a> {
    /// The folder with the `Dockerfile`.
    pub context: &'a Path,
    /// The version that the images say they have.
    pub version: &'a str,
}

/// An image, unpacked.
#[derive(Debug, Clone)]
pub struct Unpacked {
    /// Its name, which is that of its target in the Dockerfile.
    pub name: String,
    /// Its root tree.
    pub root: PathBuf,
    /// How it is to be run, as the OCI's runtime specification has it.
    pub config: PathBuf,
    /// The image in one file, which containerd and docker import.
    pub archive: PathBuf,
}

/// Fails, with the reason, where images cannot be built.
pub fn probe() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "images can only be built as root: their files belong to other users"
    );
    debian::probe()
}

/// Builds images. The first time that takes some fifteen minutes on two cores, later a few. Blocks meanwhile.
pub fn build(source: &Source<'_>, names: &[&str]) -> Result<Vec<Unpacked>> {
    probe()?;
    let tools = tools()?;
    let work = cache::root()?.join("programs");
    fs::create_dir_all(&work).context("cannot make the folder of images")?;
    let lock = fs::File::create(work.join("lock")).context("cannot open the lock of images")?;
    lock.lock().context("cannot lock the folder of images")?;
    let fetched = cargo::command()
        .current_dir(source.context)
        .args(["fetch", "--quiet", "--locked"])
        .status()
        .context("cannot start cargo")?;
    ensure!(fetched.success(), "the crates of Cargo.lock cannot be fetched");

    let script = recipe()?.join("build.sh");
    let mut args = vec![
        "--mount".into(),
        "--propagation".into(),
        "private".into(),
        script.into_os_string(),
        tools.into(),
        work.clone().into_os_string(),
        toolchain(source.context)?.into_os_string(),
        registry()?.into_os_string(),
        auditable()?.join("bin").into_os_string(),
        source.context.into(),
        source.version.into(),
    ];
    args.extend(names.iter().map(Into::into));
    let program = Program {
        name: "building the images of our programs".to_owned(),
        executable: "unshare".into(),
        args,
        log: work.join("log"),
        ..Program::default()
    };
    fs::write(&program.log, "").context("cannot empty the log of images")?;
    cache::run(&program, String::new)?;
    Ok(names.iter().map(|name| unpacked(&work, name)).collect())
}

/// What a script has left of an image.
fn unpacked(work: &Path, name: &str) -> Unpacked {
    let out = work.join("out");
    Unpacked {
        name: name.to_owned(),
        root: out.join(name).join("rootfs"),
        config: out.join(name).join("config.json"),
        archive: out.join(format!("{name}.tar")),
    }
}

fn recipe() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/images");
    path.canonicalize()
        .with_context(|| format!("the recipe of images is not at {}", path.display()))
}

fn tools() -> Result<PathBuf> {
    let parts = [STEPS, SUITE].into_iter().chain(TOOLS).chain(BUILDER);
    let name = format!("oci-tools-{}", cache::checksum(parts));
    cache::once(&name, "what builds images", true, |making| {
        let what = "installing what builds images into a folder (once per machine)";
        debian::install(making, what, SUITE, &TOOLS, &making.folder.join("tree"))?;
        let what = "installing a C compiler into an archive (once per machine)";
        debian::install(making, what, SUITE, &BUILDER, &making.folder.join("builder.tar"))
    })
}

/// What lists a program's crates in it.
fn auditable() -> Result<PathBuf> {
    let name = format!("cargo-auditable-{AUDITABLE}");
    cache::once(&name, "cargo-auditable", true, |making| {
        let args = "install cargo-auditable --quiet --locked --version";
        let mut args: Vec<OsString> = args.split(' ').map(Into::into).collect();
        args.extend([
            AUDITABLE.into(),
            "--root".into(),
            making.folder.clone().into_os_string(),
        ]);
        making.run(
            "building cargo-auditable (once per machine)",
            Path::new(&cargo::program()),
            args,
        )
    })
}

/// Where this machine's Rust is.
fn toolchain(context: &Path) -> Result<PathBuf> {
    let output = Command::new("rustc")
        .current_dir(context)
        .args(["--print", "sysroot"])
        .output()
        .context("cannot start rustc")?;
    ensure!(output.status.success(), "rustc does not say where it is installed");
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Where cargo keeps crates.
fn registry() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    let home = home.map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    Ok(home.context("neither CARGO_HOME nor HOME is set")?.join("registry"))
}
