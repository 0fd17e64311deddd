//! Logging.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, filter::ParseError, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::args::LogArgs;

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid.
    #[error("cannot read the log filter {filter:?}")]
    Filter {
        /// The text that was given.
        filter: String,
        /// Where it is wrong.
        #[source]
        source: ParseError,
    },
    /// Another part of this process has already initialized logging.
    #[error("logging is started already")]
    Started(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends log lines to standard error: JSON, one object a line, or text for people with `--dev`.
///
/// Errors belong in a field named `error`, written once with all causes: `error = %chain(&err)`
/// (see [`crate::error::chain`]).
pub fn init(args: &LogArgs) -> Result<(), TelemetryError> {
    let filter = filter(&args.log_filter)?;
    // Colours are for terminals, not for files.
    let output = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = if args.dev {
        tracing_subscriber::registry().with(filter).with(output).try_init()
    } else {
        let json = output
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false);
        tracing_subscriber::registry().with(filter).with(json).try_init()
    };
    started.map_err(TelemetryError::Started)
}

/// kube's client logs the whole text of what it cannot parse: a Secret, or megabytes of a hostile server. Its watches
/// log a server's rejections, which the caller of the watch also logs. These logs only appear if the filter names a
/// part of kube.
const SILENT: [&str; 2] = ["kube_client", "kube_runtime"];

fn filter(text: &str) -> Result<EnvFilter, TelemetryError> {
    let text = if text.trim().is_empty() { "info" } else { text };
    let unnamed = SILENT.iter().filter(|name| !text.contains(*name));
    let all = unnamed.fold(text.to_owned(), |all, name| format!("{all},{name}=error"));
    EnvFilter::try_new(all).map_err(|source| TelemetryError::Filter {
        filter: text.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_filter_is_named() {
        // OWN 23c: text that could not be parsed was logged whole.
        let by_default = filter("").unwrap().to_string();
        assert_eq!(by_default, "kube_runtime=error,kube_client=error,info");
        let named = filter("debug,kube_client=warn").unwrap().to_string();
        assert_eq!(named, "kube_runtime=error,kube_client=warn,debug");
        assert!(filter("info,metal3_ironic=debug").is_ok());
        let error = filter("kube=loud").unwrap_err();
        assert!(error.to_string().contains("kube=loud"));
    }

    #[test]
    fn logging_starts_once() {
        let args = LogArgs {
            dev: true,
            log_filter: "warn".into(),
        };
        init(&args).unwrap();
        assert!(matches!(
            init(&LogArgs { dev: false, ..args }),
            Err(TelemetryError::Started(_))
        ));
    }
}
