//! The image of an Ironic that the chart deploys, made from its own `Dockerfile` in the same way. Debian's packages and Python's are
//! fetched once, since there is no network while it is built. The script is `lab/images/ironic.sh`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Source, Unpacked, probe, recipe, tools, unpacked};
use crate::cache;
use crate::image::SUITE;
use crate::process::{Program, in_path};
use crate::{debian, python};

/// The version of Debian's Python, which is another than this machine's.
const PYTHON: &str = "3.13";
/// Kinds of compiled packages that run with Debian's C library.
const PLATFORMS: [&str; 3] = ["manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64"];
/// The Dockerfile names the package by its architecture, all others in a file.
const BOOT_LOADER: &str = "grub-efi-amd64-signed";

/// Builds it. The first time that takes some minutes, and nothing where nothing has changed. Blocks meanwhile.
pub fn build_ironic(source: &Source<'_>) -> Result<Unpacked> {
    probe()?;
    let (tools, bases, wheels) = (tools()?, bases(source.context)?, wheels(source.context)?);
    let work = cache::root()?.join("ironic-image");
    fs::create_dir_all(&work).context("cannot make the folder of Ironic's image")?;
    let lock = fs::File::create(work.join("lock")).context("cannot open the lock of Ironic's image")?;
    lock.lock().context("cannot lock the folder of Ironic's image")?;
    let of = made_of(source, [&tools, &bases, &wheels])?;
    let made = work.join("made");
    if fs::read_to_string(&made).is_ok_and(|text| text == of) {
        return Ok(unpacked(&work, "ironic"));
    }
    fs::remove_file(&made).ok(); // the first time there is none
    let script = recipe()?.join("ironic.sh");
    let mut args = ["--mount", "--propagation", "private"].map(Into::into).to_vec();
    args.extend([script, tools, work.clone(), bases, wheels].map(PathBuf::into_os_string));
    args.extend([source.context.into(), source.version.into()]);
    let program = Program {
        name: "building the image of Ironic".to_owned(),
        executable: "unshare".into(),
        args,
        log: work.join("log"),
        ..Program::default()
    };
    fs::write(&program.log, "").context("cannot empty the log of Ironic's image")?;
    cache::run(&program, String::new)?;
    fs::write(&made, of).context("cannot note what Ironic's image was made of")?;
    Ok(unpacked(&work, "ironic"))
}

/// A checksum of all that goes into it.
fn made_of(source: &Source<'_>, parts: [&PathBuf; 3]) -> Result<String> {
    let mut all = cache::contents(source.context, &|_| true)?;
    all.extend(cache::contents(&recipe()?, &|_| true)?);
    all.extend(parts.map(|part| part.as_os_str().as_encoded_bytes().to_vec()));
    all.push(source.version.as_bytes().to_vec());
    Ok(cache::checksum(all))
}

/// A root tree with the packages of each stage, as an archive.
fn bases(context: &Path) -> Result<PathBuf> {
    let (base, build) = (listed(context, "packages")?, listed(context, "packages.build")?);
    let name = format!("ironic-bases-{}", cache::checksum([SUITE, &base, &build]));
    cache::once(&name, "what Ironic's image is made of", true, |making| {
        let what = "installing the packages of Ironic's image into an archive (once per machine)";
        let packages: Vec<_> = base.lines().collect();
        debian::install(making, what, SUITE, &packages, &making.folder.join("base.tar"))?;
        let what = "installing what builds Ironic's image into an archive (once per machine)";
        let packages: Vec<_> = build.lines().chain([BOOT_LOADER]).collect();
        debian::install(making, what, SUITE, &packages, &making.folder.join("build.tar"))
    })
}

/// The Python packages.
fn wheels(context: &Path) -> Result<PathBuf> {
    let lock = context.join("requirements.lock");
    let text = listed(context, "requirements.lock")?;
    let name = format!("ironic-wheels-{}", cache::checksum([PYTHON, &text]));
    cache::once(&name, "the Python packages of Ironic's image", true, |making| {
        // The interpreter's own pip may not be there.
        let (own, python) = (
            making.folder.join("pip"),
            in_path("python3").context("there is no python3 on PATH")?,
        );
        let args = vec!["-m".into(), "venv".into(), own.clone().into_os_string()];
        making.run("making a Python environment", &python, args)?;
        let options = "-m pip download --disable-pip-version-check --no-input --no-deps --only-binary=:all: --require-hashes \
                       --implementation cp --abi abi3 --abi none --abi cp313 --python-version";
        let mut args: Vec<_> = options.split_whitespace().map(Into::into).collect();
        args.push(PYTHON.into());
        for platform in PLATFORMS {
            args.extend(["--platform".into(), platform.into()]);
        }
        args.extend([
            "-r".into(),
            lock.clone().into(),
            "-d".into(),
            making.folder.clone().into(),
        ]);
        let what = "fetching the Python packages of Ironic's image (once per machine)";
        making.run(what, &python::interpreter(&own), args)?;
        fs::remove_dir_all(own).context("cannot remove a Python environment")
    })
}

fn listed(context: &Path, name: &str) -> Result<String> {
    let path = context.join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
