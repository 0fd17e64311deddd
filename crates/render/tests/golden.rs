//! Templates and what they yield, file by file: `golden/CASE/template.yaml` is rendered for one machine into `pools.txt`,
//! `metadata.yaml` and `network_data.yaml`. With `UPDATE_GOLDEN=1` the files are written instead of compared: look at the
//! difference before it is committed.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod fixture;

use std::fs;

use fixture::{Case, Objects, addresses, parse};
use metal3_render::{pools, render};
use similar::TextDiff;

#[test]
fn every_template_yields_its_files() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let machine = Objects::new();
    let cases = Case::all();
    assert!(!cases.is_empty());
    let mut differences = Vec::new();
    for case in &cases {
        let template = case.template().spec;
        let pools = pools(&template, &machine.facts()).unwrap_or_else(|err| panic!("{}: {err}", case.name));
        let rendered =
            render(&template, &machine.facts(), &addresses()).unwrap_or_else(|err| panic!("{}: {err}", case.name));
        let pools = pools
            .iter()
            .map(|pool| format!("{pool}\n"))
            .collect::<Vec<_>>()
            .concat();
        let files = [
            ("pools.txt", (!pools.is_empty()).then_some(pools)),
            ("metadata.yaml", rendered.metadata.map(|data| data.to_yaml().unwrap())),
            (
                "network_data.yaml",
                rendered.network_data.map(|data| data.to_yaml().unwrap()),
            ),
        ];
        for (file, text) in files {
            if update {
                let path = case.folder.join(file);
                match text {
                    Some(text) => fs::write(path, text).unwrap(),
                    None => drop(fs::remove_file(path)),
                }
                continue;
            }
            let (old, new) = (case.text(file).unwrap_or_default(), text.unwrap_or_default());
            if old != new {
                let diff = TextDiff::from_lines(&old, &new).unified_diff().to_string();
                differences.push(format!("{}/{file}:\n{diff}\n", case.name));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

#[test]
fn what_is_written_reads_back_as_what_was_meant() {
    let machine = Objects::new();
    for case in Case::all() {
        let rendered = render(&case.template().spec, &machine.facts(), &addresses()).unwrap();
        if let Some(data) = rendered.metadata {
            assert_eq!(
                parse(&data.to_yaml().unwrap()),
                serde_json::to_value(&data).unwrap(),
                "{}",
                case.name
            );
        }
        if let Some(data) = rendered.network_data {
            assert_eq!(
                parse(&data.to_yaml().unwrap()),
                serde_json::to_value(&data).unwrap(),
                "{}",
                case.name
            );
        }
    }
}
