//! Two ends in memory: a server, and a client that sends whatever lines the test gives it.

use crate::Server;
use serde_json::{Value, json};
use std::{fmt, future::Future, io, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::oneshot,
    task::JoinHandle,
};

/// How long a test waits for what must come. Only a failing test ever waits that long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must come.
///
/// # Panics
///
/// If it does not come.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}"),
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct Connection {
    task: JoinHandle<io::Result<()>>,
    stop: Option<oneshot::Sender<()>>,
}

/// Serves one client in memory.
#[must_use]
pub fn connect(server: &Server) -> (LineClient, Connection) {
    let (to_server, reader) = tokio::io::duplex(64 * 1024);
    let (writer, from_server) = tokio::io::duplex(64 * 1024);
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let task = tokio::spawn(async move {
        let stop = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        server.serve(reader, writer, stop).await
    });
    let connection = Connection {
        task,
        stop: Some(stop),
    };
    (LineClient::over(from_server, to_server), connection)
}

impl Connection {
    /// As SIGTERM does: no new work is taken, and what runs may end.
    pub fn drain(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until the server is done with this client.
    ///
    /// # Panics
    ///
    /// If it does not end, or ends with an error.
    pub async fn ended(self) {
        soon("the server must end", self.task)
            .await
            .expect("the server must not panic")
            .expect("the server must not fail");
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client sends it.
    ToServer,
    /// The server sends it.
    FromServer,
}

type Observe = dyn FnMut(Direction, &Value) + Send;

/// A client that sends and receives JSON, one message per line, and adds nothing of its own. Most
/// tests want a [`TestClient`](super::TestClient).
pub struct LineClient {
    to_server: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    from_server: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    next_id: i64,
    observe: Option<Box<Observe>>,
}

impl LineClient {
    /// A client over any two directions.
    pub fn over(
        from_server: impl AsyncRead + Send + Unpin + 'static,
        to_server: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            to_server: Some(Box::new(to_server)),
            from_server: BufReader::new(Box::new(from_server)),
            next_id: 0,
            observe: None,
        }
    }

    /// Shows every message from now on, in both directions.
    pub fn observe(&mut self, observe: impl FnMut(Direction, &Value) + Send + 'static) {
        self.observe = Some(Box::new(observe));
    }

    /// Writes bytes as they are.
    ///
    /// # Panics
    ///
    /// If the server does not take them.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let to_server = self.to_server.as_mut().expect("the client has hung up");
        soon("the server must read", to_server.write_all(bytes))
            .await
            .expect("the server must be there");
    }

    /// Writes one message as a line.
    ///
    /// # Panics
    ///
    /// If the server does not take it.
    pub async fn send(&mut self, message: Value) {
        if let Some(observe) = &mut self.observe {
            observe(Direction::ToServer, &message);
        }
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    /// The next line that the server writes; `None` at the end.
    ///
    /// # Panics
    ///
    /// If nothing comes, or something that is not JSON.
    pub async fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.from_server.read_line(&mut line);
        let read = soon("the server must write", read).await;
        if read.expect("the server must write UTF-8") == 0 {
            return None;
        }
        let message = serde_json::from_str(&line).expect("every line is JSON");
        if let Some(observe) = &mut self.observe {
            observe(Direction::FromServer, &message);
        }
        Some(message)
    }

    /// Sends a request without waiting for its answer. Its id.
    ///
    /// # Panics
    ///
    /// If the server does not take it.
    pub async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// Sends a notification.
    ///
    /// # Panics
    ///
    /// If the server does not take it.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    /// Everything up to the answer to this request: what came before, and the answer.
    ///
    /// # Panics
    ///
    /// If the server ends before, or answers something else.
    pub async fn until(&mut self, id: i64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.receive().await.expect("the server must answer");
            if message.get("method").is_some() {
                before.push(message);
                continue;
            }
            assert_eq!(message["id"], id, "{message}");
            return (before, message);
        }
    }

    /// Sends a request and gives its answer, with what came before.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn exchange(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        let id = self.begin(method, params).await;
        self.until(id).await
    }

    /// Sends a request and gives its answer.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        self.exchange(method, params).await.1
    }

    /// Closes the client's side; what the server still writes can be read.
    pub fn hang_up(&mut self) {
        self.to_server = None;
    }
}

impl fmt::Debug for LineClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineClient").finish_non_exhaustive()
    }
}
