//! The schema, the reader, the examples and the documentation agree.

use super::schema;
use crate::file::{
    artifacts, bindings, document,
    reader::{SHAPES, Shape},
    report::Findings,
    servers, settings, states, tree,
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

/// What each kind of map is called in the schema.
const DEFINITIONS: [(&str, &Shape); 15] = [
    ("Server", &servers::SERVER),
    ("Tool", &artifacts::TOOL),
    ("Annotations", &artifacts::ANNOTATIONS),
    ("Resource", &artifacts::RESOURCE),
    ("Prompt", &artifacts::PROMPT),
    ("Argument", &artifacts::ARGUMENT),
    ("KindAndName", &states::ALWAYS),
    ("Settings", &settings::SETTINGS),
    ("State", &states::STATE),
    ("Binding", &bindings::BINDING),
    ("Guard", &bindings::GUARD),
    ("Approval", &bindings::APPROVAL),
    ("Edge", &bindings::EDGE),
    ("Sampling", &states::SAMPLING),
    ("Message", &states::MESSAGE),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The keys of an object, or of each object of which one is to be chosen.
fn keys(schema: &Value) -> BTreeSet<&str> {
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    let objects = choices.chain([schema]);
    objects
        .filter_map(|object| object["properties"].as_object())
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect()
}

/// Every map of the schema that has keys of its own, the free-form one of a tool apart.
fn objects(schema: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut left = vec![schema];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(map) => {
                if map.contains_key("properties") && map["properties"].get("type").is_none() {
                    found.push(value);
                }
                left.extend(map.values());
            }
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

#[test]
fn the_schema_has_the_keys_of_the_reader_and_no_others() {
    let schema = schema();
    let known = |shape: &Shape| shape.keys.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(keys(&schema), known(&document::FILE));
    for (name, shape) in DEFINITIONS {
        assert_eq!(keys(&schema["$defs"][name]), known(shape), "{name}");
    }
    assert_eq!(DEFINITIONS.len() + 1, SHAPES.len());
    let maps = objects(&schema).len();
    let kinds = states::ALWAYS.keys.len();
    assert_eq!(maps, SHAPES.len() - 1 + kinds, "a map that nobody compares");
}

#[test]
fn every_map_is_closed_and_every_key_is_explained() {
    let schema = schema();
    for object in objects(&schema) {
        assert_eq!(object["additionalProperties"], false, "{object:#}");
        for (key, value) in object["properties"].as_object().unwrap() {
            let described = value["description"]
                .as_str()
                .or(object["description"].as_str());
            assert!(
                described.is_some_and(|text| text.len() > 5),
                "{key}: {value:#}"
            );
        }
    }
}

#[test]
fn the_schema_in_the_repository_is_current() {
    let path = repository().join("schema/interlock.schema.json");
    if env::var_os("UPDATE_EXPECT").is_some() {
        let text = serde_json::to_string_pretty(&schema()).unwrap();
        fs::write(&path, text + "\n").unwrap();
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    let kept: Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(
        kept == schema(),
        "{path:?} differs; UPDATE_EXPECT=1 rewrites it"
    );
}

fn json(text: &str) -> Option<Value> {
    let mut findings = Findings::default();
    let root = tree::parse(text, &mut findings)?;
    findings.judge().ok()?;
    Some(root.value.to_json())
}

/// What the schema says of a file, or nothing where the file is no YAML.
fn fits(text: &str) -> Option<Result<(), String>> {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let value = json(text)?;
    let result = validator.validate(&value);
    Some(result.map_err(|error| format!("{}: {error}", error.instance_path())))
}

fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left = vec![repository().join(folder)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.to_str().is_some_and(|path| path.ends_with(ending)) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }
    found
}

#[test]
fn files_that_are_read_fit_the_schema() {
    let mut good = files("examples", "interlock.yaml");
    good.extend(files("crates/workflow/tests/fixtures/files", ".yaml"));
    good.extend(files("crates/workflow/tests/fixtures/files", ".json"));
    assert!(good.len() >= 5, "{good:?}");
    for (path, text) in good {
        assert_eq!(fits(&text), Some(Ok(())), "{path}");
    }
    for text in [
        "interlock: 1\nname: 7\ntools:\nresources:\nprompts:\nservers:\nalways:\nsettings:\n",
        "interlock: 1\nname: x\nstates: { a: , b: { tools: { t: } }, c: { tools: , after: , resources: { r: { success: 1 } } } }",
        "interlock: 1\nname: x\nstates: { a: { tools: { t: { when: true, success: [a, { to: b, set: { n: 1.5 } }] } } } }",
        "interlock: 1\nname: x\nservers: { s: { url: \"${URL}\", headers: { a: 1 } } }",
    ] {
        assert!(
            crate::file::read_definition(text.as_bytes()).is_ok(),
            "{text}"
        );
        assert_eq!(fits(text), Some(Ok(())), "{text}");
    }
}

#[test]
fn files_with_a_wrong_shape_do_not_fit() {
    let expected = [
        "typo-in-a-key",
        "bad-durations",
        "no-version",
        "edge-without-an-outcome",
        "server-as-other-clients-have-it",
        "mcpServers",
        "typo-in-a-scope",
        "yes-for-true",
    ];
    let wrong = files("crates/workflow/tests/fixtures/wrong", ".yaml");
    for name in expected {
        let ending = format!("/{name}.yaml");
        let (path, text) = wrong
            .iter()
            .find(|(path, _)| path.ends_with(&ending))
            .unwrap();
        assert!(matches!(fits(text), Some(Err(_))), "{path}");
    }
    for body in [
        "states: { a: { max_visits: 0 } }",
        "states: { a: { tools: { t: { success: [] } } } }",
        "states: { a: { tools: { t: { success: { terminal: true } } } } }",
        "states: { a: { tools: { t: { success: { to: a, set: { a-b: x } } } } } }",
        "states: { a: { after: { soon: a } } }",
        "states: { a: { sampling: { system: x } } }",
        "states: { a: { sampling: { messages: [{ role: system, text: x }] } } }",
        "states: { a: { description: } }",
        "servers: { s: { command: [x], url: \"http://x\" } }",
        "servers: { s: { env: { A: b } } }",
        "servers: { s: { url: \"ftp://x\" } }",
        "servers: { s: { command: [] } }",
        "tools: { t: { description: d } }",
        "tools: { t: { description: d, command: [c], input: { type: array } } }",
        "prompts: { p: { text: x, arguments: [who] } }",
        "always: [{ tool: a, prompt: b }]",
        "always: all",
        "settings: { keep: [a b] }",
    ] {
        let text = format!("interlock: 1\nname: x\n{body}\n");
        assert!(matches!(fits(&text), Some(Err(_))), "{text}");
        assert!(crate::file::read(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn the_documentation_names_every_key() {
    let docs = fs::read_to_string(repository().join("docs/workflow-file.md")).unwrap();
    for shape in SHAPES {
        for key in shape.keys {
            assert!(
                docs.contains(&format!("`{key}`")),
                "{key} of {}",
                shape.what
            );
        }
    }
}
