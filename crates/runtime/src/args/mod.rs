//! Flags and environment variables that every controller has, as clap groups to flatten.
//!
//! Names and defaults are upstream's where upstream has the flag. An environment variable that is set but empty counts
//! as not set, because manifests fill variables from ConfigMaps whose keys may be blank.

mod client;
mod go;
mod guard;
mod leader;
mod provider;
mod servers;

use std::{ffi::OsString, time::Duration};

use clap::{
    Args, CommandFactory, FromArgMatches,
    builder::{Resettable, ValueParser},
};

pub use self::{
    client::{ClientArgs, ClientError, NamespaceArgs, Namespaces},
    go::go_style,
    leader::{LeaderArgs, TimingError},
    provider::{IgnoredLogArgs, ProviderArgs},
    servers::{MetricsArgs, ProbeArgs, TlsArgs, TlsVersion, WebhookArgs},
};

/// Reads the process's arguments, including Go's flag syntax. Of a flag that is given twice the last one counts, as in Go.
///
/// # Errors
/// clap's error, also for `--help`; `error.exit()` prints it and ends the process with clap's exit code
pub fn parse<T: CommandFactory + FromArgMatches>() -> Result<T, clap::Error> {
    parse_from(std::env::args_os())
}

/// Like [`parse`], for a given argument vector whose first element is the program's name.
pub fn parse_from<T: CommandFactory + FromArgMatches>(
    argv: impl IntoIterator<Item = OsString>,
) -> Result<T, clap::Error> {
    let command = T::command().mut_args(|arg| {
        let is_blank = arg
            .get_env()
            .and_then(std::env::var_os)
            .is_some_and(|value| value.is_empty());
        if is_blank { arg.env(Resettable::Reset) } else { arg }
    });
    let argv = go_style(&command, argv);
    T::from_arg_matches(&command.args_override_self(true).try_get_matches_from(argv)?)
}

/// A parser for booleans as Go reads them (`1 t T true TRUE True 0 f F false FALSE False`); empty is false.
pub fn go_bool() -> ValueParser {
    ValueParser::new(|text: &str| match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false"),
    })
}

/// A parser for durations as Go writes them (`1h30m`, `90s`, `1.5s`, `250ms`); a plain 0 is allowed, negative ones are not.
pub fn go_duration() -> ValueParser {
    ValueParser::new(|text: &str| duration(text).ok_or("expected a duration such as 10m, 1h30m or 45s"))
}

fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (number, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let end = unit
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(unit.len());
        let (unit, tail) = unit.split_at(end);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

/// How to log.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Log readable text instead of JSON
    #[arg(long, env = "LOG_DEV", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub dev: bool,

    /// What to log, for example `info,metal3_ironic=debug`
    #[arg(long, env = "RUST_LOG", default_value = "info")]
    pub log_filter: String,
}

/// How many objects of a kind are worked on at once.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers")]
pub struct ConcurrencyArgs {
    /// Objects that each controller works on at once; 0 takes BMO_CONCURRENCY or, without it, the controller's own number
    #[arg(long, env = "CONTROLLER_CONCURRENCY", default_value = "0", value_parser = count(), allow_negative_numbers = true)]
    pub controller_concurrency: u16,

    /// Used while --controller-concurrency is 0; zero, negative or empty is the same as not set
    #[arg(long, env = "BMO_CONCURRENCY", default_value = "", allow_negative_numbers = true, value_parser = optional_count())]
    pub bmo_concurrency: u16,
}

impl ConcurrencyArgs {
    /// The number of workers of a controller that has `own` when nobody says how many.
    pub fn workers(&self, own: u16) -> u16 {
        [self.controller_concurrency, self.bmo_concurrency]
            .into_iter()
            .find(|asked| *asked > 0)
            .unwrap_or(own)
    }
}

/// 0 to 65535; empty is 0.
fn count() -> ValueParser {
    ValueParser::new(|text: &str| {
        if text.is_empty() {
            Ok(0)
        } else {
            text.parse::<u16>().map_err(|_| "expected a number from 0 to 65535")
        }
    })
}

