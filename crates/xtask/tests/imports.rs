//! Which file imports which: no circle is larger than five files, and decisions import nothing that acts.

#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it in functions marked #[test] only, and this whole file is tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The most files that may import each other in a circle.
const LARGEST_CIRCLE: usize = 5;

/// What a decision must not import: it would act, wait, or depend on more than it was shown.
const NOT_PURE: [&str; 13] = [
    "kube::Api",
    "kube::Client",
    "kube::api::Api",
    "kube::client",
    "kube::runtime::watcher",
    "metal3_ironic::Client",
    "metal3_runtime::backoff::random_seed",
    "reqwest",
    "std::env",
    "std::fs",
    "std::time::Instant",
    "std::time::SystemTime",
    "tokio",
];

/// A file by its path of modules.
type Module = Vec<String>;

fn is_test(attributes: &[Attribute]) -> bool {
    let is_one = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(is_one)
}

/// The paths that a file names, and the modules in it that are files of their own.
#[derive(Default)]
struct Named {
    paths: BTreeSet<Vec<String>>,
    children: BTreeSet<String>,
    /// Names of children that are only passed on: a list of what is in a room imports nothing.
    passed_on: BTreeSet<Vec<String>>,
}

fn leaves(tree: &UseTree, before: &[String], found: &mut BTreeSet<Vec<String>>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &with(&path.ident), found),
        UseTree::Group(group) => group.items.iter().for_each(|item| leaves(item, before, found)),
        UseTree::Name(name) if name.ident == "self" => drop(found.insert(before.to_vec())),
        UseTree::Name(name) => drop(found.insert(with(&name.ident))),
        UseTree::Rename(name) => drop(found.insert(with(&name.ident))),
        UseTree::Glob(_) => drop(found.insert(before.to_vec())),
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Mod(module) if module.content.is_none() => drop(self.children.insert(module.ident.to_string())),
            Item::Use(import) if is_test(&import.attrs) => {}
            Item::Use(import) if matches!(import.vis, syn::Visibility::Inherited) => {
                leaves(&import.tree, &[], &mut self.paths);
            }
            Item::Use(import) => leaves(&import.tree, &[], &mut self.passed_on),
            other => visit::visit_item(self, other),
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {
        // A visibility is not an import.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|segment| segment.ident.to_string());
            self.paths.insert(names.collect());
        }
        visit::visit_path(self, path);
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let crates: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(crates.len() > 5, "{crates:?}");
    crates
}

/// The files of a crate without those that are tests.
fn files(of: &Path) -> BTreeMap<Module, Named> {
    let root = of.join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let mut files = BTreeMap::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().with_extension("");
        let mut module: Module = name.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        if module.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
            continue;
        }
        let mut named = Named::default();
        named.visit_file(&syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap());
        files.insert(module, named);
    }
    files
}

/// The path from the root of the crate, if it leads into the crate.
fn absolute(path: &[String], module: &Module, children: &BTreeSet<String>) -> Option<Vec<String>> {
    let mut from = module.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            from.clear();
            rest = rest.get(1..)?;
        }
        "self" => rest = rest.get(1..)?,
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                from.pop()?;
                rest = rest.get(1..)?;
            }
        }
        child if children.contains(child) => {}
        _ => return None,
    }
    from.extend_from_slice(rest);
    Some(from)
}

/// Which files each file imports.
fn imports(files: &BTreeMap<Module, Named>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let file_of = |path: &[String]| {
        (0..=path.len())
            .rev()
            .find_map(|length| files.get_key_value(path.get(..length)?))
    };
    let of = |(module, named): (&'_ Module, &Named)| -> BTreeSet<_> {
        let paths = named.paths.iter().map(|path| (path, false));
        let passed_on = named.passed_on.iter().map(|path| (path, true));
        let targets = paths.chain(passed_on).filter_map(|(path, is_passed_on)| {
            let (target, _) = file_of(&absolute(path, module, &named.children)?)?;
            let is_child = target.starts_with(module);
            (target != module && !(is_passed_on && is_child)).then_some(target)
        });
        targets.collect()
    };
    files.iter().map(|file| (file.0, of(file))).collect()
}

/// All that a file reaches by imports.
fn reached<'a>(from: &'a Module, imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        let new = imports.get(module).into_iter().flatten();
        next.extend(new.copied().filter(|module| reached.insert(*module)));
    }
    reached
}

#[test]
fn no_circle_is_larger_than_five_files() {
    let mut large = BTreeSet::new();
    for of in crates() {
        let files = files(&of);
        let imports = imports(&files);
        let reached: BTreeMap<_, _> = files.keys().map(|from| (from, reached(from, &imports))).collect();
        for to in reached.values() {
            let circle: Vec<_> = to.iter().filter(|other| to == &reached[**other]).collect();
            if circle.len() > LARGEST_CIRCLE {
                let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
                large.insert(format!("{}: {} files: {}", of.display(), names.len(), names.join(" ")));
            }
        }
    }
    assert!(large.is_empty(), "{large:#?}");
}

#[test]
fn decisions_import_nothing_that_acts() {
    let (mut decisions, mut wrong) = (0, Vec::new());
    for of in crates() {
        for (module, named) in files(&of) {
            if !module.iter().any(|part| part == "decide") {
                continue;
            }
            decisions += 1;
            for path in named.paths.iter().map(|path| path.join("::")) {
                let is_of = |other: &str| path == other || path.starts_with(&format!("{other}::"));
                if NOT_PURE.iter().any(|other| is_of(other)) || path.ends_with("context::Context") {
                    wrong.push(format!("{}: {}: {path}", of.display(), module.join("::")));
                }
            }
        }
    }
    assert!(decisions > 40, "{decisions}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_seen() {
    let named = |text: &str| {
        let mut named = Named::default();
        named.visit_file(&syn::parse_file(text).unwrap());
        named
    };
    let files = BTreeMap::from([
        (vec![], named("mod a; mod b; pub use self::a::A;")),
        (
            vec!["a".to_owned()],
            named("use super::b::{B, other}; #[cfg(test)] mod tests { use crate::C; }"),
        ),
        (vec!["b".to_owned()], named("fn f() { crate::a::g() }")),
    ]);
    let imports = imports(&files);
    let edges: Vec<_> = imports
        .values()
        .map(|to| to.iter().map(|m| m.join("::")).collect::<Vec<_>>())
        .collect();
    assert_eq!(edges, [vec![], vec!["b".to_owned()], vec!["a".to_owned()]]);
    assert_eq!(reached(&vec!["a".to_owned()], &imports).len(), 2);
}
