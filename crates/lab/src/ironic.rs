//! A real Ironic with simulated servers, on loopback.
//!
//! Ironic is the packaged one from `lab/ironic/requirements.lock`: API, state machine, locks, validation and error texts are
//! real. Its servers are simulated: the Python programs in `lab/ironic` play [`Host`]s, each with a Redfish or IPMI BMC and a
//! ramdisk agent that follows Ironic's commands.
//!
//! ```text
//!   test ──HTTP──▶ Ironic ──Redfish──▶ BMCs ─┐
//!     │              ▲ │                     │ power, virtual media
//!     │              │ └─commands─▶ agents ◀─┘
//!     │              └─inventory, lookup, heartbeat──┘
//!     └─faults, counters──▶ control API of the simulated servers
//! ```
//!
//! The files in an instance's folder:
//!
//! ```text
//!   instance.lock   held by the owner, with its process number (crate::instance)
//!   instance.json   what our Python programs are told
//!   ironic.conf, ironic.sqlite, htpasswd
//!   tls/            ca.crt, ca.key, server.*; agents/ holds what agents sent to Ironic
//!   http/images/    the image to deploy, a ramdisk ISO, a kernel and a ramdisk
//!   log/            one file per program; agents.jsonl, what agents did; requests.jsonl, what the API was asked;
//!                   states.jsonl, what nodes went through
//! ```

mod alone;
mod config;
pub mod environment;
pub(crate) mod files;
mod host;
mod machine;
mod moments;
mod requests;
mod servers;

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Certificate, Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

pub use alone::{AloneConfig, ServersAlone};
pub use config::{IronicConfig, Timeouts};
pub use host::{Credentials, Host, Protocol};
pub use machine::{Agent, Command, ConfigDrive, Counters, Deployment, Machine};
pub use moments::Moment;
pub use requests::{Request, count};
pub use servers::Servers;

use crate::instance::Folder;
use crate::lines;
pub use crate::lines::Mark;
use crate::pki::{Authority, Name};
use crate::ports::Port;
use crate::process::{Child, Program};
use environment::Environment;
use files::Files;

/// How long a program may take to get ready; Ironic takes some four seconds on two idle cores.
const READY: Duration = Duration::from_secs(120);
/// How long Ironic may take to stop when asked to.
const GRACE: Duration = Duration::from_secs(15);
/// The API version that readiness is asked with.
const API_VERSION: (&str, &str) = ("X-OpenStack-Ironic-API-Version", "1.95");
/// IPMI hosts have no listener: their ports are only numbers that tell them apart.
const FIRST_IPMI_PORT: u16 = 10_000;

/// A running Ironic with its simulated servers. Dropping it kills all of it.
#[derive(Debug)]
pub struct IronicLab {
    // Fields are dropped in this order: clients of a program go before it, the folder last.
    ironic: Mutex<Option<Child>>,
    machines: Child,
    ironic_program: Program,
    environment: Environment,
    client: Mutex<Client>,
    config: IronicConfig,
    user: Mutex<Option<Credentials>>,
    hosts: Vec<Host>,
    servers: Servers,
    ports: Ports,
    files: Files,
    _folder: Folder,
}

/// Held as long as the instance lives, so that Ironic's stays free for it while it is down.
#[derive(Debug)]
struct Ports {
    ironic: Port,
    agent: Port,
    control: Port,
    image: Port,
    image_https: Port,
    bmcs: Vec<Port>,
}

impl Ports {
    fn take(bmcs: u16) -> Result<Self> {
        Ok(Self {
            ironic: Port::free()?,
            agent: Port::free()?,
            control: Port::free()?,
            image: Port::free()?,
            image_https: Port::free()?,
            bmcs: (0..bmcs).map(|_| Port::free()).collect::<Result<_>>()?,
        })
    }

    fn ironic_url(&self, tls: bool) -> String {
        format!(
            "{}://127.0.0.1:{}",
            if tls { "https" } else { "http" },
            self.ironic.number()
        )
    }

    fn control_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.control.number())
    }

    fn image_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.image.number())
    }
}

/// The image that servers can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Where it is. The same address with `.md5sum`, `.sha256sum` or `.sha512sum` appended has its checksum.
    pub url: String,
    /// Its MD5 checksum.
    pub md5: String,
    /// Its SHA-256 checksum.
    pub sha256: String,
    /// Its SHA-512 checksum.
    pub sha512: String,
}

