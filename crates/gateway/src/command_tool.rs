//! A tool that is a command: what it is told, and what its end means.
//!
//! It gets its arguments as JSON on standard input. If it exits with 0, standard output is its
//! result: a text, or a `CallToolResult` as JSON. If it does not, standard error says why it
//! failed.

use crate::{
    child::{self, Ended, Fault, Job},
    program::Program,
    sweeper::Sweeper,
};
use interlock::{
    Context, Failure, IntoToolResult, Tool, ToolResult,
    model::{CallToolResult, ContentBlock, JsonObject, ToolAnnotations},
    workflow::file::{Annotations, CommandTool},
};
use serde_json::Value;
use std::{io, process::ExitStatus, sync::Arc};

/// How many bytes a command may write to standard output, and how many of standard error are told.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;

/// A file's tool, run as a command.
pub(crate) fn command_tool(tool: &CommandTool, runner: Runner) -> Tool {
    described(tool, move |arguments, context| {
        let runner = runner.clone();
        async move {
            let ended = runner.run(&Value::Object(arguments), &context).await?;
            said(&ended.stdout)
        }
    })
}

/// Runs one program, for calls of a tool or a resource.
#[derive(Clone)]
pub(crate) struct Runner {
    pub(crate) program: Arc<Program>,
    pub(crate) sweeper: Arc<Sweeper>,
}

impl Runner {
    /// Runs the program to its success.
    pub(crate) async fn run(&self, input: &Value, context: &Context) -> Result<Ended, Failure> {
        let mark = self.sweeper.mark();
        let job = Job {
            command: self.program.command(context, &mark),
            mark,
            sweeper: &self.sweeper,
            input: &serde_json::to_vec(input)?,
            limit: OUTPUT_LIMIT,
            stop: context.cancelled(),
        };
        match child::run(job).await {
            Ok(ended) if ended.status.success() => Ok(ended),
            Ok(ended) if ended.was_asked_to_stop => Err(Failure::stopped()),
            Ok(ended) => Err(Failure::new(complaint(&ended))),
            Err(fault) => {
                let program = &self.program.written;
                tracing::warn!(program, %fault, "a command failed");
                Err(Failure::new(told(&self.program, &fault)))
            }
        }
    }
}

/// A tool that is called and described as the file says, with a handler of its own.
pub fn described<F, Fut, R>(tool: &CommandTool, handler: F) -> Tool
where
    F: Fn(JsonObject, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult,
{
    let schema = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut described = Tool::raw(tool.name.clone(), schema(&tool.input), handler)
        .description(tool.description.clone());
    if let Some(title) = &tool.title {
        described = described.title(title);
    }
    if let Some(output) = &tool.output {
        described = described.output_schema(schema(output));
    }
    if let Some(annotations) = &tool.annotations {
        described = described.annotations(hints(annotations));
    }
    if let Some(timeout) = tool.timeout {
        described = described.timeout(timeout);
    }
    described
}

fn hints(annotations: &Annotations) -> ToolAnnotations {
    let mut hints = ToolAnnotations::default();
    hints.title.clone_from(&annotations.title);
    hints.read_only_hint = annotations.read_only_hint;
    hints.destructive_hint = annotations.destructive_hint;
    hints.idempotent_hint = annotations.idempotent_hint;
    hints.open_world_hint = annotations.open_world_hint;
    hints
}

/// What the model is told of a fault; the rest is in the log.
fn told(program: &Program, fault: &Fault) -> String {
    let written = &program.written;
    match fault {
        Fault::NotStarted(error) if error.kind() == io::ErrorKind::NotFound => {
            if program.program.exists() {
                format!("the program `{written}` needs something that is not there")
            } else if !program.folder.is_dir() {
                "the folder in which the program is to run is not there".to_owned()
            } else {
                format!("there is no program `{written}`")
            }
        }
        Fault::NotStarted(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            format!("the program `{written}` may not be run")
        }
        Fault::NotStarted(_) | Fault::Flood { .. } | Fault::Lost(_) => {
            format!("the program `{written}` failed: {fault}")
        }
    }
}

/// What standard output means: a result as it stands, or a text.
fn said(stdout: &[u8]) -> Result<ToolResult, Failure> {
    let text = String::from_utf8_lossy(stdout);
    if text.trim_start().starts_with('{')
        && let Ok(Value::Object(object)) = serde_json::from_str(&text)
        && object.get("content").is_some_and(Value::is_array)
    {
        return match flaw(&object) {
            None => Ok(ToolResult::Raw(object)),
            Some(flaw) => Err(Failure::new(format!(
                "the command printed a result that is none: {flaw}"
            ))),
        };
    }
    let text = ContentBlock::text(without_last_line_end(&text));
    Ok(ToolResult::Typed(CallToolResult::success(vec![text])))
}

/// What is wrong with a result that a command has printed, as far as its members are known. Members
/// and kinds of content that are not known pass.
fn flaw(result: &JsonObject) -> Option<&'static str> {
    let is = |name, right: fn(&Value) -> bool| result.get(name).is_none_or(right);
    let content = result.get("content").and_then(Value::as_array);
    let is_block = |block: &Value| block["type"].is_string();
    if !is("isError", Value::is_boolean) {
        Some("`isError` must be true or false")
    } else if !is("structuredContent", Value::is_object) {
        Some("`structuredContent` must be an object")
    } else if !is("_meta", Value::is_object) {
        Some("`_meta` must be an object")
    } else if !content.is_some_and(|blocks| blocks.iter().all(is_block)) {
        Some("each item of `content` must be an object with a `type`")
    } else {
        None
    }
}

