//! Subqueries within expressions.

use std::ops::ControlFlow;
use std::rc::Rc;

use types::{Datum, Row};

use super::{Cx, ExecError, Flow, Run};
use crate::expr::{EvalCtx, EvalError, EvalResult, SubqueryEval, SubqueryId};

impl SubqueryEval for Run<'_, '_> {
    fn run(
        &self,
        id: SubqueryId,
        outer: &EvalCtx<'_>,
        sink: &mut dyn FnMut(&[Datum]) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        let plan = &self.plan.subqueries[id.0 as usize];
        let keep = !plan.correlated;
        if keep {
            let kept = self.kept.borrow().get(&plan.id).map(Rc::clone);
            if let Some(rows) = kept {
                for row in rows.iter() {
                    if sink(row)?.is_break() {
                        break;
                    }
                }
                return Ok(());
            }
        }
        let cx = Cx { stmt: outer.stmt, outer: Some(outer) };
        let mut rows: Vec<Row> = Vec::new();
        let mut broken = false;
        let mut raised: Option<EvalError> = None;
        let result = self.select(plan, &cx, &mut |row| {
            if keep {
                rows.push(row.to_vec());
            }
            match sink(row) {
                Ok(ControlFlow::Continue(())) => Ok(Flow::More),
                Ok(ControlFlow::Break(())) => {
                    broken = true;
                    Ok(Flow::Stop)
                }
                Err(error) => {
                    raised = Some(error);
                    Ok(Flow::Stop)
                }
            }
        });
        if let Some(error) = raised {
            return Err(error);
        }
        match result {
            Ok(()) => {
                if keep && !broken {
                    self.kept.borrow_mut().insert(plan.id, Rc::new(rows));
                }
                Ok(())
            }
            Err(ExecError::Interrupt(tenant::Interrupt::Error(error))) => Err(EvalError::Sql(error)),
            Err(why) => {
                if !matches!(why, ExecError::Session) {
                    *self.interrupt.borrow_mut() = Some(why);
                }
                Err(EvalError::Interrupted)
            }
        }
    }
}
