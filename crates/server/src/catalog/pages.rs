//! What `tools/list` and its siblings answer: one prepared answer for each page of each list.

use crate::{
    catalog::{
        Catalog,
        entry::{ListEntry, Listing},
        handle_argument,
        own_tools::OwnTool,
    },
    model::Implementation,
    wire::result_meta::SERVER_INFO,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock_proto::era::Era;
use interlock_workflow::{Kind, Position, Visibility, Workflow};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{json, value::RawValue};
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
};

/// Prepared answers. Each list is written when it is first asked for.
#[derive(Debug)]
pub(crate) struct Pages {
    page_size: Option<NonZeroUsize>,
    /// What is visible in the states of the workflow, by the workflow's own numbers for its lists;
    /// those of resources are two.
    visible: Vec<[OnceLock<List>; 2]>,
    /// Everything, for the handshake era.
    whole: [OnceLock<List>; 4],
    /// Everything, for stateless requests.
    stateless: [OnceLock<List>; 4],
}

/// What lists are written from.
#[derive(Clone, Copy)]
pub(crate) struct ListSource<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) workflow: Option<&'a Workflow>,
    pub(crate) server: &'a Implementation,
}

/// How long a stateless client may keep a list.
const TTL_MS: u64 = 300_000;

impl Pages {
    pub(crate) fn new(workflow: Option<&Workflow>, page_size: Option<NonZeroUsize>) -> Self {
        let count = workflow.map_or(0, Workflow::list_count);
        Self {
            page_size,
            visible: (0..count).map(|_| Default::default()).collect(),
            whole: Default::default(),
            stateless: Default::default(),
        }
    }

    /// The list in the handshake era, for a client whose instance is at that position.
    pub(crate) fn handshake(
        &self,
        source: ListSource<'_>,
        at: Option<Position>,
        listing: Listing,
    ) -> &List {
        let kind = listing.kind();
        match source.workflow.zip(at) {
            Some((workflow, at)) if workflow.settings().visibility == Visibility::Dynamic => {
                let list = &self.visible[workflow.list(at, kind).index()];
                list[usize::from(listing == Listing::Templates)].get_or_init(|| {
                    let named = workflow.visible(at, kind);
                    let unnamed = source.catalog.names(listing).filter(|name| {
                        workflow.is_always(kind, name) && !workflow.is_bound(kind, name)
                    });
                    self.write(source, listing, Era::Handshake, named.chain(unnamed))
                })
            }
            Some(_) | None => self.whole[listing as usize]
                .get_or_init(|| self.write(source, listing, Era::Handshake, source.names(listing))),
        }
    }

    /// The list for a stateless request: everything, whatever the client or the state.
    pub(crate) fn stateless(&self, source: ListSource<'_>, listing: Listing) -> &List {
        self.stateless[listing as usize]
            .get_or_init(|| self.write(source, listing, Era::Stateless, source.names(listing)))
    }

    fn write<'a>(
        &self,
        source: ListSource<'a>,
        listing: Listing,
        era: Era,
        names: impl Iterator<Item = &'a str>,
    ) -> List {
        let entries = source.entries(listing, era, names);
        let names: Vec<_> = entries.iter().map(ListEntry::name).collect();
        let size = self.page_size.map_or(usize::MAX, NonZeroUsize::get);
        let fingerprint = Fingerprint::new(listing, size, &names);
        // An empty list has a page, too.
        let mut chunks: Vec<_> = entries.chunks(size).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let last = chunks.len() - 1;
        let pages = chunks.into_iter().enumerate().map(|(number, entries)| {
            let page = Page {
                listing,
                entries,
                next: (number < last).then(|| fingerprint.cursor(number + 1)),
                era,
                source,
            };
            let written = serde_json::value::to_raw_value(&page);
            Arc::from(written.expect("descriptions hold only JSON"))
        });
        List {
            fingerprint,
            pages: pages.collect(),
        }
    }
}

impl<'a> ListSource<'a> {
    /// Everything that can be listed, whatever the state: what the server has, and what the
    /// workflow names of its templates.
    fn names(self, listing: Listing) -> impl Iterator<Item = &'a str> {
        let workflow = self.workflow.filter(|_| listing == Listing::Resources);
        let named = workflow
            .into_iter()
            .flat_map(|workflow| workflow.artifacts(Kind::Resource))
            .filter(move |uri| self.catalog.resource(uri).is_none());
        self.catalog.names(listing).chain(named)
    }

    fn entries(
        self,
        listing: Listing,
        era: Era,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<ListEntry<'a>> {
        let in_use = |workflow| handle_argument::in_use(workflow, era);
        let uses_handles = self.workflow.is_some_and(in_use);
        let mut entries = Vec::new();
        if uses_handles && listing == Listing::Tools {
            let own = OwnTool::ALL.map(OwnTool::model);
            entries.extend(own.map(|tool| ListEntry::Tool(Cow::Owned(tool))));
        }
        entries.extend(names.filter_map(|name| match uses_handles {
            true => self.catalog.entry_with_handle(listing, name),
            false => self.catalog.entry(listing, name),
        }));
        for entry in &mut entries {
            entry.fit(era);
        }
        entries
    }
}

