//! Items by name, in the order in which they were added, each of which can be disabled.

use crate::catalog::build_error::BuildError;
use foldhash::fast::RandomState;
use interlock_workflow::Kind;
use std::{collections::HashMap, sync::Arc};

/// Items of one kind by name, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Registry<T> {
    slots: Vec<Slot<T>>,
    by_name: HashMap<Arc<str>, usize, RandomState>,
}

#[derive(Debug)]
struct Slot<T> {
    name: Arc<str>,
    item: Arc<T>,
    enabled: bool,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            by_name: HashMap::default(),
        }
    }
}

impl<T> Clone for Registry<T> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            by_name: self.by_name.clone(),
        }
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            item: Arc::clone(&self.item),
            enabled: self.enabled,
        }
    }
}

impl<T> Registry<T> {
    pub(super) fn add(&mut self, kind: Kind, name: String, item: T, errors: &mut Vec<BuildError>) {
        if self.by_name.contains_key(&*name) {
            return errors.push(BuildError::Duplicate { kind, name });
        }
        let name: Arc<str> = name.into();
        self.by_name.insert(Arc::clone(&name), self.slots.len());
        self.slots.push(Slot {
            name,
            item: Arc::new(item),
            enabled: true,
        });
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.by_name.remove(name) else {
            return false;
        };
        self.slots.remove(at);
        for place in self.by_name.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
        true
    }

    /// The switch of an item, enabled or not.
    pub(super) fn switch(&mut self, name: &str) -> Option<&mut bool> {
        let at = *self.by_name.get(name)?;
        Some(&mut self.slots[at].enabled)
    }

    /// An item that is enabled.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<T>> {
        let slot = &self.slots[*self.by_name.get(name)?];
        slot.enabled.then_some(&slot.item)
    }

    /// Items that are enabled.
    pub(super) fn items(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let enabled = self.slots.iter().filter(|slot| slot.enabled);
        enabled.map(|slot| (&*slot.name, &slot.item))
    }

    /// All items, enabled or not.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.slots.iter().map(|slot| (&*slot.name, &slot.item))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.items().map(|(name, _)| name)
    }
}
