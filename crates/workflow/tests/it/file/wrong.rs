//! Files as people get them wrong, and exactly what they are told.
//!
//! Each file in `fixtures/wrong` has its findings beside it. `UPDATE_EXPECT=1` rewrites those;
//! read them then as somebody would who has never seen a workflow file.

use interlock_workflow::file;
use std::{collections::BTreeSet, env, fs, path::Path};

#[test]
fn every_wrong_file_is_told_where_what_and_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wrong");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert!(names.len() >= 20, "only {} files", names.len());
    for name in names {
        let text = fs::read(fixture(&format!("wrong/{name}.yaml"))).unwrap();
        let invalid = file::read(&text).expect_err(&name);
        assert!(
            invalid
                .findings
                .iter()
                .all(|finding| finding.span.is_some()),
            "{name}"
        );
        golden(
            &format!("tests/fixtures/wrong/{name}.txt"),
            &format!("{invalid}\n"),
        );
    }
}

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Compares with a file of this crate, or rewrites it.
#[track_caller]
pub(super) fn golden(path: &str, actual: &str) {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{path} differs; UPDATE_EXPECT=1 rewrites it\n{actual}"
    );
}
