//! The server's end of a control socket.
//!
//! A peer can cost little: so many at once, one line of a bounded length at a time, and little
//! patience with one that does not send the rest of it or does not read its answer.

use super::{
    place::own_uid,
    protocol::{Answer, MOST_ANSWER, MOST_REQUEST, answer},
};
use interlock::Operator;
use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

/// How many peers are heard at once. Others wait to be accepted.
const MOST_PEERS: usize = 16;

/// How long a peer may take to send a line, and to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait if no peer can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A control socket that is listened on. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Listening {
    path: PathBuf,
    accepting: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "the control socket could not be removed");
        }
    }
}

/// Listens at a path, where no other server listens.
pub(crate) fn listen(path: &Path, operator: Operator) -> io::Result<Listening> {
    let uid = own_uid()?;
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    let accepting = tokio::spawn(accept(listener, operator, uid));
    Ok(Listening {
        path: path.to_owned(),
        accepting: accepting.abort_handle(),
    })
}

/// Whether there is a socket without a listener: its server was killed.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
}

async fn accept(listener: UnixListener, operator: Operator, uid: u32) {
    let places = Arc::new(Semaphore::new(MOST_PEERS));
    let mut peers = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while peers.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let operator = operator.clone();
                peers.spawn(async move {
                    if let Err(error) = hear(stream, &operator, uid).await {
                        tracing::debug!(%error, "a peer at the control socket is gone");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no operator can connect");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers a peer line by line, until it goes or takes too long.
async fn hear(stream: UnixStream, operator: &Operator, uid: u32) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    // Not every system heeds the mode of a socket.
    if peer != uid && peer != 0 {
        tracing::warn!(peer, "another user wanted to operate the server");
        return Ok(());
    }
    let peer = format!("user {peer}");
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let most = u64::try_from(MOST_REQUEST).unwrap_or(u64::MAX);
        let mut bounded = (&mut reader).take(most);
        timeout(PATIENCE, bounded.read_until(b'\n', &mut line)).await??;
        if line.is_empty() {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let answer = match is_whole {
            true => written(&answer(operator, &peer, &line).await),
            false => written(&Answer::Error(
                "the request is not a line, or too long".into(),
            )),
        };
        timeout(PATIENCE, writer.write_all(&answer)).await??;
        if !is_whole {
            return Ok(());
        }
    }
}

fn written(answer: &Answer) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    if line.is_empty() || line.len() >= MOST_ANSWER {
        line = br#"{"error":"the answer is too long"}"#.to_vec();
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// A peer, and what became of the server's end once the peer is done.
    async fn peer() -> (UnixStream, tokio::task::JoinHandle<io::Result<()>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let uid = own_uid().unwrap();
        let hearing = async move { hear(theirs, &Operator::without_workflow(), uid).await };
        (ours, tokio::spawn(hearing))
    }

    async fn line(stream: &mut UnixStream) -> Value {
        let mut line = Vec::new();
        BufReader::new(stream)
            .read_until(b'\n', &mut line)
            .await
            .unwrap();
        serde_json::from_slice(&line).unwrap()
    }

    #[tokio::test]
    async fn lines_are_answered_one_by_one() {
        let (mut peer, hearing) = peer().await;
        for _ in 0..2 {
            peer.write_all(b"{\"do\":\"pending\"}\n").await.unwrap();
            assert_eq!(line(&mut peer).await["error"], "the server has no workflow");
        }
        drop(peer);
        hearing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_line_without_an_end_costs_no_more_than_a_line_may() {
        let (mut peer, hearing) = peer().await;
        // The server may hang up before it has all been sent.
        let _ = peer.write_all(&vec![b'x'; MOST_REQUEST]).await;
        assert_eq!(
            line(&mut peer).await["error"],
            "the request is not a line, or too long"
        );
        hearing.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_says_nothing_is_not_waited_for() {
        let (_peer, hearing) = peer().await;
        let error = hearing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn another_user_is_not_heard() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let uid = own_uid().unwrap();
        if uid == 0 {
            // Root may do everything, and nobody else is at hand.
            return;
        }
        hear(theirs, &Operator::without_workflow(), uid + 1)
            .await
            .unwrap();
        let mut answered = Vec::new();
        ours.read_to_end(&mut answered).await.unwrap();
        assert_eq!(answered, b"");
    }

    #[tokio::test]
    async fn a_socket_of_a_server_that_was_killed_is_taken_over_and_one_in_use_is_not() {
        let path = std::env::temp_dir().join(format!("interlock-taken-{}", std::process::id()));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let operator = Operator::without_workflow();
        let listening = listen(&path, operator.clone()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = listen(&path, operator.clone()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listening);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(listen(&path, operator).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(path).unwrap();
    }
}
