//! A resource as a file describes it: a text, a file, or what a program prints.

use crate::command_tool::Runner;
use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions},
};
use interlock::{
    Blob, Code, Context, Failure, IntoResource, Places, Refusal, Resource, ResourceTemplate,
    model::{JsonObject, ReadResourceResult},
    workflow::file::{self, fill_in},
};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// How many bytes a file may have that is read as a resource.
pub const FILE_LIMIT: u64 = 8 * 1024 * 1024;

/// How much of a file's name a log keeps, in characters.
const MOST_NAME: usize = 256;

/// Where the content of a resource comes from. The variables of its template are filled in.
pub(crate) enum Content {
    Text(String),
    File {
        root: PathBuf,
        path: String,
    },
    /// A read waits for a place before its program is started.
    Command(Runner, Places),
}

/// A resource of the server.
pub(crate) fn resource(described: &file::Resource, content: Content) -> Resource {
    let content = Arc::new(content);
    let mut resource = Resource::new(&*described.uri, move |context| {
        let content = Arc::clone(&content);
        async move { content.read(&JsonObject::new(), &context).await }
    });
    if let Some(name) = &described.name {
        resource = resource.name(name);
    }
    if let Some(description) = &described.description {
        resource = resource.description(description);
    }
    if let Some(mime_type) = &described.mime_type {
        resource = resource.mime_type(mime_type);
    }
    resource
}

/// A template of the server's resources.
pub(crate) fn template(described: &file::Resource, content: Content) -> ResourceTemplate {
    let content = Arc::new(content);
    let mut template = ResourceTemplate::raw(&*described.uri, move |variables, context| {
        let content = Arc::clone(&content);
        async move { content.read(&variables, &context).await }
    });
    if let Some(name) = &described.name {
        template = template.name(name);
    }
    if let Some(description) = &described.description {
        template = template.description(description);
    }
    if let Some(mime_type) = &described.mime_type {
        template = template.mime_type(mime_type);
    }
    template
}

impl Content {
    async fn read(&self, variables: &JsonObject, context: &Context) -> Result<Contents, Failure> {
        let filled = |text: &str| match variables.is_empty() {
            true => text.to_owned(),
            false => fill_in(text, |name| variables.get(name).and_then(Value::as_str)),
        };
        match self {
            Self::Text(text) => Ok(Contents::Text(filled(text))),
            Self::File { root, path } => {
                let (root, path) = (root.clone(), filled(path));
                let read = tokio::task::spawn_blocking(move || read_inside(&root, &path));
                read.await?
            }
            Self::Command(runner, places) => {
                let _place = tokio::select! {
                    place = places.take() => place,
                    () = context.cancelled() => return Err(Failure::stopped()),
                };
                let input = Value::Object(variables.clone());
                Ok(Contents::of(runner.run(&input, context).await?.stdout))
            }
        }
    }
}

/// What a resource holds.
enum Contents {
    Text(String),
    Bytes(Vec<u8>),
}

impl Contents {
    fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Bytes(error.into_bytes()),
        }
    }
}

impl IntoResource for Contents {
    fn into_resource(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<ReadResourceResult, Failure> {
        match self {
            Self::Text(text) => text.into_resource(uri, mime_type),
            Self::Bytes(bytes) => Blob(bytes).into_resource(uri, mime_type),
        }
    }
}

/// Reads a file inside a folder. A path or a link that leads out of it is refused, even if it is made
/// while the file is opened.
fn read_inside(root: &Path, path: &str) -> Result<Contents, Failure> {
    let refused = |code: Code| Failure::refused(Refusal::new(code));
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(path).components().all(is_inside) {
        return Err(refused(Code::PathTraversalDetected));
    }
    let failed = |error: io::Error| {
        use io::ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied};
        let kind = error.kind();
        if matches!(kind, NotFound | NotADirectory | InvalidInput) {
            return refused(Code::ResourceNotFound);
        }
        // The system denies with a number of its own; this is the folder's.
        if kind == PermissionDenied && error.raw_os_error().is_none() {
            return refused(Code::SymlinkTraversalDetected);
        }
        let path: String = path.chars().take(MOST_NAME).collect();
        tracing::warn!(path, %error, "the file of a resource could not be read");
        Failure::new("the file could not be read")
    };
    // Links are followed as far as they lead inside; what is opened then is opened inside the folder,
    // whatever has become of it since.
    let root = fs::canonicalize(root).map_err(&failed)?;
    let file = fs::canonicalize(root.join(path)).map_err(&failed)?;
    let inside = file.strip_prefix(&root);
    let inside = inside.map_err(|_| refused(Code::SymlinkTraversalDetected))?;
    let root = Dir::open_ambient_dir(&root, ambient_authority()).map_err(&failed)?;
    // A pipe would be waited for without this.
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let file = root.open_with(inside, &options).map_err(&failed)?;
    // A pipe or a device could be read from for ever.
    if !file.metadata().map_err(&failed)?.is_file() {
        return Err(refused(Code::ResourceNotFound));
    }
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(&failed)?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(Failure::new(format!(
            "the file has more than {FILE_LIMIT} bytes"
        )));
    }
    Ok(Contents::of(bytes))
}
