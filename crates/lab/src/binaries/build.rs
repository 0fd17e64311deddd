//! Builds from the pinned Go modules in `lab/`, kept in a cache folder named by a checksum of the sources.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{in_path, module};
use crate::process::{Child, Program};

/// How often something is said while a build runs.
const REPORT: Duration = Duration::from_secs(5);

/// Part of the checksum: to be changed with the flags of a build or what a cache folder holds.
const RECIPE: &str = "1";

/// The commands that the multi-call binary answers to.
const COMMANDS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];

/// Cluster API's main packages, and what we call their binaries.
const CLUSTER_API: [(&str, &str); 4] = [
    ("capi-core", "core"),
    ("capi-bootstrap-kubeadm", "bootstrap/kubeadm"),
    ("capi-controlplane-kubeadm", "controlplane/kubeadm"),
    ("clusterctl", "cmd/clusterctl"),
];

/// The folder with the control plane's binary, under all its names.
pub fn control_plane() -> Result<PathBuf> {
    cached("control-plane", |go, into| {
        let version = go.version_of("k8s.io/kubernetes")?;
        let settings = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
        go.build(".", &into.join("controlplane"), &version, &settings)?;
        for name in COMMANDS {
            std::os::unix::fs::symlink("controlplane", into.join(name)).context("cannot link a command's name")?;
        }
        Ok(())
    })
}

const CLUSTER_API_MODULE: &str = "sigs.k8s.io/cluster-api";

/// The folders with the definitions of Cluster API's kinds. Fetches its module if there is no finished build, but
/// compiles nothing.
pub fn cluster_api_definitions() -> Result<Vec<PathBuf>> {
    let sources = module("cluster-api")?;
    let built = cache_root()?.join(checksum(&sources)?).join("config");
    let managers = CLUSTER_API.iter().filter(|(name, _)| name.starts_with("capi-"));
    let folders: Vec<_> = if built.is_dir() {
        managers.map(|(name, _)| built.join(name)).collect()
    } else {
        let go = Go {
            name: "cluster-api",
            sources,
            log: PathBuf::new(), // of builds, and nothing is built
        };
        say("fetching the definitions of Cluster API's kinds");
        go.output(&["mod", "download", CLUSTER_API_MODULE])?;
        let module = PathBuf::from(go.output(&["list", "-m", "-f", "{{.Dir}}", CLUSTER_API_MODULE])?);
        managers
            .map(|(_, package)| module.join(package).join("config"))
            .collect()
    };
    Ok(folders.into_iter().map(|folder| folder.join("crd/bases")).collect())
}

/// The folder with Cluster API's binaries, and their shipped kustomizations under `config/`.
pub fn cluster_api() -> Result<PathBuf> {
    const MODULE: &str = CLUSTER_API_MODULE;
    cached("cluster-api", |go, into| {
        let version = go.version_of(MODULE)?;
        for (name, package) in CLUSTER_API {
            go.build(
                &format!("{MODULE}/{package}"),
                &into.join(name),
                &version,
                &["sigs.k8s.io/cluster-api/version"],
            )?;
        }
        // With the manifests beside the binaries, a cached build needs neither Go nor its module cache.
        let sources = go.output(&["list", "-m", "-f", "{{.Dir}}", MODULE])?;
        for (name, package) in CLUSTER_API {
            let config = Path::new(&sources).join(package).join("config");
            if config.is_dir() {
                copy(&config, &into.join("config").join(name))?;
            }
        }
        Ok(())
    })
}

/// The folder of this module's build, made by `make` in a folder of another name if it is not there yet.
fn cached(name: &'static str, make: impl FnOnce(&Go, &Path) -> Result<()>) -> Result<PathBuf> {
    let sources = module(name)?;
    let root = cache_root()?;
    let checksum = checksum(&sources)?;
    let done = root.join(&checksum);
    if done.is_dir() {
        return Ok(done);
    }
    fs::create_dir_all(&root).with_context(|| format!("cannot make the folder {}", root.display()))?;
    let lock = File::create(root.join(format!("{checksum}.lock"))).context("cannot open the lock of a build")?;
    wait_for(&lock, name)?;
    if done.is_dir() {
        return Ok(done); // built by whom we have waited for
    }
    let temporary = root.join(format!("{checksum}.unfinished"));
    if temporary.exists() {
        fs::remove_dir_all(&temporary).context("cannot remove an unfinished build")?;
    }
    fs::create_dir_all(&temporary).context("cannot make a folder for a build")?;
    let go = Go {
        name,
        sources,
        log: root.join(format!("{checksum}.log")),
    };
    make(&go, &temporary)?;
    fs::rename(&temporary, &done).context("cannot move a finished build to its place")?;
    Ok(done)
}

/// One of our modules, and the Go command in it.
struct Go {
    name: &'static str,
    sources: PathBuf,
    log: PathBuf,
}

