//! The channel from a handler to the loop that runs its call.
//!
//! Only that loop writes for a call. So messages come in the order in which the handler sends them,
//! and none comes after the result.

use crate::{
    context::client_link::AnswerSender,
    model::{
        elicitation::Question,
        notification::{Log, Progress},
    },
    outbound::lock,
};
use std::{
    collections::VecDeque,
    mem,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// How many messages wait before a handler that sends another one waits, too.
const MOST_WAITING: usize = 64;

/// Carries messages from a handler to its call, and the request to stop the other way.
#[derive(Debug, Default)]
pub(crate) struct HandlerChannel {
    is_used: AtomicBool,
    is_stopped: AtomicBool,
    /// Most handlers neither send nor wait for a stop.
    queue: OnceLock<Box<MessageQueue>>,
}

#[derive(Debug, Default)]
struct MessageQueue {
    messages: Mutex<Messages>,
    sent: Notify,
    taken: Notify,
    stopped: Notify,
}

#[derive(Debug, Default)]
struct Messages {
    waiting: VecDeque<HandlerMessage>,
    is_closed: bool,
    last_question: u64,
}

#[derive(Debug)]
pub(crate) enum HandlerMessage {
    Progress(Progress),
    Log(Log),
    Ask(PendingQuestion),
    /// The client need not keep a connection open for the result.
    HangUp,
    /// The handler does not wait for the answer to this question any more.
    Withdraw(u64),
}

/// A question whose answer the handler waits for.
#[derive(Debug)]
pub(crate) struct PendingQuestion {
    pub(crate) number: u64,
    /// The handler's own name for it.
    pub(crate) key: String,
    pub(crate) question: Question,
    pub(crate) answer: AnswerSender,
}

impl HandlerChannel {
    fn queue(&self) -> &MessageQueue {
        self.queue.get_or_init(Box::default)
    }

    /// Sends a message as soon as there is room. False if the call has ended.
    pub(crate) async fn send(&self, message: HandlerMessage) -> bool {
        let queue = self.queue();
        loop {
            let taken = queue.taken.notified();
            {
                let mut messages = lock(&queue.messages);
                if messages.is_closed {
                    return false;
                }
                if messages.waiting.len() < MOST_WAITING {
                    messages.waiting.push_back(message);
                    break;
                }
            }
            taken.await;
        }
        self.announce();
        true
    }

    /// Sends a message that does not count against the room.
    fn send_now(&self, message: HandlerMessage) {
        let mut messages = lock(&self.queue().messages);
        if !messages.is_closed {
            messages.waiting.push_back(message);
            drop(messages);
            self.announce();
        }
    }

    fn announce(&self) {
        self.is_used.store(true, Ordering::Release);
        self.queue().sent.notify_one();
    }

    pub(crate) fn next_question_number(&self) -> u64 {
        let mut messages = lock(&self.queue().messages);
        messages.last_question += 1;
        messages.last_question
    }

    /// Whether a message was ever sent.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// Takes all messages that wait.
    pub(crate) fn take(&self) -> VecDeque<HandlerMessage> {
        let queue = self.queue();
        let messages = mem::take(&mut lock(&queue.messages).waiting);
        if !messages.is_empty() {
            queue.taken.notify_waiters();
        }
        messages
    }

    /// Waits for messages and takes them. Dropping the future loses none.
    pub(crate) async fn next(&self) -> VecDeque<HandlerMessage> {
        loop {
            let messages = self.take();
            if !messages.is_empty() {
                return messages;
            }
            self.queue().sent.notified().await;
        }
    }

    /// Asks the handler to stop, because its result is not wanted any more.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.queue().stopped.notify_waiters();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Completes when the handler is asked to stop.
    pub(crate) async fn stopped(&self) {
        loop {
            let stopped = self.queue().stopped.notified();
            if self.is_stopped() {
                return;
            }
            stopped.await;
        }
    }

    /// Stops the handler and takes no more messages. A handler that waits for an answer learns that
    /// none will come.
    pub(crate) fn close(&self) {
        self.stop();
        let queue = self.queue();
        let mut messages = lock(&queue.messages);
        messages.is_closed = true;
        let dropped = mem::take(&mut messages.waiting);
        drop(messages);
        drop(dropped);
        queue.taken.notify_waiters();
    }
}

/// Withdraws a question when it is dropped: however a handler stops waiting for an answer, the
/// call's clock must go on.
pub(super) struct WithdrawOnDrop<'a> {
    pub(super) channel: &'a HandlerChannel,
    pub(super) number: u64,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.channel.send_now(HandlerMessage::Withdraw(self.number));
    }
}
