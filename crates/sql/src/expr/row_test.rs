//! Conditions and keys that the tenant evaluates by itself: which expressions are such, and which conditions follow from others.

use tenant::catalog::{Blanks, Comparison, KeyFunction, ROW_TEST_DEPTH_MAX, RowTest};
use types::{Datum, PgType};

use super::tree::{BoundExpr, Collate, CompareOp, ExprKind};

/// Constants of one list, at most: conditions are held against each other while a statement is bound.
const CONSTANTS_MAX: usize = 256;

/// The condition of a row that `expr` is: comparisons of columns with constants, looks whether they have values, and AND, OR and NOT of such. `None` for
/// any other, and for one that is too deep or has too long a list. `column` tells the column of the table that is in a slot, if there is one.
pub(crate) fn row_test(expr: &BoundExpr, column: &dyn Fn(usize) -> Option<usize>) -> Option<RowTest> {
    within(expr, column, ROW_TEST_DEPTH_MAX)
}

fn within(expr: &BoundExpr, column: &dyn Fn(usize) -> Option<usize>, depth: usize) -> Option<RowTest> {
    let of = |expr: &BoundExpr| column(bare_column(expr)?);
    match &expr.kind {
        ExprKind::Column(slot) if expr.ty == PgType::Bool => Some(RowTest::True(column(*slot)?)),
        ExprKind::IsNull { expr, negated } => Some(RowTest::IsNull { column: of(expr)?, negated: *negated }),
        ExprKind::IsBool { expr, value, negated } => {
            Some(RowTest::IsBool { column: of(expr)?, wanted: *value, negated: *negated })
        }
        ExprKind::Compare { op, collate, left, right } => {
            let sides = [(*op, left, right), (op.commuted(), right, left)];
            let found = sides.into_iter().find_map(|(op, column, constant)| {
                let constant = constant.as_const().filter(|constant| !constant.is_null())?;
                Some((of(column)?, comparison(op), constant.clone()))
            });
            let (column, comparison, constant) = found?;
            Some(RowTest::Compare { column, comparison, blanks: blanks(*collate), constant })
        }
        ExprKind::InList { items, .. } if items.len() > CONSTANTS_MAX => None,
        ExprKind::InList { collate, expr, items, negated } => {
            let constants = items.iter().map(|item| item.as_const().cloned()).collect::<Option<Vec<_>>>()?;
            one_of(of(expr)?, *collate, constants, *negated, depth)
        }
        ExprKind::CompareArray { op, collate, all, left, array } => {
            let negated = match (op, all) {
                (CompareOp::Eq, false) => false,
                (CompareOp::Ne, true) => true,
                _ => return None,
            };
            let constants = match &array.kind {
                ExprKind::Const(Datum::Array(array)) if array.items.len() <= CONSTANTS_MAX => {
                    array.items.clone()
                }
                ExprKind::Array { items, .. } if items.len() <= CONSTANTS_MAX => {
                    items.iter().map(|item| item.as_const().cloned()).collect::<Option<Vec<_>>>()?
                }
                _ => return None,
            };
            one_of(of(left)?, *collate, constants, negated, depth)
        }
        ExprKind::Not(inner) => Some(RowTest::Not(Box::new(within(inner, column, depth.checked_sub(1)?)?))),
        ExprKind::And(parts) => {
            let mut joined = Vec::with_capacity(parts.len());
            for part in parts {
                match within(part, column, depth.checked_sub(1)?)? {
                    RowTest::And(own) => joined.extend(own),
                    own => joined.push(own),
                }
            }
            Some(RowTest::And(joined))
        }
        ExprKind::Or(parts) => {
            let mut joined = Vec::with_capacity(parts.len());
            for part in parts {
                match within(part, column, depth.checked_sub(1)?)? {
                    RowTest::Or(own) => joined.extend(own),
                    own => joined.push(own),
                }
            }
            Some(RowTest::Or(joined))
        }
        _ => None,
    }
}

fn one_of(
    column: usize,
    collate: Collate,
    mut constants: Vec<Datum>,
    negated: bool,
    depth: usize,
) -> Option<RowTest> {
    if constants.is_empty() || constants.iter().any(Datum::is_null) {
        return None;
    }
    let blanks = blanks(collate);
    if constants.len() == 1 {
        let comparison = if negated { Comparison::NotEqual } else { Comparison::Equal };
        let constant = constants.pop().expect("there is one");
        return Some(RowTest::Compare { column, comparison, blanks, constant });
    }
    let one_of = RowTest::OneOf { column, blanks, constants };
    match negated {
        true => depth.checked_sub(1).map(|_| RowTest::Not(Box::new(one_of))),
        false => Some(one_of),
    }
}

fn blanks(collate: Collate) -> Blanks {
    match collate {
        Collate::Plain => Blanks::Count,
        Collate::Blanks => Blanks::Ignored,
    }
}

