//! A connection whose two directions the test holds in its own hands.

use interlock::Server;
use interlock_testkit::PATIENCE;
use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    task::JoinHandle,
};

/// A connection whose two directions the test holds in its own hands.
pub(crate) struct Ends {
    pub(crate) to_server: DuplexStream,
    pub(crate) from_server: DuplexStream,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
}

/// Serves a client that may close or neglect either direction.
pub(crate) fn ends(server: &Server) -> Ends {
    let (to_server, reader) = tokio::io::duplex(64 * 1024);
    let (writer, from_server) = tokio::io::duplex(64 * 1024);
    let server = server.clone();
    let task =
        tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
    Ends {
        to_server,
        from_server,
        task,
    }
}

/// Waits until the server is done with a client, and proves that it did not fail.
pub(crate) async fn ended(task: JoinHandle<std::io::Result<()>>) {
    tokio::time::timeout(PATIENCE, task)
        .await
        .expect("the server must end")
        .expect("the server must not panic")
        .expect("the server must not fail");
}

/// Writes one message as a line.
pub(crate) async fn send_line(to_server: &mut DuplexStream, message: &Value) {
    let line = format!("{message}\n");
    to_server.write_all(line.as_bytes()).await.unwrap();
}
