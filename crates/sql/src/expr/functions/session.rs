//! Functions that ask the session: who, where, settings, sequences, advisory locks, other backends.

use base::{SqlError, SqlState};
use types::{Datum, ElementType, TypeMod};

use super::*;
use crate::expr::eval_context::AdvisoryKey;
use crate::expr::tree::{BoundExpr, ExprKind, FunctionRef};

macro_rules! advisory {
    ($name:literal, $result:expr, $f:ident, $shared:literal, $transaction:literal, $wait:literal) => {
        [
            FunctionDef::new($name, &[INT8], $result, |a, c| $f(a, c, $shared, $transaction, $wait))
                .volatile(),
            FunctionDef::new($name, &[INT4, INT4], $result, |a, c| $f(a, c, $shared, $transaction, $wait))
                .volatile(),
        ]
    };
}

const ADVISORY: [[FunctionDef; 2]; 10] = [
    advisory!("pg_advisory_lock", VOID, lock, false, false, true),
    advisory!("pg_advisory_lock_shared", VOID, lock, true, false, true),
    advisory!("pg_advisory_xact_lock", VOID, lock, false, true, true),
    advisory!("pg_advisory_xact_lock_shared", VOID, lock, true, true, true),
    advisory!("pg_try_advisory_lock", BOOL, lock, false, false, false),
    advisory!("pg_try_advisory_lock_shared", BOOL, lock, true, false, false),
    advisory!("pg_try_advisory_xact_lock", BOOL, lock, false, true, false),
    advisory!("pg_try_advisory_xact_lock_shared", BOOL, lock, true, true, false),
    advisory!("pg_advisory_unlock", BOOL, unlock, false, false, false),
    advisory!("pg_advisory_unlock_shared", BOOL, unlock, true, false, false),
];

/// The state of a sequence, under names that no statement of a client can mean by accident.
pub(crate) const LAST_VALUE: &str = "rowhouse_sequence_last_value";
pub(crate) const IS_CALLED: &str = "rowhouse_sequence_is_called";

/// `pg_typeof` with what it is to answer, which its argument's value does not say.
pub(crate) const TYPE_OF: &str = "typed pg_typeof";

/// `rowhouse.reset_statements`, as it is called.
pub(crate) const RESET_STATEMENTS: &str = "rowhouse.reset_statements";

