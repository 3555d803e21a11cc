//! Aggregates: their definitions and what they accumulate.

use base::{SqlError, SqlResult, SqlState};
use types::datetime::interval;
use types::{Datum, Interval, Numeric, PgType, arith};

use super::tree::BoundExpr;

/// Which aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    /// `count(*)`.
    CountRows,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    BitAnd,
    BitOr,
    BitXor,
    StringAgg,
    ArrayAgg,
    StddevSamp,
    StddevPop,
    VarSamp,
    VarPop,
    /// Of pairs of a dependent and an independent value.
    Regression(Regression),
}

/// What is told of a regression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regression {
    Count,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
    CovariancePop,
    CovarianceSamp,
    Correlation,
    Determination,
    Slope,
    Intercept,
}

impl AggregateKind {
    /// Whether its state holds all of its arguments.
    pub fn gathers(self) -> bool {
        matches!(self, AggregateKind::StringAgg | AggregateKind::ArrayAgg)
    }
}

/// One use of an aggregate. DISTINCT, FILTER and ORDER BY are the executor's to honour.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    pub kind: AggregateKind,
    pub args: Vec<BoundExpr>,
    pub distinct: bool,
    pub filter: Option<BoundExpr>,
    pub order_by: Vec<SortKey>,
    /// The type of the result.
    pub ty: PgType,
}

/// One key of an ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    pub expr: BoundExpr,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The state of one aggregate over one group.
#[derive(Clone, Debug)]
pub struct Accumulator {
    kind: AggregateKind,
    /// The type of the result.
    ty: PgType,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    /// Sums of smallint and integer, exact in 64 bits for more rows than there can be.
    IntSum {
        sum: i64,
        count: i64,
    },
    /// Sums of bigint: beyond 64 bits, never beyond 128.
    WideSum {
        sum: i128,
        count: i64,
    },
    NumericSum {
        sum: Numeric,
        count: i64,
    },
    FloatSum {
        sum: f64,
        count: i64,
    },
    IntervalSum {
        sum: Interval,
        count: i64,
    },
    /// Count, sum and sum of squares, exact.
    NumericMoments {
        count: i64,
        sum: Numeric,
        squares: Numeric,
    },
    /// Count, sum and sum of squared deviations (Youngs and Cramer).
    FloatMoments {
        count: f64,
        sum: f64,
        deviations: f64,
    },
    Pairs(Pairs),
    /// min, max, bool_and, bool_or, bit_and, bit_or, bit_xor: NULL until the first value.
    Value(Datum),
    /// The pieces with the delimiters between them, and the one before the first, which is wanted once others come before it.
    Text(Option<(String, String)>),
    Bytes(Option<(Vec<u8>, Vec<u8>)>),
    Items(Vec<Datum>),
}

