//! Bind as it mostly is: to the portal without a name, of a prepared statement that has a name and whose plan holds. The statement is looked up once. All
//! other Binds are in [`super::extended`], which says what these say, too.

use super::prepared::{COUNTED_MIN, read_parameters};
use super::reply::Formats;
use super::transaction::Transaction;
use super::{Bind, Home, Pause, Session};

impl Session {
    /// False, and nothing was done but to note the time, for a Bind that is another one, and where what is kept for it is to be counted.
    pub(super) fn bind_at_once(&mut self, home: &Home<'_>, bind: &Bind<'_>) -> Result<bool, Pause> {
        let is_usual = bind.portal.is_empty() && !bind.statement.is_empty();
        let is_refused = matches!(self.transaction, Transaction::Failed(_));
        if !is_usual || is_refused || self.is_format_stale() || bind.given_len() >= COUNTED_MIN {
            return Ok(false);
        }
        self.begin_if_idle();
        let Some(prepared) = self.statements.turn_to(bind.statement) else { return Ok(false) };
        if prepared.size >= COUNTED_MIN || !self.needs_no_plan(home, prepared) {
            return Ok(false);
        }
        let formats = Formats::from_codes(bind.result_formats)?;
        if bind.result_formats.len() > 1 {
            let known = prepared.running_plan().and_then(|plan| plan.fields.as_ref());
            let Some(fields) = known else { return Ok(false) };
            // A statement without rows takes any.
            if !fields.is_empty() {
                formats.require_columns(fields.len())?;
            }
        }
        let types = prepared.plan.as_ref().map_or(&[][..], |plan| &plan.parameters[..]);
        let (name, values, formats_of) = (bind.statement, bind.parameters, bind.parameter_formats);
        let is_to_end = || self.start.host.is_to_end(&self.underway());
        let parameters = read_parameters(name, values, formats_of, types, &self.format, &is_to_end)?;
        match self.portals.unnamed_of(prepared) {
            // Statements are mostly run several times in a row: then all else of the portal is there.
            Some(portal) => portal.bind_again(parameters, formats),
            None => self.portals.insert("", prepared.portal_of(parameters, formats, 0)),
        }
        Ok(true)
    }
}

impl Bind<'_> {
    /// Bytes of its values.
    pub(super) fn given_len(&self) -> usize {
        self.parameters.iter().flatten().map(|value| value.len()).sum()
    }
}
