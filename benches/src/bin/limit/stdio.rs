//! Standard input and output: whole lines in, one write for all answers out.

use std::{io, os::fd::AsFd, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::{Receiver, Sender},
};

use crate::answer::Server;

const READ: usize = 64 * 1024;

/// Serves until the input ends. The loop is a task of its own, because waking up the thread that
/// blocks on the runtime costs a hop from the worker that heard of the input.
pub(crate) async fn serve(server: Arc<Server>) -> io::Result<()> {
    let input = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let output = Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    tokio::spawn(run(server, input, output)).await?
}

async fn run(server: Arc<Server>, mut input: Receiver, mut output: Sender) -> io::Result<()> {
    let (mut read, mut written) = (Vec::with_capacity(READ), Vec::with_capacity(READ));
    let mut seen = 0;
    loop {
        if read.capacity() - read.len() < READ {
            read.reserve(READ.max(read.len()));
        }
        if input.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', &read[seen..]).map(|at| seen + at) {
            if server.answer(&read[begin..end], &mut written) {
                written.push(b'\n');
            }
            begin = end + 1;
        }
        if begin > 0 {
            read.drain(..begin);
        }
        seen = read.len();
        if !written.is_empty() {
            output.write_all(&written).await?;
            written.clear();
        }
    }
}