/// Any integer; what is not positive is 0.
fn optional_count() -> ValueParser {
    ValueParser::new(|text: &str| {
        if text.is_empty() {
            return Ok(0);
        }
        let number: i64 = text.parse().map_err(|_| "expected an integer")?;
        u16::try_from(number.max(0)).map_err(|_| "expected at most 65535")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rstest::rstest;

    #[derive(Parser, Debug)]
    struct All {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        concurrency: ConcurrencyArgs,
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        namespaces: NamespaceArgs,
        #[command(flatten)]
        leader: LeaderArgs,
        #[command(flatten)]
        probes: ProbeArgs,
        #[command(flatten)]
        metrics: MetricsArgs,
        #[command(flatten)]
        tls: TlsArgs,
        #[command(flatten)]
        provider: ProviderArgs,
    }

    fn parse(argv: &[&str]) -> Result<All, clap::Error> {
        parse_from(std::iter::once("test").chain(argv.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_groups_fit_together_and_every_flag_has_a_variable() {
        let command = All::command();
        command.clone().debug_assert();
        for arg in command.get_arguments() {
            assert!(arg.get_env().is_some(), "--{:?} has no variable", arg.get_long());
        }
    }

    #[rstest]
    #[case("10m", Some(600.0))]
    #[case("1h30m", Some(5400.0))]
    #[case("1.5s", Some(1.5))]
    #[case("250ms", Some(0.25))]
    #[case("0", Some(0.0))]
    #[case("", None)]
    #[case("10", None)]
    #[case("-5s", None)]
    #[case("5 s", None)]
    #[case("s", None)]
    fn durations_are_gos(#[case] text: &str, #[case] seconds: Option<f64>) {
        assert_eq!(duration(text).map(|duration| duration.as_secs_f64()), seconds);
    }

    #[test]
    fn defaults_are_upstreams() {
        let all = parse(&[]).unwrap();
        assert!(!all.log.dev);
        assert_eq!(all.concurrency.workers(2), 2);
        assert!(!all.leader.enable_leader_election);
        assert_eq!(all.probes.health_addr, "[::]:9440".parse().unwrap());
        assert_eq!(all.metrics.metrics_addr, "[::]:8443".parse().unwrap());
        assert_eq!(all.namespaces.namespace, Namespaces::All);
        assert!(all.client.kube_api_qps < 0.0, "no limit");
        assert_eq!(all.client.kube_api_burst, 30);
    }

    // OWN 31id: a flag that a Deployment has already could not be set by another argument after it.
    #[test]
    fn the_last_of_equal_flags_counts() {
        let all = parse(&[
            "--enable-leader-election",
            "-namespace=a",
            "--enable-leader-election=false",
            "--namespace=b",
        ]);
        let all = all.unwrap();
        assert!(!all.leader.enable_leader_election);
        assert_eq!(all.namespaces.namespace, Namespaces::Only(vec!["b".to_owned()]));
    }

    #[test]
    fn upstreams_own_manifest_is_understood() {
        let all = parse(&[
            "-enable-leader-election",
            "--dev=true",
            "-controller-concurrency",
            "7",
            "-kubeconfig=/a=b",
        ]);
        let all = all.unwrap();
        assert!(all.leader.enable_leader_election && all.log.dev);
        assert_eq!(all.concurrency.workers(2), 7);
        assert_eq!(all.client.kubeconfig.as_deref(), Some("/a=b"));
        assert!(
            !parse(&["--enable-leader-election=false"])
                .unwrap()
                .leader
                .enable_leader_election
        );
    }

    #[test]
    fn the_manifests_of_upstreams_providers_are_understood() {
        let mut all = parse(&[
            "--webhook-port=9443",
            "--leader-elect",
            "--leader-elect-lease-duration=1m",
            "-diagnostics-address=127.0.0.1:8080",
            "--insecure-diagnostics=true",
            "--sync-period=1h30m",
            "--watch-filter=blue",
            "--logging-format=text",
            "--vmodule=a=1,b=2",
            "--log-flush-frequency=5s",
            "--log-json-split-stream",
            "-v=2",
        ])
        .unwrap();
        all.provider.unify(&mut all.leader, &mut all.metrics, &mut all.log);
        assert!(all.leader.enable_leader_election && all.metrics.metrics_plain_http && all.log.dev);
        let timing = all.leader.timing().unwrap();
        assert_eq!((timing.lease.as_secs(), timing.renew.as_secs()), (60, 10));
        assert_eq!(all.metrics.metrics_addr.to_string(), "127.0.0.1:8080");
        assert_eq!(all.provider.sync_period, Duration::from_secs(5400));
        assert_eq!((all.provider.watch_filter.as_str(), all.provider.v), ("blue", 2));
    }

    #[rstest]
    #[case(&["-controller-concurrency", "-1"])]
    #[case(&["--bmo-concurrency=many"])]
    #[case(&["--dev=maybe"])]
    #[case(&["--lease-duration-seconds=70000"])]
    #[case(&["--tls-min-version=TLS10"])]
    fn nonsense_is_refused(#[case] argv: &[&str]) {
        let error = parse(argv).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[rstest]
    #[case("0", "", 64)]
    #[case("0", "20", 20)]
    #[case("0", "-3", 64)]
    #[case("5", "20", 5)]
    fn workers_come_from_flag_then_variable_then_the_controller(
        #[case] flag: &str,
        #[case] variable: &str,
        #[case] workers: u16,
    ) {
        let all = parse(&["--controller-concurrency", flag, "--bmo-concurrency", variable]).unwrap();
        assert_eq!(all.concurrency.workers(64), workers);
    }
}
