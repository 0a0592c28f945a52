//! Tools that do what they are asked at once.

use interlock::{
    Context, Failure, NoArguments, Tool,
    model::{CallToolResult, ContentBlock, JsonObject},
};
use serde_json::{Value, json};

/// A tool that does what it is asked at once.
pub(crate) fn tool(name: &'static str) -> Tool {
    Tool::new(name, move |_: NoArguments, _: Context| async move {
        format!("{name} is done")
    })
}

/// A tool that takes anything and says it again, as structure; it fails if it is asked to.
pub(crate) fn echo(name: &'static str) -> Tool {
    let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
    Tool::raw(name, schema, |arguments, _: Context| async move {
        if arguments.contains_key("fail") {
            return Err(Failure::new("as asked"));
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text("done")]);
        result.structured_content = Some(Value::Object(arguments));
        Ok(result)
    })
}

/// A tool that counts its calls in what its session remembers.
pub(crate) fn count() -> Tool {
    Tool::new("count", |_: NoArguments, context: Context| async move {
        let count = context.get::<u32>("count")?.unwrap_or(0) + 1;
        context.set("count", &count).await?;
        Ok::<_, Failure>(count.to_string())
    })
}
