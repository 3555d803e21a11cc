//! Which of several functions or operators of one name is meant: PostgreSQL's rules (its manual, chapter "Type Conversion").

use types::{CastContext, ElementType, PgType, cast_allowed};

use super::function::{ArgType, FunctionDef};

/// A chosen definition with its polymorphic types settled.
pub(super) struct Resolved {
    pub(super) def: &'static FunctionDef,
    pub(super) args: Vec<PgType>,
    pub(super) result: PgType,
}

pub(super) enum Failure {
    None,
    Ambiguous,
}

fn implicit(from: PgType, to: PgType) -> bool {
    cast_allowed(from, to) == Some(CastContext::Implicit)
}

/// Settles the argument types of `def` for actual types `actual`; `None` if they do not fit.
fn settle(def: &'static FunctionDef, actual: &[PgType]) -> Option<Resolved> {
    let count_fits =
        if def.variadic { actual.len() >= def.args.len() } else { actual.len() == def.args.len() };
    if !count_fits {
        return None;
    }
    let mut element: Option<PgType> = None;
    let mut enumeration: Option<PgType> = None;
    for (i, &ty) in actual.iter().enumerate() {
        match def.arg(i) {
            ArgType::AnyArray if ty != PgType::Unknown => {
                let own = ty.element()?;
                element = Some(match element {
                    None => own,
                    Some(known) if known == own || implicit(own, known) => known,
                    Some(known) if implicit(known, own) => own,
                    Some(_) => return None,
                });
            }
            ArgType::AnyEnum if ty != PgType::Unknown => {
                if !matches!(ty, PgType::Enum(_)) || enumeration.is_some_and(|known| known != ty) {
                    return None;
                }
                enumeration = Some(ty);
            }
            _ => {}
        }
    }
    let has_array = (0..actual.len()).any(|i| def.arg(i) == ArgType::AnyArray);
    for (i, &ty) in actual.iter().enumerate() {
        if def.arg(i) == ArgType::AnyElement && ty != PgType::Unknown {
            if has_array && ty.element().is_some() {
                return None;
            }
            element = Some(match element {
                None => ty,
                Some(known) if known == ty || implicit(ty, known) => known,
                Some(known) if implicit(known, ty) => ty,
                Some(_) => return None,
            });
        }
    }
    let element_type = element.unwrap_or(PgType::Text);
    let concrete = |declared: ArgType, actual: PgType| -> Option<PgType> {
        Some(match declared {
            ArgType::Is(ty) => ty,
            ArgType::AnyElement => element_type,
            ArgType::AnyArray => element_type.array_of()?,
            ArgType::AnyEnum => enumeration?,
            ArgType::Any | ArgType::AnyNonArray => {
                if declared == ArgType::AnyNonArray && actual.element().is_some() {
                    return None;
                }
                if actual == PgType::Unknown { PgType::Text } else { actual }
            }
        })
    };
    let mut args = Vec::with_capacity(actual.len());
    for (i, &ty) in actual.iter().enumerate() {
        let want = concrete(def.arg(i), ty)?;
        if !implicit(ty, want) {
            return None;
        }
        args.push(want);
    }
    let result = concrete(def.result, PgType::Unknown)?;
    Some(Resolved { def, args, result })
}

