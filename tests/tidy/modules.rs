//! The modules of a crate, and the files that each file uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::syntax::{self, Import, Source};

/// For each file, the files that it uses, and the paths by which it does.
pub(super) type Graph = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

type ModulePath = Vec<String>;

/// Longer chains of re-exports are cycles.
const MOST_REEXPORTS: usize = 8;

struct Modules {
    files: BTreeMap<ModulePath, (PathBuf, Source)>,
}

/// The graph of one crate, from its files, relative to its `src`, and their text.
pub(super) fn graph(files: &[(PathBuf, String)]) -> Graph {
    let mut modules = Modules { files: BTreeMap::new() };
    let mut programs = Vec::new();
    for (path, text) in files {
        let source = syntax::read(text);
        match path.to_str() {
            Some("main.rs") if files.iter().any(|(path, _)| path == Path::new("lib.rs")) => {
                programs.push((path.clone(), source));
            }
            _ => {
                modules.files.insert(module_path(path), (path.clone(), source));
            }
        }
    }
    modules.leave_out_tests();
    let mut graph = Graph::new();
    for (module, (path, source)) in &modules.files {
        graph.insert(path.clone(), modules.uses(module, path, source));
    }
    for (path, source) in &programs {
        graph.insert(path.clone(), modules.uses(&[], path, source));
    }
    graph
}

/// `a/b.rs` and `a/b/mod.rs` are both `a::b`.
fn module_path(path: &Path) -> ModulePath {
    let path = path.with_extension("");
    let mut module: ModulePath = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod") || matches!(path.to_str(), Some("lib" | "main")) {
        module.pop();
    }
    module
}

impl Modules {
    fn leave_out_tests(&mut self) {
        let mut tests: BTreeSet<ModulePath> = BTreeSet::new();
        for (module, (_, source)) in &self.files {
            for name in &source.test_modules {
                tests.insert([module.as_slice(), std::slice::from_ref(name)].concat());
            }
        }
        self.files.retain(|module, _| {
            let named = module.iter().any(|part| part == "tests" || part == "testing");
            !named && !(1..=module.len()).any(|length| tests.contains(&module[..length]))
        });
    }

    /// The files that a file uses, and the paths by which it does.
    fn uses(&self, module: &[String], file: &Path, source: &Source) -> BTreeMap<PathBuf, BTreeSet<String>> {
        let mut uses: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
        let mut add = |path: &[String], shown: &[String]| {
            if let Some(target) = self.file_of(path).filter(|target| *target != file) {
                uses.entry(target.to_owned()).or_default().insert(shown.join("::"));
            }
        };
        let mut imported_modules = BTreeMap::new();
        for import in &source.imports {
            // A re-export alone is not a use of the item.
            if import.reexport && !source.words.contains_key(&import.name) {
                continue;
            }
            let Some(path) = absolute(module, &import.path) else { continue };
            if import.name != "*" && self.files.contains_key(&path) {
                imported_modules.insert(import.name.clone(), path.clone());
                // The uses of items from this module are found at those paths.
                if source.paths.iter().any(|path| path[0] == import.name) {
                    continue;
                }
            }
            add(&path, &import.path);
        }
        for shown in &source.paths {
            let path = match imported_modules.get(&shown[0]) {
                Some(imported) => Some([imported.as_slice(), &shown[1..]].concat()),
                None => absolute(module, shown),
            };
            if let Some(path) = path {
                add(&path, shown);
            }
        }
        uses
    }

    /// The file that defines the item at an absolute path.
    fn file_of(&self, path: &[String]) -> Option<&Path> {
        self.definition(path, 0).and_then(|module| self.files.get(&module)).map(|(file, _)| file.as_path())
    }

    fn definition(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        // A path into an excluded module is not a use, neither of it nor of its parent module.
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let Some(name) = rest.first().filter(|_| depth < MOST_REEXPORTS) else {
            return Some(module.to_vec());
        };
        let (_, source) = &self.files[module];
        if source.test_modules.contains(name) || name == "tests" || name == "testing" {
            return None;
        }
        if !source.items.contains(name) {
            if let Some(import) = source.imports.iter().find(|import| import.name == *name)
                && let Some(to) = self.imported(module, import)
            {
                return self.definition(&[to.as_slice(), &rest[1..]].concat(), depth + 1);
            }
            for glob in source.imports.iter().filter(|import| import.name == "*" && import.reexport) {
                let target = self.imported(module, glob).filter(|target| self.files.contains_key(target));
                let Some(target) = target else { continue };
                let (_, there) = &self.files[&target];
                if there.items.contains(name) || there.imports.iter().any(|import| import.name == *name) {
                    return self.definition(&[target.as_slice(), rest].concat(), depth + 1);
                }
            }
        }
        Some(module.to_vec())
    }

    /// The target of an import; also resolves one like `use child::Item`.
    fn imported(&self, module: &[String], import: &Import) -> Option<ModulePath> {
        absolute(module, &import.path).or_else(|| {
            let child = [module, &import.path[..1]].concat();
            self.files.contains_key(&child).then(|| [module, &import.path].concat())
        })
    }
}

/// A path from the crate's root; none if it leads out of the crate.
fn absolute(module: &[String], path: &[String]) -> Option<ModulePath> {
    let up = path.iter().skip(usize::from(path[0] == "self")).take_while(|part| *part == "super").count();
    let skipped = up + usize::from(path[0] == "self" || path[0] == "crate");
    let from = if path[0] == "crate" { &[] } else { &module[..module.len().saturating_sub(up)] };
    (skipped > 0).then(|| [from, &path[skipped..]].concat())
}
