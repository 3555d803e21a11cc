//! Steps through time, for `generate_series`.

use base::SqlResult;
use types::{Datum, PgType, TypeMod};

use crate::shared::{Shared, eval_error};

/// `moment + interval`, in the session's time zone.
pub(crate) fn add_interval(moment: &Datum, step: &Datum, ty: PgType, shared: &Shared) -> SqlResult<Datum> {
    let params = sql::expr::ParamTypes::none();
    let ctx = sql::expr::BindContext::simple(&params, &shared.context.format, "functions in FROM");
    let scope = sql::expr::TableScope {
        table: "s",
        columns: vec![("m", ty, TypeMod::NONE), ("i", PgType::Interval, TypeMod::NONE)],
    };
    let sum = sql::expr::bind_sql_text("m + i", &scope, &ctx)?;
    let row = [moment.clone(), step.clone()];
    let statement = shared.statement();
    sql::expr::eval(&sum, &sql::expr::EvalCtx::new(&statement, &row)).map_err(eval_error)
}