/// Chooses among `candidates` for arguments of types `actual`.
pub(super) fn resolve(
    candidates: &[&'static FunctionDef],
    actual: &[PgType],
    operator: bool,
) -> Result<Resolved, Failure> {
    let exact = |types: &[PgType]| {
        candidates.iter().copied().find(|def| {
            !def.variadic
                && def.args.len() == types.len()
                && def.args.iter().zip(types).all(|(declared, ty)| *declared == ArgType::Is(*ty))
        })
    };
    if let Some(resolved) = exact(actual).and_then(|def| settle(def, actual)) {
        return Ok(resolved);
    }
    // A binary operator with one unknown side: try the other side's type for both.
    if operator && let [left, right] = *actual {
        let both = match (left, right) {
            (PgType::Unknown, known) | (known, PgType::Unknown) if known != PgType::Unknown => {
                Some(base_type(known))
            }
            _ => None,
        };
        if let Some(resolved) = both.and_then(|ty| exact(&[ty, ty])).and_then(|def| settle(def, actual)) {
            return Ok(resolved);
        }
    }
    let mut fitting: Vec<Resolved> = candidates.iter().filter_map(|def| settle(def, actual)).collect();
    match fitting.len() {
        0 => return Err(Failure::None),
        1 => return Ok(fitting.swap_remove(0)),
        _ => {}
    }
    keep_best(&mut fitting, |c| {
        let exact = |i: &usize| c.args[*i] == base_type(actual[*i]) && !is_polymorphic(c.def.arg(*i));
        (0..actual.len()).filter(|i| actual[*i] != PgType::Unknown && exact(i)).count()
    });
    if fitting.len() > 1 {
        keep_best(&mut fitting, |c| {
            let preferred = |i: &usize| {
                let (want, have) = (c.args[*i], base_type(actual[*i]));
                !is_polymorphic(c.def.arg(*i))
                    && (want == have || want.is_preferred() && want.category() == have.category())
            };
            (0..actual.len()).filter(|i| actual[*i] != PgType::Unknown && preferred(i)).count()
        });
    }
    if fitting.len() > 1 {
        choose_unknowns(&mut fitting, actual);
    }
    if fitting.len() > 1 {
        // All known arguments of one type: assume the unknown ones are too.
        let mut known = actual.iter().copied().filter(|ty| *ty != PgType::Unknown);
        if let Some(first) = known.next()
            && known.all(|ty| ty == first)
            && actual.contains(&PgType::Unknown)
        {
            let fits = |c: &Resolved| c.args.iter().all(|want| implicit(first, *want));
            if fitting.iter().filter(|c| fits(c)).count() == 1 {
                fitting.retain(fits);
            }
        }
    }
    if fitting.len() == 1 { Ok(fitting.swap_remove(0)) } else { Err(Failure::Ambiguous) }
}

/// varchar has no functions of its own; it is text to all of them.
fn base_type(ty: PgType) -> PgType {
    match ty {
        PgType::Varchar => PgType::Text,
        PgType::Array(ElementType::Varchar) => PgType::Array(ElementType::Text),
        other => other.vector_element().map_or(other, PgType::Array),
    }
}

fn is_polymorphic(declared: ArgType) -> bool {
    !matches!(declared, ArgType::Is(_))
}

fn keep_best(fitting: &mut Vec<Resolved>, score: impl Fn(&Resolved) -> usize) {
    let best = fitting.iter().map(&score).max().unwrap_or(0);
    fitting.retain(|c| score(c) == best);
}

/// Narrows by the unknown arguments: strings if any candidate takes one there, else the category all agree on.
fn choose_unknowns(fitting: &mut Vec<Resolved>, actual: &[PgType]) {
    let definite = |c: &Resolved| {
        (0..actual.len()).all(|i| actual[i] != PgType::Unknown || !is_polymorphic(c.def.arg(i)))
    };
    if fitting.iter().any(definite) {
        fitting.retain(definite);
    }
    for (i, ty) in actual.iter().enumerate() {
        if *ty != PgType::Unknown {
            continue;
        }
        let category = if fitting.iter().any(|c| c.args[i].category() == 'S') {
            'S'
        } else {
            let first = fitting[0].args[i].category();
            if fitting.iter().any(|c| c.args[i].category() != first) {
                return;
            }
            first
        };
        fitting.retain(|c| c.args[i].category() == category);
        if fitting.iter().any(|c| c.args[i].is_preferred()) {
            fitting.retain(|c| c.args[i].is_preferred());
        }
    }
}
