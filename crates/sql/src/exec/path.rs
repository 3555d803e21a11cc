//! Access paths: from values to the rows of a table.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use base::limits::KEY_LEN_MAX;
use smallvec::SmallVec;
use tenant::catalog::Index;
use tenant::row::keys::{ColumnRange, KeyRange, primary_key};
use tenant::{Access, Direction};
use types::datetime::zone::offset_at;
use types::datetime::{DAY_MICROS, SECOND_MICROS};
use types::{Datum, FormatContext, PgType};

use super::slice::KeySets;
use super::{Cx, Flow, Halt, Key, Run, Slice};
use crate::expr::{BoundExpr, SubqueryEval, eval_filter, eval_ref};
use crate::memory_bound::{Held, value_memory};
use crate::plan::{AccessPath, Alternative, KeyPart, ProbeFit, RangeBound, ScanNode};

/// A probe brought to the form of a column's keys.
enum Fitted {
    Value(Datum),
    /// NULL, or equal to no value of the column.
    Nothing,
    /// Less than every value of the column.
    Below,
    /// Greater than every value of the column.
    Above,
}

type Values = SmallVec<[Datum; 4]>;

impl Run<'_, '_> {
    /// Fills the scan's slots with each row in turn.
    pub(super) fn scan(
        &self,
        scan: &ScanNode,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: &mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>,
    ) -> Halt<Flow> {
        let in_slices = scan.in_slices.as_ref().filter(|_| self.limits.slice.is_some());
        self.follow(scan, in_slices.unwrap_or(&scan.path), cx, row, emit)
    }