/// Count of pairs, and of either value the sum, the sum of squared deviations and that of the deviations' products (Youngs and Cramer).
#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Pairs {
    fn add(&mut self, y: f64, x: f64) -> SqlResult<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count > 0.0 {
            let (off_x, off_y) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * before.count);
            self.xx += off_x * off_x * scale;
            self.yy += off_y * off_y * scale;
            self.xy += off_x * off_y * scale;
            return self.settle(
                before.x.is_infinite() || x.is_infinite(),
                before.y.is_infinite() || y.is_infinite(),
            );
        }
        if !x.is_finite() {
            (self.xx, self.xy) = (f64::NAN, f64::NAN);
        }
        if !y.is_finite() {
            (self.yy, self.xy) = (f64::NAN, f64::NAN);
        }
        Ok(())
    }

    /// Sums of squares are unknown where they come of infinities, and out of range where they become infinite by themselves.
    fn settle(&mut self, of_infinite_x: bool, of_infinite_y: bool) -> SqlResult<()> {
        let over_x = (self.x.is_infinite() || self.xx.is_infinite()) && !of_infinite_x;
        let over_y = (self.y.is_infinite() || self.yy.is_infinite()) && !of_infinite_y;
        if over_x || over_y || self.xy.is_infinite() && !of_infinite_x && !of_infinite_y {
            return Err(arith::float_overflow());
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    fn merge(&mut self, more: &Pairs) -> SqlResult<()> {
        if more.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = *more;
            return Ok(());
        }
        let before = *self;
        let count = before.count + more.count;
        let apart_x = before.x / before.count - more.x / more.count;
        let apart_y = before.y / before.count - more.y / more.count;
        let scale = before.count * more.count / count;
        *self = Pairs {
            count,
            x: before.x + more.x,
            xx: before.xx + more.xx + scale * apart_x * apart_x,
            y: before.y + more.y,
            yy: before.yy + more.yy + scale * apart_y * apart_y,
            xy: before.xy + more.xy + scale * apart_x * apart_y,
        };
        self.settle(
            before.x.is_infinite() || more.x.is_infinite(),
            before.y.is_infinite() || more.y.is_infinite(),
        )
    }

    fn tell(&self, what: Regression) -> Datum {
        use Regression as R;
        let Pairs { count, x, xx, y, yy, xy } = *self;
        let at_least = if what == R::CovarianceSamp { 2.0 } else { 1.0 };
        if what == R::Count {
            return Datum::Int8(count as i64);
        }
        if count < at_least {
            return Datum::Null;
        }
        let flat = match what {
            R::Correlation => xx == 0.0 || yy == 0.0,
            R::Determination | R::Slope | R::Intercept => xx == 0.0,
            _ => false,
        };
        if flat {
            return Datum::Null;
        }
        Datum::Float8(match what {
            R::Count => count,
            R::AverageX => x / count,
            R::AverageY => y / count,
            R::SquaresX => xx,
            R::SquaresY => yy,
            R::Products => xy,
            R::CovariancePop => xy / count,
            R::CovarianceSamp => xy / (count - 1.0),
            R::Correlation => xy / (xx * yy).sqrt(),
            R::Determination if yy == 0.0 => 1.0,
            R::Determination => xy * xy / (xx * yy),
            R::Slope => xy / xx,
            R::Intercept => (y - x * xy / xx) / count,
        })
    }
}

impl AggregateCall {
    /// The state before any row.
    pub fn start(&self) -> Accumulator {
        use AggregateKind as K;
        let arg = self.args.first().map_or(PgType::Unknown, |arg| arg.ty);
        let state = match self.kind {
            K::CountRows | K::Count => State::Count(0),
            K::Sum | K::Avg => match arg {
                PgType::Int2 | PgType::Int4 => State::IntSum { sum: 0, count: 0 },
                PgType::Int8 => State::WideSum { sum: 0, count: 0 },
                PgType::Numeric => State::NumericSum { sum: Numeric::ZERO, count: 0 },
                PgType::Interval => State::IntervalSum { sum: Interval::default(), count: 0 },
                _ => State::FloatSum { sum: 0.0, count: 0 },
            },
            K::StddevSamp | K::StddevPop | K::VarSamp | K::VarPop => match arg {
                PgType::Float4 | PgType::Float8 => {
                    State::FloatMoments { count: 0.0, sum: 0.0, deviations: 0.0 }
                }
                _ => State::NumericMoments { count: 0, sum: Numeric::ZERO, squares: Numeric::ZERO },
            },
            K::Regression(_) => State::Pairs(Pairs::default()),
            K::Min | K::Max | K::BoolAnd | K::BoolOr | K::BitAnd | K::BitOr | K::BitXor => {
                State::Value(Datum::Null)
            }
            K::StringAgg if self.ty == PgType::Bytea => State::Bytes(None),
            K::StringAgg => State::Text(None),
            K::ArrayAgg => State::Items(Vec::new()),
        };
        Accumulator { kind: self.kind, ty: self.ty, state }
    }