const OTHERS: [FunctionDef; 33] = [
    FunctionDef::new("current_user", &[], NAME, |_, c| Ok(Datum::text(c.stmt.session.current_user())))
        .stable(),
    FunctionDef::new("user", &[], NAME, |_, c| Ok(Datum::text(c.stmt.session.current_user()))).stable(),
    FunctionDef::new("current_role", &[], NAME, |_, c| Ok(Datum::text(c.stmt.session.current_user())))
        .stable(),
    FunctionDef::new("session_user", &[], NAME, |_, c| Ok(Datum::text(c.stmt.session.session_user())))
        .stable(),
    FunctionDef::new("current_database", &[], NAME, |_, c| {
        Ok(Datum::text(c.stmt.session.current_database()))
    })
    .stable(),
    FunctionDef::new("current_catalog", &[], NAME, |_, c| Ok(Datum::text(c.stmt.session.current_database())))
        .stable(),
    FunctionDef::new("current_schema", &[], NAME, current_schema).stable(),
    FunctionDef::new("current_schemas", &[BOOL], NAME_ARRAY, current_schemas).stable(),
    FunctionDef::new("version", &[], TEXT, |_, c| Ok(Datum::text(c.stmt.session.version()))).stable(),
    FunctionDef::new("pg_backend_pid", &[], INT4, |_, c| Ok(Datum::Int4(c.stmt.session.backend_pid())))
        .stable(),
    FunctionDef::new("current_setting", &[TEXT], TEXT, current_setting).stable(),
    FunctionDef::new("current_setting", &[TEXT, BOOL], TEXT, current_setting).stable(),
    FunctionDef::new("set_config", &[TEXT, TEXT, BOOL], TEXT, set_config).volatile().takes_null(),
    FunctionDef::new("nextval", &[REGCLASS], INT8, |a, c| {
        Ok(Datum::Int8(c.stmt.session.sequence_next(oid(&a[0])?)?))
    })
    .volatile(),
    FunctionDef::new("currval", &[REGCLASS], INT8, |a, c| {
        Ok(Datum::Int8(c.stmt.session.sequence_current(oid(&a[0])?)?))
    })
    .volatile(),
    FunctionDef::new("lastval", &[], INT8, |_, c| Ok(Datum::Int8(c.stmt.session.sequence_last()?)))
        .volatile(),
    FunctionDef::new("setval", &[REGCLASS, INT8], INT8, setval).volatile(),
    FunctionDef::new(LAST_VALUE, &[REGCLASS], INT8, |a, c| {
        Ok(Datum::Int8(c.stmt.session.sequence_state(oid(&a[0])?)?.0))
    })
    .volatile(),
    FunctionDef::new(IS_CALLED, &[REGCLASS], BOOL, |a, c| {
        Ok(Datum::Bool(c.stmt.session.sequence_state(oid(&a[0])?)?.1))
    })
    .volatile(),
    FunctionDef::new("setval", &[REGCLASS, INT8, BOOL], INT8, setval).volatile(),
    FunctionDef::new("pg_get_serial_sequence", &[TEXT, TEXT], TEXT, serial_sequence).stable(),
    FunctionDef::new("pg_cancel_backend", &[INT4], BOOL, |a, c| {
        Ok(Datum::Bool(c.stmt.session.signal_backend(int(&a[0])? as i32, false)?))
    })
    .volatile(),
    FunctionDef::new("pg_terminate_backend", &[INT4], BOOL, |a, c| {
        Ok(Datum::Bool(c.stmt.session.signal_backend(int(&a[0])? as i32, true)?))
    })
    .volatile(),
    FunctionDef::new("pg_blocking_pids", &[INT4], INT4_ARRAY, |a, c| {
        let pids = c.stmt.session.blocking_pids(int(&a[0])? as i32)?;
        Ok(Datum::array(ElementType::Int4, pids.into_iter().map(Datum::Int4).collect()))
    })
    .volatile(),
    FunctionDef::new(RESET_STATEMENTS, &[], VOID, |_, c| {
        c.stmt.session.reset_statements()?;
        Ok(Datum::Void)
    })
    .volatile(),
    FunctionDef::new("pg_advisory_unlock_all", &[], VOID, |_, c| {
        c.stmt.session.advisory_unlock_all()?;
        Ok(Datum::Void)
    })
    .volatile(),
    // Whoever asks gives its transaction a number, which is done at home alone.
    FunctionDef::new("txid_current", &[], INT8, |_, c| Ok(Datum::Int8(c.stmt.session.transaction_id()?)))
        .volatile(),
    FunctionDef::new("pg_export_snapshot", &[], TEXT, |_, c| {
        Ok(Datum::text(c.stmt.session.export_snapshot()?))
    })
    .volatile(),
    FunctionDef::new("pg_is_in_recovery", &[], BOOL, |_, _| Ok(Datum::Bool(false))).stable(),
    FunctionDef::new("pg_sleep", &[FLOAT8], VOID, |a, c| {
        c.stmt.session.sleep(float(&a[0])?)?;
        Ok(Datum::Void)
    })
    .volatile(),
    FunctionDef::new("gen_random_uuid", &[], UUID, super::extension::random_uuid).volatile(),
    FunctionDef::new(TYPE_OF, &[ArgType::Any, REGTYPE], REGTYPE, |a, _| Ok(a[1].clone()))
        .stable()
        .takes_null(),
    FunctionDef::new("pg_client_encoding", &[], NAME, |_, _| Ok(Datum::text("UTF8"))).stable(),
];

pub(super) static FUNCTIONS: &[FunctionDef] = &{
    const COUNT: usize = 2 * ADVISORY.len() + OTHERS.len();
    let mut out = [const { FunctionDef { ..OTHERS[0] } }; COUNT];
    let mut i = 0;
    while i < OTHERS.len() {
        out[i] = FunctionDef { ..OTHERS[i] };
        i += 1;
    }
    let mut k = 0;
    while k < ADVISORY.len() {
        out[i] = FunctionDef { ..ADVISORY[k][0] };
        out[i + 1] = FunctionDef { ..ADVISORY[k][1] };
        i += 2;
        k += 1;
    }
    out
};

