//! `cargo xtask generate`: writes the files generated from Rust code, or checks that they are up to date.

mod crds;
mod docs;
mod rbac;
mod reference;
mod webhooks;

use anyhow::{Context, ensure};
use similar::TextDiff;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask generate`.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing; show the differences to the generated content, and fail if there are any
    #[arg(long)]
    check: bool,
}

/// Generated texts by their path from the root of the repository.
type Files = BTreeMap<PathBuf, String>;

/// Folders that contain only generated files of one extension, subfolders included; outdated files in them are deleted.
const FOLDERS: [(&str, &str); 4] = [
    (crds::FOLDER, "yaml"),
    (rbac::FOLDER, "yaml"),
    (webhooks::FOLDER, "yaml"),
    (reference::FOLDER, "md"),
];

/// Writes or checks the generated files.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let differences = differences(&root, &files()?)?;
    if args.check {
        for difference in &differences {
            print!("{}", difference.diff());
        }
        ensure!(
            differences.is_empty(),
            "{} files are not up to date; run cargo xtask generate",
            differences.len()
        );
        return Ok(());
    }
    for Difference { path, wanted, .. } in &differences {
        let file = root.join(path);
        match wanted {
            Some(text) => write(&file, text)?,
            None => fs::remove_file(&file).with_context(|| format!("cannot delete {}", path.display()))?,
        }
        println!(
            "{} {}",
            if wanted.is_some() { "wrote" } else { "deleted" },
            path.display()
        );
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// All generated files.
fn files() -> anyhow::Result<Files> {
    let mut files = crds::files()?;
    files.extend(rbac::files()?);
    files.extend(webhooks::files()?);
    files.extend(reference::files()?);
    files.extend(docs::files()?);
    Ok(files)
}

/// One outdated file.
struct Difference {
    path: PathBuf,
    /// The actual content; none if the file is missing.
    found: Option<String>,
    /// The expected content; none if the file should not exist.
    wanted: Option<String>,
}

impl Difference {
    fn diff(&self) -> String {
        let (found, wanted) = (
            self.found.as_deref().unwrap_or_default(),
            self.wanted.as_deref().unwrap_or_default(),
        );
        let path = self.path.display();
        let (old, new) = (format!("{path} (in the repository)"), format!("{path} (generated)"));
        TextDiff::from_lines(found, wanted)
            .unified_diff()
            .header(&old, &new)
            .to_string()
    }
}

/// Compares the repository at `root` with the expected files.
fn differences(root: &Path, wanted: &Files) -> anyhow::Result<Vec<Difference>> {
    let mut found = existing(root)?;
    let mut differences = Vec::new();
    for (path, text) in wanted {
        // Outside of the folders for generated files, other files are left alone.
        let old = found.remove(path).or_else(|| fs::read_to_string(root.join(path)).ok());
        if old.as_ref() != Some(text) {
            differences.push(Difference {
                path: path.clone(),
                found: old,
                wanted: Some(text.clone()),
            });
        }
    }
    differences.extend(found.into_iter().map(|(path, text)| Difference {
        path,
        found: Some(text),
        wanted: None,
    }));
    Ok(differences)
}

/// The existing files in the folders for generated files.
fn existing(root: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for (folder, extension) in FOLDERS {
        if root.join(folder).exists() {
            collect(root, Path::new(folder), extension, &mut files)?;
        }
    }
    Ok(files)
}

/// Reads the files with this extension in a folder and its subfolders.
fn collect(root: &Path, folder: &Path, extension: &str, files: &mut Files) -> anyhow::Result<()> {
    let list = || format!("cannot list {}", folder.display());
    for entry in fs::read_dir(root.join(folder)).with_context(list)? {
        let entry = entry.with_context(list)?;
        let path = folder.join(entry.file_name());
        if entry.file_type().with_context(list)?.is_dir() {
            collect(root, &path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            let text =
                fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(path, text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test that keeps generated files up to date.
    #[test]
    fn generated_files_are_up_to_date() {
        run(&Args { check: true }).unwrap();
    }

    #[test]
    fn changed_missing_and_stale_files_are_differences() {
        let root = tempfile::tempdir().unwrap();
        let folder = Path::new(crds::FOLDER);
        for (name, text) in [
            ("same.yaml", "a: 1\n"),
            ("changed.yaml", "a: 1\n"),
            ("stale.yaml", "a: 1\n"),
            ("x.md", ""),
        ] {
            write(&root.path().join(folder).join(name), text).unwrap();
        }
        let wanted = [
            ("same.yaml", "a: 1\n"),
            ("changed.yaml", "a: 2\n"),
            ("missing.yaml", "a: 1\n"),
        ];
        let wanted = wanted.map(|(name, text)| (folder.join(name), text.to_owned())).into();
        let mut found = differences(root.path(), &wanted).unwrap();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let names: Vec<_> = found
            .iter()
            .map(|d| d.path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["changed.yaml", "missing.yaml", "stale.yaml"]);
        let diff = found[0].diff();
        assert!(diff.contains("\n-a: 1\n+a: 2\n"), "{diff}");
        assert!(found[2].wanted.is_none());
    }
}