impl IronicLab {
    /// Starts the programs and returns when they serve: agents and BMCs answer, the API answers and lists its drivers.
    /// Installs Ironic first if this machine has not got it yet.
    pub async fn start(config: IronicConfig) -> Result<Self> {
        rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
        let environment = tokio::task::spawn_blocking(environment::ensure);
        let environment = environment.await.context("the installation of Ironic was cut off")??;
        let start = Instant::now();
        let folder = Folder::take(config.folder.as_deref(), "metal3-lab-ironic")?;
        let files = Files {
            folder: folder.path().to_owned(),
        };
        let ports = Ports::take(config.hosts)?;
        let redfish = ports
            .bmcs
            .iter()
            .zip(1..)
            .map(|(port, number)| (Protocol::Redfish, number, port.number()));
        let ipmi = (1..=config.ipmi_hosts).map(|number| (Protocol::Ipmi, number, FIRST_IPMI_PORT + number));
        let hosts: Vec<Host> = redfish
            .chain(ipmi)
            .map(|(protocol, number, port)| Host::new(protocol, number, port, config.tls))
            .collect();
        let user = config.auth.then(|| Credentials::new("ironic", "secret-of-ironic"));
        files.write(&config, &environment, &ports, &hosts, user.as_ref())?;

        let prepare = Child::spawn(&environment.program("prepare", &files.instance(), files.log("prepare.log")))?;
        let machines = Child::spawn(&machines_program(&environment, &files))?;
        let status = ended(&prepare).await;
        ensure!(
            status.success(),
            "preparing the instance failed ({status}){}",
            prepare.log_tail()
        );

        let client = client(&config, &files)?;
        let lab = Self {
            ironic: Mutex::new(None),
            machines,
            ironic_program: ironic_program(&environment, &files, &config, &ports),
            environment,
            client: Mutex::new(client),
            config,
            user: Mutex::new(user),
            hosts,
            servers: Servers::at(&ports.control_url())?,
            ports,
            files,
            _folder: folder,
        };
        lab.spawn_ironic()?;
        lab.machines
            .wait_until("an answer of the simulated servers", READY, || {
                lab.control(Method::GET, "machines", None)
            })
            .await?;
        lab.wait_for_ironic().await?;
        tracing::debug!(elapsed = ?start.elapsed(), hosts = lab.hosts.len(), "Ironic serves");
        Ok(lab)
    }

    /// Stops all of it in good order. Dropping does so at once.
    pub async fn stop(self) {
        self.stop_ironic().await;
        self.machines.stop(Duration::from_secs(1)).await;
    }

    // --- where everything is ---

    /// The API's address, without `/v1`.
    pub fn endpoint(&self) -> String {
        self.ports.ironic_url(self.config.tls)
    }

    /// What the API wants; `None` if it takes anybody.
    pub fn credentials(&self) -> Option<Credentials> {
        self.user.lock().clone()
    }

    /// The certificate of the authority behind all certificates; `None` without TLS.
    pub fn ca_file(&self) -> Option<PathBuf> {
        self.config.tls.then(|| self.files.ca())
    }

    /// The simulated servers, those with Redfish first.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The image that servers can be given.
    pub fn image(&self) -> Result<Image> {
        image_at(&self.files, &self.ports.image_url())
    }

    /// The image under other URLs: a path on the server of images, which may ask for redirects and the like
    /// (`lab/ironic/ironic_lab/image_server.py`).
    pub fn image_under(&self, path: &str) -> String {
        format!("{}{path}", self.ports.image_url())
    }

    /// A ramdisk as an ISO, Ironic's `deploy_iso`.
    pub fn ramdisk_iso_url(&self) -> String {
        format!("{}/images/ipa.iso", self.ports.image_url())
    }

    /// A ramdisk as a kernel and a ramdisk, Ironic's `deploy_kernel` and `deploy_ramdisk`. Ironic uses these by itself
    /// for nodes that have none.
    pub fn ramdisk_urls(&self) -> [String; 2] {
        ["ipa.kernel", "ipa.initramfs"].map(|name| format!("{}/images/{name}", self.ports.image_url()))
    }

    /// Where other processes can query the simulated servers for the data of [`IronicLab::machine`].
    pub fn control_url(&self) -> String {
        self.ports.control_url()
    }

    /// The instance's folder.
    pub fn folder(&self) -> &Path {
        &self.files.folder
    }

    /// The process numbers of the programs: simulated servers, and Ironic's master while it runs.
    pub fn processes(&self) -> Vec<u32> {
        let ironic = self.ironic.lock();
        std::iter::once(self.machines.pid())
            .chain(ironic.as_ref().map(Child::pid))
            .collect()
    }

    /// An error if a program that should run does not. An Ironic that was stopped on purpose is no error.
    pub fn ensure_alive(&self) -> Result<()> {
        let ironic = self.ironic.lock();
        ironic.iter().chain([&self.machines]).try_for_each(Child::ensure_alive)
    }

