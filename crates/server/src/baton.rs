//! A lock that is handed on in the order in which others came for it.
//!
//! It is for what one has while it waits for others, as tokio's lock is, and is as fair. It costs
//! less where nobody else wants it, which is nearly always.

use crate::route::lock;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use tokio::sync::oneshot;

/// What one has at a time.
#[derive(Debug, Default)]
pub(crate) struct Baton(Mutex<Line>);

#[derive(Debug, Default)]
struct Line {
    is_taken: bool,
    /// Who comes next. Some may have gone away.
    waiting: VecDeque<oneshot::Sender<Grip>>,
}

/// Whoever has this has the baton. It is handed on when this is dropped, be it on its way to
/// somebody who has just gone away.
#[derive(Debug)]
pub(crate) struct Grip(Option<Arc<Baton>>);

impl Baton {
    /// The baton, if nobody has it.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Grip> {
        let mut line = lock(&self.0);
        let is_taken = std::mem::replace(&mut line.is_taken, true);
        drop(line);
        (!is_taken).then(|| Grip(Some(Arc::clone(self))))
    }

    /// Whether somebody has it.
    pub(crate) fn is_taken(&self) -> bool {
        lock(&self.0).is_taken
    }

    /// The baton, once those who came before have had it. Whoever stops waiting loses its place and
    /// nothing else.
    pub(crate) async fn take(self: &Arc<Self>) -> Grip {
        // A place in line is only lost by whoever leaves it, so nobody goes round twice.
        loop {
            match self.get_in_line() {
                Ok(grip) => return grip,
                Err(place) => {
                    if let Ok(grip) = place.await {
                        return grip;
                    }
                }
            }
        }
    }

    fn get_in_line(self: &Arc<Self>) -> Result<Grip, oneshot::Receiver<Grip>> {
        let mut line = lock(&self.0);
        if !std::mem::replace(&mut line.is_taken, true) {
            return Ok(Grip(Some(Arc::clone(self))));
        }
        if line.waiting.len() == line.waiting.capacity() {
            // Those who come and go must not make the line longer and longer.
            line.waiting.retain(|next| !next.is_closed());
        }
        let (next, place) = oneshot::channel();
        line.waiting.push_back(next);
        Err(place)
    }

    /// Who comes next; if nobody does, the baton is free.
    fn next(&self) -> Option<oneshot::Sender<Grip>> {
        let mut line = lock(&self.0);
        let next = line.waiting.pop_front();
        line.is_taken = next.is_some();
        next
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        let Some(mut baton) = self.0.take() else {
            return;
        };
        while let Some(next) = baton.next() {
            match next.send(Self(Some(baton))) {
                Ok(()) => return,
                // It has gone away.
                Err(mut back) => match back.0.take() {
                    Some(same) => baton = same,
                    None => return,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn baton() -> (Arc<Baton>, Grip) {
        let baton = Arc::<Baton>::default();
        let grip = baton.try_take().unwrap();
        (baton, grip)
    }

    #[test]
    fn one_has_it_at_a_time() {
        let (baton, grip) = baton();
        assert!(baton.try_take().is_none());
        drop(grip);
        let again = baton.take().now_or_never().unwrap();
        assert!(baton.try_take().is_none());
        drop(again);
        assert!(baton.try_take().is_some());
    }

    #[test]
    fn it_is_handed_on_in_the_order_of_coming_and_nobody_gets_in_between() {
        let (baton, grip) = baton();
        let mut line: Vec<_> = (0..3).map(|_| Box::pin(baton.take())).collect();
        for one in &mut line {
            assert!(one.as_mut().now_or_never().is_none());
        }
        drop(grip);
        for mut one in line {
            assert!(baton.try_take().is_none());
            let grip = one.as_mut().now_or_never().expect("it is next");
            assert!(baton.take().now_or_never().is_none());
            drop(grip);
        }
        assert!(baton.try_take().is_some());
    }

    #[test]
    fn whoever_goes_away_is_passed_over() {
        let (baton, grip) = baton();
        let mut line: Vec<_> = (0..4).map(|_| Box::pin(baton.take())).collect();
        for one in &mut line {
            assert!(one.as_mut().now_or_never().is_none());
        }
        drop(line.remove(0));
        drop(grip);
        // This one has been handed it, and goes away before it looks.
        drop(line.remove(0));
        let grip = line.remove(0).now_or_never().expect("it is next");
        drop(line);
        drop(grip);
        assert!(baton.try_take().is_some());
    }

    #[test]
    fn those_who_come_and_go_do_not_make_the_line_longer() {
        let (baton, grip) = baton();
        let mut stays = Box::pin(baton.take());
        assert!(stays.as_mut().now_or_never().is_none());
        for _ in 0..1_000 {
            assert!(baton.take().now_or_never().is_none());
        }
        assert!(lock(&baton.0).waiting.len() < 10);
        drop(grip);
        assert!(stays.now_or_never().is_some());
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let (baton, grip) = baton();
        let waits = tokio::spawn({
            let baton = Arc::clone(&baton);
            async move { drop(baton.take().await) }
        });
        tokio::task::yield_now().await;
        drop(grip);
        waits.await.unwrap();
        assert!(baton.try_take().is_some());
    }
}
