//! Binding of operators and calls whose arguments are bound already.

use base::{SqlError, SqlResult, SqlState};
use types::{CastContext, CatalogNames, Datum, ElementType, PgType, TypeMod};

use super::bind_context::BindContext;
use super::coerce::{coerce, common_type, type_name};
use super::fold::fold;
use super::function::{ArgType, FunctionDef};
use super::functions;
use super::resolve::{Failure, Resolved, resolve};
use super::tree::{BoundExpr, Collate, CompareOp, ExprKind, FunctionRef};

/// The comparison an operator name stands for.
pub(super) fn compare_op(name: &str) -> Option<CompareOp> {
    Some(match name {
        "=" => CompareOp::Eq,
        "<>" | "!=" => CompareOp::Ne,
        "<" => CompareOp::Lt,
        "<=" => CompareOp::Le,
        ">" => CompareOp::Gt,
        ">=" => CompareOp::Ge,
        _ => return None,
    })
}

pub(super) fn no_operator(name: &str, args: &[PgType], ctx: &BindContext<'_>) -> SqlError {
    let shown = match args {
        [operand] => format!("{name} {}", type_name(*operand, ctx)),
        [left, right] => format!("{} {name} {}", type_name(*left, ctx), type_name(*right, ctx)),
        _ => name.to_owned(),
    };
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {shown}")).with_hint(
        if args.len() == 1 {
            "No operator matches the given name and argument type. You might need to add an explicit type cast."
        } else {
            "No operator matches the given name and argument types. You might need to add explicit type casts."
        },
    )
}

/// Whether values of the type have an order (and equality).
fn comparable(ty: PgType) -> bool {
    match ty {
        PgType::Json | PgType::Void => false,
        ty => ty.element().is_none_or(comparable),
    }
}

/// Brings both sides to types whose values compare with each other, as PostgreSQL's operator `name` would.
pub(super) fn unify(
    left: BoundExpr,
    right: BoundExpr,
    name: &str,
    ctx: &BindContext<'_>,
) -> SqlResult<(BoundExpr, BoundExpr, Collate)> {
    let (a, b) = (left.ty, right.ty);
    let fail = || no_operator(name, &[a, b], ctx);
    let target = comparison_type(a, b).filter(|ty| comparable(*ty)).ok_or_else(fail)?;
    let collate = if target == PgType::Bpchar { Collate::Blanks } else { Collate::Plain };
    let convert = |expr: BoundExpr| {
        // Families whose members compare as they are keep their columns bare, for the planner's sake.
        let same_family = expr.ty.is_integer() && target.is_integer()
            || matches!(expr.ty, PgType::Float4 | PgType::Float8) && target == PgType::Float8
            || expr.ty.is_oid() && target.is_oid()
            || expr.ty == target;
        if same_family { Ok(expr) } else { coerce(expr, target, TypeMod::NONE, CastContext::Implicit, ctx) }
    };
    Ok((convert(left)?, convert(right)?, collate))
}

/// The type two sides are compared in; `None` if there is no such operator.
fn comparison_type(a: PgType, b: PgType) -> Option<PgType> {
    use PgType as T;
    let textual = |ty| match ty {
        T::Varchar => T::Text,
        T::Array(ElementType::Varchar) => T::Array(ElementType::Text),
        other => other,
    };
    // PostgreSQL finds `char(n)` there, exactly, and `text` on neither side.
    if matches!((a, b), (T::Bpchar, T::Varchar) | (T::Varchar, T::Bpchar)) {
        return Some(T::Bpchar);
    }
    let (a, b) = (textual(a), textual(b));
    // A vector compares with an array as the array it is.
    let plain = |ty: PgType| ty.vector_element().map_or(ty, T::Array);
    let (a, b) = if a == b { (a, b) } else { (plain(a), plain(b)) };
    if a == b {
        return Some(if a == T::Unknown { T::Text } else { a });
    }
    if a == T::Unknown {
        return Some(b);
    }
    if b == T::Unknown {
        return Some(a);
    }
    if a.is_numeric() && b.is_numeric() {
        return if a.is_integer() && b.is_integer() {
            common_type(&[a, b], "comparison").ok()
        } else if matches!(a, T::Float4 | T::Float8) || matches!(b, T::Float4 | T::Float8) {
            Some(T::Float8)
        } else {
            Some(T::Numeric)
        };
    }
    if a.is_string() && b.is_string() {
        return Some(T::Text);
    }
    if a.is_oid() && b.is_oid() {
        return Some(T::Oid);
    }
    if a.is_oid() && b.is_integer() || b.is_oid() && a.is_integer() {
        return Some(T::Oid);
    }
    let time_rank = |ty| match ty {
        T::Date => Some(0),
        T::Timestamp => Some(1),
        T::TimestampTz => Some(2),
        _ => None,
    };
    if let (Some(x), Some(y)) = (time_rank(a), time_rank(b)) {
        return Some(if x > y { a } else { b });
    }
    match (a, b) {
        (T::Time, T::Interval) | (T::Interval, T::Time) => Some(T::Interval),
        (T::Char, other) | (other, T::Char) if other.is_string() => Some(T::Text),
        (T::Regclass, T::Text) | (T::Text, T::Regclass) => Some(T::Regclass),
        _ => None,
    }
}

