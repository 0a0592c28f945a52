//! Items by name, in the order in which they were added, each of which can be disabled.

use crate::catalog::build_error::BuildError;
use foldhash::fast::RandomState;
use indexmap::{IndexMap, map::Entry};
use interlock_workflow::Kind;
use std::sync::Arc;

/// Items of one kind by name, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Registry<T>(IndexMap<Arc<str>, Slot<T>, RandomState>);

#[derive(Debug)]
struct Slot<T> {
    item: Arc<T>,
    enabled: bool,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self(IndexMap::default())
    }
}

impl<T> Clone for Registry<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self {
            item: Arc::clone(&self.item),
            enabled: self.enabled,
        }
    }
}

impl<T> Registry<T> {
    pub(super) fn add(&mut self, kind: Kind, name: String, item: T, errors: &mut Vec<BuildError>) {
        match self.0.entry(name.as_str().into()) {
            Entry::Occupied(_) => errors.push(BuildError::Duplicate { kind, name }),
            Entry::Vacant(place) => {
                place.insert(Slot {
                    item: Arc::new(item),
                    enabled: true,
                });
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.0.shift_remove(name).is_some()
    }

    /// The switch of an item, enabled or not.
    pub(super) fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(&mut self.0.get_mut(name)?.enabled)
    }

    /// An item that is enabled.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<T>> {
        let slot = self.0.get(name)?;
        slot.enabled.then_some(&slot.item)
    }

    /// Items that are enabled.
    pub(super) fn items(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let enabled = self.0.iter().filter(|(_, slot)| slot.enabled);
        enabled.map(|(name, slot)| (&**name, &slot.item))
    }

    /// All items, enabled or not.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.0.iter().map(|(name, slot)| (&**name, &slot.item))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.items().map(|(name, _)| name)
    }
}
