//! The disk of a server: a layer over the image's tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::ironic::ConfigDrive;

/// Where cloud-init looks for the files of a config drive, besides the drive itself.
const SEED: &str = "var/lib/cloud/seed/config_drive";
/// What is kept of a disk that is erased, to be read after a failure.
const LOGS: [&str; 2] = ["var/log/cloud-init-output.log", "var/log/cloud-init.log"];

/// The disk in a server's folder.
pub fn path(server: &Path) -> PathBuf {
    server.join("disk")
}

/// Writes the image and a config drive to a server's disk. Blocks.
pub fn write(server: &Path, tree: &Path, drive: &ConfigDrive) -> Result<()> {
    let disk = path(server);
    let upper = disk.join("upper");
    fs::create_dir_all(upper.join("etc/containerd")).context("cannot make a server's disk")?;
    copy(&layer()?.join("."), &upper)?;
    // The image's own mounts the file systems of a real disk.
    fs::write(upper.join("etc/fstab"), "").context("cannot write to a server's disk")?;
    let config = "etc/containerd/config.toml";
    let text = fs::read_to_string(tree.join(config)).context("the image has no containerd")?;
    fs::write(upper.join(config), containerd(&text)).context("cannot write to a server's disk")?;
    for (path, content) in &drive.files {
        let file = upper.join(SEED).join(path);
        let folder = file.parent().context("a file without a folder")?;
        fs::create_dir_all(folder).context("cannot make a folder of the config drive")?;
        let content = STANDARD.decode(content).context("a file that is not in base64")?;
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    // The overlays of containerd cannot lie on an overlay, so this folder becomes a mount of its own.
    copy(&tree.join("var/lib/containerd"), &disk.join("containerd"))
}

/// Removes a server's disk; its logs stay. Nothing may run on it.
pub fn erase(server: &Path) -> Result<()> {
    let disk = path(server);
    for log in LOGS {
        let (from, to) = (
            disk.join("upper").join(log),
            server.join(log.rsplit('/').next().unwrap_or(log)),
        );
        if from.is_file() {
            fs::copy(&from, &to).with_context(|| format!("cannot keep {}", from.display()))?;
        }
    }
    if disk.exists() {
        fs::remove_dir_all(&disk).with_context(|| format!("cannot remove {}", disk.display()))?;
    }
    Ok(())
}

/// What a server wants that has no machine of its own.
fn layer() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/node/server/layer");
    path.canonicalize()
        .with_context(|| format!("the files of the lab's servers are not at {}", path.display()))
}

/// The image's configuration of containerd, for a process without `CAP_SYS_RESOURCE` and without systemd's cgroups.
fn containerd(text: &str) -> String {
    let text = text.replace("version = 2\n", "version = 2\noom_score = 0\n");
    let text = text.replace("SystemdCgroup = true", "SystemdCgroup = false");
    let plugin = "[plugins.\"io.containerd.grpc.v1.cri\"]\n";
    text.replace(
        plugin,
        &format!("{plugin}  restrict_oom_score_adj = true\n  disable_apparmor = true\n"),
    )
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    command.args(["-a", "--no-preserve=context", "--sparse=always", "--reflink=auto", "--"]);
    let output = command.arg(from).arg(to).output().context("cannot run cp")?;
    ensure!(
        output.status.success(),
        "cannot copy {}: {}",
        from.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_the_config_drive_to_the_byte_and_the_settings_of_the_lab() {
        let folder = tempfile::tempdir().unwrap();
        let (server, tree) = (folder.path().join("host-1"), folder.path().join("tree"));
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/node/image/files");
        copy(&image, &tree).unwrap();
        fs::create_dir_all(tree.join("var/lib/containerd")).unwrap();
        let drive = ConfigDrive {
            files: [("openstack/latest/user_data".to_owned(), STANDARD.encode(b"\xff\x00"))].into(),
            ..ConfigDrive::default()
        };
        write(&server, &tree, &drive).unwrap();

        let upper = path(&server).join("upper");
        let seed = upper.join(SEED).join("openstack/latest/user_data");
        assert_eq!(fs::read(seed).unwrap(), b"\xff\x00");
        let config = fs::read_to_string(upper.join("etc/containerd/config.toml")).unwrap();
        for line in ["oom_score = 0", "disable_apparmor = true", "SystemdCgroup = false"] {
            assert!(config.contains(line), "{line} in {config}");
        }
        assert!(upper.join("usr/local/sbin/kubeadm").is_file());
        erase(&server).unwrap();
        assert!(!path(&server).exists());
    }
}
