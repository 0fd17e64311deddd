//! The files in an instance's folder before its programs start.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::environment::Environment;
use super::{Credentials, Host, IronicConfig, Ports};
use crate::pki::Authority;
use crate::private_file;

/// Folders that Ironic and our programs expect.
const FOLDERS: [&str; 11] = [
    "boot",
    "http/images",
    "http/master_iso_images",
    "http/tmp",
    "log",
    "master_images",
    "state",
    "tftpboot/master_images",
    "tls",
    "tls/agents",
    "tmp",
];

/// The files of an instance.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub folder: PathBuf,
}

impl Files {
    pub fn instance(&self) -> PathBuf {
        self.folder.join("instance.json")
    }

    pub fn database(&self) -> PathBuf {
        self.folder.join("ironic.sqlite")
    }

    pub fn ca(&self) -> PathBuf {
        self.folder.join("tls/ca.crt")
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join("log").join(name)
    }

    pub fn requests(&self) -> PathBuf {
        self.log("requests.jsonl")
    }

    /// Writes everything but what `ironic_lab.prepare` makes.
    pub fn write(
        &self,
        config: &IronicConfig,
        environment: &Environment,
        ports: &Ports,
        hosts: &[Host],
        user: Option<&Credentials>,
    ) -> Result<()> {
        make_folders(&self.folder)?;
        if config.tls {
            let tls = self.folder.join("tls");
            let authority = Authority::open_or_generate(&tls, "metal3-lab-ironic")?;
            authority.server("127.0.0.1", &[])?.write(&tls, "server")?;
        }
        // A database of an earlier run in this folder is lost, as the servers are.
        for suffix in ["-wal", "-shm", "-journal"] {
            let mut path = self.database().into_os_string();
            path.push(suffix);
            fs::remove_file(path).ok(); // mostly there is none
        }
        fs::copy(environment.empty_database(), self.database()).context("cannot copy the empty database")?;
        let template = environment.sources().join("ironic.conf.in");
        let template = fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        private_file::write(
            &self.folder.join("ironic.conf"),
            &render(&template, config, ports, &self.folder),
        )?;
        let instance = serde_json::to_string_pretty(&self.instance_json(config, ports, hosts, user))
            .context("cannot write JSON")?;
        private_file::write(&self.instance(), &instance)
    }

    /// Makes this the API's user.
    pub fn set_user(&self, user: &Credentials) -> Result<()> {
        let path = self.instance();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut instance: serde_json::Value = serde_json::from_str(&text).context("the instance's file is no JSON")?;
        instance["api_user"] = json!(user);
        let text = serde_json::to_string_pretty(&instance).context("cannot write JSON")?;
        private_file::write(&self.instance(), &text)
    }

    pub fn instance_json(
        &self,
        config: &IronicConfig,
        ports: &Ports,
        hosts: &[Host],
        user: Option<&Credentials>,
    ) -> serde_json::Value {
        let hosts: Vec<_> = hosts
            .iter()
            .map(|host| {
                json!({
                    "uuid": host.uuid,
                    "name": host.name,
                    "protocol": host.protocol,
                    "port": host.port,
                    "username": host.credentials.username,
                    "password": host.credentials.password,
                    "macs": host.macs,
                })
            })
            .collect();
        let tls = self.folder.join("tls");
        json!({
            "ironic_url": ports.ironic_url(config.tls),
            "agent_port": ports.agent.number(),
            "control_port": ports.control.number(),
            "image_port": ports.image.number(),
            "image_https_port": ports.image_https.number(),
            "tls": config.tls.then(|| json!({
                "ca": tls.join("ca.crt"),
                "certificate": tls.join("server.crt"),
                "key": tls.join("server.key"),
            })),
            "hosts": hosts,
            "power_delay": 0, "boot_delay": 0.5, "step_delay": 0.5,
            "heartbeat_limit": config.heartbeat_limit.as_secs_f64(),
            "extra_deploy_steps": config.extra_deploy_steps,
            "image_size": 1 << 20,
            "api_user": user,
            // Every request pays for a check of the password: 1.3 ms with 4 rounds, 0.3 s with the usual 12.
            "bcrypt_rounds": 4,
            "api_threads": 10, "keep_last_error": false, "plain": config.plain,
        })
    }
}

/// A template with values for what stands between @ signs.
pub(crate) fn fill(template: &str, values: &[(&str, String)]) -> String {
    let values = values.iter().map(|(name, value)| (format!("@{name}@"), value));
    values.fold(template.to_owned(), |text, (name, value)| text.replace(&name, value))
}

/// Makes the folders that Ironic and our programs expect in an instance's folder.
pub(crate) fn make_folders(instance: &Path) -> Result<()> {
    FOLDERS.iter().try_for_each(|name| {
        let folder = instance.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))
    })
}

/// Ironic's configuration file.
fn render(template: &str, config: &IronicConfig, ports: &Ports, folder: &Path) -> String {
    let timeouts = &config.timeouts;
    let values = [
        (
            "AUTH_STRATEGY",
            if config.auth { "http_basic" } else { "noauth" }.to_owned(),
        ),
        ("FOLDER", folder.display().to_string()),
        ("API_PORT", ports.ironic.number().to_string()),
        ("API_URL", ports.ironic_url(config.tls)),
        ("IMAGE_URL", ports.image_url()),
        ("TLS", config.tls.to_string()),
        (
            "IMAGE_CA",
            if config.tls {
                folder.join("tls/ca.crt").display().to_string()
            } else {
                "true".to_owned()
            },
        ),
        ("CALLBACK_TIMEOUT", timeouts.callback.as_secs().to_string()),
        ("INSPECTION_TIMEOUT", timeouts.inspection.as_secs().to_string()),
        ("CLEAN_TIMEOUT", timeouts.clean.as_secs().to_string()),
        ("CHECK_INTERVAL", timeouts.check_interval.as_secs().to_string()),
        (
            "POWER_SYNC_INTERVAL",
            timeouts.power_sync_interval.as_secs().to_string(),
        ),
        (
            "POWER_RECOVERY_INTERVAL",
            timeouts.power_recovery_interval.as_secs().to_string(),
        ),
    ];
    let mut text = fill(template, &values);
    // A group may appear again, and the last value of an option wins.
    for (option, value) in &config.overrides {
        let (group, option) = option.rsplit_once('.').unwrap_or(("DEFAULT", option));
        text.extend(["\n[", group, "]\n", option, " = ", value, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ironic::environment;

    #[test]
    fn the_template_is_filled_in_completely_and_overrides_come_last() {
        let template = fs::read_to_string(environment::sources().unwrap().join("ironic.conf.in")).unwrap();
        let ports = Ports::take(1).unwrap();
        let overrides = vec![("conductor.automated_clean".to_owned(), "false".to_owned())];
        let text = render(
            &template,
            &IronicConfig {
                overrides,
                ..IronicConfig::default()
            },
            &ports,
            Path::new("/x"),
        );
        let settings = text.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(
            settings.filter(|line| line.contains('@')).collect::<Vec<_>>(),
            Vec::<&str>::new()
        );
        assert!(text.ends_with("[conductor]\nautomated_clean = false\n"));
    }
}