    /// The types of [`Accumulator::parts`].
    pub fn part_types(&self) -> Vec<PgType> {
        use PgType as T;
        match self.start().state {
            State::Count(_) => vec![T::Int8],
            State::IntSum { .. } => vec![T::Int8, T::Int8],
            State::WideSum { .. } | State::NumericSum { .. } => vec![T::Numeric, T::Int8],
            State::FloatSum { .. } => vec![T::Float8, T::Int8],
            State::IntervalSum { .. } => vec![T::Interval, T::Int8],
            State::NumericMoments { .. } => vec![T::Int8, T::Numeric, T::Numeric],
            State::FloatMoments { .. } => vec![T::Float8; 3],
            State::Pairs(_) => vec![T::Float8; 6],
            State::Value(_) | State::Items(_) => vec![self.ty],
            State::Text(_) | State::Bytes(_) => vec![self.ty; 2],
        }
    }
}

fn out_of_range(ty: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"))
}

impl Accumulator {
    /// Takes one row's arguments (those of the call, evaluated). NULLs are ignored where PostgreSQL ignores them.
    ///
    /// # Errors
    /// 22003 if a sum leaves its type's range.
    pub fn add(&mut self, args: &[Datum]) -> SqlResult<()> {
        let value = match (self.kind, args.first()) {
            (AggregateKind::CountRows, _) => &Datum::Void,
            (_, Some(value)) => value,
            (_, None) => return Err(SqlError::internal("an aggregate without its argument")),
        };
        if value.is_null() && self.kind != AggregateKind::ArrayAgg {
            return Ok(());
        }
        match &mut self.state {
            State::Count(n) => *n += 1,
            State::IntSum { sum, count } => {
                let v = value.as_i64().unwrap_or(0);
                *sum = sum.checked_add(v).ok_or_else(|| out_of_range("bigint"))?;
                *count += 1;
            }
            State::WideSum { sum, count } => {
                *sum += i128::from(value.as_i64().unwrap_or(0));
                *count += 1;
            }
            State::NumericSum { sum, count } => {
                if let Datum::Numeric(n) = value {
                    *sum = sum.add(n)?;
                    *count += 1;
                }
            }
            State::FloatSum { sum, count } => {
                let v = arith::to_f64(value).unwrap_or(f64::NAN);
                // A float4 sum is kept as one, as PostgreSQL does.
                let total =
                    if self.ty == PgType::Float4 { f64::from(*sum as f32 + v as f32) } else { *sum + v };
                if total.is_infinite() && sum.is_finite() && v.is_finite() {
                    return Err(arith::float_overflow());
                }
                *sum = total;
                *count += 1;
            }
            State::IntervalSum { sum, count } => {
                if let Datum::Interval(i) = value {
                    *sum = interval::add(sum, i)?;
                    *count += 1;
                }
            }
            State::NumericMoments { count, sum, squares } => {
                let v = arith::to_numeric(value).unwrap_or(Numeric::NAN);
                *squares = squares.add(&v.mul(&v)?)?;
                *sum = sum.add(&v)?;
                *count += 1;
            }
            State::FloatMoments { count, sum, deviations } => {
                let v = arith::to_f64(value).unwrap_or(f64::NAN);
                let of_infinite = sum.is_infinite() || v.is_infinite();
                *count += 1.0;
                *sum += v;
                if *count > 1.0 {
                    let off = v * *count - *sum;
                    *deviations += off * off / (*count * (*count - 1.0));
                    if sum.is_infinite() || deviations.is_infinite() {
                        if !of_infinite {
                            return Err(arith::float_overflow());
                        }
                        *deviations = f64::NAN;
                    }
                } else if !v.is_finite() {
                    *deviations = f64::NAN;
                }
            }
            State::Pairs(pairs) => {
                if let Some(x) = args.get(1).and_then(arith::to_f64) {
                    pairs.add(arith::to_f64(value).unwrap_or(f64::NAN), x)?;
                }
            }
            State::Value(best) => combine(self.kind, best, value),
            State::Text(joined) => {
                let delimiter = args.get(1).and_then(Datum::as_str).unwrap_or("");
                let piece = value.as_str().unwrap_or("");
                match joined {
                    Some((text, _)) => {
                        text.push_str(delimiter);
                        text.push_str(piece);
                    }
                    None => *joined = Some((piece.to_owned(), delimiter.to_owned())),
                }
            }
            State::Bytes(joined) => {
                let Datum::Bytea(piece) = value else { return Ok(()) };
                let delimiter = match args.get(1) {
                    Some(Datum::Bytea(delimiter)) => &delimiter[..],
                    _ => &[],
                };
                match joined {
                    Some((bytes, _)) => {
                        bytes.extend_from_slice(delimiter);
                        bytes.extend_from_slice(piece);
                    }
                    None => *joined = Some((piece.to_vec(), delimiter.to_vec())),
                }
            }
            State::Items(items) => items.push(value.clone()),
        }
        Ok(())
    }

