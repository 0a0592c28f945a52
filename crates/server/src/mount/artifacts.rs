//! The server's own tools, resources and prompts, made of what a handler lists.

use crate::{
    api::{Completion, Partial, Prompt, Resource, ResourceTemplate, Tool},
    context::Context,
    model::{
        CallToolResult, GetPromptResult, JsonObject, PromptModel, ReadResourceResult,
        ResourceModel, ResourceTemplateModel, ToolModel, failure::Failure,
    },
    mount::{Mounted, call},
};
use interlock_workflow::UriTemplate;
use rmcp::model::{
    ArgumentInfo, CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest,
    CompleteRequestParams, CompletionContext, GetPromptRequest, GetPromptRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, Reference, ServerResult,
};
use std::sync::Arc;

impl Mounted {
    pub(super) fn tool(self: &Arc<Self>, mut model: ToolModel) -> Tool {
        let (mounted, theirs) = (Arc::clone(self), model.name.to_string());
        model.name = self.prefixed(&theirs).into();
        let mut schema = JsonObject::clone(&model.input_schema);
        // Arguments are an object anyway, and clients want to be told so.
        schema.entry("type").or_insert_with(|| "object".into());
        model.input_schema = Arc::new(schema.clone());
        let mut tool = Tool::raw(model.name.clone(), schema, move |arguments, context| {
            let (mounted, name) = (Arc::clone(&mounted), theirs.clone());
            async move { mounted.call_tool(name, arguments, context).await }
        });
        tool.model = model;
        tool
    }

    pub(super) fn resource(self: &Arc<Self>, model: ResourceModel) -> Resource {
        let (mounted, uri) = (Arc::clone(self), model.uri.clone());
        let mut resource = Resource::new(model.uri.clone(), move |context| {
            let (mounted, uri) = (Arc::clone(&mounted), uri.clone());
            async move { mounted.read_resource(uri, context).await }
        });
        resource.model = model;
        resource
    }

    pub(super) fn template(self: &Arc<Self>, model: ResourceTemplateModel) -> ResourceTemplate {
        let (mounted, uri_template) = (Arc::clone(self), model.uri_template.clone());
        let mut template = ResourceTemplate::by_uri(uri_template.clone(), move |uri, context| {
            let mounted = Arc::clone(&mounted);
            async move { mounted.read_resource(uri, context).await }
        });
        template.model = model;
        // What is no template is refused when the server is built.
        let Some(parsed) = UriTemplate::parse(&uri_template)
            .ok()
            .filter(|_| self.completes())
        else {
            return template;
        };
        let of = Reference::for_resource(uri_template.clone());
        parsed
            .variables()
            .into_iter()
            .fold(template, |template, variable| {
                let completer = self.completer(of.clone(), variable);
                template.complete(variable, completer)
            })
    }

    pub(super) fn prompt(self: &Arc<Self>, mut model: PromptModel) -> Prompt {
        let (mounted, theirs) = (Arc::clone(self), model.name.clone());
        let of = Reference::for_prompt(theirs.clone());
        model.name = self.prefixed(&theirs);
        let mut prompt = Prompt::raw(model.name.clone(), move |arguments, context| {
            let (mounted, name) = (Arc::clone(&mounted), theirs.clone());
            async move { mounted.get_prompt(name, arguments, context).await }
        });
        let arguments = model.arguments.clone().unwrap_or_default();
        prompt.model = model;
        if !self.completes() {
            return prompt;
        }
        arguments.into_iter().fold(prompt, |prompt, argument| {
            let completer = self.completer(of.clone(), &argument.name);
            prompt.complete(argument.name, completer)
        })
    }

    /// Completes one argument.
    fn completer(
        self: &Arc<Self>,
        of: Reference,
        argument: &str,
    ) -> impl Fn(Partial, Context) -> CompletionFuture + Send + Sync + 'static {
        let (mounted, argument) = (Arc::clone(self), argument.to_owned());
        move |partial, context| {
            let (mounted, of, argument) = (Arc::clone(&mounted), of.clone(), argument.clone());
            Box::pin(async move { mounted.complete(of, argument, partial, context).await })
        }
    }

    async fn call_tool(
        &self,
        name: String,
        arguments: JsonObject,
        context: Context,
    ) -> Result<CallToolResult, Failure> {
        let params = CallToolRequestParams::new(name).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let ServerResult::CallToolResult(result) = call::run(self, request, context).await? else {
            return Err(Failure::new("what the handler answers is no tool result"));
        };
        Ok(result)
    }

    async fn read_resource(
        &self,
        uri: String,
        context: Context,
    ) -> Result<ReadResourceResult, Failure> {
        let params = ReadResourceRequestParams::new(uri);
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        let ServerResult::ReadResourceResult(result) = call::run(self, request, context).await?
        else {
            return Err(Failure::new("what the handler answers is no resource"));
        };
        Ok(result)
    }

    async fn get_prompt(
        &self,
        name: String,
        arguments: JsonObject,
        context: Context,
    ) -> Result<GetPromptResult, Failure> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let ServerResult::GetPromptResult(result) = call::run(self, request, context).await? else {
            return Err(Failure::new("what the handler answers is no prompt"));
        };
        Ok(result)
    }

    async fn complete(
        &self,
        of: Reference,
        argument: String,
        partial: Partial,
        context: Context,
    ) -> Result<Completion, Failure> {
        let argument = ArgumentInfo::new(argument, partial.value);
        let mut params = CompleteRequestParams::new(of, argument);
        if !partial.arguments.is_empty() {
            let known = partial.arguments.into_iter().collect();
            params = params.with_context(CompletionContext::with_arguments(known));
        }
        let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
        let ServerResult::CompleteResult(result) = call::run(self, request, context).await? else {
            return Err(Failure::new("what the handler answers is no completion"));
        };
        let found = result.completion;
        let completion = Completion::new(found.values);
        Ok(match (found.total, found.has_more) {
            (Some(total), _) => completion.total(total.try_into().unwrap_or(usize::MAX)),
            (None, Some(true)) => completion.more(),
            (None, Some(false) | None) => completion,
        })
    }
}

type CompletionFuture = futures_util::future::BoxFuture<'static, Result<Completion, Failure>>;