/// A list, page by page.
#[derive(Debug)]
pub(crate) struct List {
    fingerprint: Fingerprint,
    /// At least one.
    pages: Vec<Arc<RawValue>>,
}

impl List {
    /// The page with this cursor; the first without one. `None` if the cursor is not of this list.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Option<&Arc<RawValue>> {
        match cursor {
            None => self.pages.first(),
            Some(cursor) => self.pages.get(self.fingerprint.page(cursor)?),
        }
    }
}

/// Tells lists with different pages apart.
///
/// It is the same in every process, so that any node can answer for the next page. It protects
/// nothing: a cursor that a client makes up leads to a page that the client may read anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint([u8; 12]);

impl Fingerprint {
    fn new(listing: Listing, page_size: usize, names: &[&str]) -> Self {
        let mut hash = Sha256::new();
        hash.update(listing.member());
        hash.update((page_size as u64).to_be_bytes());
        for name in names {
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        let mut short = [0; 12];
        short.copy_from_slice(&hash.finalize()[..12]);
        Self(short)
    }

    fn cursor(self, page: usize) -> String {
        let mut bytes = self.0.to_vec();
        bytes.extend((page as u64).to_be_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The page of a cursor. The first page has none.
    fn page(self, cursor: &str) -> Option<usize> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let page = bytes.strip_prefix(&self.0)?.try_into().ok()?;
        let page = usize::try_from(u64::from_be_bytes(page)).ok()?;
        (page > 0).then_some(page)
    }
}

struct Page<'a> {
    listing: Listing,
    entries: &'a [ListEntry<'a>],
    next: Option<String>,
    era: Era,
    source: ListSource<'a>,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.listing.member(), self.entries)?;
        if let Some(next) = &self.next {
            map.serialize_entry("nextCursor", next)?;
        }
        if self.era == Era::Stateless {
            // With a workflow, what is listed depends on who may use it.
            let scope = match self.source.workflow {
                None => "public",
                Some(_) => "private",
            };
            map.serialize_entry("resultType", "complete")?;
            map.serialize_entry("ttlMs", &TTL_MS)?;
            map.serialize_entry("cacheScope", scope)?;
            map.serialize_entry("_meta", &json!({ SERVER_INFO: self.source.server }))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{NoArguments, Tool};
    use interlock_workflow::end;

    fn catalog(tools: &[&'static str]) -> Catalog {
        let mut catalog = Catalog::default();
        let mut errors = Vec::new();
        for name in tools {
            let tool = Tool::new(*name, |_: NoArguments, _| async {});
            catalog.add_tool(tool, &mut errors);
        }
        assert!(errors.is_empty(), "{errors:?}");
        catalog
    }

    /// Every page of every list of every era is written once, however often it is asked for.
    #[test]
    fn a_page_is_written_once() {
        let workflow = Workflow::builder("w")
            .state("x", |s| {
                s.initial()
                    .tool("a", |t| t.success(end("x")))
                    .tool("b", |t| t.success("x"))
            })
            .state("y", |s| s.tool("a", |t| t.success(end("x"))))
            .always_tool("c")
            .build()
            .unwrap();
        let catalog = catalog(&["a", "b", "c"]);
        let source = ListSource {
            catalog: &catalog,
            workflow: Some(&workflow),
            server: &Implementation::new("s", "0"),
        };
        let pages = Pages::new(Some(&workflow), NonZeroUsize::new(2));
        let at = Some(workflow.initial());
        let all = || {
            [
                pages.handshake(source, at, Listing::Tools),
                pages.handshake(source, None, Listing::Tools),
                pages.stateless(source, Listing::Tools),
                pages.handshake(source, at, Listing::Templates),
            ]
        };
        assert_eq!(all().map(|list| list.pages.len()), [2, 2, 3, 1]);
        for (once, again) in all().into_iter().zip(all()) {
            for (page, same) in once.pages.iter().zip(&again.pages) {
                assert!(Arc::ptr_eq(page, same));
            }
        }
    }

    #[test]
    fn a_cursor_tells_its_page_to_its_own_list_only() {
        let print = |listing, size, names: &[&str]| Fingerprint::new(listing, size, names);
        let own = print(Listing::Tools, 2, &["ab", "c"]);
        assert_eq!(own.page(&own.cursor(1)), Some(1));
        assert_eq!(own.page(&own.cursor(0)), None);
        for other in [
            print(Listing::Prompts, 2, &["ab", "c"]),
            print(Listing::Tools, 3, &["ab", "c"]),
            print(Listing::Tools, 2, &["a", "bc"]),
            print(Listing::Tools, 2, &["c", "ab"]),
            print(Listing::Tools, 2, &["ab"]),
        ] {
            assert_eq!(own.page(&other.cursor(1)), None, "{other:?}");
        }
    }
}