/// Why a command did not exit with 0.
fn complaint(ended: &Ended) -> String {
    let text = String::from_utf8_lossy(&ended.stderr);
    let text = text.trim_end();
    match (text.is_empty(), ended.stderr_cut) {
        (true, _) => end(ended.status),
        (false, true) => format!("{text}\n[more was cut]"),
        (false, false) => text.to_owned(),
    }
}

fn end(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit status {code}"),
        None => status.to_string(),
    }
}

/// Programs end their last line; a text does not need that.
fn without_last_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stdout: &[u8], text: &str) {
        let Ok(ToolResult::Typed(result)) = said(stdout) else {
            panic!("{stdout:?} is taken as a result");
        };
        assert_eq!(result.content, [ContentBlock::text(text)]);
        assert_eq!(result.is_error, Some(false));
    }

    #[test]
    fn output_is_a_text_unless_it_is_a_result() {
        check(b"", "");
        check(b"hello\n", "hello");
        check(b"two\nlines\r\n", "two\nlines");
        check(b"\n\n", "\n");
        check(b"{\"a\": 1}\n", "{\"a\": 1}");
        check(b"{\"content\": 1}", "{\"content\": 1}");
        check(b"{\"content\": []", "{\"content\": []");
        check(b"[{\"content\": []}]", "[{\"content\": []}]");
        check(b"caf\xe9", "caf\u{fffd}");
        let written = r#" {"content":[],"x-mine":{"b":1,"a":2},"isError":true}"#;
        let Ok(ToolResult::Raw(result)) = said(written.as_bytes()) else {
            panic!("{written} is taken as a text");
        };
        assert_eq!(Value::Object(result).to_string(), written.trim());
    }

    #[test]
    fn a_result_that_is_none_is_an_error_and_what_is_not_known_passes() {
        for (written, flaw) in [
            (r#"{"content":[],"isError":"true"}"#, "`isError`"),
            (
                r#"{"content":[],"structuredContent":[1]}"#,
                "`structuredContent`",
            ),
            (r#"{"content":[],"_meta":5}"#, "`_meta`"),
            (r#"{"content":[1]}"#, "`content`"),
            (r#"{"content":[{"text":"x"}]}"#, "`content`"),
        ] {
            let failure = said(written.as_bytes()).unwrap_err().to_string();
            assert!(failure.contains(flaw), "{written}: {failure}");
        }
        assert!(said(br#"{"content":[{"type":"hologram","x":1}],"more":null}"#).is_ok());
    }
}