    /// The aggregate's value.
    ///
    /// # Errors
    /// 22003 if it leaves its type's range.
    pub fn finish(self) -> SqlResult<Datum> {
        let average = self.kind == AggregateKind::Avg;
        Ok(match self.state {
            State::Count(n) => Datum::Int8(n),
            State::IntSum { count: 0, .. }
            | State::WideSum { count: 0, .. }
            | State::NumericSum { count: 0, .. }
            | State::FloatSum { count: 0, .. }
            | State::IntervalSum { count: 0, .. } => Datum::Null,
            State::IntSum { sum, count } if average => {
                Datum::Numeric(Numeric::from(sum).div(&Numeric::from(count))?)
            }
            State::IntSum { sum, .. } => Datum::Int8(sum),
            State::WideSum { sum, count } => {
                let sum = Numeric::from_i128(sum, 0);
                Datum::Numeric(if average { sum.div(&Numeric::from(count))? } else { sum })
            }
            State::NumericSum { sum, count } => {
                Datum::Numeric(if average { sum.div(&Numeric::from(count))? } else { sum })
            }
            State::FloatSum { sum, count } => {
                let value = if average { sum / count as f64 } else { sum };
                if self.ty == PgType::Float4 { Datum::Float4(value as f32) } else { Datum::Float8(value) }
            }
            State::IntervalSum { sum, count } => {
                Datum::Interval(if average { interval::div(&sum, count as f64)? } else { sum })
            }
            State::NumericMoments { count, sum, squares } => {
                numeric_deviation(self.kind, count, &sum, &squares)?
            }
            State::FloatMoments { count, deviations, .. } => float_deviation(self.kind, count, deviations),
            State::Pairs(pairs) => match self.kind {
                AggregateKind::Regression(what) => pairs.tell(what),
                _ => Datum::Null,
            },
            State::Value(value) => value,
            State::Text(text) => text.map_or(Datum::Null, |(text, _)| Datum::text(text)),
            State::Bytes(bytes) => bytes.map_or(Datum::Null, |(bytes, _)| Datum::Bytea(bytes.into())),
            State::Items(items) => match (items.is_empty(), self.ty) {
                (false, PgType::Array(element)) => Datum::array(element, items),
                _ => Datum::Null,
            },
        })
    }

    /// What the state is made of, for [`Accumulator::merge`], of the types that [`AggregateCall::part_types`] says.
    pub fn parts(&self) -> Vec<Datum> {
        let joined = |joined: Option<(Datum, Datum)>| {
            let (joined, lead) = joined.unwrap_or((Datum::Null, Datum::Null));
            vec![joined, lead]
        };
        match &self.state {
            State::Count(n) => vec![Datum::Int8(*n)],
            State::IntSum { sum, count } => vec![Datum::Int8(*sum), Datum::Int8(*count)],
            State::WideSum { sum, count } => {
                vec![Datum::Numeric(Numeric::from_i128(*sum, 0)), Datum::Int8(*count)]
            }
            State::NumericSum { sum, count } => vec![Datum::Numeric(sum.clone()), Datum::Int8(*count)],
            State::FloatSum { sum, count } => vec![Datum::Float8(*sum), Datum::Int8(*count)],
            State::IntervalSum { sum, count } => vec![Datum::Interval(*sum), Datum::Int8(*count)],
            State::NumericMoments { count, sum, squares } => {
                let [sum, squares] = [sum, squares].map(|n| Datum::Numeric(n.clone()));
                vec![Datum::Int8(*count), sum, squares]
            }
            State::FloatMoments { count, sum, deviations } => {
                [count, sum, deviations].map(|f| Datum::Float8(*f)).to_vec()
            }
            State::Pairs(Pairs { count, x, xx, y, yy, xy }) => {
                [count, x, xx, y, yy, xy].map(|f| Datum::Float8(*f)).to_vec()
            }
            State::Value(value) => vec![value.clone()],
            State::Text(text) => {
                joined(text.as_ref().map(|(text, lead)| (Datum::text(text), Datum::text(lead))))
            }
            State::Bytes(bytes) => {
                let bytea = |bytes: &[u8]| Datum::Bytea(bytes.into());
                joined(bytes.as_ref().map(|(bytes, lead)| (bytea(bytes), bytea(lead))))
            }
            State::Items(items) => match (items.is_empty(), self.ty) {
                (false, PgType::Array(element)) => vec![Datum::array(element, items.clone())],
                _ => vec![Datum::Null],
            },
        }
    }

