//! Builds from the pinned Go modules in `lab/`, kept in a cache folder named by a checksum of the sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::module;
use crate::cache;
use crate::process::{Program, in_path};

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

/// The folder with the programs of a node: `node`, which is everything of Kubernetes, by the name that it is called by;
/// `pause`, which holds a pod together; and the file `version`.
pub fn node() -> Result<PathBuf> {
    cached("node", |go, into| {
        let version = go.version_of("k8s.io/kubernetes")?;
        let settings = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
        go.build(".", &into.join("node"), &version, &settings)?;
        go.build("./pause", &into.join("pause"), &version, &[])?;
        fs::write(into.join("version"), version).context("cannot write a version")
    })
}

const CLUSTER_API_MODULE: &str = "sigs.k8s.io/cluster-api";

/// The folders with the definitions of Cluster API's kinds. Fetches its module if there is no finished build, but
/// compiles nothing.
pub fn cluster_api_definitions() -> Result<Vec<PathBuf>> {
    let sources = module("cluster-api")?;
    let built = cache::root()?.join(checksum(&sources)?).join("config");
    let managers = CLUSTER_API.iter().filter(|(name, _)| name.starts_with("capi-"));
    let folders: Vec<_> = if built.is_dir() {
        managers.map(|(name, _)| built.join(name)).collect()
    } else {
        let go = Go {
            name: "cluster-api",
            sources,
            log: PathBuf::new(), // of builds, and nothing is built
            tags: "",
        };
        cache::say("fetching the definitions of Cluster API's kinds");
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

/// The folder with Helm.
pub fn helm() -> Result<PathBuf> {
    const MODULE: &str = "helm.sh/helm/v4";
    cached("helm", |go, into| {
        let version = go.version_of(MODULE)?;
        go.build(&format!("{MODULE}/cmd/helm"), &into.join("helm"), &version, &[])
    })
}

/// The folder with Prometheus' tool for rules.
pub fn promtool() -> Result<PathBuf> {
    const MODULE: &str = "github.com/prometheus/prometheus";
    cached("prometheus", |go, into| {
        let version = go.version_of(MODULE)?;
        // Without the clients of all clouds, in which Prometheus looks for what it scrapes.
        let go = Go {
            tags: "remove_all_sd",
            ..go.clone()
        };
        go.build(&format!("{MODULE}/cmd/promtool"), &into.join("promtool"), &version, &[])
    })
}

/// The folder of this module's build, made by `make` if it is not there yet.
fn cached(name: &'static str, make: impl FnOnce(&Go, &Path) -> Result<()>) -> Result<PathBuf> {
    let sources = module(name)?;
    let what = format!("lab/{name}");
    cache::once(&checksum(&sources)?, &what, true, |making| {
        let go = Go {
            name,
            sources,
            log: making.log.clone(),
            tags: "",
        };
        make(&go, &making.folder)
    })
}

/// One of our modules, and the Go command in it.
#[derive(Clone)]
struct Go {
    name: &'static str,
    sources: PathBuf,
    log: PathBuf,
    /// Build tags.
    tags: &'static str,
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
        let args = [
            "build",
            "-v",
            "-trimpath",
            "-buildvcs=false",
            "-tags",
            self.tags,
            "-ldflags",
        ];
        let mut args: Vec<_> = args.iter().map(Into::into).collect();
        args.push(format!("-s -w {}", settings.join(" ")).into());
        args.extend(["-o".into(), output.into(), package.into()]);
        File::create(&self.log).context("cannot open the log of a build")?;
        let what = match package.strip_prefix('.') {
            Some(below) => format!("lab/{}{below}", self.name),
            None => package.to_owned(),
        };
        cache::say(&format!(
            "building {what} {version} (minutes when the compiler's cache is cold)"
        ));
        let program = Program {
            name: format!("building {what}"),
            executable: go()?,
            args,
            env: vec![("CGO_ENABLED".into(), "0".into())],
            cwd: Some(self.sources.clone()),
            log: self.log.clone(),
        };
        cache::run(&program, || progress(&self.log))
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

/// Parses the log of `go build -v`: it prints a line per fetched module and per compiled package.
fn progress(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let (fetched, compiled): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("go: "));
    format!(
        ", {} modules fetched, {} packages compiled",
        fetched.len(),
        compiled.len()
    )
}

/// Of everything that goes into a build but the compiler: `go.mod`, `go.sum`, the Go files, and the recipe.
fn checksum(sources: &Path) -> Result<String> {
    let mut parts = vec![RECIPE.as_bytes().to_vec()];
    parts.extend(cache::contents(sources, &|path| {
        path.extension()
            .is_some_and(|extension| ["go", "mod", "sum"].iter().any(|e| extension == *e))
    })?);
    Ok(cache::checksum(parts))
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

    #[test]
    fn servers_run_the_kubernetes_of_the_control_plane() {
        let versions = ["control-plane", "node"].map(|name| {
            let text = fs::read_to_string(module(name).unwrap().join("go.mod")).unwrap();
            let line = text.lines().find(|line| line.trim().starts_with("k8s.io/kubernetes v"));
            line.unwrap().trim().to_owned()
        });
        assert_eq!(versions[0], versions[1]);
    }

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
