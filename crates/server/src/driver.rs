//! One connection over a pair of byte streams: the loop that reads and writes for a peer.
//!
//! It waits for one thing and passes it on. It never waits for a handler, nor for a client that
//! does not read: reading stops while too much is waiting to be written.

use crate::{
    call::quietly,
    clock,
    instance::KeepError,
    offering::Seen,
    outbox::Outbox,
    peer::Peer,
    principal::Principal,
    route::{Outlet, Route},
    seldom::Seldom,
    server::Inner,
    transport::lines::{Line, Lines},
};
use futures_util::FutureExt;
use interlock_proto::frame::Malformed;
use interlock_workflow::Scope;
use std::{future::Future, io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves one client until it is done.
pub(crate) async fn run<R, W>(
    inner: Arc<Inner>,
    reader: R,
    mut writer: W,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    inner.may_serve(false)?;
    let mut lines = Lines::new(reader, inner.limits.bytes);
    let outlet = Arc::new(Outlet::default());
    let route = Route::Shared(Arc::clone(&outlet));
    let mut ear = outlet.ear();
    let peer = Peer::new(&inner, Principal::anonymous(), inner.rules, route.clone())?;
    within_drain_time(&inner, find_instance(&inner, &peer, Is::New)).await;
    let mut out = Outbox::default();
    let mut seen = None;
    let stop = std::pin::pin!(stop.fuse());
    let mut stop = Seldom::new(stop);
    let mut reading = Ok(true);
    loop {
        outlet.attend();
        while matches!(reading, Ok(true)) && outlet.has_room() {
            match lines.ready() {
                Some(line) => take(&peer, &line, &mut seen, &route),
                None => break,
            }
        }
        quietly(|| seen = None);
        // In this order: a call that is no longer there has put its answer into the outlet.
        let outlook = peer.outlook();
        // Nearly always there is room for it all, and nothing to wait for.
        loop {
            let took_all = outlet.take(&mut out);
            if out.is_done() {
                break;
            }
            if let Err(error) = out.push_at_once(&mut writer) {
                lost(&error, &outlet, &mut out, &peer);
            }
            if !out.is_done() || !outlet.has_room() {
                outlet.left(out.len());
            }
            // What had to wait until the rest was written comes next.
            if took_all || !out.is_done() {
                break;
            }
        }
        if (outlook.is_quiet && out.is_done() && outlet.is_empty()) || outlook.is_late {
            break;
        }
        let room = outlet.has_room();
        tokio::select! {
            pushed = out.push(&mut writer), if !out.is_done() => match pushed {
                Ok(pushed) => out.pushed(pushed),
                Err(error) => lost(&error, &outlet, &mut out, &peer),
            },
            line = lines.next(), if room && matches!(reading, Ok(true)) => {
                outlet.attend();
                let line = line.unwrap_or_else(|error| {
                    reading = Err(error);
                    Line::End
                });
                if line == Line::End && reading.is_ok() {
                    reading = Ok(false);
                }
                take(&peer, &line, &mut seen, &route);
            }
            () = ear.heard() => {}
            () = clock::sleep_until(&*inner.clock, outlook.wake_at) => peer.tick(),
            () = &mut stop => peer.drain(),
        }
    }
    peer.abort();
    within_drain_time(&inner, forget_instance(&inner, &peer)).await;
    reading.map(|_| ())
}

/// What is written to the client does not arrive.
fn lost(error: &io::Error, outlet: &Outlet, out: &mut Outbox, peer: &Arc<Peer>) {
    // Clients go as they like; anything else somebody should know.
    if error.kind() != io::ErrorKind::BrokenPipe {
        tracing::warn!(%error, "writing to the client failed");
    }
    // That wakes the loop, which looks again what time will bring.
    outlet.give_up();
    *out = Outbox::default();
    peer.gone();
}

fn take(peer: &Arc<Peer>, line: &Line<'_>, seen: &mut Option<Seen>, route: &Route) {
    let inner = &peer.inner;
    match line {
        Line::Whole(bytes) => {
            let offering = inner.offerings.look(seen);
            peer.on_message(bytes, offering, route);
        }
        Line::TooLong => {
            let malformed = Malformed::too_large(&inner.limits);
            peer.on_malformed(malformed, route, inner.clock.now());
        }
        Line::End => peer.silent(),
    }
}

/// What a store does not do by then, it does without us.
async fn within_drain_time(inner: &Inner, work: impl Future<Output = ()>) {
    let patience = inner.clock.now() + inner.rules.drain;
    tokio::select! {
        () = work => {}
        () = clock::sleep_until(&*inner.clock, Some(patience)) => {}
    }
}

/// Whether a client is new, or comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    New,
    Back,
}

/// An instance that is shared, or whose client comes back, has been moved before.
pub(crate) async fn find_instance(inner: &Inner, peer: &Peer, client: Is) {
    let Some((workflow, instance)) = inner.workflow.as_ref().zip(peer.instance()) else {
        return;
    };
    let is_shared = workflow.settings().scope != Scope::Session;
    // Time runs for some from the beginning.
    let is_due = instance.run().due().is_some();
    if (is_shared || is_due || client == Is::Back)
        && let Err(error) = instance.find(inner.books(workflow)).await
    {
        tracing::warn!(%error, "an instance could not be looked up");
    }
}

/// Writes down what is known of this client's instance, which may leave memory.
pub(crate) async fn keep_instance(inner: &Inner, peer: &Peer) -> Result<(), KeepError> {
    match inner.workflow.as_ref().zip(peer.instance()) {
        Some((workflow, instance)) => instance.write_record(&inner.books(workflow)).await,
        None => Ok(()),
    }
}

/// Forgets what belonged to this client alone, and writes down what is known of the rest.
pub(crate) async fn forget_instance(inner: &Inner, peer: &Peer) {
    let Some((workflow, instance)) = inner.workflow.as_ref().zip(peer.instance()) else {
        return;
    };
    let books = inner.books(workflow);
    let done = match workflow.settings().scope {
        Scope::Session => instance.end(books).await,
        // Others may go on with it. What its journal does not say yet might go with us.
        Scope::Handle | Scope::Principal | Scope::Global => instance.write_untold(&books).await,
    };
    if let Err(error) = done {
        tracing::warn!(%error, "what is left of an instance could not be written down");
    }
}