    /// Takes what another state has seen, after what this one has.
    ///
    /// # Errors
    /// 22003 if a sum leaves its type's range; XX000 for parts of another aggregate.
    pub fn merge(&mut self, parts: &[Datum]) -> SqlResult<()> {
        let foreign = || SqlError::internal("a part of another aggregate's state");
        let whole = |part: &Datum| part.as_i64().ok_or_else(foreign);
        match (&mut self.state, parts) {
            (State::Count(n), [more]) => *n += whole(more)?,
            (State::IntSum { sum, count }, [more, rows]) => {
                *sum = sum.checked_add(whole(more)?).ok_or_else(|| out_of_range("bigint"))?;
                *count += whole(rows)?;
            }
            (State::WideSum { sum, count }, [Datum::Numeric(more), rows]) => {
                *sum += more.to_unscaled(0).ok_or_else(foreign)?;
                *count += whole(rows)?;
            }
            (State::NumericSum { sum, count }, [Datum::Numeric(more), rows]) => {
                *sum = sum.add(more)?;
                *count += whole(rows)?;
            }
            (State::FloatSum { sum, count }, [Datum::Float8(more), rows]) => {
                let total = if self.ty == PgType::Float4 {
                    f64::from(*sum as f32 + *more as f32)
                } else {
                    *sum + more
                };
                if total.is_infinite() && sum.is_finite() && more.is_finite() {
                    return Err(arith::float_overflow());
                }
                *sum = total;
                *count += whole(rows)?;
            }
            (State::IntervalSum { sum, count }, [Datum::Interval(more), rows]) => {
                *sum = interval::add(sum, more)?;
                *count += whole(rows)?;
            }
            (
                State::NumericMoments { count, sum, squares },
                [rows, Datum::Numeric(more), Datum::Numeric(more_squares)],
            ) => {
                *count += whole(rows)?;
                *sum = sum.add(more)?;
                *squares = squares.add(more_squares)?;
            }
            (
                State::FloatMoments { count, sum, deviations },
                [Datum::Float8(rows), Datum::Float8(more), Datum::Float8(off)],
            ) => {
                if *count == 0.0 || *rows == 0.0 {
                    *deviations += off;
                } else {
                    let apart = *sum / *count - more / rows;
                    *deviations += off + *count * rows * apart * apart / (*count + rows);
                }
                let of_infinite = sum.is_infinite() || more.is_infinite();
                *count += rows;
                *sum += more;
                if (sum.is_infinite() || deviations.is_infinite()) && !of_infinite {
                    return Err(arith::float_overflow());
                }
            }
            (State::Pairs(pairs), parts) => {
                let mut floats = parts.iter().map(|part| match part {
                    Datum::Float8(f) => Ok(*f),
                    _ => Err(foreign()),
                });
                let mut next = || floats.next().unwrap_or_else(|| Err(foreign()));
                let more =
                    Pairs { count: next()?, x: next()?, xx: next()?, y: next()?, yy: next()?, xy: next()? };
                pairs.merge(&more)?;
            }
            (State::Value(best), [value]) => {
                if !value.is_null() {
                    combine(self.kind, best, value);
                }
            }
            (State::Text(_) | State::Bytes(_) | State::Items(_), [Datum::Null, ..]) => {}
            (State::Text(Some((text, _))), [more, lead]) => {
                text.push_str(lead.as_str().ok_or_else(foreign)?);
                text.push_str(more.as_str().ok_or_else(foreign)?);
            }
            (State::Text(none), [text, lead]) => {
                let owned = |part: &Datum| part.as_str().map(str::to_owned).ok_or_else(foreign);
                *none = Some((owned(text)?, owned(lead)?));
            }
            (State::Bytes(joined), [Datum::Bytea(more), Datum::Bytea(lead)]) => match joined {
                Some((bytes, _)) => {
                    bytes.extend_from_slice(lead);
                    bytes.extend_from_slice(more);
                }
                None => *joined = Some((more.to_vec(), lead.to_vec())),
            },
            (State::Items(items), [Datum::Array(more)]) => items.extend(more.items.iter().cloned()),
            _ => return Err(foreign()),
        }
        Ok(())
    }

