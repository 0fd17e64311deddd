//! Go's flag syntax, turned into clap's.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// Rewrites an argument vector in Go's style (`-flag v`, `-flag=v`, `--flag=false`) to the one clap reads.
///
/// Upstream's manifests, and everyone's patches of them, may write one dash or two. A flag that takes a value is joined
/// with the argument that follows (`--flag=value`), so that a value may start with a dash, as in Go. Single letters
/// (`-h`), unknown flags and everything after `--` stay as they are; clap then says what is wrong with them.
pub fn go_style(command: &Command, argv: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut argv = argv.into_iter();
    let mut rewritten: Vec<OsString> = argv.next().into_iter().collect();
    while let Some(arg) = argv.next() {
        if arg == "--" {
            rewritten.push(arg);
            rewritten.extend(argv);
            break;
        }
        let Some((name, has_value)) = flag(&arg) else {
            rewritten.push(arg);
            continue;
        };
        let mut long = OsString::from("--");
        long.push(name);
        if !has_value
            && takes_value(command, name)
            && let Some(value) = argv.next()
        {
            long.push("=");
            long.push(value);
        }
        rewritten.push(long);
    }
    rewritten
}

/// The part behind the dashes of a long flag, and whether it carries a value already.
fn flag(arg: &OsStr) -> Option<(&str, bool)> {
    let text = arg.to_str()?;
    let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    let name = body.split('=').next().unwrap_or(body);
    let single_letter = name.len() <= 1 && !text.starts_with("--");
    let looks_like_a_flag = name.starts_with(|c: char| c.is_ascii_alphabetic());
    (looks_like_a_flag && !single_letter).then_some((body, body.len() > name.len()))
}

fn takes_value(command: &Command, name: &str) -> bool {
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(name))
        .is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};
    use rstest::rstest;

    #[rstest]
    #[case("-addr :1", "--addr=:1")]
    #[case("-addr=:1 --addr=:2", "--addr=:1 --addr=:2")]
    #[case("-n -1", "-n -1")]
    #[case("-number -1", "--number=-1")]
    #[case("-dev -addr x", "--dev --addr=x")]
    #[case("-dev=false", "--dev=false")]
    #[case("--dev=true -addr a=b", "--dev=true --addr=a=b")]
    #[case("-h", "-h")]
    #[case("-help", "--help")]
    #[case("-unknown x", "--unknown x")]
    #[case("-addr", "--addr")]
    #[case("-dev -- -addr x", "--dev -- -addr x")]
    #[case("-1 - word", "-1 - word")]
    fn go_becomes_clap(#[case] go: &str, #[case] clap: &str) {
        let command = Command::new("test")
            .arg(Arg::new("addr").long("addr"))
            .arg(Arg::new("number").long("number"))
            .arg(Arg::new("dev").long("dev").num_args(0..=1).require_equals(true))
            .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue));
        let argv = std::iter::once("test").chain(go.split(' ')).map(OsString::from);
        assert_eq!(
            go_style(&command, argv).join(OsStr::new(" ")),
            OsString::from(format!("test {clap}"))
        );
    }
}
