//! What `tools/list` and its siblings answer: one prepared answer for each page of each list.

use crate::{
    catalogue::{Catalogue, Entry, Listing},
    handle,
    model::{Implementation, ToolModel},
    schema::is_of_objects,
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

/// Prepared answers. Each list is written when it is first asked for, and then kept.
#[derive(Debug)]
pub(crate) struct Lists {
    page_size: Option<NonZeroUsize>,
    /// By the workflow's own numbers for its lists; those of resources have two.
    by_list: Vec<[OnceLock<List>; 2]>,
    /// Of everything there is.
    whole: [OnceLock<List>; 4],
    /// The same for stateless requests.
    stateless: [OnceLock<List>; 4],
}

/// What lists are made of.
#[derive(Clone, Copy)]
pub(crate) struct Stock<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) workflow: Option<&'a Workflow>,
    pub(crate) server: &'a Implementation,
}

/// How long a stateless client may keep a list.
const TTL_MS: u64 = 300_000;

impl Lists {
    pub(crate) fn new(workflow: Option<&Workflow>, page_size: Option<NonZeroUsize>) -> Self {
        let count = workflow.map_or(0, Workflow::list_count);
        Self {
            page_size,
            by_list: (0..count).map(|_| Default::default()).collect(),
            whole: Default::default(),
            stateless: Default::default(),
        }
    }

    /// The list in the handshake era, for a client whose instance stands there.
    pub(crate) fn handshake(
        &self,
        stock: Stock<'_>,
        at: Option<Position>,
        listing: Listing,
    ) -> &List {
        let kind = listing.kind();
        match stock.workflow.zip(at) {
            Some((workflow, at)) if workflow.settings().visibility == Visibility::Dynamic => {
                let list = &self.by_list[workflow.list(at, kind).index()];
                list[usize::from(listing == Listing::Templates)].get_or_init(|| {
                    let named = workflow.visible(at, kind);
                    let unnamed = stock.catalogue.names(listing).filter(|name| {
                        workflow.always_everything() && !workflow.is_bound(kind, name)
                    });
                    self.write(stock, listing, Era::Handshake, named.chain(unnamed))
                })
            }
            Some(_) | None => self.whole[listing as usize].get_or_init(|| {
                let names = stock.names(listing);
                self.write(stock, listing, Era::Handshake, names)
            }),
        }
    }

    /// The list for a stateless request: everything, whoever asks and whatever happened before.
    pub(crate) fn stateless(&self, stock: Stock<'_>, listing: Listing) -> &List {
        self.stateless[listing as usize]
            .get_or_init(|| self.write(stock, listing, Era::Stateless, stock.names(listing)))
    }

    fn write<'a>(
        &self,
        stock: Stock<'a>,
        listing: Listing,
        era: Era,
        names: impl Iterator<Item = &'a str>,
    ) -> List {
        let uses_handles = stock.workflow.is_some_and(|flow| handle::in_use(flow, era));
        let mut entries = Vec::new();
        if uses_handles && listing == Listing::Tools {
            let own = handle::models().into_iter();
            entries.extend(own.map(|tool| Entry::Tool(Cow::Owned(tool))));
        }
        entries.extend(names.filter_map(|name| {
            let entry = stock.catalogue.entry(listing, name)?;
            Some(match uses_handles {
                true => stock.catalogue.with_handle(entry),
                false => entry,
            })
        }));
        for entry in &mut entries {
            tell_what_is_known(entry, era);
        }
        let names: Vec<_> = entries.iter().map(Entry::name).collect();
        let size = self.page_size.map_or(usize::MAX, NonZeroUsize::get);
        let fingerprint = Fingerprint::new(listing, size, &names);
        // A list that holds nothing has a page, too.
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
                stock,
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

impl<'a> Stock<'a> {
    /// Everything that can be listed, whatever the state: what the server has, and what the
    /// workflow names of its templates.
    fn names(self, listing: Listing) -> impl Iterator<Item = &'a str> {
        let workflow = match listing {
            Listing::Resources => self.workflow,
            Listing::Tools | Listing::Templates | Listing::Prompts => None,
        };
        let named = workflow
            .into_iter()
            .flat_map(|workflow| workflow.artifacts(Kind::Resource))
            .filter(move |uri| self.catalogue.resource(uri).is_none());
        self.catalogue.names(listing).chain(named)
    }
}

