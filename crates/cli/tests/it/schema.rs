//! `interlock schema`.

use crate::stage::Stage;
use std::path::Path;

#[test]
fn it_prints_the_schema_that_the_repository_holds() {
    let ended = Stage::new().run(&["schema"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = std::fs::read_to_string(root.join("schema/interlock.schema.json")).unwrap();
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stdout == kept,
        "schema/interlock.schema.json is not what is printed"
    );
}

#[test]
fn its_help_says_how_an_editor_gets_to_know_it() {
    let ended = Stage::new().run(&["schema", "--help"]);
    assert!(
        ended.stdout.contains("# yaml-language-server: $schema="),
        "{}",
        ended.stdout
    );
}
