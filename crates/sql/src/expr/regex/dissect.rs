//! Where the groups of a match lie: PostgreSQL's `regexec.c`, with sets of positions in place of trying one after the other.
//!
//! What has no back-reference within never fails once its whole is known to match, so each level looks at its text a few times.
//! Back-references are tried out, and only the steps bound that.

use std::ops::{ControlFlow, Range};

use super::program::{Budget, Found, Positions};
use super::tree::{Node, Op, Part, Traits};

pub(super) type Groups = Vec<Option<Range<usize>>>;

/// What a round that is tried costs, so that the steps bound the memory too.
pub(super) const STEPS_A_ROUND: usize = 16;

pub(super) struct Dissection<'a> {
    pub(super) text: &'a str,
    pub(super) fold_case: bool,
    pub(super) budget: &'a Budget<'a>,
    /// By their numbers; the first is the whole match.
    pub(super) groups: Groups,
}

impl Dissection<'_> {
    /// The last (or the first, if shorter is better) end of `part` from `from` on, not behind `limit`, among `allowed`.
    fn best_end(
        &self,
        node: &Node,
        from: usize,
        least: usize,
        limit: usize,
        allowed: impl Fn(usize) -> bool,
    ) -> Found<Option<usize>> {
        let shorter = node.traits.has(Traits::SHORTER);
        let mut best = None;
        node.part.forward(self.budget)?.ends(self.text, from, limit, self.budget, |end| {
            if end < least || !allowed(end) {
                return ControlFlow::Continue(());
            }
            best = Some(end);
            if shorter { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(best)
    }

    fn matches(&self, part: &Part, from: usize, to: usize) -> Found<bool> {
        let mut found = false;
        part.forward(self.budget)?.ends(self.text, from, to, self.budget, |end| {
            found = end == to;
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The position one character behind `at`, or before it.
    fn next(&self, at: usize) -> usize {
        at + self.text[at..].chars().next().map_or(1, char::len_utf8)
    }

    fn clear(&mut self, node: &Node) {
        for group in &node.groups {
            self.groups[*group] = None;
        }
        match &node.op {
            Op::Plain | Op::Backref { .. } => {}
            Op::Cat(nodes) | Op::Alt(nodes) => nodes.iter().for_each(|node| self.clear(node)),
            Op::Repeat { of, .. } => self.clear(of),
        }
    }

    /// Finds the groups of `node`, which matches from `begin` to `end` but for its back-references; false if these do not.
    pub(super) fn dissect(&mut self, node: &Node, begin: usize, end: usize) -> Found<bool> {
        self.budget.spend(1)?;
        let fits = match &node.op {
            Op::Plain => true,
            Op::Cat(nodes) => self.cat(nodes, begin, end)?,
            Op::Alt(nodes) => {
                let mut fits = false;
                for branch in nodes {
                    if self.matches(&branch.part, begin, end)? && self.dissect(branch, begin, end)? {
                        fits = true;
                        break;
                    }
                }
                fits
            }
            Op::Repeat { of, least, most, unlimited } => {
                self.repeat(of, *least as usize, most.map(|most| most as usize), unlimited, begin, end)?
            }
            Op::Backref { group, least, most } => self.backref(*group, *least, *most, begin, end)?,
        };
        if fits {
            for group in &node.groups {
                self.groups[*group] = Some(begin..end);
            }
        }
        Ok(fits)
    }

    fn cat(&mut self, nodes: &[Node], begin: usize, end: usize) -> Found<bool> {
        // Where what follows each node may begin, from the last to the first.
        let mut sources = Positions::none(begin, end, self.budget)?;
        sources.add(end);
        let mut ahead = vec![sources];
        for node in nodes[1..].iter().rev() {
            let backward = node.part.backward(self.budget)?;
            let starts = backward.starts(self.text, begin, end, &ahead[ahead.len() - 1], self.budget)?;
            ahead.push(starts);
        }
        ahead.reverse();
        if nodes.iter().any(|node| node.traits.has(Traits::BACKREF)) {
            return self.cat_tried(nodes, &ahead, begin, end);
        }
        let mut from = begin;
        for (node, ahead) in nodes.iter().zip(&ahead) {
            let Some(to) = self.best_end(node, from, from, end, |at| ahead.has(at))? else {
                return Ok(false);
            };
            if !self.dissect(node, from, to)? {
                return Ok(false);
            }
            from = to;
        }
        Ok(true)
    }

    /// The same where a node may turn out not to fit.
    fn cat_tried(&mut self, nodes: &[Node], ahead: &[Positions], begin: usize, end: usize) -> Found<bool> {
        let ([node, rest @ ..], [own, ahead @ ..]) = (nodes, ahead) else { return Ok(begin == end) };
        let shorter = node.traits.has(Traits::SHORTER);
        let (mut least, mut limit) = (begin, end);
        while let Some(to) = self.best_end(node, begin, least, limit, |at| own.has(at))? {
            if self.dissect(node, begin, to)? {
                if self.cat_tried(rest, ahead, to, end)? {
                    return Ok(true);
                }
                self.clear(node);
            }
            if shorter {
                if to == end {
                    break;
                }
                least = self.next(to);
            } else {
                let Some(before) = to.checked_sub(1).filter(|before| *before >= begin) else { break };
                limit = self.boundary(before);
            }
        }
        Ok(false)
    }

    /// The start of the character that `at` lies within.
    fn boundary(&self, at: usize) -> usize {
        (0..=at).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    fn repeat(
        &mut self,
        of: &Node,
        least: usize,
        most: Option<usize>,
        unlimited: &Part,
        begin: usize,
        end: usize,
    ) -> Found<bool> {
        let shorter = of.traits.has(Traits::SHORTER);
        if shorter && least == 0 && begin == end {
            return Ok(true);
        }
        if begin == end && least <= 1 {
            // Once rather than not at all, so that groups within are set.
            let once = self.matches(&of.part, begin, end)? && self.dissect(of, begin, end)?;
            return Ok(once || least == 0);
        }
        if most == Some(1) {
            return self.dissect(of, begin, end);
        }
        if least > 1 || most.is_some() || of.traits.has(Traits::BACKREF) {
            return self.repeat_tried(of, least.max(1), most, begin, end);
        }
        let mut sources = Positions::none(begin, end, self.budget)?;
        sources.add(end);
        let backward = unlimited.backward(self.budget)?;
        let ahead = backward.starts(self.text, begin, end, &sources, self.budget)?;
        let mut from = begin;
        while from < end {
            let least = self.next(from);
            let Some(to) = self.best_end(of, from, least, end, |at| ahead.has(at))? else { return Ok(false) };
            self.clear(of);
            if !self.dissect(of, from, to)? {
                return Ok(false);
            }
            from = to;
        }
        Ok(true)
    }

    /// Tries rounds of `of`, of which each may turn out not to fit, or their number not to do.
    fn repeat_tried(
        &mut self,
        of: &Node,
        least: usize,
        most: Option<usize>,
        begin: usize,
        end: usize,
    ) -> Found<bool> {
        let shorter = of.traits.has(Traits::SHORTER);
        // Rounds that took nothing would not end; they are only taken to reach the least number.
        let most = most.unwrap_or(usize::MAX).min((end - begin).max(least)).max(least);
        /// A round's end, and the bounds of what is to be tried for it next.
        struct Round {
            begin: usize,
            from: usize,
            limit: usize,
        }
        let open = |begin: usize| Round { begin, from: begin, limit: end };
        let mut rounds = vec![open(begin)];
        while let Some(round) = rounds.last() {
            self.budget.spend(STEPS_A_ROUND)?;
            let k = rounds.len();
            let start = round.begin;
            let (mut from, mut limit) = (round.from, round.limit);
            let empty_allowed = start == end || k < least && least - k >= end - start;
            if !empty_allowed && from == start {
                from = self.next(start);
            }
            if k == most {
                from = end;
            }
            let found = if from > limit {
                None
            } else {
                limit = limit.min(end);
                self.best_end(of, start, from, limit, |at| k < most || at == end)?
            };
            let Some(to) = found else {
                rounds.pop();
                continue;
            };
            let round = rounds.last_mut().expect("the one that was looked at");
            if shorter {
                round.from = to + 1;
            } else if to > start {
                round.limit = to - 1;
            } else {
                round.from = end + 1;
            }
            while !self.text.is_char_boundary(round.from.min(self.text.len())) {
                round.from += 1;
            }
            while !self.text.is_char_boundary(round.limit) {
                round.limit -= 1;
            }
            if to != end {
                rounds.push(open(to));
                continue;
            }
            if k < least {
                continue;
            }
            let mut ends: Vec<usize> = rounds.iter().skip(1).map(|round| round.begin).collect();
            ends.push(end);
            let mut from = begin;
            let mut fits = true;
            self.clear(of);
            for (i, to) in ends.iter().enumerate() {
                self.clear(of);
                if !self.dissect(of, from, *to)? {
                    rounds.truncate(i + 1);
                    fits = false;
                    break;
                }
                from = *to;
            }
            if fits {
                return Ok(true);
            }
        }
        self.clear(of);
        Ok(false)
    }

    fn backref(
        &mut self,
        group: usize,
        least: u32,
        most: Option<u32>,
        begin: usize,
        end: usize,
    ) -> Found<bool> {
        let Some(range) = self.groups.get(group).cloned().flatten() else { return Ok(false) };
        let wanted = &self.text[range];
        let target = &self.text[begin..end];
        if wanted.is_empty() {
            return Ok(target.is_empty());
        }
        if target.is_empty() {
            return Ok(least == 0);
        }
        self.budget.spend(target.len() / 8)?;
        let (wanted_chars, target_chars) = (wanted.chars().count(), target.chars().count());
        let rounds = target_chars / wanted_chars;
        if target_chars % wanted_chars != 0
            || rounds < least as usize
            || most.is_some_and(|most| rounds > most as usize)
        {
            return Ok(false);
        }
        let same = |(a, b): (char, char)| a == b || self.fold_case && a.to_lowercase().eq(b.to_lowercase());
        Ok(wanted.chars().cycle().zip(target.chars()).all(same))
    }
}
