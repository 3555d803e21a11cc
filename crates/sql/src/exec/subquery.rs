//! Subqueries within expressions.

use std::ops::ControlFlow;
use std::rc::Rc;

use types::{Datum, Row, row_memory};

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
                    self.step().map_err(|why| self.raise(why))?;
                    if sink(row)?.is_break() {
                        break;
                    }
                }
                return Ok(());
            }
        }
        let cx = Cx { stmt: outer.stmt, outer: Some(outer) };
        let (mut rows, mut held): (Vec<Row>, _) = (Vec::new(), self.memory.hold());
        let mut broken = false;
        let mut raised: Option<EvalError> = None;
        let result = self.select(plan, &cx, &mut |row| {
            if keep {
                self.hold(&mut held, row_memory(row))?;
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
        result.map_err(|why| self.raise(why))?;
        if keep && !broken {
            held.keep();
            self.kept.borrow_mut().insert(plan.id, Rc::new(rows));
        }
        Ok(())
    }
}

impl Run<'_, '_> {
    /// What an expression is told of why its subquery stopped; [`Run::halt`] is the way back.
    #[cold]
    pub(super) fn raise(&self, why: ExecError) -> EvalError {
        match why {
            ExecError::Interrupt(tenant::Interrupt::Error(error)) => EvalError::Sql(error),
            ExecError::Session => EvalError::Interrupted,
            other => {
                *self.interrupt.borrow_mut() = Some(other);
                EvalError::Interrupted
            }
        }
    }
}
