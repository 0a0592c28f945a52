//! Reads of resources.

use crate::{
    api as handler,
    api::{Cache, HandlerCall, Hints},
    call::admission::Wanted,
    catalog::{CheckedTemplate, names},
    context::multi_round::RetryParams,
    core::Core,
    dispatch::{
        Plan, Request,
        params::{Meta, read},
        plan_call::{plan_call, round},
        reading,
    },
    model::JsonObject,
};
use interlock_proto::{Code, Refusal, Version, era::Era};
use interlock_workflow::{Kind, Pass, Position, Workflow};
use serde::Deserialize;
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// A template that a URI fits, and the values that the URI is made of.
type Fitting = (Arc<CheckedTemplate>, JsonObject);

pub(super) fn read_resource(core: &Core, request: Request<'_>) -> Result<Plan, Refusal> {
    let Read {
        uri,
        input_responses,
        request_state,
        ..
    } = read(request.method.name(), request.text())?;
    let retry = RetryParams {
        input_responses,
        request_state,
    };
    names::check_uri(&uri).map_err(|why| {
        Refusal::new(Code::InvalidUri).because(format!("the URI is not valid: {why}"))
    })?;
    let snapshot = request.snapshot;
    let resource = snapshot.catalog.resource(&uri);
    // Only a workflow can mean another one than the first.
    let most = if core.engine.is_some() { usize::MAX } else { 1 };
    let fitting: Vec<_> = match resource {
        Some(_) => Vec::new(),
        None => {
            let fitting = snapshot.catalog.templates_for(&uri).take(most);
            let owned = fitting.map(|(template, values)| (Arc::clone(template), values));
            owned.collect()
        }
    };
    if resource.is_none() && fitting.is_empty() {
        return Err(Refusal::resource_not_found(&uri, request.version));
    }
    let round = round(core, request, &uri, None, retry)?;
    let named = named_so(core, &uri, &fitting).to_owned();
    let wanted = Wanted::new(Kind::Resource, named.clone().into());
    let (uri, version) = (uri.into_owned(), request.version);
    let resource = resource.cloned();
    let prepare = move |inner: &Core, at, keep: bool| {
        let (handler, cache, values) = match resource {
            Some(resource) => {
                let nothing = keep.then(JsonObject::new);
                (resource.prepare(), resource.cache, nothing)
            }
            None => one_of_template(inner, at, &named, &uri, fitting, keep)?,
        };
        let hints = cache_hints(inner, version, &named, cache);
        let handler = handler::with_cache_hints(handler, hints);
        Ok((handler, values.map(Value::Object)))
    };
    plan_call(core, request, wanted, None, (None, None), round, prepare)
}

/// How the workflow calls a resource, if it calls it by a URI of its own. One resource of a
/// template can be written in several ways, and must not pass the gate by another name.
fn named_so<'a>(core: &'a Core, uri: &'a str, fitting: &[Fitting]) -> &'a str {
    let Some(workflow) = core.workflow() else {
        return uri;
    };
    if let Some(itself) = workflow.name_of(Kind::Resource, uri) {
        return itself;
    }
    let is_same = |name: &&str| {
        let mut fitting = fitting.iter();
        fitting.any(|(template, values)| template.pattern.values(name).as_ref() == Some(values))
    };
    let mut named = workflow.artifacts(Kind::Resource);
    named.find(is_same).unwrap_or(uri)
}

/// Reads a URI by the first template that it fits. With a workflow, one that the gate let it
/// through for goes first: another one's handler may be none of its business.
fn one_of_template(
    core: &Core,
    at: Option<Position>,
    named: &str,
    uri: &str,
    mut fitting: Vec<Fitting>,
    keep: bool,
) -> Result<(HandlerCall, Cache, Option<JsonObject>), Refusal> {
    let names = fitting.iter().map(|(fits, _)| fits.pattern.as_str());
    let meant = template_meant(core, at, named, names).unwrap_or(0);
    let (template, values) = fitting.swap_remove(meant);
    let template = &template.template;
    let kept = keep.then(|| values.clone());
    let handler = reading(|| template.prepare(uri, values))?.map_err(|why| {
        Refusal::new(Code::InvalidUri).because(format!("the URI is not valid: {why}"))
    })?;
    Ok((handler, template.cache, kept))
}

/// Which of these templates the gate takes a resource for, if it takes it for one's.
fn template_meant<'a>(
    core: &Core,
    at: Option<Position>,
    named: &str,
    mut templates: impl Iterator<Item = &'a str>,
) -> Option<usize> {
    let workflow = core.workflow()?;
    match at.map(|at| workflow.admit(at, Kind::Resource, named)) {
        Some(Ok(Pass::Bound(binding))) => {
            templates.position(|template| binding.artifact().name == template)
        }
        Some(Ok(Pass::Always)) | None => templates.position(|template| {
            let mut artifacts = workflow.artifacts(Kind::Resource);
            artifacts.any(|name| name == template) && workflow.is_always(Kind::Resource, template)
        }),
        Some(Err(_)) => None,
    }
}

/// What a result of reading says about being kept. If it is part of a workflow it must not be
/// kept: a read that does not come here moves nothing.
fn cache_hints(core: &Core, version: Version, named: &str, cache: Cache) -> Hints {
    let is_free = |workflow: &Workflow| workflow.is_always(Kind::Resource, named);
    match version.era() {
        Era::Handshake => Hints::Absent,
        Era::Stateless if core.workflow().is_none_or(is_free) => Hints::Unless(cache),
        Era::Stateless => Hints::Always(Cache::NONE),
    }
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(default, rename = "inputResponses")]
    input_responses: Option<JsonObject>,
    #[serde(default, rename = "requestState")]
    request_state: Option<String>,
    #[serde(default, rename = "_meta")]
    _meta: Meta,
}
