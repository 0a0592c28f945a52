//! Completions: what the argument of a prompt or the variable of a template could be.

use crate::{
    api::{HandlerCall, Reply},
    context::Context,
    model::{CompleteResult, CompletionInfo, failure::Failure},
};
use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

/// An argument that a person is filling in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// What has been typed so far.
    pub value: String,
    /// The other arguments, as far as they are known.
    pub arguments: BTreeMap<String, String>,
}

/// What an argument could be, the most fitting first.
///
/// ```
/// use interlock::Completion;
///
/// let all = Completion::new(["paris", "prague"]);
/// let some = Completion::new(["paris", "prague"]).total(17);
/// let unknown = Completion::new(["paris", "prague"]).more();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    values: Vec<String>,
    total: Option<usize>,
    more: bool,
}

impl Completion {
    /// These, and no others unless it is said. A client is told the first hundred of them.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            values: values.into_iter().map(Into::into).collect(),
            total: None,
            more: false,
        }
    }

    /// How many there are in all.
    #[must_use]
    pub const fn total(mut self, total: usize) -> Self {
        self.total = Some(total);
        self
    }

    /// There are others, whose number is not known.
    #[must_use]
    pub const fn more(mut self) -> Self {
        self.more = true;
        self
    }

    pub(crate) fn into_result(mut self) -> CompleteResult {
        let given = self.values.len();
        let total = match self.total {
            Some(total) => Some(total.max(given)),
            None if self.more => None,
            None => Some(given),
        };
        self.values.truncate(CompletionInfo::MAX_VALUES);
        let sent = self.values.len();
        let has_more = self.more || total.is_some_and(|total| total > sent);
        let total = total.map(|total| u32::try_from(total).unwrap_or(u32::MAX));
        let info = CompletionInfo::with_pagination(self.values, total, has_more)
            .expect("there are no more values than may be sent");
        CompleteResult::new(info)
    }
}

/// What a completion handler may return.
pub trait IntoCompletion {
    /// Makes a completion of it.
    ///
    /// # Errors
    ///
    /// If it is a failure.
    fn into_completion(self) -> Result<Completion, Failure>;
}

impl IntoCompletion for Completion {
    fn into_completion(self) -> Result<Completion, Failure> {
        Ok(self)
    }
}

impl<S: Into<String>> IntoCompletion for Vec<S> {
    fn into_completion(self) -> Result<Completion, Failure> {
        Ok(Completion::new(self))
    }
}

impl<T: IntoCompletion, E: Into<Failure>> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<Completion, Failure> {
        self.map_err(Into::into)?.into_completion()
    }
}

/// The completion handlers, by argument.
#[derive(Clone, Default)]
pub(crate) struct Completers(BTreeMap<String, Completer>);

type Completer = Arc<dyn Fn(Partial) -> HandlerCall + Send + Sync>;

impl Completers {
    pub(super) fn add<F, Fut, R>(&mut self, argument: String, handler: F)
    where
        F: Fn(Partial, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        let handler = Arc::new(handler);
        let completer = move |partial| -> HandlerCall {
            let handler = Arc::clone(&handler);
            HandlerCall::new(move |context| {
                let work = handler(partial, context);
                async move {
                    let completion = work.await.into_completion()?;
                    Ok(Reply::Completion(Box::new(completion.into_result())))
                }
            })
        };
        self.0.insert(argument, Arc::new(completer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The handler that completes an argument, if one does.
    pub(crate) fn prepare(&self, argument: &str, partial: Partial) -> Option<HandlerCall> {
        self.0.get(argument).map(|completer| completer(partial))
    }
}

impl fmt::Debug for Completers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.arguments()).finish()
    }
}
