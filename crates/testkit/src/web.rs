//! HTTP for tests: a site on loopback, and a client that sends it whatever the test says.
//!
//! Each request has a connection of its own, which is closed when its answer is dropped.

mod events;
mod request;
mod session;

pub use events::{Event, Events, Item};
pub use request::Request;
pub use session::{Hello, Session};

use crate::{schemas, soon};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use interlock::{HttpOptions, Server};
use serde_json::Value;
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// A server on a port of its own.
#[derive(Debug)]
pub struct Site {
    web: Web,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
}

impl Site {
    /// Serves until the test is over, or says so.
    ///
    /// # Panics
    ///
    /// If there is no port.
    pub async fn open(server: &Server, options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a port has an address");
        let (stop, stopped) = oneshot::channel();
        let server = server.clone();
        let task = tokio::spawn(async move {
            let stop = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            server.serve_http_until(listener, options, stop).await
        });
        Self {
            web: Web { address },
            stop: Some(stop),
            task,
        }
    }

    /// A client of it.
    #[must_use]
    pub const fn web(&self) -> Web {
        self.web
    }

    /// Sends a request on a connection of its own.
    pub async fn send(&self, request: Request) -> Answer {
        self.web.send(request).await
    }

    /// As SIGTERM does: no new work is taken, and what runs may end.
    pub fn drain(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until it serves nobody any more.
    ///
    /// # Panics
    ///
    /// If it does not end, or ends with an error.
    pub async fn ended(mut self) {
        soon("the site must close", &mut self.task)
            .await
            .expect("the site must not panic")
            .expect("the site must not fail");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client of a site.
#[derive(Clone, Copy, Debug)]
pub struct Web {
    address: SocketAddr,
}

impl Web {
    /// A client of a site that somebody else has opened there.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Where the site is.
    #[must_use]
    pub const fn address(self) -> SocketAddr {
        self.address
    }

    /// Sends a request on a connection of its own.
    ///
    /// # Panics
    ///
    /// If no answer begins.
    pub async fn send(self, request: Request) -> Answer {
        let sent = soon("the site must answer", self.try_send(request)).await;
        sent.expect("the site must answer")
    }

    /// As [`send`](Self::send), to a site that may hang up instead.
    ///
    /// # Errors
    ///
    /// If the site cannot be reached, or hangs up.
    pub async fn try_send(self, request: Request) -> Result<Answer, Box<dyn std::error::Error>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = Hold(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let asked = request.asked();
        let response = sender
            .send_request(request.into_http(self.address).map(Full::new))
            .await?;
        let (parts, body) = response.into_parts();
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            wire: Wire {
                body,
                _line: Some((sender, connection)),
            },
            asked,
        })
    }

    /// One connection of HTTP/2, on which many requests run at once.
    ///
    /// # Panics
    ///
    /// If the site cannot be reached.
    pub async fn line(self) -> Line {
        let stream = TcpStream::connect(self.address).await;
        let stream = TokioIo::new(stream.expect("the site must be there"));
        let shaken = http2::handshake(TokioExecutor::new(), stream).await;
        let (sender, connection) = shaken.expect("the site must speak HTTP/2");
        let connection = Hold(tokio::spawn(async move {
            let _ = connection.await;
        }));
        Line {
            address: self.address,
            sender,
            _connection: connection,
        }
    }

    /// A connection on which the test writes its own bytes.
    ///
    /// # Panics
    ///
    /// If the site cannot be reached.
    pub async fn raw(self) -> Raw {
        let stream = TcpStream::connect(self.address).await;
        Raw(stream.expect("the site must be there"))
    }
}

/// One connection of HTTP/2. Dropping an answer ends its request, and not the connection.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    sender: http2::SendRequest<Full<Bytes>>,
    _connection: Hold,
}

impl Line {
    /// Sends a request beside others.
    ///
    /// # Panics
    ///
    /// If no answer begins.
    pub async fn send(&self, request: Request) -> Answer {
        let asked = request.asked();
        let mut request = request.into_http(self.address);
        // HTTP/2 tells the host in the address.
        let host = request.headers_mut().remove("host");
        let host = host.and_then(|host| host.to_str().map(str::to_owned).ok());
        let host = host.unwrap_or_else(|| self.address.to_string());
        let address = format!("http://{host}{}", request.uri());
        *request.uri_mut() = address.parse().expect("an address");
        let mut sender = self.sender.clone();
        let sent = sender.send_request(request.map(Full::new));
        let response = soon("the site must answer", sent).await;
        let (parts, body) = response.expect("the site must answer").into_parts();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            wire: Wire { body, _line: None },
            asked,
        }
    }
}

