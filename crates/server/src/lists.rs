//! What `tools/list` and its siblings answer: one prepared answer for each list there is.

use crate::{
    catalogue::Catalogue,
    model::{Implementation, ToolModel},
    schema::is_of_objects,
};
use interlock_proto::era::Era;
use interlock_workflow::{Kind, Position, Visibility, Workflow};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{json, value::RawValue};
use std::{borrow::Cow, sync::OnceLock};

/// Prepared answers. Each is made when it is first asked for, and then kept.
#[derive(Debug)]
pub(crate) struct Lists {
    /// By the workflow's own numbers for its lists.
    by_list: Vec<OnceLock<Box<RawValue>>>,
    /// Of everything there is, by kind.
    whole: [OnceLock<Box<RawValue>>; 3],
    /// Of the tools that a stateless request may call.
    stateless: OnceLock<Box<RawValue>>,
}

/// How long a stateless client may keep a list. The set is fixed while the server runs.
const TTL_MS: u64 = 300_000;

impl Lists {
    pub(crate) fn new(workflow: Option<&Workflow>) -> Self {
        let count = workflow.map_or(0, Workflow::list_count);
        Self {
            by_list: (0..count).map(|_| OnceLock::new()).collect(),
            whole: Default::default(),
            stateless: OnceLock::new(),
        }
    }

    /// The answer in the handshake era, to a client whose instance stands there.
    pub(crate) fn handshake(
        &self,
        catalogue: &Catalogue,
        gate: Option<(&Workflow, Position)>,
        kind: Kind,
    ) -> &RawValue {
        match gate {
            Some((workflow, at)) if workflow.settings().visibility == Visibility::Dynamic => {
                let list = workflow.list(at, kind).index();
                self.by_list[list].get_or_init(|| {
                    let named = workflow.visible(at, kind);
                    let unnamed = catalogue.names(kind).filter(|name| {
                        workflow.always_everything() && !workflow.is_bound(kind, name)
                    });
                    write(catalogue, kind, named.chain(unnamed), Era::Handshake, None)
                })
            }
            Some(_) | None => self.whole[kind as usize].get_or_init(|| {
                write(catalogue, kind, catalogue.names(kind), Era::Handshake, None)
            }),
        }
    }

    /// The tools that a stateless request may call: those that no workflow binds.
    pub(crate) fn stateless_tools(
        &self,
        catalogue: &Catalogue,
        workflow: Option<&Workflow>,
        server: &Implementation,
    ) -> &RawValue {
        self.stateless.get_or_init(|| {
            let free = catalogue.names(Kind::Tool).filter(|name| {
                workflow.is_none_or(|workflow| workflow.is_always(Kind::Tool, name))
            });
            write(catalogue, Kind::Tool, free, Era::Stateless, Some(server))
        })
    }
}

fn write<'a>(
    catalogue: &'a Catalogue,
    kind: Kind,
    names: impl Iterator<Item = &'a str>,
    era: Era,
    server: Option<&Implementation>,
) -> Box<RawValue> {
    let names: Vec<_> = names.collect();
    let page = Page {
        catalogue,
        kind,
        names: &names,
        era,
        server,
    };
    serde_json::value::to_raw_value(&page).expect("descriptions hold only JSON")
}

struct Page<'a> {
    catalogue: &'a Catalogue,
    kind: Kind,
    names: &'a [&'a str],
    era: Era,
    server: Option<&'a Implementation>,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.kind {
            Kind::Tool => {
                let tools = self
                    .names
                    .iter()
                    .filter_map(|name| self.catalogue.tool(name));
                let tools = tools.map(|tool| told(&tool.tool.model, self.era));
                map.serialize_entry("tools", &tools.collect::<Vec<_>>())?;
            }
            Kind::Resource => {
                let all = self
                    .names
                    .iter()
                    .filter_map(|name| self.catalogue.resource(name));
                map.serialize_entry("resources", &all.map(|one| &one.model).collect::<Vec<_>>())?;
            }
            Kind::Prompt => {
                let all = self
                    .names
                    .iter()
                    .filter_map(|name| self.catalogue.prompt(name));
                map.serialize_entry("prompts", &all.map(|one| &one.model).collect::<Vec<_>>())?;
            }
        }
        if self.era == Era::Stateless {
            map.serialize_entry("resultType", "complete")?;
            map.serialize_entry("ttlMs", &TTL_MS)?;
            map.serialize_entry("cacheScope", "public")?;
        }
        if let Some(server) = self.server {
            map.serialize_entry("_meta", &json!({ SERVER_INFO: server }))?;
        }
        map.end()
    }
}

/// What is told of a tool: of its result only what the era knows.
fn told(tool: &ToolModel, era: Era) -> Cow<'_, ToolModel> {
    let unheard_of = match (era, &tool.output_schema) {
        (Era::Handshake, Some(output)) => !is_of_objects(output),
        (Era::Handshake, None) | (Era::Stateless, _) => false,
    };
    if !unheard_of {
        return Cow::Borrowed(tool);
    }
    let mut tool = tool.clone();
    tool.output_schema = None;
    Cow::Owned(tool)
}

/// Where a stateless result says who answers.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
