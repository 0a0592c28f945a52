//! The format of a workflow file as types: what can be written, and what the JSON schema is made of.
//!
//! The reader does not use them. It knows the keys from its own tables, reads a tree that knows
//! where everything stands, and so can say more than a derived reader could. A test holds the two
//! together. The comments here are what an editor shows to whoever writes a file.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::{borrow::Cow, num::NonZeroU32};

/// A workflow file: what a server has, and in which order it may be used.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "File")]
pub(super) struct FileFormat {
    /// The version of the format, which is 1.
    #[schemars(with = "i64", extend("const" = 1))]
    pub(super) interlock: u8,
    /// What the server and its workflow are called.
    pub(super) name: Text,
    /// What it is for, in a sentence or two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Text>,
    /// MCP servers behind this one, by name. Their tools and prompts are called `name_tool` here
    /// if there is more than one server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) servers: Option<Pairs<Server>>,
    /// Tools that are commands, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Pairs<Tool>>,
    /// Resources, by URI or by a template of URIs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Pairs<Resource>>,
    /// Prompts, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompts: Option<Pairs<Prompt>>,
    /// What can be called in every state and never moves the workflow. "*" is everything that no
    /// state binds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) always: Option<List<AlwaysItem>>,
    /// How the workflow is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<SettingsFormat>,
    /// The states of the workflow, by name. Without them nothing is gated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) states: Option<Pairs<State>>,
}

/// An MCP server: a program to start, or an address to connect to. `${VAR}` in its texts is taken
/// from the environment.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["command"] }, { "required": ["url"] }]))]
#[allow(dead_code, reason = "servers are described, and never written")]
pub(super) struct Server {
    /// The program that is the server, and its arguments.
    #[schemars(extend("minItems" = 1))]
    command: Option<Vec<Text>>,
    /// Variables of the program's environment. It gets nothing else of ours but PATH, HOME and a few
    /// more, and what `env_from` names.
    env: Option<Pairs<Text>>,
    /// The names of variables that the program gets from the environment of the server.
    env_from: Option<List<Text>>,
    /// The folder in which the program is started; without it, the file's.
    cwd: Option<Text>,
    /// The address at which the server listens.
    #[schemars(extend("pattern" = "^([hH][tT][tT][pP][sS]?://|\\$\\{)"))]
    url: Option<String>,
    /// Headers that are sent with every request to the address.
    headers: Option<Pairs<Text>>,
    /// What the names of its tools and prompts begin with here. Left out: its name and `_` if
    /// there are several servers, and nothing if it is the only one.
    #[schemars(extend("pattern" = "^[A-Za-z0-9_-]{0,32}$"))]
    prefix: Option<String>,
}

/// A tool that is a command. It gets its arguments as JSON on standard input, and what it prints
/// is the result.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "tools are described, and never written")]
pub(super) struct Tool {
    /// Its name for people.
    title: Option<Text>,
    /// What it does. Models choose tools by this text.
    description: Text,
    /// The JSON schema of its arguments, which are an object. Left out: any object.
    input: Option<ObjectSchema>,
    /// The JSON schema of its structured result.
    output: Option<ObjectSchema>,
    /// The program and its arguments. `${VAR}` is taken from the environment.
    #[schemars(extend("minItems" = 1))]
    command: Vec<Text>,
    /// Variables of the program's environment. It gets nothing else of ours but PATH, HOME and a few
    /// more, and what `env_from` names.
    env: Option<Pairs<Text>>,
    /// The names of variables that the program gets from the environment of the server.
    env_from: Option<List<Text>>,
    /// The folder in which the program is started; without it, the file's.
    cwd: Option<Text>,
    /// How long it may run. Left out: `tool_timeout` of the settings.
    timeout: Option<Duration>,
    /// How many calls of it may run at once; others wait. Left out: 16.
    concurrency: Option<Count>,
    /// What it says about its behaviour, in the words of MCP.
    annotations: Option<Annotations>,
}

/// What a tool says about its behaviour.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(transform = or_nothing)]
#[allow(dead_code, reason = "tools are described, and never written")]
pub(super) struct Annotations {
    /// Its name for people.
    title: Option<Text>,
    /// It changes nothing.
    read_only_hint: Option<bool>,
    /// What it changes may be lost.
    destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    idempotent_hint: Option<bool>,
    /// It deals with the world outside.
    open_world_hint: Option<bool>,
}

/// A resource: a text, a file, or what a program prints. Its URI may be a template such as
/// `order://{id}`; then `{{id}}` in its text or path is filled in, and a program gets the variables
/// as JSON on standard input.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["text"] }, { "required": ["file"] }, { "required": ["command"] }]))]
#[allow(dead_code, reason = "resources are described, and never written")]
pub(super) struct Resource {
    /// Its name for people.
    name: Option<Text>,
    /// What it is.
    description: Option<Text>,
    /// The type of what it holds, such as `text/markdown`.
    mime_type: Option<Text>,
    /// The text that it holds.
    text: Option<Text>,
    /// The path of the file that it holds, inside the folder of the workflow file.
    file: Option<Text>,
    /// The program that prints what it holds, and its arguments.
    #[schemars(extend("minItems" = 1))]
    command: Option<Vec<Text>>,
    /// Variables of the program's environment, as for a tool.
    env: Option<Pairs<Text>>,
    /// The names of variables that the program gets from the environment of the server.
    env_from: Option<List<Text>>,
    /// The folder in which the program is started; without it, the file's.
    cwd: Option<Text>,
}