    /// Whether [`Accumulator::remove`] gives back exactly the state without a value.
    pub fn can_remove(&self) -> bool {
        matches!(self.state, State::Count(_) | State::IntSum { .. } | State::WideSum { .. })
    }

    /// Takes out a row's arguments that were taken in.
    pub fn remove(&mut self, args: &[Datum]) {
        assert!(self.can_remove(), "only sums and counts of whole numbers can give a value back");
        let Some(value) = args.first().filter(|value| !value.is_null()) else { return };
        match &mut self.state {
            State::Count(n) => *n -= 1,
            State::IntSum { sum, count } => {
                *sum -= value.as_i64().unwrap_or(0);
                *count -= 1;
            }
            State::WideSum { sum, count } => {
                *sum -= i128::from(value.as_i64().unwrap_or(0));
                *count -= 1;
            }
            _ => {}
        }
    }

    /// Bytes the state holds on the heap, for memory accounting.
    pub fn heap_bytes(&self) -> usize {
        match &self.state {
            State::NumericSum { sum, .. } => sum.heap_bytes(),
            State::NumericMoments { sum, squares, .. } => sum.heap_bytes() + squares.heap_bytes(),
            State::Value(value) => value.heap_bytes(),
            State::Text(text) => text.as_ref().map_or(0, |(text, lead)| text.capacity() + lead.capacity()),
            State::Bytes(bytes) => {
                bytes.as_ref().map_or(0, |(bytes, lead)| bytes.capacity() + lead.capacity())
            }
            State::Items(items) => {
                items.capacity() * std::mem::size_of::<Datum>()
                    + items.iter().map(Datum::heap_bytes).sum::<usize>()
            }
            _ => 0,
        }
    }
}

fn combine(kind: AggregateKind, best: &mut Datum, value: &Datum) {
    use AggregateKind as K;
    if best.is_null() {
        *best = value.clone();
        return;
    }
    let bits = |f: fn(i64, i64) -> i64, a: &Datum| {
        let v = f(a.as_i64().unwrap_or(0), value.as_i64().unwrap_or(0));
        match a {
            Datum::Int2(_) => Datum::Int2(v as i16),
            Datum::Int4(_) => Datum::Int4(v as i32),
            _ => Datum::Int8(v),
        }
    };
    match kind {
        K::Min if types::compare(value, best).is_lt() => *best = value.clone(),
        K::Max if types::compare(value, best).is_gt() => *best = value.clone(),
        K::BoolAnd => *best = Datum::Bool(best.as_bool() == Some(true) && value.as_bool() == Some(true)),
        K::BoolOr => *best = Datum::Bool(best.as_bool() == Some(true) || value.as_bool() == Some(true)),
        K::BitAnd => *best = bits(|a, b| a & b, best),
        K::BitOr => *best = bits(|a, b| a | b, best),
        K::BitXor => *best = bits(|a, b| a ^ b, best),
        _ => {}
    }
}

fn is_sample(kind: AggregateKind) -> bool {
    matches!(kind, AggregateKind::StddevSamp | AggregateKind::VarSamp)
}

fn is_root(kind: AggregateKind) -> bool {
    matches!(kind, AggregateKind::StddevSamp | AggregateKind::StddevPop)
}