impl Go {
    fn build(&self, package: &str, output: &Path, version: &str, settings: &[&str]) -> Result<()> {
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        // Without these settings a server calls itself v0.0.0, and version checks of clients go wrong.
        let settings: Vec<String> = settings
            .iter()
            .flat_map(|path| {
                [
                    ("gitVersion", version),
                    ("gitMajor", major),
                    ("gitMinor", minor),
                    ("gitTreeState", "clean"),
                ]
                .map(|(variable, value)| format!("-X {path}.{variable}={value}"))
            })
            .collect();
        let args = ["build", "-v", "-trimpath", "-buildvcs=false", "-ldflags"];
        let mut args: Vec<_> = args.iter().map(Into::into).collect();
        args.push(format!("-s -w {}", settings.join(" ")).into());
        args.extend(["-o".into(), output.into(), package.into()]);
        File::create(&self.log).context("cannot open the log of a build")?;
        let what = if package == "." {
            format!("lab/{}", self.name)
        } else {
            package.to_owned()
        };
        say(&format!(
            "building {what} {version} (minutes when the compiler's cache is cold)"
        ));
        let child = Child::spawn(&Program {
            name: format!("go build {what}"),
            executable: go()?,
            args,
            env: vec![("CGO_ENABLED".into(), "0".into())],
            cwd: Some(self.sources.clone()),
            log: self.log.clone(),
        })?;
        let start = Instant::now();
        let mut last = start;
        let status = loop {
            if let Some(status) = child.exit_status() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(100));
            if last.elapsed() >= REPORT {
                last = Instant::now();
                say(&format!("building {what}: {}", progress(&self.log, start.elapsed())));
            }
        };
        if !status.success() {
            bail!("building {what} failed ({status}){}", child.log_tail());
        }
        say(&format!("built {what}: {}", progress(&self.log, start.elapsed())));
        Ok(())
    }

    /// The version of a module, by `go.mod`.
    fn version_of(&self, module: &str) -> Result<String> {
        self.output(&["list", "-m", "-f", "{{.Version}}", module])
    }

    fn output(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(go()?)
            .args(args)
            .current_dir(&self.sources)
            .output()
            .context("cannot run the Go command")?;
        if !output.status.success() {
            bail!(
                "go {} in {}: {}",
                args.join(" "),
                self.sources.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

fn go() -> Result<PathBuf> {
    in_path("go").or_else(|| Some(PathBuf::from("/usr/local/go/bin/go")).filter(|path| path.is_file())).context(
        "there is neither a fitting kube-apiserver and etcd (KUBEBUILDER_ASSETS, PATH) nor a Go compiler to build them with; \
         install Go 1.26 or set KUBEBUILDER_ASSETS (see lab/README.md)",
    )
}

/// What the log of `go build -v` tells: it prints a line per module that it fetches and per package that it compiles.
fn progress(log: &Path, elapsed: Duration) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let (fetched, compiled): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("go: "));
    format!(
        "{} s, {} modules fetched, {} packages compiled",
        elapsed.as_secs(),
        fetched.len(),
        compiled.len()
    )
}

/// Writes past the capture of the test harness: minutes of silence look like a test that hangs.
fn say(text: &str) {
    writeln!(std::io::stderr(), "metal3-lab: {text}").ok();
}

fn wait_for(lock: &File, name: &str) -> Result<()> {
    let start = Instant::now();
    let mut last = None::<Instant>;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(err)) => return Err(err).context("cannot lock a build"),
        }
        if last.is_none_or(|last| last.elapsed() >= REPORT) {
            last = Some(Instant::now());
            say(&format!(
                "another process builds lab/{name}; waiting for {} s",
                start.elapsed().as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn cache_root() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache
        .context("neither XDG_CACHE_HOME nor HOME is set: no place for a cache")?
        .join("metal3-lab"))
}

/// Of everything that goes into a build but the compiler: `go.mod`, `go.sum`, the Go files, and the recipe.
fn checksum(sources: &Path) -> Result<String> {
    let listing = fs::read_dir(sources).with_context(|| format!("cannot list {}", sources.display()))?;
    let mut files: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| ["go", "mod", "sum"].iter().any(|e| extension == *e))
    });
    files.sort();
    let mut hash = Sha256::new();
    hash.update(RECIPE);
    for path in files {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update([0]);
        hash.update(bytes.len().to_le_bytes());
        hash.update(&bytes);
    }
    let digest = hash.finalize();
    let short = digest.first_chunk::<12>().context("a digest is longer than that")?;
    Ok(format!(
        "{:024x}",
        short
            .iter()
            .fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
    ))
}

/// Copies a folder. Files of the module cache are read-only; copies are not, so that a cache can be removed.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make the folder {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::read(&path)
                .and_then(|bytes| fs::write(&target, bytes))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // OWN 20b: kube-scheduler, kube-proxy and kubelet were compiled for every lab and started nowhere.
    #[test]
    fn what_is_compiled_into_the_control_plane_is_what_a_lab_starts() {
        let sources = module("control-plane").unwrap();
        let main = fs::read_to_string(sources.join("main.go")).unwrap();
        let map = main
            .split_once("var commands = ")
            .unwrap()
            .1
            .split_once("\n}")
            .unwrap()
            .0;
        let compiled = map
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"')?.split_once('"'));
        let compiled: BTreeSet<&str> = compiled.map(|(name, _)| name).chain(["etcd"]).collect();
        let started = format!("{:?}", super::super::built_at(Path::new("/folder")));
        let started: BTreeSet<&str> = started
            .split("/folder/")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(compiled, BTreeSet::from(COMMANDS));
        assert_eq!(started, BTreeSet::from(COMMANDS));
    }
}
