//! `cargo xtask generate`: writes files that are made from Rust code, or checks that they are what the code says.

mod crds;
mod docs;
pub mod files;
mod rbac;
mod reference;
mod webhooks;

use anyhow::{Context, ensure};
use similar::TextDiff;
use std::fs;
use std::path::{Path, PathBuf};

use self::files::Files;
use crate::install;

/// Arguments of `cargo xtask generate`.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing; show how the files differ from what the code says, and fail if they do
    #[arg(long)]
    check: bool,
}

/// Folders whose files of one kind are all generated, those in folders below them too; one that nothing generates any more is
/// deleted.
const FOLDERS: [(&str, &str); 7] = [
    (crds::FOLDER, "yaml"),
    (rbac::FOLDER, "yaml"),
    (webhooks::FOLDER, "yaml"),
    (install::BASES[0], "yaml"),
    (install::BASES[1], "yaml"),
    (install::CHART, "yaml"),
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

/// Everything that is generated.
fn files() -> anyhow::Result<Files> {
    let mut files = crds::files()?;
    files.extend(rbac::files()?);
    files.extend(webhooks::files()?);
    files.extend(install::files()?);
    files.extend(reference::files()?);
    files.extend(docs::files()?);
    Ok(files)
}

/// One file that is not what the code says.
struct Difference {
    path: PathBuf,
    /// What the file contains; nothing where it is missing.
    found: Option<String>,
    /// What it should contain; nothing where it should not exist.
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

/// Compares the repository at `root` with what should be there.
fn differences(root: &Path, wanted: &Files) -> anyhow::Result<Vec<Difference>> {
    let mut found = existing(root)?;
    let mut differences = Vec::new();
    for (path, text) in wanted {
        // Outside of the folders that hold generated files only, other files are left alone.
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

/// The files that are there in the folders that only hold generated ones.
fn existing(root: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for (folder, extension) in FOLDERS {
        if root.join(folder).exists() {
            collect(root, Path::new(folder), extension, &mut files)?;
        }
    }
    Ok(files)
}

/// Reads the files with this extension in a folder and those below it.
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

    /// The check that keeps generated files and code together.
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
