//! `subscriptions/listen`: reads which changes a request asks for, and registers it.

use crate::{
    core::Core,
    dispatch::read,
    model::change::SubscribedUri,
    outbound::subscribers::{Filter, ListenLoad, Quota, QuotaOwner, Registration},
};
use interlock_proto::{Code, Refusal, era::Capability};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Reads the parameters and registers the request. The caller acknowledges it to the client, and
/// then activates the registration: no change may come before the acknowledgement.
///
/// # Errors
///
/// 1059 if the client has too many such requests, or they name too many resources together.
pub(crate) fn register(
    core: &Core,
    params: Option<&str>,
    owner: QuotaOwner,
) -> Result<(Filter, Registration), Refusal> {
    let filter = read_filter(core, params)?;
    let bounds = &core.bounds;
    let quota = Quota {
        each: ListenLoad {
            listens: bounds.listens,
            uris: bounds.subscriptions,
        },
        all: ListenLoad {
            listens: bounds.all_listens,
            uris: bounds.all_subscriptions,
        },
    };
    let registration = core.subscribers.reserve(owner, &filter, &quota)?;
    Ok((filter, registration))
}

fn read_filter(core: &Core, params: Option<&str>) -> Result<Filter, Refusal> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Wanted {
        tools_list_changed: bool,
        prompts_list_changed: bool,
        resources_list_changed: bool,
        resource_subscriptions: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        notifications: &'a RawValue,
    }
    let method = "subscriptions/listen";
    let Params { notifications } = read(method, params)?;
    // `read` refuses everything but an object.
    let wanted: Wanted = read(method, Some(notifications.get()))?;
    let most = core.bounds.subscriptions;
    if wanted.resource_subscriptions.len() > most {
        return Err(Refusal::new(Code::QuotaExceeded)
            .because(format!("a client may have {most} subscriptions")));
    }
    let has = core.capabilities();
    let resources = has.contains(&Capability::Resources);
    let uris = wanted.resource_subscriptions.into_iter();
    Ok(Filter {
        tools_list_changed: wanted.tools_list_changed && has.contains(&Capability::Tools),
        prompts_list_changed: wanted.prompts_list_changed && has.contains(&Capability::Prompts),
        resources_list_changed: wanted.resources_list_changed && resources,
        resource_subscriptions: uris
            .filter(|uri| resources && core.is_free_resource(uri))
            .map(SubscribedUri::new)
            .collect(),
    })
}
