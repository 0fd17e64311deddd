//! Settings of the machine's kernel that a kubelet wants and that are no server's own. The lab sets them, so that servers need
//! not be allowed to, and puts them back.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What the kubelet checks, and would set if it could.
const WANTED: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// A setting that the lab changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    file: PathBuf,
    before: String,
    ours: String,
}

/// Those that differ from what is wanted. Changes nothing.
pub fn differing(root: &Path) -> Result<Vec<Setting>> {
    let all = WANTED.iter().map(|(name, ours)| {
        let file = root.join(name);
        let before = read(&file)?;
        Ok((before != *ours).then(|| Setting {
            file,
            before,
            ours: (*ours).to_owned(),
        }))
    });
    all.filter_map(Result::transpose).collect()
}

impl Setting {
    /// Changes it.
    pub fn change(&self) -> Result<()> {
        fs::write(&self.file, &self.ours).with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Puts it back, unless somebody else has changed it meanwhile.
    pub fn restore(&self) -> Result<()> {
        if read(&self.file)? == self.ours {
            fs::write(&self.file, &self.before).with_context(|| format!("cannot write {}", self.file.display()))?;
        }
        Ok(())
    }
}

fn read(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_put_back_unless_somebody_else_has_changed_them() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("kernel/keys")).unwrap();
        fs::create_dir_all(root.path().join("vm")).unwrap();
        let write = |name: &str, value: &str| fs::write(root.path().join(name), format!("{value}\n")).unwrap();
        for (name, ours) in WANTED {
            write(name, ours);
        }
        assert_eq!(differing(root.path()).unwrap(), []);

        write("kernel/panic", "1");
        write("vm/overcommit_memory", "0");
        let settings = differing(root.path()).unwrap();
        assert_eq!(settings.len(), 2);
        for setting in &settings {
            setting.change().unwrap();
        }
        assert_eq!(differing(root.path()).unwrap(), []);
        write("kernel/panic", "5");
        for setting in &settings {
            setting.restore().unwrap();
        }
        let now = ["vm/overcommit_memory", "kernel/panic"].map(|name| read(&root.path().join(name)).unwrap());
        assert_eq!(now, ["0", "5"]);
    }
}