/// `left op right`.
pub(super) fn bind_comparison(
    op: CompareOp,
    left: BoundExpr,
    right: BoundExpr,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let (left, right, collate) = unify(left, right, op.symbol(), ctx)?;
    let compare = ExprKind::Compare { op, collate, left: Box::new(left), right: Box::new(right) };
    Ok(fold(BoundExpr::boolean(compare), ctx))
}

/// `left name right` for any operator.
pub(super) fn bind_binary(
    name: &str,
    left: BoundExpr,
    right: BoundExpr,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    match (compare_op(name), name) {
        (Some(op), _) => bind_comparison(op, left, right, ctx),
        (None, "~~" | "!~~" | "~~*" | "!~~*") => bind_like(name, left, right, ctx),
        _ => bind_operator(name, vec![left, right], ctx),
    }
}

/// LIKE and its kin; the operator by its name (`~~`).
pub(super) fn bind_like(
    name: &str,
    value: BoundExpr,
    pattern: BoundExpr,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let mut parts = if name == "~~" { ends_of_like(&value, &pattern, ctx)? } else { Vec::new() };
    let like = bind_operator(name, vec![value, pattern], ctx)?;
    if parts.is_empty() {
        return Ok(like);
    }
    parts.push(like);
    Ok(BoundExpr::boolean(ExprKind::And(parts)))
}

/// Between which texts all are of a column that a pattern matches, if it says how they begin: an index has those together. Beside the pattern they
/// change nothing of what it answers.
fn ends_of_like(value: &BoundExpr, pattern: &BoundExpr, ctx: &BindContext<'_>) -> SqlResult<Vec<BoundExpr>> {
    // Blanks behind a `char(n)` do not count, and are part of its text.
    let is_text = |ty| matches!(ty, PgType::Text | PgType::Varchar);
    let has_ends = value.as_column().is_some()
        && is_text(value.ty)
        && (is_text(pattern.ty) || pattern.ty == PgType::Unknown);
    let literal = pattern.as_const().filter(|_| has_ends).and_then(Datum::as_str);
    let Some(beginning) = literal.and_then(beginning_of) else { return Ok(Vec::new()) };
    let ends = [(CompareOp::Lt, text_behind(&beginning)), (CompareOp::Ge, Some(beginning))];
    let end = |(op, text): (CompareOp, Option<String>)| {
        let text = BoundExpr::constant(Datum::text(text?), PgType::Text);
        Some(bind_comparison(op, value.clone(), text, ctx))
    };
    ends.into_iter().filter_map(end).collect()
}

/// Bytes of a pattern's beginning that are looked at: what is behind them tells few texts apart.
const BEGINNING_MAX: usize = 256;

/// What all texts begin with that a pattern of LIKE matches; `None` for nothing.
fn beginning_of(pattern: &str) -> Option<String> {
    let (mut beginning, mut chars) = (String::new(), pattern.chars());
    while beginning.len() < BEGINNING_MAX
        && let Some(c) = chars.next()
    {
        match c {
            '%' | '_' => break,
            '\\' => beginning.push(chars.next()?),
            c => beginning.push(c),
        }
    }
    (!beginning.is_empty()).then_some(beginning)
}