fn comparison(op: CompareOp) -> Comparison {
    match op {
        CompareOp::Eq => Comparison::Equal,
        CompareOp::Ne => Comparison::NotEqual,
        CompareOp::Lt => Comparison::Less,
        CompareOp::Le => Comparison::LessOrEqual,
        CompareOp::Gt => Comparison::Greater,
        CompareOp::Ge => Comparison::GreaterOrEqual,
    }
}

/// The slot that `expr` is, seen through conversions that keep order and equality.
pub(crate) fn bare_column(expr: &BoundExpr) -> Option<usize> {
    let inner = match &expr.kind {
        // What has a modifier is cut to it.
        ExprKind::Cast { expr: inner, .. } if expr.typmod.is_none() && keeps_keys(inner.ty, expr.ty) => inner,
        _ => expr,
    };
    inner.as_column()
}

/// The function that `expr` is of a column, as an index may have it, and the column's slot.
pub(crate) fn key_function(expr: &BoundExpr) -> Option<(usize, KeyFunction)> {
    let ExprKind::Call { function, args } = &expr.kind else { return None };
    let [argument] = args.as_slice() else { return None };
    Some((bare_column(argument)?, KeyFunction::named(function.0.name)?))
}

fn keeps_keys(from: PgType, to: PgType) -> bool {
    let width = |ty| match ty {
        PgType::Int2 => 2,
        PgType::Int4 => 4,
        PgType::Int8 => 8,
        _ => 0,
    };
    // A name is cut off at its length.
    let is_whole = to != PgType::Name || from == PgType::Name;
    (width(from) > 0 && width(to) >= width(from)) || (is_plain_text(from) && is_plain_text(to) && is_whole)
}

/// Whether texts of the type are compared byte by byte.
pub(crate) fn is_plain_text(ty: PgType) -> bool {
    matches!(ty, PgType::Text | PgType::Varchar | PgType::Name)
}

/// Whether `wanted` is true of each row of which all of `known` are. `has_value` tells columns that are known to have values otherwise. An answer
/// of false says nothing: what takes more than a look at each condition beside each other is not found.
pub(crate) fn follows(wanted: &RowTest, known: &[&RowTest], has_value: &dyn Fn(usize) -> bool) -> bool {
    let has_value = |column| has_value(column) || known.iter().any(|known| rules_out_null(known, column));
    let is_told = |wanted: &RowTest| match wanted {
        RowTest::IsNull { column, negated: true } => has_value(*column),
        _ => known.iter().any(|known| implies(known, wanted)),
    };
    wanted.conjuncts().iter().all(is_told)
}

fn implies(known: &RowTest, wanted: &RowTest) -> bool {
    if known == wanted {
        return true;
    }
    if let RowTest::Or(parts) = wanted
        && parts.iter().any(|part| implies(known, part))
    {
        return true;
    }
    if let (
        RowTest::Compare { column, comparison, blanks: Blanks::Count, constant },
        RowTest::Compare { column: same, comparison: wide, blanks: Blanks::Count, constant: end },
    ) = (known, wanted)
        && column == same
        && is_within((*comparison, constant), (*wide, end))
    {
        return true;
    }
    let Some((column, values)) = values_left(known) else { return false };
    let mut names_no_other = true;
    wanted.for_each_column(&mut |named| names_no_other &= named == column);
    let is_true_of = |value: &Datum| matches!(wanted.holds(&mut |_| Ok(value.clone())), Ok(Some(true)));
    names_no_other && values.iter().all(is_true_of)
}

/// Whether the values that stand so to one constant all stand so to the other one.
fn is_within((narrow, constant): (Comparison, &Datum), (wide, end): (Comparison, &Datum)) -> bool {
    use Comparison as C;
    let order = types::compare(constant, end);
    match (narrow, wide) {
        (C::Greater, C::Greater | C::GreaterOrEqual | C::NotEqual) => order.is_ge(),
        (C::GreaterOrEqual, C::GreaterOrEqual) => order.is_ge(),
        (C::GreaterOrEqual, C::Greater | C::NotEqual) => order.is_gt(),
        (C::Less, C::Less | C::LessOrEqual | C::NotEqual) => order.is_le(),
        (C::LessOrEqual, C::LessOrEqual) => order.is_le(),
        (C::LessOrEqual, C::Less | C::NotEqual) => order.is_lt(),
        (C::NotEqual, C::NotEqual) => order.is_eq(),
        _ => false,
    }
}

/// The values, one of which a column has where `known` is true.
fn values_left(known: &RowTest) -> Option<(usize, Vec<Datum>)> {
    match known {
        RowTest::True(column) => Some((*column, vec![Datum::Bool(true)])),
        RowTest::Not(inner) => match **inner {
            RowTest::True(column) => Some((column, vec![Datum::Bool(false)])),
            _ => None,
        },
        RowTest::IsBool { column, wanted, negated: false } => Some((*column, vec![Datum::Bool(*wanted)])),
        RowTest::Compare { column, comparison: Comparison::Equal, blanks: Blanks::Count, constant } => {
            Some((*column, vec![constant.clone()]))
        }
        RowTest::OneOf { column, blanks: Blanks::Count, constants } => Some((*column, constants.clone())),
        _ => None,
    }
}