/// A list, page by page.
#[derive(Debug)]
pub(crate) struct List {
    fingerprint: Fingerprint,
    /// One at least.
    pages: Vec<Arc<RawValue>>,
}

impl List {
    /// The page with this cursor; the first without one. `None` if the list never gave it out.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Option<&Arc<RawValue>> {
        match cursor {
            None => self.pages.first(),
            Some(cursor) => self.pages.get(self.fingerprint.page(cursor)?),
        }
    }
}

/// Tells lists apart whose pages do not hold the same.
///
/// It is the same in every process, so that any of them can answer for the next page. It protects
/// nothing: whoever makes up a cursor gets a page of a list that is theirs to read.
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

    /// The first page has no cursor.
    fn page(self, cursor: &str) -> Option<usize> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let page = bytes.strip_prefix(&self.0)?.try_into().ok()?;
        let page = usize::try_from(u64::from_be_bytes(page)).ok()?;
        (page > 0).then_some(page)
    }
}

struct Page<'a> {
    listing: Listing,
    entries: &'a [Entry<'a>],
    next: Option<String>,
    era: Era,
    stock: Stock<'a>,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.listing.member(), self.entries)?;
        if let Some(next) = &self.next {
            map.serialize_entry("nextCursor", next)?;
        }
        if self.era == Era::Stateless {
            // What a workflow lists is meant for those who may use it.
            let scope = match self.stock.workflow {
                None => "public",
                Some(_) => "private",
            };
            map.serialize_entry("resultType", "complete")?;
            map.serialize_entry("ttlMs", &TTL_MS)?;
            map.serialize_entry("cacheScope", scope)?;
            map.serialize_entry("_meta", &json!({ SERVER_INFO: self.stock.server }))?;
        }
        map.end()
    }
}

/// Leaves out what the era does not know: before 2026-07-28, results that are no objects.
fn tell_what_is_known(entry: &mut Entry<'_>, era: Era) {
    let Entry::Tool(tool) = entry else {
        return;
    };
    let is_strange = |tool: &ToolModel| match &tool.output_schema {
        Some(output) => !is_of_objects(output),
        None => false,
    };
    if era == Era::Handshake && is_strange(tool) {
        let mut known = ToolModel::clone(tool);
        known.output_schema = None;
        *tool = Cow::Owned(known);
    }
}

/// Where a stateless result says who answers.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::{NoArguments, Tool};
    use interlock_workflow::end;

    fn catalogue(tools: &[&'static str]) -> Catalogue {
        let mut catalogue = Catalogue::default();
        let mut errors = Vec::new();
        for name in tools {
            let tool = Tool::new(*name, |_: NoArguments, _| async {});
            catalogue.add_tool(tool, &mut errors);
        }
        assert!(errors.is_empty(), "{errors:?}");
        catalogue
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
        let catalogue = catalogue(&["a", "b", "c"]);
        let stock = Stock {
            catalogue: &catalogue,
            workflow: Some(&workflow),
            server: &Implementation::new("s", "0"),
        };
        let lists = Lists::new(Some(&workflow), NonZeroUsize::new(2));
        let at = Some(workflow.initial());
        let all = || {
            [
                lists.handshake(stock, at, Listing::Tools),
                lists.handshake(stock, None, Listing::Tools),
                lists.stateless(stock, Listing::Tools),
                lists.handshake(stock, at, Listing::Templates),
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
