//! What a handler says before its result, on its way to the loop that runs the call.
//!
//! That loop is the only one who writes for a call, so that everything comes in order and nothing
//! after the end.

use crate::{
    ask::{AskError, Question},
    route::lock,
};
use interlock_proto::Level;
use serde_json::Value;
use std::{
    collections::VecDeque,
    mem,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{Notify, oneshot};

/// How much a handler may have said without anybody having listened.
const MOST: usize = 64;

/// Between a handler and the loop that runs it.
#[derive(Debug, Default)]
pub(crate) struct Voice {
    /// Something was said at some time.
    spoken: AtomicBool,
    /// Nobody wants the result any more.
    stop: AtomicBool,
    /// Most handlers neither speak nor listen.
    talk: OnceLock<Box<Talk>>,
}

/// What it takes to speak to each other.
#[derive(Debug, Default)]
struct Talk {
    words: Mutex<Words>,
    /// Something was said.
    said: Notify,
    /// Something was heard.
    heard: Notify,
    /// It has just become so that nobody wants the result.
    stopping: Notify,
}

#[derive(Debug, Default)]
struct Words {
    waiting: VecDeque<Word>,
    ended: bool,
    questions: u64,
}

/// One thing that a handler says.
#[derive(Debug)]
pub(crate) enum Word {
    Progress(Progress),
    Log(Log),
    Ask(Asking),
    /// The client need not keep a connection open for the result.
    HangUp,
    /// The handler does not wait for the answer to that question any more.
    Settled(u64),
}

/// How far a handler has come.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// A message for the client's log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) logger: Option<String>,
    pub(crate) data: Value,
}

/// A question that a handler waits for.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) number: u64,
    /// The handler's own name for it.
    pub(crate) key: String,
    pub(crate) question: Question,
    pub(crate) answer: oneshot::Sender<Result<Value, AskError>>,
}

impl Voice {
    fn talk(&self) -> &Talk {
        self.talk.get_or_init(Box::default)
    }

    /// Says something, as soon as there is room. False: the call has ended, and nobody listens.
    pub(crate) async fn say(&self, word: Word) -> bool {
        let talk = self.talk();
        loop {
            let heard = talk.heard.notified();
            {
                let mut words = lock(&talk.words);
                if words.ended {
                    return false;
                }
                if words.waiting.len() < MOST {
                    words.waiting.push_back(word);
                    break;
                }
            }
            heard.await;
        }
        self.spoken.store(true, Ordering::Release);
        talk.said.notify_one();
        true
    }

    /// Says something without waiting, for which there is always room.
    pub(crate) fn remark(&self, word: Word) {
        let talk = self.talk();
        let mut words = lock(&talk.words);
        if !words.ended {
            words.waiting.push_back(word);
            drop(words);
            self.spoken.store(true, Ordering::Release);
            talk.said.notify_one();
        }
    }

    /// A number for the next question.
    pub(crate) fn number(&self) -> u64 {
        let mut words = lock(&self.talk().words);
        words.questions += 1;
        words.questions
    }

    /// Whether nothing was ever said.
    pub(crate) fn is_silent(&self) -> bool {
        !self.spoken.load(Ordering::Acquire)
    }

    /// Everything that was said and not heard.
    pub(crate) fn take(&self) -> VecDeque<Word> {
        let talk = self.talk();
        let words = mem::take(&mut lock(&talk.words).waiting);
        if !words.is_empty() {
            talk.heard.notify_waiters();
        }
        words
    }

    /// Waits until something was said. Dropping the future loses nothing.
    pub(crate) async fn next(&self) -> VecDeque<Word> {
        loop {
            let words = self.take();
            if !words.is_empty() {
                return words;
            }
            self.talk().said.notified().await;
        }
    }

    /// Tells the handler that nobody wants its result any more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.talk().stopping.notify_waiters();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Completes when nobody wants the result any more.
    pub(crate) async fn stopped(&self) {
        loop {
            let stopping = self.talk().stopping.notified();
            if self.is_stopped() {
                return;
            }
            stopping.await;
        }
    }

    /// Nobody listens from now on, and nobody wants a result.
    pub(crate) fn end(&self) {
        self.stop();
        let talk = self.talk();
        let mut words = lock(&talk.words);
        words.ended = true;
        // Whoever waits for an answer learns that none will come.
        let dropped = mem::take(&mut words.waiting);
        drop(words);
        drop(dropped);
        talk.heard.notify_waiters();
    }
}
