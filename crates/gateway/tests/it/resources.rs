//! Resources of a file: templates, files inside its folder, and what programs print.

use crate::stage::Stage;
use interlock::workflow::file;
use interlock_gateway::Options;
use interlock_testkit::{Client, connect};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const FILE: &str = r#"
interlock: 1
name: docs
resources:
  "note://{who}": { text: "Hello, {{who}}.", mime_type: text/plain }
  "doc://{+path}": { file: "docs/{{path}}" }
  "doc:readme": { file: readme.md, mime_type: text/markdown }
  "order://{id}": { command: [sh, -c, 'cat; echo " $FORM $INTERLOCK_STATE"'], env: { FORM: long } }
  "broken:order": { command: [sh, -c, "echo no such order >&2; exit 1"] }
states:
  new:
    initial: true
    resources: { "order://{id}": seen, "note://{who}": new, "doc://{+path}": new, "doc:readme": new, "broken:order": new }
  seen: { resources: { "order://7": end } }
  end: { terminal: true }
"#;

struct Docs {
    stage: Stage,
    client: Client,
}

impl Docs {
    async fn new() -> Self {
        let stage = Stage::new();
        let folder = stage.folder();
        std::fs::create_dir_all(folder.join("docs/deep")).unwrap();
        std::fs::write(folder.join("readme.md"), "# Read me").unwrap();
        std::fs::write(folder.join("docs/deep/a.txt"), "deep").unwrap();
        std::fs::write(folder.join("docs/bytes"), [0xff, 0x00]).unwrap();
        let file = file::read(FILE.as_bytes()).unwrap();
        let server = interlock_gateway::builder(&file, folder, &Options::default()).unwrap();
        let (mut client, _) = connect(&server.build().unwrap());
        client.initialize().await;
        Self { stage, client }
    }

    async fn read(&mut self, uri: &str) -> Value {
        let params = json!({ "uri": uri });
        self.client.request("resources/read", params).await
    }

    #[track_caller]
    fn refused(answer: &Value, code: u64) {
        assert_eq!(answer["error"]["data"]["refusal"]["code"], code, "{answer}");
    }
}

#[tokio::test]
async fn a_template_fills_in_its_text() {
    let mut docs = Docs::new().await;
    let list = docs
        .client
        .request("resources/templates/list", json!({}))
        .await;
    let templates = list["result"]["resourceTemplates"].as_array().unwrap();
    assert_eq!(templates.len(), 3);
    let answer = docs.read("note://Ann%20%7B%7Bwho%7D%7D").await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!(contents["text"], "Hello, Ann {{who}}.");
    assert_eq!(contents["mimeType"], "text/plain");
}

#[tokio::test]
async fn files_are_read_as_text_or_bytes() {
    let mut docs = Docs::new().await;
    let answer = docs.read("doc:readme").await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!(
        (&contents["text"], &contents["mimeType"]),
        (&json!("# Read me"), &json!("text/markdown"))
    );
    let answer = docs.read("doc://deep/a.txt").await;
    assert_eq!(answer["result"]["contents"][0]["text"], "deep");
    let answer = docs.read("doc://bytes").await;
    assert_eq!(answer["result"]["contents"][0]["blob"], "/wA=");
    Docs::refused(&docs.read("doc://nowhere").await, 1046);
    Docs::refused(&docs.read("doc://deep").await, 1046);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_outside_the_folder_is_read() {
    let mut docs = Docs::new().await;
    let outside = Stage::new();
    std::fs::write(outside.folder().join("secret"), "s3cr3t").unwrap();
    let link = docs.stage.folder().join("docs/link");
    std::os::unix::fs::symlink(outside.folder(), &link).unwrap();
    let inner = docs.stage.folder().join("docs/inner");
    std::os::unix::fs::symlink(docs.stage.folder().join("readme.md"), inner).unwrap();

    Docs::refused(&docs.read("doc://link/secret").await, 1038);
    let answer = docs.read("doc://inner").await;
    assert_eq!(
        answer["result"]["contents"][0]["text"], "# Read me",
        "it leads to the inside"
    );
    let absolute = outside.folder().join("secret");
    for path in [
        "..%2F..%2Fetc%2Fpasswd",
        "deep%2F..%2F..%2F..%2Fsecret",
        "..",
        "%2e%2e/readme.md",
        &format!("%2F{}", absolute.display()),
    ] {
        let answer = docs.read(&format!("doc://{path}")).await;
        assert_eq!(answer.get("result"), None, "{path}: {answer}");
        assert!(!answer.to_string().contains("s3cr3t"), "{path}: {answer}");
    }
    docs.stage.pipe("docs/pipe");
    Docs::refused(&docs.read("doc://pipe").await, 1046);
}

/// A link is swapped in for the file again and again while it is read. Without the check at the moment
/// of opening, one of a few hundred reads told the secret.
#[cfg(unix)]
#[tokio::test]
async fn nothing_outside_the_folder_is_read_however_fast_links_change() {
    let mut docs = Docs::new().await;
    let outside = Stage::new();
    std::fs::write(outside.folder().join("secret"), "s3cr3t").unwrap();
    let folder = docs.stage.folder().join("docs");
    let ends = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (ends, secret) = (Arc::clone(&ends), outside.folder().join("secret"));
        move || {
            let (file, spare) = (folder.join("swapped"), folder.join("spare"));
            while !ends.load(Ordering::Relaxed) {
                std::fs::write(&spare, "public").unwrap();
                std::fs::rename(&spare, &file).unwrap();
                std::os::unix::fs::symlink(&secret, &spare).unwrap();
                std::fs::rename(&spare, &file).unwrap();
            }
        }
    });
    let mut read = 0;
    for _ in 0..2_000 {
        let answer = docs.read("doc://swapped").await;
        assert!(!answer.to_string().contains("s3cr3t"), "{answer}");
        read += usize::from(answer.to_string().contains("public"));
    }
    ends.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(read > 10, "{read}");
}

#[tokio::test]
async fn a_program_prints_a_resource() {
    let mut docs = Docs::new().await;
    let answer = docs.read("order://A-1").await;
    let text = &answer["result"]["contents"][0]["text"];
    assert_eq!(text, "{\"id\":\"A-1\"} long new\n");
    // The read moved the instance, where only one order is left.
    Docs::refused(&docs.read("order://8").await, 1081);
    let answer = docs.read("order://7").await;
    assert_eq!(
        answer["result"]["contents"][0]["text"],
        "{\"id\":\"7\"} long seen\n"
    );
}

#[tokio::test]
async fn a_program_that_fails_says_why() {
    let mut docs = Docs::new().await;
    let answer = docs.read("broken:order").await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer.to_string().contains("no such order"), "{answer}");
}