/// Whether a column has a value where `known` is true.
fn rules_out_null(known: &RowTest, of: usize) -> bool {
    match known {
        RowTest::True(column)
        | RowTest::Compare { column, .. }
        | RowTest::OneOf { column, .. }
        | RowTest::IsBool { column, negated: false, .. }
        | RowTest::IsNull { column, negated: true } => *column == of,
        RowTest::Not(inner) => match &**inner {
            RowTest::True(column) | RowTest::Compare { column, .. } | RowTest::OneOf { column, .. } => {
                *column == of
            }
            _ => false,
        },
        RowTest::And(parts) => parts.iter().any(|part| rules_out_null(part, of)),
        RowTest::Or(parts) => !parts.is_empty() && parts.iter().all(|part| rules_out_null(part, of)),
        RowTest::IsBool { negated: true, .. } | RowTest::IsNull { negated: false, .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(column: usize, comparison: Comparison, constant: Datum) -> RowTest {
        RowTest::Compare { column, comparison, blanks: Blanks::Count, constant }
    }

    fn equal(column: usize, constant: Datum) -> RowTest {
        compare(column, Comparison::Equal, constant)
    }

    #[test]
    fn what_follows_from_what() {
        let has_none = |_: usize| false;
        let open = RowTest::OneOf {
            column: 0,
            blanks: Blanks::Count,
            constants: vec![Datum::text("queued"), Datum::text("running")],
        };
        let queued = equal(0, Datum::text("queued"));
        let done = equal(0, Datum::text("done"));
        assert!(follows(&open, &[&queued], &has_none));
        assert!(follows(&open, &[&open], &has_none));
        assert!(!follows(&open, &[&done], &has_none));
        assert!(!follows(&queued, &[&open], &has_none));
        let is_there = |column| RowTest::IsNull { column, negated: true };
        let is_gone = |column| RowTest::IsNull { column, negated: false };
        assert!(follows(&is_there(0), &[&queued], &has_none));
        assert!(!follows(&is_there(1), &[&queued], &has_none));
        assert!(follows(&is_there(1), &[&queued], &|column| column == 1), "by a value that is not known yet");
        assert!(!follows(&is_gone(1), &[&queued], &|_| true));
        let both = RowTest::And(vec![queued.clone(), is_gone(1)]);
        assert!(!follows(&both, &[&queued], &has_none));
        assert!(follows(&both, &[&is_gone(1), &queued], &has_none));
        let either = RowTest::Or(vec![done, is_gone(1)]);
        assert!(follows(&either, &[&is_gone(1)], &has_none));
        assert!(!follows(&either, &[&queued], &has_none));

        let not_true = RowTest::Not(Box::new(RowTest::True(2)));
        assert!(follows(
            &RowTest::IsBool { column: 2, wanted: true, negated: true },
            &[&not_true],
            &has_none
        ));
        assert!(follows(&equal(2, Datum::Bool(true)), &[&RowTest::True(2)], &has_none));
        assert!(!follows(&RowTest::True(2), &[&not_true], &has_none));
        let large = compare(3, Comparison::Greater, Datum::Int4(5));
        assert!(follows(&large, &[&equal(3, Datum::Int8(6))], &has_none));
        assert!(!follows(&large, &[&equal(3, Datum::Int8(5))], &has_none));
    }

    /// By values on both sides of the constants, and between them.
    #[test]
    fn ranges_follow_from_narrower_ones() {
        use Comparison as C;
        let all = [C::Equal, C::NotEqual, C::Less, C::LessOrEqual, C::Greater, C::GreaterOrEqual];
        let holds =
            |test: &RowTest, n: i64| matches!(test.holds(&mut |_| Ok(Datum::Int8(n))), Ok(Some(true)));
        for (narrow, wide) in all.into_iter().flat_map(|narrow| all.map(|wide| (narrow, wide))) {
            for (k, end) in [(10, 8), (10, 10), (10, 12)] {
                let known = compare(0, narrow, Datum::Int4(k));
                let wanted = compare(0, wide, Datum::Int8(end.into()));
                let follows = follows(&wanted, &[&known], &|_| false);
                let is_so = (0..20).filter(|n| holds(&known, *n)).all(|n| holds(&wanted, n));
                assert_eq!(follows, is_so, "{narrow:?} {k} {wide:?} {end}");
                let other = compare(1, wide, Datum::Int8(end.into()));
                assert!(!super::follows(&other, &[&known], &|_| false));
            }
        }
    }
}
