//! Small numbers for states, artifacts and lists, so that the gate never compares names.

use crate::{
    Artifact, Kind, Span, StateId, UriTemplate, normalised_uri,
    uri_template::{beginning, is_template},
};
use foldhash::fast::RandomState;
use std::{borrow::Cow, collections::HashMap, fmt, num::NonZeroU32, sync::Arc};

/// One of the different lists that a [`Workflow`](crate::Workflow) can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListId(u32);

impl ListId {
    /// The number as a place in a table of [`list_count`](crate::Workflow::list_count) places.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The list of one kind that holds only what is always callable.
    pub(crate) fn empty(kind: Kind) -> Self {
        Self(narrow(kind.index()))
    }
}

/// Gives equal lists of one kind the same number. Those without own content have the first three.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    all: Vec<Box<[SymbolId]>>,
    ids: HashMap<Box<[SymbolId]>, ListId>,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            all: vec![Box::default(); Kind::ALL.len()],
            ids: HashMap::new(),
        }
    }
}

impl Lists {
    /// Symbols know their kind, so only empty lists of two kinds can look alike.
    pub(crate) fn intern(&mut self, kind: Kind, own: Vec<SymbolId>) -> ListId {
        if own.is_empty() {
            return ListId::empty(kind);
        }
        let own = own.into_boxed_slice();
        *self.ids.entry(own).or_insert_with_key(|own| {
            self.all.push(own.clone());
            ListId(narrow(self.all.len() - 1))
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn of(&self, id: ListId) -> &[SymbolId] {
        &self.all[id.0 as usize]
    }
}

impl StateId {
    pub(crate) fn at(index: usize) -> Self {
        Self(narrow(index))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One of the edges of a [`Workflow`](crate::Workflow).
///
/// It is an index: with another workflow it means another edge, or none at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeId(NonZeroU32);

impl EdgeId {
    pub(crate) fn at(index: usize) -> Self {
        // One more, so that none at all takes no more room than one.
        let number = NonZeroU32::MIN.checked_add(narrow(index));
        Self(number.expect("there is room for one more"))
    }

    /// The number as a place in a table of as many places as there are
    /// [`edges`](crate::Workflow::edges).
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for EdgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EdgeId").field(&self.index()).finish()
    }
}

/// One of the bindings of a [`Workflow`](crate::Workflow).
///
/// It is an index: with another workflow it means another binding, or none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindingId(u32);

impl BindingId {
    pub(crate) fn at(index: usize) -> Self {
        Self(narrow(index))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One of the artifacts that a [`Workflow`](crate::Workflow) names.
///
/// It is an index: with another workflow it means another artifact, or none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SymbolId(u32);

#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
    /// Where it is named first.
    pub(crate) span: Option<Span>,
    pub(crate) role: Role,
}

/// How a workflow uses an artifact. It cannot do both: `always` never moves, a binding may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Always,
    Bound,
}

/// Every artifact that a workflow names, once, in the order in which it is named first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    all: Vec<Symbol>,
    ids: [HashMap<Arc<str>, SymbolId, RandomState>; 3],
    /// The resources that are templates.
    templates: Vec<Template>,
}

#[derive(Clone, Debug)]
struct Template {
    id: SymbolId,
    /// What every URI begins with that fits it.
    beginning: String,
    /// None if it cannot be read; then nothing fits.
    pattern: Option<UriTemplate>,
}

/// What a name is looked up by.
pub(crate) fn key(kind: Kind, name: &str) -> Cow<'_, str> {
    match kind {
        Kind::Tool | Kind::Prompt => Cow::Borrowed(name),
        Kind::Resource => normalised_uri(name),
    }
}

impl Symbols {
    /// The number of an artifact, which is added if it is new.
    pub(crate) fn intern(
        &mut self,
        artifact: &Artifact,
        span: Option<Span>,
        role: Role,
    ) -> SymbolId {
        if let Some(id) = self.find(artifact.kind, &artifact.name) {
            return id;
        }
        let id = SymbolId(narrow(self.all.len()));
        let key = key(artifact.kind, &artifact.name);
        if artifact.kind == Kind::Resource && is_template(&key) {
            self.templates.push(Template {
                id,
                beginning: beginning(&key).to_owned(),
                pattern: UriTemplate::parse(&key).ok(),
            });
        }
        self.ids[artifact.kind.index()].insert(key.into(), id);
        self.all.push(Symbol {
            kind: artifact.kind,
            name: artifact.name.as_str().into(),
            span,
            role,
        });
        id
    }

    pub(crate) fn find(&self, kind: Kind, name: &str) -> Option<SymbolId> {
        self.ids[kind.index()].get(&*key(kind, name)).copied()
    }

    /// Whether a URI begins as those of a template do that some state binds.
    pub(crate) fn begins_like_bound_template(&self, uri: &str) -> bool {
        let uri = normalised_uri(uri);
        let mut templates = self.templates.iter();
        templates.any(|template| {
            self[template.id].role == Role::Bound && uri.starts_with(&template.beginning)
        })
    }

    /// The templates that a URI fits, in the order in which they are named first.
    pub(crate) fn templates_for<'a>(&'a self, uri: &'a str) -> impl Iterator<Item = SymbolId> + 'a {
        let fits = move |template: &&Template| {
            let pattern = template.pattern.as_ref();
            pattern.is_some_and(|pattern| pattern.matches(uri))
        };
        self.templates
            .iter()
            .filter(fits)
            .map(|template| template.id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.all.iter()
    }
}

impl std::ops::Index<SymbolId> for Symbols {
    type Output = Symbol;

    fn index(&self, id: SymbolId) -> &Symbol {
        &self.all[id.0 as usize]
    }
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("four thousand million names do not fit into memory")
}
