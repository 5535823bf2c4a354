//! Checks that every case is named at the branch that it covers, and that every branch names existing cases. Reads the sources.

use std::collections::BTreeSet;
use std::path::Path;

use super::table;

fn sources(folder: &Path) -> Vec<String> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn cases_and_branches_name_each_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/attach");
    let branches: BTreeSet<String> = sources(&folder)
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.split_once("// Tests: "))
        .flat_map(|(_, ids)| ids.split(',').map(|id| id.trim().to_owned()).collect::<Vec<_>>())
        .collect();
    let mut cases: BTreeSet<String> = BTreeSet::new();
    for case in table::all() {
        assert!(cases.insert(case.id.to_owned()), "{} is there twice", case.id);
    }
    // The ids in tests without tables.
    for text in sources(&folder.join("tests")) {
        let words = text.split(['"', ' ', ',']).filter(|word| {
            let is_id = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-';
            word.starts_with("NEW-AD-") && word.len() > 7 && word.chars().all(is_id)
        });
        cases.extend(words.map(str::to_owned));
    }
    let lost: Vec<_> = branches.difference(&cases).collect();
    assert!(lost.is_empty(), "branches name cases that do not exist: {lost:?}");
    let homeless: Vec<_> = cases.difference(&branches).collect();
    assert!(homeless.is_empty(), "cases that no branch names: {homeless:?}");
}