/// Ends the connection it belongs to.
#[derive(Debug)]
struct Hold(JoinHandle<()>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A body, with the connection on which it comes.
#[derive(Debug)]
struct Wire {
    body: Incoming,
    _line: Option<(http1::SendRequest<Full<Bytes>>, Hold)>,
}

impl Wire {
    /// The next bytes of the body; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let frame = soon("the site must go on with its answer", self.body.frame()).await?;
            let frame = frame.expect("an answer must not break off");
            if let Ok(data) = frame.into_data() {
                return Some(data);
            }
        }
    }
}

/// What is known about a request whose answer is read.
#[derive(Clone, Debug, Default)]
struct Asked {
    version: Option<String>,
    method: Option<String>,
    id: Option<Value>,
}

impl Asked {
    #[track_caller]
    fn check(&self, message: &Value) {
        let negotiated = message["result"]["protocolVersion"].as_str();
        let version = match self.method.as_deref() {
            Some("initialize") => negotiated.or(self.version.as_deref()),
            _ => self.version.as_deref(),
        };
        // An id that the client made up itself says which request this answers.
        let own = message.get("id") == self.id.as_ref();
        let method = self.method.as_deref().filter(|_| own);
        if let Some(version) = version {
            schemas::check_message(version, method, message);
        }
    }
}

/// An answer, whose body has yet to be read. Dropping it closes its connection.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    wire: Wire,
    asked: Asked,
}

impl Answer {
    /// A header as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether it is a stream of events.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.has_type("text/event-stream")
    }

    fn has_type(&self, media_type: &str) -> bool {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().map(str::trim) == Some(media_type)
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = self.wire.next().await {
            all.extend_from_slice(&bytes);
        }
        all
    }

    /// The whole body, which is one JSON value.
    ///
    /// # Panics
    ///
    /// If it is none, or no message that the protocol has.
    pub async fn json(self) -> Value {
        assert!(self.has_type("application/json"), "{self:?}");
        let asked = self.asked.clone();
        let bytes = self.bytes().await;
        let value = serde_json::from_slice(&bytes).expect("the body must be JSON");
        asked.check(&value);
        value
    }

    /// The events of a stream.
    ///
    /// # Panics
    ///
    /// If it is no stream.
    #[must_use]
    pub fn events(self) -> Events {
        assert!(self.is_stream(), "{self:?}");
        Events::new(self.wire, self.asked)
    }

    /// The answer to a request, however it comes, with what came before it.
    ///
    /// # Panics
    ///
    /// If it is not answered, or if a stream goes on after its answer.
    pub async fn exchange(self) -> (Vec<Value>, Value) {
        if !self.is_stream() {
            return (Vec::new(), self.json().await);
        }
        let mut messages = self.events().rest().await;
        let answer = messages.pop().expect("a stream must hold an answer");
        assert!(answer.get("method").is_none(), "{answer}");
        (messages, answer)
    }

    /// The answer to a request, however it comes.
    pub async fn message(self) -> Value {
        self.exchange().await.1
    }

    /// Status and body, where there is just an error.
    pub async fn refused(self) -> (u16, Value) {
        (self.status, self.json().await)
    }
}

/// A connection on which the test writes its own bytes.
#[derive(Debug)]
pub struct Raw(TcpStream);

impl Raw {
    /// Writes bytes as they are.
    ///
    /// # Panics
    ///
    /// If the site does not take them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.try_send(bytes).await;
        sent.expect("the site must be there");
    }

    /// Writes bytes as they are, to a site that may have hung up.
    ///
    /// # Errors
    ///
    /// If it has.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        soon("the site must read", self.0.write_all(bytes.as_ref())).await
    }

    /// What comes until it holds this text; all there was if the site hangs up before.
    pub async fn until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        loop {
            let so_far = String::from_utf8_lossy(&all);
            if so_far.contains(text) {
                return so_far.into_owned();
            }
            let mut some = [0; 4096];
            match soon("the site must write", self.0.read(&mut some)).await {
                Ok(0) | Err(_) => return so_far.into_owned(),
                Ok(n) => all.extend_from_slice(&some[..n]),
            }
        }
    }

    /// All that comes until the site hangs up.
    pub async fn rest(&mut self) -> String {
        self.until("\0 never \0").await
    }
}
