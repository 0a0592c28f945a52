//! Resources that never change: a text, a picture, and a template.

use crate::media;
use interlock::{Blob, Context, Json, Resource, ResourceTemplate};
use serde::{Deserialize, Serialize};

pub(crate) fn all() -> Vec<Resource> {
    vec![
        Resource::text(
            "test://static-text",
            "This is the content of the static text resource.",
        )
        .name("static-text")
        .description("A text that never changes")
        .mime_type("text/plain"),
        Resource::new("test://static-binary", |_: Context| async {
            Blob(media::PNG.to_vec())
        })
        .name("static-binary")
        .description("A picture that never changes")
        .mime_type(media::PNG_TYPE),
    ]
}

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("test://template/{id}/data", |one: One, _: Context| async {
        Json(data(one.id))
    })
    .name("template")
    .description("Data for whatever id is asked for")
    .mime_type("application/json")
}

#[derive(Deserialize)]
struct One {
    id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    id: String,
    template_test: bool,
    data: String,
}

fn data(id: String) -> Data {
    Data {
        data: format!("Data for ID: {id}"),
        template_test: true,
        id,
    }
}