    /// A request to the API with the right credentials and trust; `path` begins with `/v1`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client().request(method, format!("{}{path}", self.endpoint()));
        match self.credentials() {
            Some(user) => request.basic_auth(user.username, Some(user.password)),
            None => request,
        }
    }

    // --- outages of Ironic ---

    /// Stops Ironic alone, in good order. Its port stays ours, its database stays, the servers run on.
    pub async fn stop_ironic(&self) {
        if let Some(ironic) = self.take_ironic() {
            ironic.stop(GRACE).await;
        }
    }

    /// Kills Ironic alone: what it was doing is cut off, nodes stay locked until it starts again.
    pub fn kill_ironic(&self) {
        if let Some(ironic) = self.take_ironic() {
            ironic.kill();
        }
    }

    /// Starts Ironic again on the same address with the same database, and waits until it serves.
    pub async fn start_ironic(&self) -> Result<()> {
        self.spawn_ironic()?;
        self.wait_for_ironic().await
    }

    /// Empties Ironic's database in place, whether Ironic runs or not: it knows no node any more. The servers keep
    /// their power state and media. Returns how many rows are gone.
    pub async fn wipe_database(&self) -> Result<u64> {
        let text = self.finish("wipe", &self.files.database()).await?;
        text.lines()
            .last()
            .and_then(|line| line.parse().ok())
            .context("no number of deleted rows")
    }

    /// Has Ironic's API take this user from now on, and not the one before, whether Ironic runs or not. Only with
    /// authentication.
    pub async fn exchange_credentials(&self, user: Credentials) -> Result<()> {
        ensure!(
            self.config.auth,
            "without authentication there are no credentials to exchange"
        );
        self.files.set_user(&user)?;
        self.finish("users", &self.files.instance()).await?;
        *self.user.lock() = Some(user);
        Ok(())
    }

    /// Gives Ironic's API a certificate of another authority, for 127.0.0.1 and these names, which counts from its next
    /// start. BMCs, agents and the lab itself trust both authorities from then on; [`IronicLab::ca_file`] holds both.
    /// Returns the new authority's certificate, PEM. Only with TLS.
    pub fn exchange_authority(&self, names: &[Name]) -> Result<String> {
        ensure!(self.config.tls, "without TLS there is no authority to exchange");
        let authority = Authority::generate("metal3-lab-ironic-exchanged")?;
        let tls = self.files.folder.join("tls");
        // The other programs have read theirs.
        authority.server("127.0.0.1", names)?.write(&tls, "server")?;
        let ca = self.files.ca();
        let mut trusted = std::fs::read_to_string(&ca).with_context(|| format!("cannot read {}", ca.display()))?;
        trusted.push_str(authority.certificate());
        std::fs::write(&ca, trusted).with_context(|| format!("cannot write {}", ca.display()))?;
        *self.client.lock() = client(&self.config, &self.files)?;
        Ok(authority.certificate().to_owned())
    }

    // --- faults ---

    /// Makes these the only faults of a server's BMC, or with no server those of all. What they are called and mean stands in
    /// `lab/ironic/ironic_lab/faults.py`; an empty object is none.
    pub async fn set_bmc_faults<'a>(&self, host: impl Into<Option<&'a Host>>, faults: &Value) -> Result<()> {
        self.set_faults(host.into(), "bmc", faults).await
    }

    /// The same for the agent of its ramdisk.
    pub async fn set_agent_faults<'a>(&self, host: impl Into<Option<&'a Host>>, faults: &Value) -> Result<()> {
        self.set_faults(host.into(), "agent", faults).await
    }

    async fn set_faults(&self, host: Option<&Host>, side: &str, faults: &Value) -> Result<()> {
        let body = json!({"host": host.map_or("all", |host| &host.uuid), side: faults});
        self.control(Method::POST, "faults", Some(&body)).await
    }

    /// A server loses its power, and its BMC has no part in it.
    pub async fn cut_power(&self, host: &Host) -> Result<()> {
        let path = format!("machines/{}/power-cut", host.uuid);
        self.control(Method::POST, &path, Some(&json!({}))).await
    }

    /// Ends every fault of every server.
    pub async fn clear_faults(&self) -> Result<()> {
        self.control(Method::DELETE, "faults", None).await
    }

    // --- observation ---

    /// What a server is doing and went through, with its deployments.
    pub async fn machine(&self, host: &Host) -> Result<Machine> {
        self.servers.machine(&host.uuid).await
    }

    /// The same of all servers, in the order of [`IronicLab::hosts`], without deployments.
    pub async fn machines(&self) -> Result<Vec<Machine>> {
        self.servers.machines().await
    }

    /// The servers, for those that look at them on their own.
    pub fn servers(&self) -> Servers {
        self.servers.clone()
    }

    /// The requests that the API has answered after `since`, and the mark for the next call.
    pub fn requests(&self, since: Mark) -> Result<(Vec<Request>, Mark)> {
        lines::read(&self.files.requests(), since)
    }

    /// What nodes went through after `since`, as the conductor wrote it, and the mark after the last of it.
    pub fn moments(&self, since: Mark) -> Result<(Vec<Moment>, Mark)> {
        lines::read(&self.files.log("states.jsonl"), since)
    }

    // --- inside ---

    /// Runs one of our programs that end by themselves. Returns what it wrote.
    async fn finish(&self, module: &str, argument: &Path) -> Result<String> {
        let log = self.files.log(&format!("{module}.log"));
        let program = Child::spawn(&self.environment.program(module, argument, log.clone()))?;
        let status = ended(&program).await;
        ensure!(
            status.success(),
            "ironic_lab.{module} failed ({status}){}",
            program.log_tail()
        );
        std::fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))
    }

    fn client(&self) -> Client {
        self.client.lock().clone()
    }

    fn spawn_ironic(&self) -> Result<()> {
        let mut ironic = self.ironic.lock();
        ensure!(ironic.is_none(), "Ironic runs already");
        *ironic = Some(Child::spawn(&self.ironic_program)?);
        Ok(())
    }

    fn take_ironic(&self) -> Option<Child> {
        self.ironic.lock().take()
    }

    /// The API answers before the conductor has registered; nodes can be made only after that.
    async fn wait_for_ironic(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            match &*self.ironic.lock() {
                Some(ironic) => ironic.ensure_alive()?,
                None => bail!("Ironic was stopped while it started"),
            }
            let Err(seen) = self.ask_ironic().await else {
                return Ok(());
            };
            if start.elapsed() > READY {
                bail!(
                    "Ironic did not serve in {READY:?}; last seen: {seen:#}; see {}",
                    self.files.log("").display()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ask_ironic(&self) -> Result<()> {
        let request = self
            .request(Method::GET, "/v1/drivers")
            .header(API_VERSION.0, API_VERSION.1);
        let answer: Value = request.send().await?.error_for_status()?.json().await?;
        ensure!(
            answer["drivers"].as_array().is_some_and(|drivers| !drivers.is_empty()),
            "no drivers yet"
        );
        Ok(())
    }

    async fn control(&self, method: Method, path: &str, body: Option<&Value>) -> Result<()> {
        let url = format!("{}/{path}", self.control_url());
        let mut request = self.client().request(method, url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.context("cannot reach the simulated servers")?;
        let status = answer.status();
        let text = answer.text().await.unwrap_or_default();
        ensure!(
            status == StatusCode::OK,
            "the simulated servers answered {status}: {text}"
        );
        Ok(())
    }
}

/// The image below the address of a server of images.
fn image_at(files: &Files, server: &str) -> Result<Image> {
    let checksum = |kind: &str| -> Result<String> {
        let path = files.folder.join(format!("http/images/tiny.img.{kind}sum"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
    };
    Ok(Image {
        url: format!("{server}/images/tiny.img"),
        md5: checksum("md5")?,
        sha256: checksum("sha256")?,
        sha512: checksum("sha512")?,
    })
}

fn machines_program(environment: &Environment, files: &Files) -> Program {
    let mut program = environment.program("machines", &files.instance(), files.log("machines.log"));
    // The emulated BMCs keep their virtual media there.
    program.env.push(("TMPDIR".into(), files.folder.join("tmp").into()));
    program
}

fn ironic_program(environment: &Environment, files: &Files, config: &IronicConfig, ports: &Ports) -> Program {
    let mut program = environment.program("launcher", &files.instance(), files.log("ironic.out"));
    program
        .env
        .push(("LAB_CONTROL_PORT".into(), ports.control.number().to_string().into()));
    program.env.push(("TMPDIR".into(), files.folder.join("tmp").into()));
    if config.tls {
        // For nodes whose BMC certificate is to be verified.
        program.env.push(("REQUESTS_CA_BUNDLE".into(), files.ca().into()));
    }
    program
}

fn client(config: &IronicConfig, files: &Files) -> Result<Client> {
    let mut builder = Client::builder().no_proxy().timeout(Duration::from_secs(60));
    if config.tls {
        let pem = std::fs::read(files.ca()).context("cannot read the instance's CA")?;
        let trusted = Certificate::from_pem_bundle(&pem).context("the instance's CA file holds no certificates")?;
        builder = builder.tls_certs_only(trusted);
    }
    builder.build().context("cannot make an HTTP client")
}

/// Waits for a program that ends by itself.
async fn ended(child: &Child) -> ExitStatus {
    loop {
        if let Some(status) = child.exit_status() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
