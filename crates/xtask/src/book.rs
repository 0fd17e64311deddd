//! `cargo xtask docs`: the documents as a website, by mdBook, with all links between its pages checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Arguments of `cargo xtask docs`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder to write to, inside of `target`
    #[arg(long, default_value = "book")]
    into: String,
}

/// What makes the site.
const MDBOOK: (&str, &str) = ("mdbook", "0.5.2");
/// Where files are that are no page.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/v", env!("CARGO_PKG_VERSION"));
/// Draws the pictures in the reader's browser.
const PICTURES: &str = "mermaid.initialize({ startOnLoad: true });\n";

/// Makes the site, and says where it is.
pub fn run(args: &Args) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let site = build(&root, &args.into)?;
    println!("open {}", site.join("index.html").display());
    Ok(())
}

/// Makes the site below `target`, and fails if a link leads nowhere. Returns its folder.
pub fn build(root: &Path, into: &str) -> Result<PathBuf> {
    let is_name = Path::new(into)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_name && !into.is_empty(), "--into names a folder inside of target");
    let folder = root.join("target").join(into);
    if folder.exists() {
        let is_ours = folder.join("book.toml").exists();
        ensure!(
            is_ours,
            "{} is no book of this command: name another with --into",
            folder.display()
        );
        fs::remove_dir_all(&folder).context("cannot remove the former book")?;
    }
    fs::create_dir_all(folder.join("src")).context("cannot make the book's folder")?;
    fs::copy(root.join("docs/book.toml"), folder.join("book.toml")).context("docs/book.toml")?;
    let pages = pages(root)?;
    let listed = fs::read_to_string(root.join("docs/SUMMARY.md")).context("docs/SUMMARY.md")?;
    let listed = prepared(&listed, Path::new("docs/SUMMARY.md"), "SUMMARY.md", &pages);
    for (page, source) in &pages {
        ensure!(
            page == "SUMMARY.md" || listed.contains(&format!("]({page})")),
            "docs/SUMMARY.md does not list {page}"
        );
        let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
        let to = folder.join("src").join(page);
        fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        let from = source.strip_prefix(root).unwrap_or(source);
        fs::write(&to, prepared(&text, from, page, &pages))?;
    }
    let packages = root.join("target/tools/pictures");
    metal3_lab::npm::installed(&root.join("crates/xtask/tests/pictures"), &packages)?;
    let mermaid = packages.join("node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js");
    fs::copy(&mermaid, folder.join("mermaid.js")).with_context(|| format!("no {}", mermaid.display()))?;
    fs::write(folder.join("pictures.js"), PICTURES)?;

    // It need not serve what it makes.
    let program = metal3_lab::cargo::installed_with(MDBOOK.0, MDBOOK.1, &["search"])?;
    let status = Command::new(program).arg("build").arg(&folder).status();
    ensure!(status.context("cannot start mdbook")?.success(), "mdbook failed");
    let site = folder.join("book");
    check(&site)?;
    Ok(site)
}

/// The pages by their names in the book, with the files that they are made of.
fn pages(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut pages = BTreeMap::from([(INDEX.to_owned(), root.join("README.md"))]);
    for below in ["", "api/"] {
        for entry in fs::read_dir(root.join("docs").join(below)).context("the documents")? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".md") {
                pages.insert(named(&format!("{below}{name}")), path.clone());
            }
        }
    }
    Ok(pages)
}

/// The first page of a folder, which is its README elsewhere.
const INDEX: &str = "index.md";

/// What a page is called in the book.
fn named(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}{INDEX}"),
        None => path.to_owned(),
    }
}

/// A document as the book has it: pictures for the browser, links to pages among themselves, all others to the repository.
fn prepared(text: &str, from: &Path, page: &str, pages: &BTreeMap<String, PathBuf>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("```mermaid\n") {
        let (picture, behind) = after.split_once("\n```").unwrap_or((after, ""));
        let picture = picture.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        // An empty line would end the HTML.
        let lines: Vec<&str> = picture.lines().filter(|line| !line.trim().is_empty()).collect();
        out += &linked(before, from, page, pages);
        write!(out, "<pre class=\"mermaid\">\n{}\n</pre>\n", lines.join("\n")).ok();
        rest = behind;
    }
    out + &linked(rest, from, page, pages)
}