/// The first text behind all that begin with this one, in the order of their bytes, which is that of their characters; `None` if there is none.
fn text_behind(beginning: &str) -> Option<String> {
    let mut text = beginning.to_owned();
    while let Some(last) = text.pop() {
        // Between these two are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// A unary or binary operator of the catalog.
pub(super) fn bind_operator(
    name: &str,
    mut args: Vec<BoundExpr>,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    // What is not known beside an array is another one, and no element: `tags || $1`.
    if let ("||", [left, right]) = (name, &args[..]) {
        let unknown = match (left.ty, right.ty) {
            (PgType::Array(_), PgType::Unknown) => Some((1, left.ty)),
            (PgType::Unknown, PgType::Array(_)) => Some((0, right.ty)),
            _ => None,
        };
        if let Some((place, ty)) = unknown {
            let arg = args.remove(place);
            args.insert(place, coerce(arg, ty, TypeMod::NONE, CastContext::Implicit, ctx)?);
        }
    }
    let types: Vec<PgType> = args.iter().map(|arg| arg.ty).collect();
    let candidates: Vec<&'static FunctionDef> =
        functions::operators(name).iter().copied().filter(|def| def.args.len() == args.len()).collect();
    match resolve(&candidates, &types, true) {
        Ok(resolved) => finish_call(resolved, args, ctx),
        Err(Failure::None) => Err(no_operator(name, &types, ctx)),
        Err(Failure::Ambiguous) => {
            let error = no_operator(name, &types, ctx);
            let shown = error.message().trim_start_matches("operator does not exist: ").to_owned();
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {shown}"))
                .with_hint(
                    "Could not choose a best candidate operator. You might need to add explicit type casts.",
                ))
        }
    }
}

/// A function of the catalog by name.
///
/// # Errors
/// 42883, 42725.
pub(super) fn call_named(name: &str, args: Vec<BoundExpr>, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    let types: Vec<PgType> = args.iter().map(|arg| arg.ty).collect();
    let shown = || {
        let types: Vec<String> = types.iter().map(|ty| type_name(*ty, ctx)).collect();
        // What gives a column of a set-returning function is known by the function's name.
        let called = name.rsplit(" of ").next().filter(|_| !functions::named(name).is_empty());
        format!("{}({})", called.unwrap_or(name), types.join(", "))
    };
    match resolve(functions::named(name), &types, false) {
        Ok(resolved) => finish_call(resolved, args, ctx),
        Err(Failure::None) => {
            let hint = functions::hint_for_missing(name).unwrap_or(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            );
            let message = format!("function {} does not exist", shown());
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint))
        }
        Err(Failure::Ambiguous) => {
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("function {} is not unique", shown()))
                .with_hint(
                    "Could not choose a best candidate function. You might need to add explicit type casts.",
                ))
        }
    }
}

fn finish_call(resolved: Resolved, args: Vec<BoundExpr>, ctx: &BindContext<'_>) -> SqlResult<BoundExpr> {
    let settle = |(i, (arg, ty)): (usize, (BoundExpr, &PgType))| {
        let arg = coerce(arg, *ty, TypeMod::NONE, CastContext::Implicit, ctx)?;
        // An oid alone does not say what it is of.
        let takes_any = matches!(resolved.def.arg(i), ArgType::Any | ArgType::AnyNonArray);
        if takes_any && arg.ty.is_oid() && arg.ty != PgType::Oid {
            return coerce(arg, PgType::Text, TypeMod::NONE, CastContext::Explicit, ctx);
        }
        Ok(arg)
    };
    let mut args =
        args.into_iter().zip(&resolved.args).enumerate().map(settle).collect::<SqlResult<Vec<_>>>()?;
    no_array_is_empty(resolved.def, &mut args);
    let kind = ExprKind::Call { function: FunctionRef(resolved.def), args };
    Ok(fold(BoundExpr::new(resolved.result, TypeMod::NONE, kind), ctx))
}

/// Where an element is put to an array, has NULL for it be an array without elements: the element's value alone, which may be NULL too, does
/// not say what the result is an array of.
fn no_array_is_empty(def: &FunctionDef, args: &mut [BoundExpr]) {
    let puts = matches!(def.name, "array_append" | "array_prepend" | "||");
    if !puts || !def.args.contains(&ArgType::AnyElement) {
        return;
    }
    for (arg, declared) in args.iter_mut().zip(def.args) {
        let PgType::Array(element) = arg.ty else { continue };
        let is_given = matches!(arg.kind, ExprKind::Array { .. })
            || arg.as_const().is_some_and(|value| !value.is_null());
        if *declared != ArgType::AnyArray || is_given {
            continue;
        }
        let empty = BoundExpr::constant(Datum::array(element, Vec::new()), arg.ty);
        let own = std::mem::replace(arg, empty.clone());
        if own.as_const().is_none() {
            *arg = BoundExpr::new(own.ty, own.typmod, ExprKind::Coalesce(vec![own, empty]));
        }
    }
}

