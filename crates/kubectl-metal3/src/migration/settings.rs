//! What a running program was told, which the one that takes its place is to be told as well.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use k8s_openapi::api::core::v1::{Container, EnvVar};
use metal3_runtime::args::go_style;

use super::observe::Observed;
use super::programs::Running;

/// Variables that belong to a Deployment, and not to a site: ports, files that it mounts, what the manifests always set.
const OF_THE_DEPLOYMENT: [&str; 17] = [
    "DIAGNOSTICS_ADDRESS",
    "ENABLE_LEADER_ELECTION",
    "HEALTH_ADDR",
    "INSECURE_DIAGNOSTICS",
    "IRONIC_CACERT_FILE",
    "IRONIC_CLIENT_CERT_FILE",
    "IRONIC_CLIENT_PRIVATE_KEY_FILE",
    "KUBECONFIG",
    "LEADER_ELECT",
    "LEADER_ELECTION_NAMESPACE",
    "METAL3_AUTH_ROOT_DIR",
    "METRICS_ADDR",
    "METRICS_CERT_DIR",
    "METRICS_PLAIN_HTTP",
    "POD_NAMESPACE",
    "WEBHOOK_CERT_DIR",
    "WEBHOOK_PORT",
];

/// Variables that HTTP clients read by themselves.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// The namespaces that a program watches, separated by commas.
const WATCHED: &str = "WATCH_NAMESPACE";

/// What a program was told by its arguments, its variables and the ConfigMaps that these are from.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What differs from the defaults, by the variables of our program, which has one for each flag. Of a flag and its variable, the
    /// flag counts.
    pub told: BTreeMap<String, String>,
    /// Why our program would not start with these arguments.
    pub refused: Option<String>,
}

impl Settings {
    /// Those of a running program.
    pub fn of(running: &Running<'_>, observed: &Observed) -> Self {
        let container = running.container;
        let variables = variables(container, &running.namespace(), observed);
        let command = without_environment((running.program.command)());
        let argv = [running.program.name].map(OsString::from).into_iter();
        let argv = argv.chain(
            container
                .args
                .iter()
                .flatten()
                .map(|arg| filled_in(arg, &variables).into()),
        );
        // Joined with their values first: what nobody can fill in goes with its flag.
        let mut argv = go_style(&command, argv);
        argv.retain(|arg| !arg.to_string_lossy().contains("$("));
        let (parsed, refused) = match command.clone().args_override_self(true).try_get_matches_from(argv) {
            Ok(parsed) => (parsed, None),
            Err(error) => {
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default();
                let first = first.strip_prefix("error: ").unwrap_or(first).to_owned();
                (ArgMatches::default(), Some(first))
            }
        };
        let names = (running.program.command)();
        let mut told: BTreeMap<_, _> = names
            .get_arguments()
            .filter_map(|arg| {
                let name = arg.get_env()?.to_str()?;
                let value = flag(&parsed, arg).or_else(|| variables.get(name).cloned())?;
                let is_default = arg
                    .get_default_values()
                    .iter()
                    .any(|default| *default == value.as_str());
                (!is_default && !value.is_empty() && !OF_THE_DEPLOYMENT.contains(&name))
                    .then(|| (name.to_owned(), value))
            })
            .collect();
        for name in PROXIES {
            let names = [name.to_owned(), name.to_lowercase()];
            told.extend(
                names
                    .into_iter()
                    .filter_map(|name| variables.get_key_value(&name))
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
        Self { told, refused }
    }

    /// The namespaces that it watches; `None` is all of them.
    pub fn watched(&self) -> Option<Vec<&str>> {
        self.told.get(WATCHED).map(|list| list.split(',').collect())
    }
}

/// The variables of the person who runs the check are not those of the Deployment.
fn without_environment(command: Command) -> Command {
    command.mut_args(|arg| {
        let is_optional = !arg.is_required_set();
        let arg = arg.env(Resettable::Reset);
        if is_optional { arg } else { arg.required(false) }
    })
}

/// What a flag was given on the command line.
fn flag(parsed: &ArgMatches, arg: &Arg) -> Option<String> {
    let id = arg.get_id().as_str();
    if parsed.try_contains_id(id).is_err() || parsed.value_source(id) != Some(ValueSource::CommandLine) {
        return None;
    }
    let values = parsed.get_raw(id)?.map(|value| value.to_string_lossy().into_owned());
    Some(values.collect::<Vec<_>>().join(","))
}

/// The variables whose values can be seen. Those of Secrets are not read, and those that the kubelet makes are not known.
fn variables(container: &Container, namespace: &str, observed: &Observed) -> BTreeMap<String, String> {
    let data = |map: &str| observed.config_maps.get(&(namespace.to_owned(), map.to_owned()));
    let mut all = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let map = source.config_map_ref.as_ref().and_then(|map| data(&map.name));
        all.extend(
            map.into_iter()
                .flatten()
                .map(|(name, value)| (format!("{prefix}{name}"), value.clone())),
        );
    }
    for EnvVar {
        name,
        value,
        value_from,
    } in container.env.iter().flatten()
    {
        let of_map = || {
            let key = value_from.as_ref()?.config_map_key_ref.as_ref()?;
            data(&key.name)?.get(&key.key).cloned()
        };
        match value.as_ref().map(|value| filled_in(value, &all)).or_else(of_map) {
            Some(value) => all.insert(name.clone(), value),
            // Another source goes before the ConfigMaps.
            None => all.remove(name),
        };
    }
    for value in all.values_mut() {
        *value = value.trim().to_owned();
    }
    all
}

/// The kubelet's `$(NAME)`, filled in as far as the variables are known.
fn filled_in(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in variables {
        text = text.replace(&format!("$({name})"), value);
    }
    text
}