/// A prompt that is a text.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "prompts are described, and never written")]
pub(super) struct Prompt {
    /// What it is for.
    description: Option<Text>,
    /// What `{{name}}` in its text can stand for.
    arguments: Option<List<Argument>>,
    /// What it says. `{{name}}` is filled in.
    text: Text,
}

/// An argument of a prompt.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "prompts are described, and never written")]
pub(super) struct Argument {
    /// Its name.
    name: Text,
    /// What it is.
    description: Option<Text>,
    /// The prompt cannot be had without it. Left out: it can.
    required: Option<bool>,
}

/// The name of every tool, resource and prompt that is called so; or one of them by its kind.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum AlwaysItem {
    /// Everything that is called so, or "*" for everything that no state binds.
    Name(Text),
    /// One of them.
    Kind(KindAndName),
}

/// A tool, a resource or a prompt.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum KindAndName {
    /// The name of a tool.
    Tool(Text),
    /// The URI of a resource.
    Resource(Text),
    /// The name of a prompt.
    Prompt(Text),
}

/// How the workflow is served.
#[derive(Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Settings", transform = or_nothing)]
pub(super) struct SettingsFormat {
    /// Who shares an instance of the workflow: each `session` has its own (the default), or each
    /// `handle` that `workflow_start` gives out, or each `principal` that logs in, or there is one
    /// `global` instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["session", "handle", "principal", "global"]))]
    pub(super) scope: Option<&'static str>,
    /// What a call does while another one holds the instance: `wait` its turn (the default), or
    /// be refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["wait", "refuse"]))]
    pub(super) busy: Option<&'static str>,
    /// What lists show: `dynamic`, what can be called now (the default); or `static`, everything,
    /// for clients that do not notice when lists change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["dynamic", "static"]))]
    pub(super) visibility: Option<&'static str>,
    /// What happens at the end: `restart` at the initial state (the default), or `stay` finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["restart", "stay"]))]
    pub(super) finish: Option<&'static str>,
    /// How long a tool may run unless it or its binding says otherwise. Left out: 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_timeout: Option<Duration>,
    /// The keys of `ctx` that survive a restart. Left out: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keep: Option<List<MemoryKey>>,
}

/// A state: what can be called in it, and where that leads.
#[derive(Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = or_nothing)]
pub(super) struct State {
    /// Instances start here. One state must say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initial: Option<bool>,
    /// Every edge into it ends the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminal: Option<bool>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Text>,
    /// What the model is told when an instance comes here. `{{ctx.order}}` is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<Text>,
    /// How often an instance may come here; on a later visit nothing can be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_visits: Option<Count>,
    /// The tools that can be called here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Pairs<BindingItem>>,
    /// The resources that can be read here: URIs, or templates such as `order://{id}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Pairs<BindingItem>>,
    /// The prompts that can be used here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompts: Option<Pairs<BindingItem>>,
    /// Where an instance goes that has been here so long, such as `30m: expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("propertyNames" = { "pattern": DURATION }))]
    pub(super) after: Option<Pairs<Edges>>,
    /// What the client's model is asked when a call brings an instance here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sampling: Option<Sampling>,
}

/// The state that success leads to, or all that can be said of a binding.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum BindingItem {
    /// The state that success leads to.
    Success(Text),
    /// All that can be said of it.
    Binding(Box<Binding>),
}

/// What must be true before a call runs, and where its outcomes lead.
#[derive(Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = or_nothing)]
pub(super) struct Binding {
    /// What must be true of a call before it runs: CEL over `args`, `ctx`, `principal`, `state`
    /// and `visits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) when: Option<When>,
    /// What a person must agree to before it runs. `{{args.amount}}` is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approve: Option<Approve>,
    /// Where it leads when it did what it was asked. Left out: stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) success: Option<Edges>,
    /// Where it leads when it failed. Left out: stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Edges>,
    /// Where it leads when its deadline passed. Left out: as `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<Edges>,
    /// Where it leads when the client took the call back. Left out: stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancelled: Option<Edges>,
    /// Where it leads when nobody knows what it did. `hold` waits for an operator. Left out: as
    /// `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<Edges>,
    /// It can be run again when nobody knows what it did. Left out: it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotent: Option<bool>,
    /// How long it may run, if that differs from the tool's own time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline: Option<Duration>,
}

/// CEL, or CEL and what a caller is told for whose call it is not true.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum When {
    /// CEL.
    If(Scalar),
    /// CEL, and the words for its refusals.
    Guard(Guard),
}

