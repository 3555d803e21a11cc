//! Moving from the fullest worker to emptier ones, as long as the worse of the two becomes better by enough.

/// What is to be levelled, and the rule.
pub(super) struct Leveling<'a> {
    /// Of each item.
    pub(super) amounts: &'a [u64],
    /// Whether an item may move.
    pub(super) movable: Vec<bool>,
    /// Workers at or below this give nothing away.
    pub(super) above: u64,
    pub(super) gain_min: u64,
    pub(super) moves_max: u32,
}

impl Leveling<'_> {
    /// Moves items, changing `places` and the workers' `levels`. `may_go` says whether an item may go to a worker; `moved` is told of each move. Ends when no
    /// worker above the mark has an item whose move is worth it: each move lowers the sum of the levels' squares, so it does.
    pub(super) fn run<S>(
        &self,
        places: &mut [usize],
        levels: &mut [u64],
        state: &mut S,
        may_go: impl Fn(&S, usize, usize) -> bool,
        mut moved: impl FnMut(&mut S, usize, usize, usize),
    ) {
        let mut by_level: Vec<usize> = (0..levels.len()).collect();
        for _ in 0..self.moves_max {
            by_level.sort_by_key(|worker| (levels[*worker], *worker));
            let full = by_level.iter().rev().take_while(|worker| levels[**worker] > self.above);
            let best = full
                .filter_map(|from| {
                    self.best_move(*from, places, levels, &by_level, |item, to| may_go(state, item, to))
                })
                .next();
            let Some((item, to)) = best else { return };
            let from = std::mem::replace(&mut places[item], to);
            levels[from] -= self.amounts[item];
            levels[to] += self.amounts[item];
            moved(state, item, from, to);
        }
    }

    /// The item of this worker, and where it goes, that make the larger of the two levels the smallest.
    fn best_move(
        &self,
        from: usize,
        places: &[usize],
        levels: &[u64],
        by_level: &[usize],
        may_go: impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, usize)> {
        let mut best: Option<(u64, usize, usize)> = None;
        let items = (0..places.len()).filter(|item| places[*item] == from && self.movable[*item]);
        for item in items {
            let amount = self.amounts[item];
            let to_beat = best.map_or(levels[from].saturating_sub(self.gain_min) + 1, |(worse, ..)| worse);
            // The emptiest that may have it is the best for it.
            let fits = by_level.iter().take_while(|to| levels[**to] + amount < to_beat);
            let Some(to) = fits.copied().find(|to| *to != from && may_go(item, *to)) else { continue };
            let worse = (levels[to] + amount).max(levels[from] - amount);
            if worse < to_beat {
                best = Some((worse, item, to));
            }
        }
        best.map(|(_, item, to)| (item, to))
    }
}
