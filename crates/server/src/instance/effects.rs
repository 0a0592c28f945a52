//! Effects of a step, run by whoever has the turn in which it was taken.

use super::{Books, Held, Instance, KeepError, Moved};
use crate::{
    effect::{self, SetOff, Surroundings},
    journal::{Entry, What},
    route::lock,
};
use interlock_proto::Time;
use interlock_workflow::{StateId, Trace};
use std::sync::Arc;

/// How often a step is tried if others write in between.
pub(super) const ATTEMPTS: usize = 16;

impl Books<'_> {
    /// The same, now that time has passed.
    pub(super) fn later(mut self) -> Self {
        if let Some(effects) = self.effects {
            self.now = effects.now();
        }
        self
    }
}

impl Instance {
    /// Writes something down that changed nothing. If that fails, it is counted, and somebody tries to
    /// write that down.
    pub(crate) async fn note(
        self: &Arc<Self>,
        books: &Books<'_>,
        entry: Entry,
    ) -> Result<(), KeepError> {
        {
            let mut seen = lock(&self.seen);
            let at = seen.now_or_later(Time(entry.at));
            seen.notes.push(Entry { at, ..entry });
        }
        let written = self.write_untold(books).await;
        if written.is_err() {
            self.arm();
        }
        written
    }
}

impl Held {
    fn surroundings(&self) -> Surroundings {
        Surroundings {
            server: self.instance.alarms.owner(),
            clients: lock(&self.instance.watchers).clone(),
        }
    }

    /// Runs what a step has set off, in order. The step that a failure leads to, if one does.
    pub(crate) async fn perform(&self, books: Books<'_>, set_off: SetOff) -> Option<Moved> {
        let effects = books.effects?;
        for name in &set_off.names {
            // A server is only built if it has all of them.
            let Some(effect) = effects.get(name) else {
                continue;
            };
            let failed = effects
                .run(effect, &set_off.done, self.surroundings())
                .await
                .err();
            if let Some(why) = &failed {
                let instance = &*set_off.done.instance;
                tracing::warn!(effect = name, instance, why, "an effect has failed");
            }
            let books = books.later();
            let leads_to = match &failed {
                Some(_) => effect::leads_to(effect, books.workflow),
                None => None,
            };
            let what = What::Effect {
                name: name.clone(),
                failed,
            };
            let entry = Entry::new(books.now.0, set_off.call, what);
            if let Err(error) = self.instance.note(&books, entry).await {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, effect = name, "the run of an effect is not written");
            }
            if let Some(state) = leads_to {
                return self.diverted(&books, state, name).await;
            }
        }
        None
    }

    async fn diverted(&self, books: &Books<'_>, state: StateId, effect: &str) -> Option<Moved> {
        match self.divert(books, state, effect).await {
            Ok(moved) => Some(moved),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, effect, "an effect failed and leads nowhere");
                None
            }
        }
    }

    /// An effect has failed, and the instance goes where that leads.
    async fn divert(
        &self,
        books: &Books<'_>,
        state: StateId,
        effect: &str,
    ) -> Result<Moved, KeepError> {
        let mut attempts = 0;
        loop {
            if lock(&self.instance.seen).elsewhere.is_some() {
                return Err(KeepError::RunningElsewhere);
            }
            let run = self.instance.run();
            let step = books.workflow.put(&run, state);
            let what = |trace: Trace| {
                let effect = effect.to_owned();
                Entry::new(books.now.0, None, What::Diverted { effect, trace })
            };
            attempts += 1;
            match self.take(books, &run, step, what).await {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    self.instance.reload(books).await?;
                }
                taken @ (Ok(_) | Err(_)) => return taken,
            }
        }
    }
}
