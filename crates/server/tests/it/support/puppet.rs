//! A tool that does what the test tells it, step by step.

use crate::support::http::{age_form, plain};
use interlock::{Builder, Context, Failure, HttpOptions, Level, NoArguments, Tool};
use interlock_testkit::{
    soon,
    web::{Request, Site},
};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinHandle};

/// What a call can be told to do.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Report so much progress.
    Progress(f64),
    /// Log at this level.
    Log(Level),
    /// Let the client hang up.
    HangUp,
    /// Ask the client for its roots, and say how many there are in the log.
    Roots,
    /// Ask the person for a number.
    Age,
    /// Be done, with this text.
    Return(&'static str),
    /// Panic.
    Panic,
}

/// The hand that holds the strings of a tool.
pub(crate) struct Puppet {
    calls: mpsc::UnboundedReceiver<Strings>,
}

/// The strings of one call.
pub(crate) struct Strings {
    acts: mpsc::UnboundedSender<Act>,
    done: mpsc::UnboundedReceiver<Did>,
}

/// What a call has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// What it was told.
    Act,
    /// It asked, and this is what came of it.
    Asked(Result<String, String>),
    /// It was taken back, and stopped.
    Stopped,
    /// It was dropped, or has ended.
    Gone,
}

/// A tool, and the hand that holds its strings.
pub(crate) fn puppet(name: &'static str) -> (Tool, Puppet) {
    let (on_call, calls) = mpsc::unbounded_channel();
    let tool = Tool::new(name, move |_: NoArguments, context: Context| {
        let (acts, mut wishes) = mpsc::unbounded_channel();
        let (did, done) = mpsc::unbounded_channel();
        let _ = on_call.send(Strings { acts, done });
        async move {
            loop {
                let act = tokio::select! {
                    act = wishes.recv() => act,
                    () = context.cancelled() => {
                        let _ = did.send(Did::Stopped);
                        return Err(Failure::stopped());
                    }
                };
                let mut now = Did::Act;
                match act {
                    Some(Act::Progress(value)) => context.progress(value, None, None).await,
                    Some(Act::Log(level)) => context.log(level, "here").await,
                    Some(Act::HangUp) => context.hang_up().await,
                    Some(Act::Roots) => {
                        let roots = context.roots("roots").await;
                        let count = roots.map(|roots| roots.len().to_string());
                        now = Did::Asked(count.map_err(|error| error.to_string()));
                    }
                    Some(Act::Age) => {
                        let form = age_form();
                        let answer = context.elicit("age", &form).await;
                        let content = answer.map(|answer| format!("{:?}", answer.content));
                        now = Did::Asked(content.map_err(|error| error.to_string()));
                    }
                    Some(Act::Return(text)) => return Ok(text),
                    Some(Act::Panic) => panic!("on purpose"),
                    // The test is over.
                    None => return Ok("let go"),
                }
                let _ = did.send(now);
            }
        }
    });
    (tool, Puppet { calls })
}

/// A site with everything of the plain one and a tool `act`, and the hand that holds its strings.
pub(crate) async fn acting(options: HttpOptions) -> (Site, Puppet) {
    acting_on(plain(), options).await
}

/// The same on a server of the test's own.
pub(crate) async fn acting_on(server: Builder, options: HttpOptions) -> (Site, Puppet) {
    let (tool, puppet) = puppet("act");
    let server = server.tool(tool).build().unwrap();
    (Site::open(&server, options).await, puppet)
}

/// Sends these calls at once, each once the one before it runs: their answers, and their strings.
pub(crate) async fn begin_all(
    site: &Site,
    puppet: &mut Puppet,
    requests: impl IntoIterator<Item = Request>,
) -> (Vec<JoinHandle<Value>>, Vec<Strings>) {
    let (mut answers, mut calls) = (Vec::new(), Vec::new());
    for request in requests {
        let web = site.web();
        answers.push(tokio::spawn(async move {
            web.send(request).await.message().await
        }));
        calls.push(puppet.call().await);
    }
    (answers, calls)
}

impl Puppet {
    /// Waits until one more call has started.
    pub(crate) async fn call(&mut self) -> Strings {
        soon("a call must start", self.calls.recv()).await.unwrap()
    }

    /// Whether no further call has started.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }
}

impl Strings {
    /// Tells it to do something.
    pub(crate) fn tell(&self, act: Act) {
        let _ = self.acts.send(act);
    }

    /// Waits until it has done one more thing.
    pub(crate) async fn did(&mut self) -> Did {
        let did = soon("the call must do what it is told", self.done.recv()).await;
        did.unwrap_or(Did::Gone)
    }

    /// Tells it to do something, and waits until it has.
    pub(crate) async fn make(&mut self, act: Act) -> Did {
        self.tell(act);
        self.did().await
    }
}