    /// Fills the scan's slots with each row that a path finds.
    fn follow(
        &self,
        scan: &ScanNode,
        path: &AccessPath,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: &mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>,
    ) -> Halt<Flow> {
        match path {
            AccessPath::Full { backward } => {
                self.scan_range(scan, None, KeyRange::all(), *backward, cx, row, emit)
            }
            AccessPath::Alternatives(ways) => {
                for (number, way) in ways.iter().enumerate() {
                    let found = self.follow(scan, &way.path, cx, row, &mut |row| {
                        let is_anothers = self.is_any_true(&ways[..number], cx, row)?;
                        if is_anothers { Ok(Flow::More) } else { emit(row) }
                    });
                    if self.past_miss(found)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                Ok(Flow::More)
            }
            AccessPath::Index { index, parts, lower, upper, backward } => {
                let mut values = Values::new();
                if parts.iter().all(KeyPart::is_one_value) {
                    for part in parts {
                        values.push(Datum::Null);
                        let (KeyPart::Equal(expr, fit), Some(value)) = (part, values.last_mut()) else {
                            continue;
                        };
                        if !self.probe_equal(expr, *fit, cx, row, value)? {
                            return Ok(Flow::More);
                        }
                    }
                    let ends = (lower.as_ref(), upper.as_ref());
                    return self.find(scan, *index, &values, ends, *backward, cx, row, emit);
                }
                // One row is looked at again wherever it is found.
                let slice = self.limits.slice.filter(|_| self.only.borrow().is_none());
                let mut held = self.memory.hold();
                let (sets, first) = match slice.and_then(Slice::sets) {
                    Some((sets, first)) => (Arc::clone(sets), first),
                    None => (Arc::new(self.probe_sets(parts, cx, row, &mut held)?), 0),
                };
                each_of_sets(&sets, first, row, &mut |number, values, row| {
                    if slice.is_some_and(|slice| !slice.begin_combination(&sets, number)) {
                        return Ok(Flow::Stop);
                    }
                    let ends = (lower.as_ref(), upper.as_ref());
                    let found = self.find(scan, *index, values, ends, *backward, cx, row, emit);
                    self.past_miss(found)
                })
            }
        }
    }

    /// Whether the condition of any of these is true of a row.
    fn is_any_true(&self, ways: &[Alternative], cx: &Cx<'_>, row: &[Datum]) -> Halt<bool> {
        let ctx = cx.row(row);
        for way in ways {
            if eval_filter(&way.condition, &ctx).map_err(|error| self.halt(error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The values that key columns may have.
    fn probe_sets(
        &self,
        parts: &[KeyPart],
        cx: &Cx<'_>,
        row: &[Datum],
        held: &mut Held<'_>,
    ) -> Halt<KeySets> {
        parts.iter().map(|part| self.probe_set(part, cx, row, held)).collect()
    }

    /// About how many rows a path of the scan comes by, with the values it has now; the count ends once it is beyond `max`. The path needs no other row.
    /// A look-up counts as a row though it finds none.
    pub(super) fn estimate(
        &self,
        scan: &ScanNode,
        path: &AccessPath,
        cx: &Cx<'_>,
        width: usize,
        max: f64,
    ) -> Halt<f64> {
        let (index, parts, lower, upper) = match path {
            AccessPath::Index { index, parts, lower, upper, .. } => (index, parts, lower, upper),
            AccessPath::Alternatives(ways) => {
                let mut rows = 0.0;
                for way in ways {
                    rows += self.estimate(scan, &way.path, cx, width, max - rows)?;
                    if rows > max {
                        break;
                    }
                }
                return Ok(rows);
            }
            AccessPath::Full { .. } => unreachable!("a leading scan is one of indexes"),
        };
        let definition = &scan.table.indexes[*index];
        let mut rows = 0.0;
        let mut row = vec![Datum::Null; width];
        let mut held = self.memory.hold();
        let sets = self.probe_sets(parts, cx, &row, &mut held)?;
        each_of_sets(&sets, 0, &mut row, &mut |_, values, row| {
            self.step()?;
            let ends = (lower.as_ref(), upper.as_ref());
            rows += match self.key_range(definition, values, ends, cx, row)? {
                Some(range) => {
                    self.view.borrow().estimate(&scan.table, Access::Index(definition), &range)?.max(1.0)
                }
                None => 1.0,
            };
            Ok(if rows > max { Flow::Stop } else { Flow::More })
        })?;
        Ok(rows)
    }

    /// The rows whose first index columns are `values` and whose next one lies between the ends.
    #[expect(clippy::too_many_arguments, reason = "one probe of an index")]
    fn find(
        &self,
        scan: &ScanNode,
        index: usize,
        values: &[Datum],
        (lower, upper): (Option<&RangeBound>, Option<&RangeBound>),
        backward: bool,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: &mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>,
    ) -> Halt<Flow> {
        let definition = &scan.table.indexes[index];
        let primary = scan.table.is_primary(definition);
        if primary && values.len() == definition.columns.len() {
            let key = primary_key(&scan.table, values);
            if self.only.borrow().as_ref().is_some_and(|only| *only != key) {
                return Ok(Flow::More);
            }
            return self.get(scan, &key, cx, row, emit);
        }
        let Some(range) = self.key_range(definition, values, (lower, upper), cx, row)? else {
            return Ok(Flow::More);
        };
        self.scan_range(scan, (!primary).then_some(index), range, backward, cx, row, emit)
    }

    /// The keys whose first columns are `values` and whose next one lies between the ends, evaluated now; `None` for none.
    fn key_range(
        &self,
        index: &Index,
        values: &[Datum],
        (lower, upper): (Option<&RangeBound>, Option<&RangeBound>),
        cx: &Cx<'_>,
        row: &[Datum],
    ) -> Halt<Option<KeyRange>> {
        let mut low = None;
        let mut high = None;
        if let Some(bound) = lower {
            match self.probe(&bound.value, bound.fit, cx, row)? {
                Fitted::Value(value) => low = Some((value, bound.inclusive)),
                Fitted::Below => low = Some((least(bound.fit), true)),
                Fitted::Nothing | Fitted::Above => return Ok(None),
            }
        }
        if let Some(bound) = upper {
            match self.probe(&bound.value, bound.fit, cx, row)? {
                Fitted::Value(value) => high = Some((value, bound.inclusive)),
                Fitted::Above => high = Some((greatest(bound.fit), true)),
                Fitted::Nothing | Fitted::Below => return Ok(None),
            }
        }
        fn bound(end: &Option<(Datum, bool)>) -> Bound<&Datum> {
            match end {
                None => Bound::Unbounded,
                Some((value, true)) => Bound::Included(value),
                Some((value, false)) => Bound::Excluded(value),
            }
        }
        let range =
            ColumnRange { equal: values, from: bound(&low), to: bound(&high) }.key_range(&index.columns);
        Ok((!range.is_empty()).then_some(range))
    }

    /// The key of the one row that a scan looks for, with the values it has now; `None` for none.
    pub(super) fn whole_key(&self, scan: &ScanNode, cx: &Cx<'_>, row: &[Datum]) -> Halt<Option<Key>> {
        let AccessPath::Index { parts, .. } = &scan.path else { return Ok(None) };
        let mut values = Values::new();
        for part in parts {
            let KeyPart::Equal(expr, fit) = part else { return Ok(None) };
            let mut value = Datum::Null;
            if !self.probe_equal(expr, *fit, cx, row, &mut value)? {
                return Ok(None);
            }
            values.push(value);
        }
        Ok(Some(primary_key(&scan.table, &values)))
    }

    /// The one row with this key.
    fn get(
        &self,
        scan: &ScanNode,
        key: &[u8],
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: &mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>,
    ) -> Halt<Flow> {
        self.examine()?;
        let mut bytes = 0;
        {
            let mut view = self.view.borrow_mut();
            view.step()?;
            let Some(found) = view.get(&scan.table, key)? else { return Ok(Flow::More) };
            self.found_len.set(found.bytes().len());
            let found = found.open()?;
            for &column in &scan.wanted {
                let value = &mut row[scan.first + column];
                found.column_into(column, value)?;
                bytes += value.heap_bytes();
            }
        }
        self.note_filled(bytes, cx, row)?;
        if let Some(place) = scan.key {
            self.remember_key(place, Key::from_slice(key));
        }
        emit(row)
    }

    #[expect(clippy::too_many_arguments, reason = "one range of an index")]
    fn scan_range(
        &self,
        scan: &ScanNode,
        index: Option<usize>,
        mut range: KeyRange,
        backward: bool,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: &mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>,
    ) -> Halt<Flow> {
        let slice = self.limits.slice;
        if let Some(key) = self.only.borrow().clone() {
            let index = index.map(|index| &scan.table.indexes[index]);
            let is_within = self.view.borrow_mut().is_within(&scan.table, index, &key, &range)?;
            return if is_within { self.get(scan, &key, cx, row, emit) } else { Ok(Flow::More) };
        }
        if let Some(key) = slice.and_then(Slice::start) {
            range.from = key.iter().copied().chain([0]).collect();
        }
        let access = index.map_or(Access::Table, |index| Access::Index(&scan.table.indexes[index]));
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let mut cursor = self.view.borrow_mut().scan_borrowed(&scan.table, access, range, direction);
        loop {
            self.examine()?;
            let mut bytes = 0;
            {
                let mut view = self.view.borrow_mut();
                let Some(found) = view.next(&mut cursor)? else { return Ok(Flow::More) };
                self.found_len.set(found.bytes().len());
                let fields = found.open()?;
                for &column in &scan.wanted {
                    let value = &mut row[scan.first + column];
                    fields.column_into(column, value)?;
                    bytes += value.heap_bytes();
                }
                if let Some(place) = scan.key {
                    self.remember_key(place, Key::from_slice(found.key()));
                }
            }
            self.note_filled(bytes, cx, row)?;
            if emit(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if let Some(slice) = slice {
                slice.note_examined();
                if slice.is_full() {
                    slice.end_after(cursor.passed());
                    return Ok(Flow::Stop);
                }
            }
        }
    }

    fn probe(&self, expr: &BoundExpr, fit: ProbeFit, cx: &Cx<'_>, row: &[Datum]) -> Halt<Fitted> {
        let ctx = cx.row(row);
        let value = eval_ref(expr, &ctx).map_err(|error| self.halt(error))?;
        Ok(brought_to(value, fit, cx))
    }

    /// Puts the one value that a key column may have in the place of what is in `out`; false if no row has it. A number as the column has them is
    /// copied straight to there: a value that was just written in parts is waited for by who moves it.
    #[inline]
    fn probe_equal(
        &self,
        expr: &BoundExpr,
        fit: ProbeFit,
        cx: &Cx<'_>,
        row: &[Datum],
        out: &mut Datum,
    ) -> Halt<bool> {
        let ctx = cx.row(row);
        let value = eval_ref(expr, &ctx).map_err(|error| self.halt(error))?;
        match (&*value, fit) {
            (Datum::Int4(n), ProbeFit::Same | ProbeFit::Integer(PgType::Int4)) => *out = Datum::Int4(*n),
            (Datum::Int8(n), ProbeFit::Same | ProbeFit::Integer(PgType::Int8)) => *out = Datum::Int8(*n),
            (Datum::Int2(n), ProbeFit::Same | ProbeFit::Integer(PgType::Int2)) => *out = Datum::Int2(*n),
            _ => match brought_to(value, fit, cx).within_keys() {
                Fitted::Value(value) => *out = value,
                _ => return Ok(false),
            },
        }
        Ok(true)
    }

    /// The values a key column may have: each once, in order.
    fn probe_set(&self, part: &KeyPart, cx: &Cx<'_>, row: &[Datum], held: &mut Held<'_>) -> Halt<Vec<Datum>> {
        let mut values = Vec::new();
        let mut add = |fitted: Fitted| -> Halt<()> {
            if let Fitted::Value(value) = fitted.within_keys() {
                self.hold(held, value_memory(&value))?;
                values.push(value);
            }
            Ok(())
        };
        match part {
            KeyPart::Equal(expr, fit) => add(self.probe(expr, *fit, cx, row)?)?,
            KeyPart::OneOf(items, fit) => {
                for item in items {
                    add(self.probe(item, *fit, cx, row)?)?;
                }
            }
            KeyPart::AnyOf(array, fit) => {
                let ctx = cx.row(row);
                let array = eval_ref(array, &ctx).map_err(|error| self.halt(error))?;
                if let Datum::Array(array) = &*array {
                    for item in &array.items {
                        add(fitted(item.clone(), *fit))?;
                    }
                }
            }
            KeyPart::Null => return Ok(vec![Datum::Null]),
            KeyPart::InRows(..) => {}
        }
        if let KeyPart::InRows(id, fit) = part {
            let ctx = cx.row(row);
            SubqueryEval::run(self, *id, &ctx, &mut |found| {
                add(fitted(found[0].clone(), *fit)).map_err(|why| self.raise(why))?;
                Ok(ControlFlow::Continue(()))
            })
            .map_err(|error| self.halt(error))?;
        }
        values.sort_by(types::compare);
        values.dedup_by(|a, b| types::equal(a, b));
        Ok(values)
    }
}

/// Gives each combination of the values that key columns may have from number `first` on, the last column's turning fastest, until it is told to stop.
fn each_of_sets(
    sets: &[Vec<Datum>],
    first: usize,
    row: &mut Vec<Datum>,
    each: &mut dyn FnMut(usize, &[Datum], &mut Vec<Datum>) -> Halt<Flow>,
) -> Halt<Flow> {
    if sets.iter().any(Vec::is_empty) {
        return Ok(Flow::More);
    }
    let (mut at, mut rest) = (vec![0; sets.len()], first);
    for (at, set) in at.iter_mut().zip(sets).rev() {
        (*at, rest) = (rest % set.len(), rest / set.len());
    }
    let mut values = Values::new();
    for number in first.. {
        values.clear();
        values.extend(at.iter().zip(sets).map(|(i, set)| set[*i].clone()));
        if each(number, &values, row)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        let Some(turn) = (0..at.len()).rev().find(|i| at[*i] + 1 < sets[*i].len()) else { break };
        at[turn] += 1;
        at[turn + 1..].fill(0);
    }
    Ok(Flow::More)
}

impl Fitted {
    /// Nothing for a value of more bytes than any key of an index has: no row has it.
    fn within_keys(self) -> Fitted {
        match &self {
            Fitted::Value(Datum::Text(text)) if text.len() > KEY_LEN_MAX => Fitted::Nothing,
            Fitted::Value(Datum::Bytea(bytes)) if bytes.len() > KEY_LEN_MAX => Fitted::Nothing,
            Fitted::Value(Datum::Array(array)) if array.items.len() > KEY_LEN_MAX => Fitted::Nothing,
            _ => self,
        }
    }
}

/// A value brought to the form of a column's keys.
fn brought_to(value: Cow<'_, Datum>, fit: ProbeFit, cx: &Cx<'_>) -> Fitted {
    match fit {
        ProbeFit::Earliest(ty) => near(&value, ty, i64::min, cx.stmt.format),
        ProbeFit::Latest(ty) => near(&value, ty, i64::max, cx.stmt.format),
        _ => fitted(value.into_owned(), fit),
    }
}

fn fitted(value: Datum, fit: ProbeFit) -> Fitted {
    if value.is_null() {
        return Fitted::Nothing;
    }
    match fit {
        ProbeFit::Same => Fitted::Value(value),
        ProbeFit::Integer(ty) => {
            let Some(n) = value.as_i64() else { return Fitted::Nothing };
            let narrowed = match ty {
                PgType::Int2 => i16::try_from(n).map(Datum::Int2).ok(),
                PgType::Int4 => i32::try_from(n).map(Datum::Int4).ok(),
                _ => Some(Datum::Int8(n)),
            };
            match narrowed {
                Some(value) => Fitted::Value(value),
                None if n < 0 => Fitted::Below,
                None => Fitted::Above,
            }
        }
        ProbeFit::Blanks(typmod) => {
            let (Some(text), Some(length)) = (value.as_str(), typmod.as_length()) else {
                return Fitted::Nothing;
            };
            let text = text.trim_end_matches(' ');
            let count = text.chars().count();
            // Nor is any key of an index as long as that.
            if count > length || length > KEY_LEN_MAX {
                return Fitted::Nothing;
            }
            let mut padded = compact_str::CompactString::new(text);
            padded.extend(std::iter::repeat_n(' ', length - count));
            Fitted::Value(Datum::Text(padded))
        }
        ProbeFit::Earliest(_) | ProbeFit::Latest(_) => unreachable!("only a range has such ends"),
    }
}

/// How far around a moment another offset of its zone may count for it: that of local times which a change leaves out, or has twice.
const OFFSETS_MICROS: i64 = 2 * DAY_MICROS;

/// The first or last moment of type `ty`, as `pick` says, that may be the same as this one, which is of another type.
fn near(value: &Datum, ty: PgType, pick: fn(i64, i64) -> i64, format: &FormatContext) -> Fitted {
    let local = match *value {
        Datum::Null => return Fitted::Nothing,
        Datum::Timestamp(at) | Datum::TimestampTz(at @ (i64::MIN | i64::MAX)) => at,
        Datum::TimestampTz(at) => {
            let offset = |away: i64| i64::from(offset_at(&format.time_zone, at.saturating_add(away)));
            let around = pick(offset(-OFFSETS_MICROS), offset(OFFSETS_MICROS));
            at + pick(around, offset(0)) * SECOND_MICROS
        }
        _ => unreachable!("a moment is compared with a moment"),
    };
    Fitted::Value(match (ty, local) {
        (PgType::Date, i64::MIN) => Datum::Date(i32::MIN),
        (PgType::Date, i64::MAX) => Datum::Date(i32::MAX),
        (PgType::Date, _) => {
            let day = i32::try_from(local.div_euclid(DAY_MICROS));
            Datum::Date(day.expect("moments are within the days that there are"))
        }
        _ => Datum::Timestamp(local),
    })
}

/// The least value of an integer column: a bound that only leaves NULLs out.
fn least(fit: ProbeFit) -> Datum {
    match fit {
        ProbeFit::Integer(PgType::Int2) => Datum::Int2(i16::MIN),
        ProbeFit::Integer(PgType::Int4) => Datum::Int4(i32::MIN),
        _ => Datum::Int8(i64::MIN),
    }
}

fn greatest(fit: ProbeFit) -> Datum {
    match fit {
        ProbeFit::Integer(PgType::Int2) => Datum::Int2(i16::MAX),
        ProbeFit::Integer(PgType::Int4) => Datum::Int4(i32::MAX),
        _ => Datum::Int8(i64::MAX),
    }
}
