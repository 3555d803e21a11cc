//! What the console keeps of the last ten minutes: a frame a second.
//!
//! A frame has the server's sums, and the tenants that used the most, by name; the others are the rest of the sums. Of many more it has the
//! throughput alone. It is bounded: [`FRAMES_MAX`] frames of [`KEPT_MAX`] tenants, and those that somebody watches, with some 350 bytes each,
//! and of [`LINES_MAX`] with 16 are 16 MiB at most, however many tenants there are.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{Nanos, TenantId};
use governor::Cause;

use crate::executor::Wait;

/// Frames kept, one a second.
pub(super) const FRAMES_MAX: usize = 600;
/// Tenants of a frame, those that are watched not counted.
pub(super) const KEPT_MAX: usize = 64;
/// Tenants whose throughput a frame has, whatever else they use.
pub(super) const LINES_MAX: usize = 256;
/// A tenant that is shown stays for so long after it was last among those that use the most, so that bands do not come and go.
const STAY: Nanos = Nanos::from_secs(10);

/// Of one resource: cores, or I/Os a second.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Rates {
    pub(super) promised: f32,
    pub(super) demanded: f32,
    pub(super) given: f32,
    pub(super) missed: f32,
    pub(super) cause: Option<Cause>,
}

/// What is promised of a resource, and the limit.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Bounds {
    pub(super) promised: f64,
    pub(super) max: Option<f64>,
}

/// What a tenant did in a second.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct TenantSample {
    pub(super) id: TenantId,
    pub(super) name: Arc<str>,
    /// Cores.
    pub(super) cpu: f32,
    /// I/Os a second, by volume.
    pub(super) io: Box<[f32]>,
    pub(super) resident: u64,
    pub(super) statements_per_s: f32,
    /// Milliseconds; `None` without statements.
    pub(super) p50_ms: Option<f32>,
    pub(super) p99_ms: Option<f32>,
    pub(super) sessions: u32,
    /// Running and then by [`Wait`]: seconds of all its tasks in this second.
    pub(super) waits: [f32; 1 + Wait::ALL.len()],
    pub(super) metered_cpu: Rates,
    pub(super) metered_io: Box<[Rates]>,
    pub(super) metered_memory: Rates,
    pub(super) metered_work_memory: Rates,
    pub(super) bounds_cpu: Bounds,
    /// On each volume.
    pub(super) bounds_io: Bounds,
    pub(super) bounds_memory: Bounds,
    pub(super) work_memory_promised: u64,
    pub(super) work_memory_used: u64,
}

/// Of all tenants together.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Sums {
    pub(super) cpu: f64,
    pub(super) io: Box<[f64]>,
    pub(super) resident: f64,
    pub(super) statements_per_s: f64,
}

/// One second of the server.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Frame {
    pub(super) at: Nanos,
    pub(super) tenants: Box<[TenantSample]>,
    /// Statements a second of the tenants that ran the most, most first, those of `tenants` among them; the server's own is not.
    pub(super) lines: Box<[(TenantId, f32)]>,
    pub(super) sums: Sums,
    /// Cores, bytes of pages, I/Os a second of each volume where they are known.
    pub(super) cpu_capacity: f64,
    pub(super) memory_capacity: f64,
    pub(super) io_capacity: Box<[Option<f64>]>,
    pub(super) sessions: usize,
    /// Tenants with something missed in their last metering interval: of processor time, I/O, memory, working memory.
    pub(super) broken: [u32; 4],
}

impl Frame {
    pub(super) fn tenant(&self, id: TenantId) -> Option<&TenantSample> {
        self.tenants.iter().find(|sample| sample.id == id)
    }

    /// The first so many of the lines.
    pub(super) fn lines(&self, max: usize) -> &[(TenantId, f32)] {
        &self.lines[..max.min(self.lines.len())]
    }
}

/// How much a tenant uses: its parts of what all use, of each kind of resource alike.
pub(super) fn weight(cpu: f32, io: &[f32], resident: u64, statements_per_s: f32, sums: &Sums) -> f64 {
    let part = |used: f64, of: f64| if of > 0.0 { used / of } else { 0.0 };
    let io: f64 = io.iter().zip(&sums.io).map(|(used, of)| part(f64::from(*used), *of)).sum();
    part(f64::from(cpu), sums.cpu)
        + io
        + part(resident as f64, sums.resident)
        + part(f64::from(statements_per_s), sums.statements_per_s)
}