fn numeric_deviation(kind: AggregateKind, count: i64, sum: &Numeric, squares: &Numeric) -> SqlResult<Datum> {
    let sample = is_sample(kind);
    if count == 0 || sample && count == 1 {
        return Ok(Datum::Null);
    }
    if !sum.is_finite() {
        return Ok(Datum::Numeric(Numeric::NAN));
    }
    let n = Numeric::from(count);
    let numerator = n.mul(squares)?.sub(&sum.mul(sum)?)?;
    if numerator.signum() <= 0 {
        return Ok(Datum::Numeric(Numeric::ZERO));
    }
    let divisor = if sample { n.mul(&Numeric::from(count - 1))? } else { n.mul(&n)? };
    let variance = numerator.div(&divisor)?;
    if !is_root(kind) {
        return Ok(Datum::Numeric(variance));
    }
    // With as many digits behind the point as what it is the root of, of which large numbers have none; rounded once, from some more.
    let scale = i32::from(variance.scale());
    Ok(Datum::Numeric(variance.round(scale + 8).sqrt()?.round(scale)))
}

fn float_deviation(kind: AggregateKind, count: f64, deviations: f64) -> Datum {
    let sample = is_sample(kind);
    if count == 0.0 || sample && count == 1.0 {
        return Datum::Null;
    }
    let variance = deviations / if sample { count - 1.0 } else { count };
    Datum::Float8(if is_root(kind) { variance.sqrt() } else { variance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::TypeMod;

    fn run(kind: AggregateKind, arg: PgType, ty: PgType, values: Vec<Datum>) -> String {
        let args = vec![BoundExpr::column(0, arg, TypeMod::NONE)];
        let call = AggregateCall { kind, args, distinct: false, filter: None, order_by: Vec::new(), ty };
        let mut state = call.start();
        for value in values {
            state.add(&[value]).unwrap();
        }
        types::to_text(&state.finish().unwrap(), ty, &types::FormatContext::default())
    }

    #[test]
    fn results_have_postgresqls_types_and_scales() {
        use AggregateKind as K;
        use PgType as T;
        let ints = || vec![Datum::Int4(1), Datum::Null, Datum::Int4(2), Datum::Int4(4)];
        assert_eq!(run(K::Sum, T::Int4, T::Int8, ints()), "7");
        assert_eq!(run(K::Avg, T::Int4, T::Numeric, ints()), "2.3333333333333333");
        assert_eq!(run(K::Count, T::Int4, T::Int8, ints()), "3");
        assert_eq!(run(K::Max, T::Int4, T::Int4, ints()), "4");
        assert_eq!(run(K::StddevSamp, T::Int4, T::Numeric, ints()), "1.5275252316519467");
        assert_eq!(run(K::VarPop, T::Int4, T::Numeric, ints()), "1.5555555555555556");
        assert_eq!(run(K::ArrayAgg, T::Int4, T::Array(types::ElementType::Int4), ints()), "{1,NULL,2,4}");
        assert_eq!(run(K::Sum, T::Int4, T::Int8, vec![]), "");
        let big = vec![Datum::Int8(i64::MAX), Datum::Int8(i64::MAX)];
        assert_eq!(run(K::Sum, T::Int8, T::Numeric, big), "18446744073709551614");
    }

    #[test]
    fn deviations_beyond_the_range_are_an_error_and_of_infinities_unknown() {
        let args = vec![BoundExpr::column(0, PgType::Float8, TypeMod::NONE)];
        let (kind, ty) = (AggregateKind::VarSamp, PgType::Float8);
        let call = AggregateCall { kind, args, distinct: false, filter: None, order_by: Vec::new(), ty };
        let variance = |values: [f64; 2]| {
            let add = |state: &mut Accumulator, value: f64| state.add(&[Datum::Float8(value)]);
            let (mut of_all, mut head, mut tail) = (call.start(), call.start(), call.start());
            let at_once = add(&mut of_all, values[0]).and_then(|()| add(&mut of_all, values[1]));
            add(&mut head, values[0]).unwrap();
            add(&mut tail, values[1]).unwrap();
            let put_together = head.merge(&tail.parts());
            assert_eq!(at_once, put_together, "{values:?}");
            at_once.map(|()| [of_all, head].map(|state| state.finish().unwrap()))
        };
        let overflow = Err(arith::float_overflow());
        assert_eq!(variance([1e308, 1e308]), overflow);
        assert_eq!(variance([1e200, -1e200]), overflow);
        let unknown = variance([f64::INFINITY, -1e200]).unwrap();
        assert!(unknown.iter().all(|v| matches!(v, Datum::Float8(f) if f.is_nan())), "{unknown:?}");
    }

    #[test]
    fn states_that_are_put_together_are_those_of_all_rows() {
        use AggregateKind as K;
        use PgType as T;
        let numeric = |n: i64| Datum::Numeric(Numeric::from(n));
        type Case = (K, T, T, fn(i64) -> Datum);
        let cases: [Case; 13] = [
            (K::Count, T::Int4, T::Int8, |n| Datum::Int4(n as i32)),
            (K::Sum, T::Int4, T::Int8, |n| Datum::Int4(n as i32)),
            (K::Avg, T::Int4, T::Numeric, |n| Datum::Int4(n as i32)),
            (K::Avg, T::Int8, T::Numeric, |n| Datum::Int8(i64::MAX - n)),
            (K::Sum, T::Numeric, T::Numeric, |n| Datum::Numeric(Numeric::from(n))),
            (K::Avg, T::Float8, T::Float8, |n| Datum::Float8(n as f64 / 4.0)),
            (K::VarSamp, T::Numeric, T::Numeric, |n| Datum::Numeric(Numeric::from(n))),
            (K::VarPop, T::Float8, T::Float8, |n| Datum::Float8(n as f64)),
            (K::Max, T::Int4, T::Int4, |n| Datum::Int4(n as i32)),
            (K::BoolAnd, T::Bool, T::Bool, |n| Datum::Bool(n < 3)),
            (K::BitXor, T::Int4, T::Int4, |n| Datum::Int4(n as i32 * 3)),
            (K::StringAgg, T::Text, T::Text, |n| Datum::text(format!("v{n}"))),
            (K::ArrayAgg, T::Int4, T::Array(types::ElementType::Int4), |n| Datum::Int4(n as i32)),
        ];
        for (kind, arg, ty, value) in cases {
            let args = vec![BoundExpr::column(0, arg, TypeMod::NONE)];
            let call = AggregateCall { kind, args, distinct: false, filter: None, order_by: Vec::new(), ty };
            let state = |rows: std::ops::Range<i64>| {
                let mut state = call.start();
                for n in rows {
                    let delimiter = Datum::text(format!("<{n}>"));
                    state.add(&[if n == 2 { Datum::Null } else { value(n) }, delimiter]).unwrap();
                }
                state
            };
            for cut in 0..=6 {
                let (mut head, tail) = (state(0..cut), state(cut..6));
                let parts = tail.parts();
                assert_eq!(parts.len(), call.part_types().len(), "{kind:?}");
                head.merge(&parts).unwrap();
                match (head.finish().unwrap(), state(0..6).finish().unwrap()) {
                    // Rounding stands in another place.
                    (Datum::Float8(a), Datum::Float8(b)) => assert!((a - b).abs() < 1e-12, "{kind:?}: {a}"),
                    (put_together, of_all) => assert_eq!(put_together, of_all, "{kind:?} cut at {cut}"),
                }
                let mut rest = state(0..6);
                if rest.can_remove() {
                    (0..cut).for_each(|n| rest.remove(&[if n == 2 { Datum::Null } else { value(n) }]));
                    assert_eq!(rest.finish(), state(cut..6).finish(), "{kind:?} without {cut}");
                }
            }
        }
        let mut sum = AggregateCall {
            kind: K::Sum,
            args: vec![BoundExpr::column(0, T::Numeric, TypeMod::NONE)],
            distinct: false,
            filter: None,
            order_by: Vec::new(),
            ty: T::Numeric,
        }
        .start();
        assert!(!sum.can_remove(), "its scale would stay");
        assert!(sum.merge(&[numeric(1)]).is_err());
    }
}
