//! A connection of rmcp's that leads nowhere but to us: whatever is said on its peer comes here.

use rmcp::{
    RoleServer, Service,
    model::{
        ClientJsonRpcMessage, ClientResult, ErrorData, InitializeRequestParams, JsonRpcMessage,
        RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest,
    },
    service::{Peer, RunningService, serve_directly},
    transport::Transport,
};
use std::future::Future;
use tokio::sync::{mpsc, oneshot};

/// Our end of the connection. Who lets go of it closes it.
#[derive(Debug)]
pub(super) struct Line<S: Service<RoleServer>> {
    running: RunningService<RoleServer, S>,
    inward: mpsc::UnboundedSender<ClientJsonRpcMessage>,
}

/// What was said on the peer, in the order in which it was said.
pub(super) type Words = mpsc::UnboundedReceiver<Word>;

/// One thing that was said.
#[derive(Debug)]
pub(super) enum Word {
    /// Something that wants an answer.
    Request(RequestId, ServerRequest),
    /// Something that does not. Whoever said it goes on when the other end is told, or dropped.
    Notification(ServerNotification, oneshot::Sender<()>),
}

/// Nobody listens any more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the call has ended")]
pub(super) struct Ended;

impl<S: Service<RoleServer>> Line<S> {
    /// Opens a connection to that service, from a client that introduces itself so.
    pub(super) fn open(service: S, client: InitializeRequestParams) -> (Self, Words) {
        // Neither holds more than the handler has under way: whoever speaks waits to be heard.
        let (outward, words) = mpsc::unbounded_channel();
        let (inward, messages) = mpsc::unbounded_channel();
        let ends = Ends { outward, messages };
        let running = serve_directly(service, ends, Some(client));
        (Self { running, inward }, words)
    }

    pub(super) fn peer(&self) -> &Peer<RoleServer> {
        self.running.peer()
    }

    /// Answers what was asked on the peer.
    pub(super) fn answer(&self, id: RequestId, answer: Result<ClientResult, ErrorData>) {
        self.send(match answer {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(error) => JsonRpcMessage::error(error, Some(id)),
        });
    }

    /// Sends the service a message, as a client would.
    pub(super) fn send(&self, message: ClientJsonRpcMessage) {
        // It fails if the connection is closed already, and then nobody waits for it.
        let _ = self.inward.send(message);
    }
}

/// The connection as rmcp sees it.
struct Ends {
    outward: mpsc::UnboundedSender<Word>,
    messages: mpsc::UnboundedReceiver<ClientJsonRpcMessage>,
}

impl Transport<RoleServer> for Ends {
    type Error = Ended;

    /// rmcp calls this in the order in which things were said, but polls what it returns in any.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Ended>> + Send + 'static {
        let (sent, heard) = match message {
            JsonRpcMessage::Request(request) => {
                let word = Word::Request(request.id, request.request);
                (self.outward.send(word), None)
            }
            JsonRpcMessage::Notification(notification) => {
                let (listened, heard) = oneshot::channel();
                let word = Word::Notification(notification.notification, listened);
                (self.outward.send(word), Some(heard))
            }
            // Nothing is asked over this connection, so nothing is answered.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => (Ok(()), None),
        };
        async move {
            sent.map_err(|_| Ended)?;
            match heard {
                Some(heard) => heard.await.map_err(|_| Ended),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Ended> {
        self.messages.close();
        Ok(())
    }
}