/// The order of what tenants use: most first, of equals the older tenant.
pub(super) fn most_first(a: &(f64, TenantId), b: &(f64, TenantId)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Leaves those that use the most, so many at most, in no order.
pub(super) fn keep_most(ranked: &mut Vec<(f64, TenantId)>, max: usize) {
    if ranked.len() > max {
        ranked.select_nth_unstable_by(max, most_first);
        ranked.truncate(max);
    }
}

/// The last frames, oldest first.
#[derive(Default)]
pub(super) struct Ring(VecDeque<Arc<Frame>>);

impl Ring {
    pub(super) fn push(&mut self, frame: Arc<Frame>) {
        if self.0.len() == FRAMES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(frame);
    }

    /// Those of the last `seconds`, oldest first.
    pub(super) fn last(&self, seconds: usize) -> Vec<Arc<Frame>> {
        let skipped = self.0.len().saturating_sub(seconds);
        self.0.iter().skip(skipped).cloned().collect()
    }
}

/// Which tenants a stream shows by name: those that use the most, for a while, and those that are watched.
pub(super) struct Shown {
    top: usize,
    watched: Vec<TenantId>,
    /// With the instant they were last among those that use the most. In the order they came: so they keep their places.
    members: Vec<(TenantId, Nanos)>,
}

impl Shown {
    pub(super) fn new(top: usize, watched: Vec<TenantId>) -> Shown {
        Shown { top, watched, members: Vec::new() }
    }

    /// Goes on by one frame: the tenants shown of it, each once, those that are watched last.
    pub(super) fn next<'f>(&mut self, frame: &'f Frame) -> Vec<&'f TenantSample> {
        let mut ranked: Vec<(f64, TenantId)> = frame
            .tenants
            .iter()
            .map(|of| (weight(of.cpu, &of.io, of.resident, of.statements_per_s, &frame.sums), of.id))
            .filter(|(weight, id)| *weight > 0.0 && !self.watched.contains(id))
            .collect();
        ranked.sort_by(most_first);
        ranked.truncate(self.top);
        let is_top = |id: TenantId| ranked.iter().any(|(_, one)| *one == id);
        for (id, last) in &mut self.members {
            if is_top(*id) {
                *last = frame.at;
            }
        }
        self.members.retain(|(_, last)| frame.at - *last < STAY);
        for (_, id) in &ranked {
            if self.members.len() < self.top && !self.members.iter().any(|(one, _)| one == id) {
                self.members.push((*id, frame.at));
            }
        }
        assert!(self.members.len() <= self.top);
        let ids = self.members.iter().map(|(id, _)| *id).chain(self.watched.iter().copied());
        ids.filter_map(|id| frame.tenant(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(second: u64, used: &[(u64, f32)]) -> Frame {
        let sample =
            |(id, cpu): &(u64, f32)| TenantSample { id: TenantId(*id), cpu: *cpu, ..TenantSample::default() };
        let cpu = used.iter().map(|(_, cpu)| f64::from(*cpu)).sum();
        Frame {
            at: Nanos::from_secs(second),
            tenants: used.iter().map(sample).collect(),
            sums: Sums { cpu, ..Sums::default() },
            ..Frame::default()
        }
    }

    fn ids(shown: &[&TenantSample]) -> Vec<u64> {
        shown.iter().map(|of| of.id.0).collect()
    }

    #[test]
    fn who_is_shown_stays_a_while_and_makes_room_then() {
        let mut shown = Shown::new(2, Vec::new());
        assert_eq!(ids(&shown.next(&frame(0, &[(1, 0.1), (2, 0.5), (3, 0.3)]))), [2, 3]);
        // 1 uses the most now; the two that are shown keep their places for ten seconds.
        for second in 1..10 {
            assert_eq!(ids(&shown.next(&frame(second, &[(1, 0.9), (2, 0.5), (3, 0.3)]))), [2, 3], "{second}");
        }
        assert_eq!(ids(&shown.next(&frame(10, &[(1, 0.9), (2, 0.5), (3, 0.3)]))), [2, 1]);
        // A free place is taken at once.
        let mut shown = Shown::new(2, Vec::new());
        assert_eq!(ids(&shown.next(&frame(0, &[(1, 0.1), (2, 0.0)]))), [1]);
        assert_eq!(ids(&shown.next(&frame(1, &[(1, 0.1), (2, 0.2)]))), [1, 2]);
    }

    #[test]
    fn who_is_watched_takes_nobodys_place_and_is_there_once() {
        let mut shown = Shown::new(1, vec![TenantId(1), TenantId(9)]);
        assert_eq!(ids(&shown.next(&frame(0, &[(1, 0.9), (2, 0.5), (3, 0.3)]))), [2, 1]);
    }

    #[test]
    fn weights_are_parts_of_what_all_use() {
        let sums = Sums { cpu: 2.0, io: [100.0, 0.0].into(), resident: 0.0, statements_per_s: 10.0 };
        let of = weight(0.5, &[25.0, 3.0], 7, 5.0, &sums);
        assert!((of - 1.0).abs() < 1e-9, "{of}");
        assert_eq!(weight(0.0, &[], 0, 0.0, &Sums::default()), 0.0);
    }

    #[test]
    fn the_ring_is_bounded_and_gives_the_last() {
        let mut ring = Ring::default();
        for second in 0..FRAMES_MAX as u64 + 5 {
            ring.push(Arc::new(frame(second, &[])));
        }
        assert_eq!(ring.0.len(), FRAMES_MAX);
        let last: Vec<u64> = ring.last(3).iter().map(|frame| frame.at.0 / 1_000_000_000).collect();
        assert_eq!(last, [602, 603, 604]);
        assert_eq!(ring.last(10_000).len(), FRAMES_MAX);
    }

    #[test]
    fn a_frame_takes_what_is_said_of_it() {
        let inline = size_of::<TenantSample>();
        // Two volumes.
        let boxes = 2 * (size_of::<f32>() + size_of::<Rates>());
        assert!(inline + boxes <= 360, "{inline} + {boxes}");
        let lines = LINES_MAX * size_of::<(TenantId, f32)>();
        assert!(FRAMES_MAX * (KEPT_MAX * (inline + boxes) + lines) <= 16 << 20);
    }
}
