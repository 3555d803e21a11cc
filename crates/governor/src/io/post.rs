//! Where workers tell each other what waits: so that a freed place goes to the most urgent request of all.
//!
//! Hints only. A worker whose request finds no place posts how urgent it is; another one that could take a place leaves it
//! to a more urgent post and has that worker woken, and takes it after all if nobody came for it in [`PATIENCE`]: a
//! preempted worker keeps a place empty for no longer than that.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use super::account::Order;
use super::tag::Stamp;

/// How long a place is left to a worker that was woken for it.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(1);

/// How urgent a worker's next request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Urgency {
    /// Its rank by order; may lie beyond what is due.
    pub(super) due: [Stamp; 2],
    /// The virtual time of whose turn it is by weight.
    pub(super) spare: Stamp,
}

impl Urgency {
    fn goes_before(self, other: Urgency, order: Order, now: Stamp) -> bool {
        for order in order.then_other() {
            let (mine, theirs) = (self.due[order as usize], other.due[order as usize]);
            let horizon = order.horizon(now);
            if mine <= horizon || theirs <= horizon {
                return mine < theirs;
            }
        }
        self.spare < other.spare
    }
}

const NOBODY: u64 = u64::MAX;

/// A worker's post. Written by its worker, but for `told_at`.
pub(super) struct Post {
    due: [AtomicU64; 2],
    /// [`NOBODY`]: nothing is posted.
    spare: AtomicU64,
    /// When another worker had this one woken; 0: not yet.
    told_at: AtomicU64,
}

impl Post {
    pub(super) const fn new() -> Post {
        Post {
            due: [const { AtomicU64::new(NOBODY) }; 2],
            spare: AtomicU64::new(NOBODY),
            told_at: AtomicU64::new(0),
        }
    }

    pub(super) fn put(&self, urgency: Urgency) {
        for (mine, due) in self.due.iter().zip(urgency.due) {
            mine.store(due.0, Ordering::Relaxed);
        }
        self.spare.store(urgency.spare.0.min(NOBODY - 1), Ordering::Relaxed);
        // Seen before the poster looks for a place once more, or the place freed meanwhile is seen by it.
        self.told_at.store(0, Ordering::SeqCst);
    }

    pub(super) fn clear(&self) {
        self.spare.store(NOBODY, Ordering::SeqCst);
    }

    fn is_posted(&self) -> bool {
        self.spare.load(Ordering::SeqCst) != NOBODY
    }
}

/// What the other workers' posts mean for one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Others {
    /// Workers whose request goes first.
    pub(super) more_urgent: u32,
    /// The most urgent of them that nobody has woken.
    pub(super) untold: Option<usize>,
}

/// The posts of others that go before `mine` where due requests go in this order; before nothing, if that is `None`.
pub(super) fn look(posts: &[Post], me: usize, mine: Option<Urgency>, order: Order, now: Nanos) -> Others {
    let at = Stamp::at(now);
    let mut others = Others::default();
    let mut first: Option<Urgency> = None;
    for (worker, post) in posts.iter().enumerate().filter(|(worker, _)| *worker != me) {
        if !post.is_posted() {
            continue;
        }
        let told_at = post.told_at.load(Ordering::SeqCst);
        if told_at != 0 && now - Nanos(told_at) >= PATIENCE {
            continue;
        }
        let theirs = Urgency {
            due: [0, 1].map(|order: usize| Stamp(post.due[order].load(Ordering::Relaxed))),
            spare: Stamp(post.spare.load(Ordering::Relaxed)),
        };
        if mine.is_some_and(|mine| !theirs.goes_before(mine, order, at)) {
            continue;
        }
        others.more_urgent += 1;
        if told_at == 0 && first.is_none_or(|first| theirs.goes_before(first, order, at)) {
            first = Some(theirs);
            others.untold = Some(worker);
        }
    }
    others
}

/// Notes that `worker` is being woken; false if somebody else has it woken already.
pub(super) fn tell(posts: &[Post], worker: usize, now: Nanos) -> bool {
    let post = &posts[worker].told_at;
    post.compare_exchange(0, now.0.max(1), Ordering::SeqCst, Ordering::SeqCst).is_ok()
}