/// `value [NOT] IN (items)`.
pub(super) fn bind_in(
    value: BoundExpr,
    items: Vec<BoundExpr>,
    negated: bool,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    // All of one family: one list. Else each item is compared on its own, as PostgreSQL does.
    let types: Vec<PgType> = std::iter::once(value.ty).chain(items.iter().map(|item| item.ty)).collect();
    let is_bare = |item: &BoundExpr| !item.any(&mut |part| matches!(part.kind, ExprKind::Column(_)));
    // With `char(n)` beside varchar, one item or a column may be compared in another type than an array would be.
    let mixed = types.contains(&PgType::Bpchar) && types.contains(&PgType::Varchar);
    let alone = mixed && (items.len() == 1 || !items.iter().all(is_bare));
    let common = common_type(&types, "IN").ok().filter(|ty| comparable(*ty) && !alone);
    if let Some(common) = common {
        let mut bound = Vec::with_capacity(items.len());
        let stand_in = BoundExpr::column(0, common, TypeMod::NONE);
        let (value, _, collate) = unify(value, stand_in, "=", ctx)?;
        // Several of them that name no column are an array of the common type, which may have fewer digits than they have.
        let cut = common == PgType::Float4 && items.iter().filter(|item| is_bare(item)).count() > 1;
        for item in items {
            let item = match cut && is_bare(&item) {
                true => coerce(item, common, TypeMod::NONE, CastContext::Implicit, ctx)?,
                false => item,
            };
            let stand_in = BoundExpr::column(0, value.ty, TypeMod::NONE);
            bound.push(unify(stand_in, item, "=", ctx)?.1);
        }
        let list = ExprKind::InList { collate, expr: Box::new(value), items: bound, negated };
        return Ok(fold(BoundExpr::boolean(list), ctx));
    }
    value.check_copies(items.len())?;
    let parts = items
        .into_iter()
        .map(|item| bind_comparison(CompareOp::Eq, value.clone(), item, ctx))
        .collect::<SqlResult<Vec<_>>>()?;
    let any = BoundExpr::boolean(ExprKind::Or(parts));
    Ok(if negated { super::bind::negate(any) } else { any })
}

/// `left name ANY (array)` or `ALL`.
pub(super) fn bind_array_comparison(
    name: &str,
    left: BoundExpr,
    array: BoundExpr,
    all: bool,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let array = if array.ty == PgType::Unknown {
        let left_type = if left.ty == PgType::Unknown { PgType::Text } else { left.ty };
        let left_type = if left_type == PgType::Varchar { PgType::Text } else { left_type };
        let ty = left_type.array_of().ok_or_else(|| no_operator(name, &[left.ty, array.ty], ctx))?;
        coerce(array, ty, TypeMod::NONE, CastContext::Implicit, ctx)?
    } else {
        array
    };
    let Some(element) = array.ty.element() else {
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            "op ANY/ALL (array) requires array on right side",
        ));
    };
    let stand_in = BoundExpr::column(0, element, TypeMod::NONE);
    if let Some(op) = compare_op(name) {
        let (left, item, collate) = unify(left, stand_in, name, ctx)?;
        let array = convert_elements(array, element, item.ty, ctx)?;
        let kind = ExprKind::CompareArray { op, collate, all, left: Box::new(left), array: Box::new(array) };
        return Ok(fold(BoundExpr::boolean(kind), ctx));
    }
    let types = [left.ty, element];
    match resolve(functions::operators(name), &types, true) {
        Ok(resolved) if resolved.result == PgType::Bool => {
            let left = coerce(left, resolved.args[0], TypeMod::NONE, CastContext::Implicit, ctx)?;
            let array = convert_elements(array, element, resolved.args[1], ctx)?;
            Ok(BoundExpr::boolean(ExprKind::CallArray {
                function: FunctionRef(resolved.def),
                all,
                left: Box::new(left),
                array: Box::new(array),
            }))
        }
        Ok(_) => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            "op ANY/ALL (array) requires operator to yield boolean",
        )),
        Err(_) => Err(no_operator(name, &types, ctx)),
    }
}

fn convert_elements(
    array: BoundExpr,
    from: PgType,
    to: PgType,
    ctx: &BindContext<'_>,
) -> SqlResult<BoundExpr> {
    let ty = to.array_of().ok_or_else(|| no_operator("=", &[to, from], ctx))?;
    if from == to { Ok(array) } else { coerce(array, ty, TypeMod::NONE, CastContext::Implicit, ctx) }
}

/// The catalog's names, if there is one.
pub(super) fn names<'a>(ctx: &'a BindContext<'_>) -> Option<&'a dyn CatalogNames> {
    ctx.format.names.as_deref().map(|names| names as &dyn CatalogNames)
}