fn linked(text: &str, from: &Path, page: &str, pages: &BTreeMap<String, PathBuf>) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "](";
        let Some((link, behind)) = part.split_once(')') else {
            out += part;
            continue;
        };
        out += &target(link, from, page, pages);
        out += ")";
        out += behind;
    }
    out
}

fn target(link: &str, from: &Path, page: &str, pages: &BTreeMap<String, PathBuf>) -> String {
    if link.contains("://") || link.starts_with('#') {
        return link.to_owned();
    }
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, String::new()), |(path, anchor)| (path, format!("#{anchor}")));
    let place = joined(from.parent().unwrap_or(Path::new("")), path);
    let name = named(place.strip_prefix("docs/").unwrap_or(&place));
    let up = "../".repeat(page.matches('/').count());
    if pages.contains_key(&name) {
        format!("{up}{name}{anchor}")
    } else {
        format!("{REPOSITORY}/{place}{anchor}")
    }
}

/// A path of the repository, without `..`.
fn joined(folder: &Path, path: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Fails if a link of a page leads to a page, or to a place in one, that is not there.
fn check(site: &Path) -> Result<()> {
    let mut texts = BTreeMap::new();
    for below in ["", "api"] {
        for entry in fs::read_dir(site.join(below)).context("the site")? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "html") {
                let name = path.strip_prefix(site)?.to_string_lossy().into_owned();
                texts.insert(name, fs::read_to_string(&path)?);
            }
        }
    }
    let places: BTreeMap<_, BTreeSet<_>> = texts
        .iter()
        .map(|(name, text)| (name, attributes(text, "id").collect()))
        .collect();
    let (mut broken, mut looked_at) = (String::new(), 0);
    for (name, text) in texts
        .iter()
        .filter(|(name, _)| *name != "404.html" && *name != "toc.html")
    {
        for link in attributes(text, "href").filter(|link| !link.contains(':')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(name).parent().unwrap_or(Path::new(""));
            let place = if path.is_empty() {
                name.clone()
            } else {
                joined(folder, path)
            };
            looked_at += 1;
            let is_there = match places.get(&place) {
                Some(ids) => anchor.is_empty() || ids.contains(anchor),
                None => site.join(&place).is_file(),
            };
            if !is_there {
                writeln!(broken, "{name}: {link}").ok();
            }
        }
    }
    if !broken.is_empty() {
        bail!("links that lead nowhere:\n{broken}");
    }
    println!("{} pages, {looked_at} links between them", texts.len());
    Ok(())
}

/// The values of an attribute.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let parts: Vec<&str> = text.split(&format!(" {name}=\"")).skip(1).collect();
    parts.into_iter().filter_map(|part| part.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_to_the_repository_and_pictures_stay_whole() {
        let pages = BTreeMap::from(["index.md", "a.md", "api/index.md"].map(|name| (name.to_owned(), PathBuf::new())));
        let of_docs = |text| prepared(text, Path::new("docs/b.md"), "b.md", &pages);
        assert_eq!(of_docs("[a](a.md#x) [b](#y)"), "[a](a.md#x) [b](#y)");
        assert_eq!(of_docs("[c](../crates/c.rs)"), format!("[c]({REPOSITORY}/crates/c.rs)"));
        let of_api = prepared(
            "[a](../a.md) [i](../../README.md)",
            Path::new("docs/api/README.md"),
            "api/index.md",
            &pages,
        );
        assert_eq!(of_api, "[a](../a.md) [i](../index.md)");
        let of_readme = prepared(
            "[a](docs/a.md) [t](LICENSE)",
            Path::new("README.md"),
            "README.md",
            &pages,
        );
        assert_eq!(of_readme, format!("[a](a.md) [t]({REPOSITORY}/LICENSE)"));
        let picture = of_docs("x\n```mermaid\na --> b\n\nc & d\n```\ny");
        assert_eq!(
            picture,
            "x\n<pre class=\"mermaid\">\na --&gt; b\nc &amp; d\n</pre>\n\ny"
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir(site.path().join("api")).unwrap();
        let page = |text: &str| fs::write(site.path().join("a.html"), text).unwrap();
        page(r##"<h1 id="x"></h1><a href="#x"></a><a href="a.html#x"></a><a href="https://example.org">"##);
        check(site.path()).unwrap();
        for link in ["#y", "b.html", "api/"] {
            page(&format!(r#"<h1 id="x"></h1><a href="{link}"></a>"#));
            let error = check(site.path()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("a.html: {link}\n")), "{error}");
        }
    }
}