/// What must be true of a call before it runs, and what a caller is told if it is not.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Guard {
    /// CEL over `args`, `ctx`, `principal`, `state` and `visits`.
    #[serde(rename = "if")]
    pub(super) condition: Scalar,
    /// What the caller is told. `{{args.amount}}` is filled in. Left out: the CEL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) otherwise: Option<Text>,
}

/// A question, or a question and how long it may wait for its answer.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Approve {
    /// The question.
    Message(Text),
    /// The question and its time.
    Approval(Approval),
}

/// A question for a person, and how long it may wait for its answer.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    /// The question. `{{args.amount}}` is filled in.
    pub(super) message: Text,
    /// How long an answer is waited for, and how long it holds. Left out: 10m.
    pub(super) expires: Option<Duration>,
}

/// The state it leads to; or an edge; or a list of those, of which the first whose `when` is true
/// is taken, and the last has no `when`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Edges {
    /// One edge.
    One(EdgeItem),
    /// Several, tried in this order.
    Several(#[schemars(extend("minItems" = 1))] Vec<EdgeItem>),
}

/// The state it leads to, or an edge.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum EdgeItem {
    /// The state it leads to.
    To(Text),
    /// All that can be said of it.
    Edge(Edge),
}

/// Where an outcome leads, and what happens on the way.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edge {
    /// What must be true for it to be taken: CEL, also over `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) when: Option<Scalar>,
    /// The state it leads to.
    pub(super) to: Text,
    /// Taking it ends the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminal: Option<bool>,
    /// What the instance remembers from then on: keys of `ctx`, and CEL for their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("propertyNames" = { "pattern": MEMORY_KEY }))]
    pub(super) set: Option<Pairs<Scalar>>,
    /// What the server does after the step, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effects: Option<List<Text>>,
}

/// What the client's model is asked, and where its answer leads.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sampling {
    /// The conversation so far. `{{ctx.order}}` is filled in.
    pub(super) messages: List<MessageItem>,
    /// What the model is told about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<Text>,
    /// How long the answer may be. Left out: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<Count>,
    /// Where an answer leads. Left out: stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) success: Option<Edges>,
    /// Where it leads when there is no answer. Left out: stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Edges>,
}

/// What the person says, or what either says.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum MessageItem {
    /// What the person says.
    User(Text),
    /// What either says.
    Message(Message),
}

/// A message to the client's model.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    /// Who says it.
    #[schemars(extend("enum" = ["user", "assistant"]))]
    pub(super) role: &'static str,
    /// What is said.
    pub(super) text: Text,
}

/// Text. A number, `true` or `false` is taken as it is written.
#[derive(Clone, Serialize)]
pub(super) struct Text(pub(super) String);

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// CEL, or a number or a boolean as the literal that it is.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Scalar {
    Flag(bool),
    Number(i64),
    Cel(String),
}

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cel".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Text::json_schema(generator)
    }
}

/// A whole number from 1 on.
#[derive(Serialize)]
pub(super) struct Count(pub(super) NonZeroU32);

impl JsonSchema for Count {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }
}

const DURATION: &str = "^[0-9]+(ms|s|m|h|d)$";
const MEMORY_KEY: &str = "^[A-Za-z_][A-Za-z0-9_]{0,63}$";

/// A duration, such as `250ms`, `10s`, `5m`, `2h` or `1d`.
#[derive(Serialize)]
pub(super) struct Duration(pub(super) String);

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": DURATION })
    }
}

/// What an instance remembers a value under.
#[derive(Serialize)]
pub(super) struct MemoryKey(pub(super) String);

impl JsonSchema for MemoryKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MemoryKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": MEMORY_KEY })
    }
}

/// A JSON schema for an object.
#[derive(Serialize)]
#[allow(dead_code, reason = "tools are described, and never written")]
pub(super) struct ObjectSchema(());

impl JsonSchema for ObjectSchema {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ObjectSchema".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({
            "type": "object",
            "properties": { "type": { "const": "object" } },
        });
        or_nothing(&mut schema);
        schema
    }
}

/// A map whose keys are names, in the order in which they are written.
pub(super) struct Pairs<T>(pub(super) Vec<(String, T)>);

impl<T: Serialize> Serialize for Pairs<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<T: JsonSchema> JsonSchema for Pairs<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Map_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let mut schema = json_schema!({ "type": "object", "additionalProperties": value });
        or_nothing(&mut schema);
        schema
    }
}

/// A list that may also be left empty.
#[derive(Serialize)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("List_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        let mut schema = json_schema!({ "type": "array", "items": items });
        or_nothing(&mut schema);
        schema
    }
}

/// Marks a map or list in whose place nothing at all may stand.
pub(super) const OR_NOTHING: &str = "x-or-nothing";

fn or_nothing(schema: &mut Schema) {
    schema.insert(OR_NOTHING.to_owned(), true.into());
}