/// `nextval` as an identity column calls it. In no table of names, since it asks for no privilege.
static IDENTITY_NEXT: FunctionDef = FunctionDef::new("nextval", &[REGCLASS], INT8, |a, c| {
    Ok(Datum::Int8(c.stmt.session.identity_next(oid(&a[0])?)?))
})
.volatile();

/// The value of an identity column with this sequence.
pub(crate) fn identity_value(sequence: u32) -> BoundExpr {
    let args = vec![BoundExpr::constant(Datum::Oid(sequence), PgType::Regclass)];
    let call = ExprKind::Call { function: FunctionRef(&IDENTITY_NEXT), args };
    BoundExpr::new(PgType::Int8, TypeMod::NONE, call)
}

fn oid(d: &Datum) -> EvalResult<u32> {
    match d {
        Datum::Oid(oid) => Ok(*oid),
        _ => Err(wrong("an oid", d)),
    }
}

fn current_schema(_args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    // It looks up all of the search path, in as many schemas as there are.
    ctx.look()?;
    Ok(ctx.stmt.session.current_schemas(false).first().map_or(Datum::Null, Datum::text))
}

fn current_schemas(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    ctx.look()?;
    let schemas = ctx.stmt.session.current_schemas(boolean(&args[0])?);
    Ok(Datum::array(ElementType::Name, schemas.iter().map(Datum::text).collect()))
}

fn current_setting(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    // A value may have megabytes.
    ctx.look()?;
    let name = text(&args[0])?;
    let missing_ok = args.get(1).map_or(Ok(false), boolean)?;
    match ctx.stmt.session.setting(name) {
        Some(value) => Ok(Datum::text(value)),
        None if missing_ok => Ok(Datum::Null),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )
        .into()),
    }
}

fn set_config(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    ctx.look()?;
    if args[0].is_null() {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name").into());
    }
    let value = if args[1].is_null() { None } else { Some(text(&args[1])?) };
    let local = !args[2].is_null() && boolean(&args[2])?;
    Ok(Datum::text(ctx.stmt.session.set_setting(text(&args[0])?, value, local)?))
}

fn setval(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let called = args.get(2).map_or(Ok(true), boolean)?;
    Ok(Datum::Int8(ctx.stmt.session.sequence_set(oid(&args[0])?, int(&args[1])?, called)?))
}

fn serial_sequence(args: &[Datum], ctx: &EvalCtx<'_>) -> EvalResult<Datum> {
    let name = ctx.stmt.session.serial_sequence(text(&args[0])?, text(&args[1])?)?;
    Ok(name.map_or(Datum::Null, Datum::text))
}

fn key(args: &[Datum]) -> EvalResult<AdvisoryKey> {
    Ok(match args {
        [one] => AdvisoryKey::One(int(one)?),
        [a, b] => AdvisoryKey::Two(int(a)? as i32, int(b)? as i32),
        _ => return Err(SqlError::internal("an advisory key has one or two parts").into()),
    })
}

fn lock(args: &[Datum], ctx: &EvalCtx<'_>, shared: bool, transaction: bool, wait: bool) -> EvalResult<Datum> {
    let taken = ctx.stmt.session.advisory_lock(key(args)?, shared, transaction, wait)?;
    Ok(if wait { Datum::Void } else { Datum::Bool(taken) })
}

fn unlock(args: &[Datum], ctx: &EvalCtx<'_>, shared: bool, _: bool, _: bool) -> EvalResult<Datum> {
    Ok(Datum::Bool(ctx.stmt.session.advisory_unlock(key(args)?, shared)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Volatility;

    /// What is stable may be asked on the analytical path once a query is large.
    #[test]
    fn what_is_done_at_home_alone_is_volatile() {
        let sequences = ["nextval", "currval", "lastval", "setval"];
        let others = ["set_config", "txid_current", "pg_export_snapshot", "pg_sleep"];
        for name in sequences.into_iter().chain(others) {
            let all: Vec<_> = FUNCTIONS.iter().filter(|function| function.name == name).collect();
            assert!(!all.is_empty(), "{name}");
            assert!(all.iter().all(|function| function.volatility == Volatility::Volatile), "{name}");
        }
    }
}
