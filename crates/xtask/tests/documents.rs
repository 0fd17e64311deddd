//! What the documents name is there, and their pictures can be drawn.

#![expect(clippy::unwrap_used, reason = "what cannot be read fails the test")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![
        root.join("README.md"),
        root.join("CONTRIBUTING.md"),
        root.join("lab/README.md"),
    ];
    let docs = fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    found.extend(docs.filter(|path| path.extension().is_some_and(|end| end == "md")));
    found
}

/// `{a,b}` stands for both, `*` for anything.
fn spelled_out(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let Some((words, after)) = rest.split_once('}') else {
        return vec![path.to_owned()];
    };
    words.split(',').map(|word| format!("{before}{word}{after}")).collect()
}

/// Places of this repository in backticks, and what links lead to, both as they stand beside the document or at the top.
fn named(text: &str) -> Vec<String> {
    const FOLDERS: [&str; 7] = ["crates/", "tests/", "docs/", "config/", "examples/", "lab/", ".ci/"];
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
    let code = text.split('`').skip(1).step_by(2);
    let code =
        code.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains([' ', '*', '<']));
    let all = links.map(|link| link.split('#').next().unwrap_or_default()).chain(code);
    all.flat_map(spelled_out).collect()
}

/// A folder with our script `parse.cjs` and the package that it needs.
fn parser(root: &Path) -> PathBuf {
    let folder = root.join("target/tools/pictures");
    metal3_lab::npm::installed(&root.join("crates/xtask/tests/pictures"), &folder).unwrap();
    folder
}

#[test]
fn every_picture_can_be_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pictures = Vec::new();
    for document in documents(&root) {
        let text = fs::read_to_string(&document).unwrap();
        let blocks = text.split("```mermaid\n").skip(1);
        pictures.extend(blocks.map(|block| (document.clone(), block.split("\n```").next().unwrap().to_owned())));
    }
    assert!(pictures.len() >= 8, "only {} pictures found", pictures.len());
    // One that cannot be drawn shows that the parser looks at all.
    pictures.push((PathBuf::from("broken"), "flowchart LR\n  a --".to_owned()));

    let mut node = Command::new("node")
        .arg("parse.cjs")
        .current_dir(parser(&root))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("Node.js cannot be started: {error}"));
    let texts: Vec<_> = pictures.iter().map(|(_, picture)| picture).collect();
    let input = serde_json::to_vec(&texts).unwrap();
    node.stdin.take().unwrap().write_all(&input).unwrap();
    let output = node.wait_with_output().unwrap();
    let wrong: Vec<Option<String>> = serde_json::from_slice(&output.stdout).unwrap();
    let wrong = pictures.iter().zip(wrong).filter_map(|((document, picture), wrong)| {
        let name = document.file_name()?.to_string_lossy();
        Some((name.into_owned(), picture, wrong?))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.iter().map(|(name, ..)| name).eq(["broken"]), "{wrong:#?}");
}

// OWN 20e: CONTRIBUTING sent its readers to a file that was not there.
#[test]
fn files_that_documents_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut missing = Vec::new();
    let mut looked_at = 0;
    for document in documents(&root) {
        let text = fs::read_to_string(&document).unwrap();
        for path in named(&text) {
            looked_at += 1;
            let beside = document.parent().unwrap().join(&path);
            if !beside.exists() && !root.join(&path).exists() {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(looked_at > 100, "only {looked_at} places found");
}

/// The tests that a text names in backticks.
fn tests_in(text: &str) -> Vec<&str> {
    let is_test = |name: &&str| {
        let is_name = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        is_name && name.matches('_').count() > 2 && !name.starts_with("metal3_")
    };
    text.split('`').skip(1).step_by(2).filter(is_test).collect()
}

#[test]
fn each_class_of_known_faults_names_its_tests_and_all_are_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("security.md")).unwrap();
    let links = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let sources = links.filter(|link| Path::new(link).extension().is_some_and(|end| end == "rs"));
    let sources: String = sources
        .map(|link| fs::read_to_string(docs.join(link)).unwrap())
        .collect();
    let is_there = |name: &&str| sources.contains(&format!("fn {name}("));
    let missing: Vec<_> = tests_in(&page).into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let (_, section) = page.split_once("## Known classes of faults").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let classes: Vec<_> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(classes.len() >= 8, "{classes:#?}");
    let without: Vec<_> = classes.into_iter().filter(|row| tests_in(row).is_empty()).collect();
    assert!(without.is_empty(), "{without:#?}");
}

/// The rows of a table whose first column is a reason: the reason, and the files that the row links to.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(reason, rest)| {
        let links = rest.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        (reason, links.collect())
    })
    .collect()
}

#[test]
fn each_wait_of_a_host_is_traced_to_where_it_is_decided() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join("docs").join(path)).unwrap();
    let (page, reasons) = (
        read("why-is-it-waiting.md"),
        read("../crates/baremetal-operator/src/host/plan/reason.rs"),
    );
    let body = reasons.split_once("pub enum WaitReason {").unwrap().1;
    let body = body.split_once("\n}").unwrap().0;
    let reasons: Vec<_> = body.lines().filter_map(|line| line.trim().strip_suffix(',')).collect();
    assert!(reasons.len() > 30, "{reasons:?}");
    let rows = rows(&page);
    let told = read("conditions.md");
    for reason in reasons {
        let row = rows.iter().find(|(of, _)| *of == reason);
        let (_, files) = row.unwrap_or_else(|| panic!("why-is-it-waiting.md has no row for {reason}"));
        for file in files {
            let is_there = read(file).contains(&format!("WaitReason::{reason}"));
            assert!(is_there, "{file} does not decide on {reason}");
        }
        assert!(!files.is_empty(), "{reason} leads nowhere");
        assert!(
            told.contains(&format!("| `{reason}` |")),
            "conditions.md has no row for {reason}"
        );
    }
}

#[test]
fn each_remembered_field_of_a_host_is_listed_with_what_makes_it_forgotten() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let (page, source) = (
        read("docs/memory.md"),
        read("crates/baremetal-operator/src/host/observed/memory.rs"),
    );
    let body = source.split_once("pub struct Memory {").unwrap().1;
    let body = body.split_once("\n}").unwrap().0;
    let fields = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    let fields: Vec<_> = fields.map(|(field, _)| field).collect();
    let listed: Vec<_> = rows(&page).into_iter().map(|(field, _)| field).collect();
    assert!(fields.len() > 10, "{fields:?}");
    let missing: Vec<_> = fields.iter().filter(|field| !listed.contains(field)).collect();
    assert!(missing.is_empty(), "docs/memory.md has no row for {missing:?}");
}
