//! Prepared statements and portals: a statement's text, its plan for one version of the catalog, and a run of it.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base::limits::IDENTIFIER_LEN_MAX;
use base::{Oid, SqlError, SqlResult, SqlState, prefetch_value};
use compact_str::CompactString;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use sqlparser::ast;
use types::{Datum, FormatContext, PgType};

use super::Pause;
use super::counting::StatementText;
use super::kept_rows::KeptRows;
use super::reply::{Field, Format, Formats};
use crate::parse::{ParsedStatement, ScriptStatement, Utility};
use crate::plan::{BoundPlan, OutputColumn, PointPlan};

/// A statement that was parsed, with what is known about its parameters and result so far.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) sql: Arc<StatementText>,
    /// `None` for an empty text.
    pub(super) statement: Option<Arc<ParsedStatement>>,
    /// As the client declared them; [`PgType::Unknown`] where it left them open.
    pub(super) declared: Vec<PgType>,
    pub(super) plan: Option<Arc<Planned>>,
    /// When it was prepared, in microseconds since 2000-01-01 UTC.
    pub(super) at: i64,
    /// By SQL's PREPARE, not by the protocol.
    pub(super) from_sql: bool,
    /// What it takes in memory, by estimate.
    pub(super) size: usize,
    /// It was bound to a portal.
    pub(super) was_bound: bool,
    /// Only its text is kept: it is read again when it is wanted.
    pub(super) is_shed: bool,
    /// What was known of it when its plan was let go of.
    pub(super) told: Option<Told>,
    /// When it was prepared or used last, by the count of [`Statements::turn_to`].
    pub(super) used: Cell<u64>,
}

/// What a client was told of a statement, or could have been.
#[derive(Debug)]
pub(super) struct Told {
    parameters: Vec<PgType>,
    fields: Option<Arc<[Field]>>,
}

impl Prepared {
    /// Its columns, as far as they are known.
    pub(super) fn fields(&self) -> Option<&Arc<[Field]>> {
        let planned = self.plan.as_ref().and_then(|plan| plan.fields.as_ref());
        planned.or_else(|| self.told.as_ref()?.fields.as_ref())
    }

    /// The types of its parameters, as far as they are known: a client that was told them sends its values in their forms, whatever becomes of the
    /// tables.
    pub(super) fn parameters(&self) -> &[PgType] {
        match (&self.plan, &self.told) {
            (Some(plan), _) => &plan.parameters[..],
            (None, Some(told)) => &told.parameters,
            (None, None) => &self.declared,
        }
    }

    /// What is known of it, to be kept without its plan.
    fn as_told(&self) -> Told {
        Told { parameters: self.parameters().to_vec(), fields: self.fields().cloned() }
    }

    /// Keeps its text alone, and what a client was told of it; true if that is less than before.
    fn shed(&mut self) -> bool {
        let parameters = self.parameters().len() * PARAMETER_SIZE;
        let columns = self.fields().map_or(0, |fields| fields.len());
        let columns = columns * (size_of::<Field>() + IDENTIFIER_LEN_MAX);
        let size = SHED_SIZE + self.sql.len() + parameters + columns;
        if self.is_shed || self.from_sql || self.statement.is_none() || size >= self.size {
            return false;
        }
        (self.told, self.statement, self.plan) = (Some(self.as_told()), None, None);
        (self.size, self.is_shed) = (size, true);
        true
    }

    /// A portal of it, not run yet, that keeps so much.
    pub(super) fn portal_of(&self, parameters: Parameters, formats: Formats, kept: usize) -> Portal {
        Portal {
            sql: Arc::clone(&self.sql),
            statement: self.statement.clone(),
            plan: self.plan.clone(),
            parameters,
            formats,
            rows: PortalRows::Fresh,
            hold: false,
            cursor: false,
            scroll: false,
            number: 0,
            kept,
        }
    }

    /// The plan whose rows the statement gives.
    pub(super) fn running_plan(&self) -> Option<&Arc<Planned>> {
        self.plan.as_ref().filter(|plan| plan.is_run)
    }
}

/// A session's prepared statements by name, and the estimated memory of those that have one, and of all.
#[derive(Default)]
pub(super) struct Statements {
    /// Names are short: they lie beside what they name, and to find that is not to follow one more pointer.
    by_name: FxHashMap<CompactString, Prepared>,
    kept: usize,
    kept_in_all: usize,
    uses: Cell<u64>,
    /// From which use on it is looked again for those that are seldom used.
    next_look: u64,
}

/// What is not kept by a name, and is less, is not counted: there is one of its kind.
pub(super) const COUNTED_MIN: usize = 64 << 10;
/// What each parameter of a statement takes that the client has declared: its type is kept for the statement, and for its plan, which is told by them.
pub(super) const PARAMETER_SIZE: usize = 4 * size_of::<PgType>();
/// Parameters of a statement, at most: more could not be told to a client, whatever the statement was prepared by.
pub(super) const PARAMETERS_MAX: usize = 65_535;
/// What a statement takes of which the text alone is kept, beside that and its columns.
const SHED_SIZE: usize = 512;
/// What is more than that, and is not likely to be used again, is not kept for an idle client.
const SHED_MIN: usize = 1 << 20;
/// Room for so many things of a kind stays with an idle session.
pub(super) const ROOM_MIN: usize = 64;
/// A session that keeps no more does not look for what it could let go of.
const SELDOM_MIN: usize = 256 << 10;
/// Statements that were among the last so many uses are not seldom used.
const RECENT_USES: u64 = 64;
/// Statements that are asked for ahead, and Binds that are looked through for their names: few batches have more.
const AHEAD_MAX: usize = 8;
const BINDS_AHEAD_MAX: usize = 32;

impl Statements {
    /// Gives back the room of many that are gone.
    pub(super) fn trim(&mut self) {
        if self.by_name.capacity() > ROOM_MIN.max(4 * self.by_name.len()) {
            self.by_name.shrink_to_fit();
        }
    }

    /// Of those that have a name.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    pub(super) fn kept_in_all(&self) -> usize {
        self.kept_in_all
    }

    /// Puts a statement in the place of one of the same name.
    pub(super) fn insert(&mut self, name: &str, prepared: Prepared) {
        self.note_use(&prepared);
        self.put(name, prepared);
    }

    fn put(&mut self, name: &str, prepared: Prepared) {
        self.remove(name);
        self.count(name, prepared.size);
        self.by_name.insert(name.into(), prepared);
    }

    fn count(&mut self, name: &str, size: usize) {
        self.kept_in_all += name.len() + size;
        if !name.is_empty() {
            self.kept += name.len() + size;
        }
    }

    fn count_off(&mut self, name: &str, size: usize) {
        self.kept_in_all -= name.len() + size;
        if !name.is_empty() {
            self.kept -= name.len() + size;
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Prepared> {
        let removed = self.by_name.remove(name)?;
        self.count_off(name, removed.size);
        Some(removed)
    }

    /// Keeps no more than the text of a long statement that has no name, which is rarely run again.
    pub(super) fn shed(&mut self) {
        let Some(unnamed) = self.by_name.get_mut("").filter(|unnamed| unnamed.size > SHED_MIN) else {
            return;
        };
        // The columns that a client was told are the statement's for good.
        let has_columns = |plan: &Arc<Planned>| plan.fields.as_ref().is_none_or(|fields| !fields.is_empty());
        if unnamed.is_shed || !unnamed.was_bound || unnamed.plan.as_ref().is_none_or(has_columns) {
            return;
        }
        let now = unnamed.sql.len() + unnamed.parameters().len() * PARAMETER_SIZE;
        let before = std::mem::replace(&mut unnamed.size, now);
        (unnamed.told, unnamed.statement, unnamed.plan) = (Some(unnamed.as_told()), None, None);
        unnamed.is_shed = true;
        self.count_off("", before);
        self.count("", now);
    }

    /// A statement that is used now: it is not shed before another one is used.
    pub(super) fn turn_to(&self, name: &str) -> Option<&Prepared> {
        let prepared = self.by_name.get(name)?;
        self.note_use(prepared);
        Some(prepared)
    }

    /// Asks for what a Bind and its run come by of these statements from memory at once. It lies behind pointers behind pointers, which would be followed for one
    /// statement after the other.
    pub(super) fn prefetch<'n>(&self, names: impl Iterator<Item = &'n str>) {
        let mut found: SmallVec<[(&str, &Prepared); AHEAD_MAX]> = SmallVec::new();
        for name in names.take(BINDS_AHEAD_MAX) {
            if found.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if let Some(prepared) = self.by_name.get(name) {
                prefetch_value(prepared);
                found.push((name, prepared));
            }
            if found.len() == AHEAD_MAX {
                break;
            }
        }
        // Step by step for all of them: while one's comes the others' do.
        for (_, prepared) in &found {
            prefetch_value(&*prepared.sql);
            prepared.plan.iter().for_each(|plan| prefetch_value(&**plan));
            prepared.statement.iter().for_each(|statement| prefetch_value(&**statement));
        }
        for (_, prepared) in &found {
            prepared.sql.prefetch_counts();
            prepared.plan.iter().for_each(|plan| prefetch_value(&*plan.bound));
        }
    }

    fn note_use(&self, prepared: &Prepared) {
        self.uses.set(self.uses.get() + 1);
        prepared.used.set(self.uses.get());
    }

    /// Keeps no more than the texts of those that have names and were made by the protocol, but for the one that is used; true if that is less than
    /// before.
    pub(super) fn shed_named(&mut self) -> bool {
        self.shed_unused(1)
    }

    /// As [`Statements::shed_named`], but for those that were among the last [`RECENT_USES`].
    pub(super) fn shed_seldom(&mut self) {
        if self.kept > SELDOM_MIN && self.uses.get() >= self.next_look {
            self.next_look = self.uses.get() + RECENT_USES;
            self.shed_unused(RECENT_USES);
        }
    }

    /// Of those that were not among the last so many uses.
    fn shed_unused(&mut self, uses: u64) -> bool {
        let (mut before, mut after) = (0, 0);
        for (name, prepared) in &mut self.by_name {
            let size = prepared.size;
            if !name.is_empty() && prepared.used.get() + uses <= self.uses.get().max(1) && prepared.shed() {
                before += size;
                after += prepared.size;
            }
        }
        self.kept = self.kept - before + after;
        self.kept_in_all = self.kept_in_all - before + after;
        after < before
    }

    /// A statement was bound to a portal.
    pub(super) fn note_bound(&mut self, name: &str) {
        // Nobody asks of those that have a name.
        if name.is_empty()
            && let Some(unnamed) = self.by_name.get_mut(name)
        {
            unnamed.was_bound = true;
        }
    }

    /// A statement of which the text was kept was read again.
    pub(super) fn take_back(&mut self, name: &str, read: ScriptStatement) {
        if let Some(mut prepared) = self.remove(name) {
            let size = read.size + prepared.declared.len() * PARAMETER_SIZE;
            (prepared.statement, prepared.size, prepared.is_shed) =
                (Some(Arc::new(read.statement)), size, false);
            self.put(name, prepared);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Statements::default();
    }

    pub(super) fn set_plan(&mut self, name: &str, plan: Option<Arc<Planned>>) {
        if let Some(prepared) = self.by_name.get_mut(name) {
            prepared.plan = plan;
        }
    }

    /// A prepared statement takes so much more.
    pub(super) fn grow(&mut self, name: &str, more: usize) {
        if let Some(prepared) = self.by_name.get_mut(name) {
            let before = prepared.size;
            prepared.size += more;
            self.count_off(name, before);
            self.count(name, before + more);
        }
    }

    pub(super) fn forget_plans(&mut self) {
        for prepared in self.by_name.values_mut().filter(|prepared| prepared.plan.is_some()) {
            (prepared.told, prepared.plan) = (Some(prepared.as_told()), None);
        }
    }
}

impl Deref for Statements {
    type Target = FxHashMap<CompactString, Prepared>;

    fn deref(&self) -> &FxHashMap<CompactString, Prepared> {
        &self.by_name
    }
}

/// A bound statement and what it was bound against: it holds while both are unchanged.
#[derive(Debug)]
pub(super) struct Planned {
    /// Equal ones may be one ([`super::shared_plans`]); what differs from session to session is beside it.
    pub(super) bound: Arc<BoundPlan>,
    /// The version of the catalog it was bound against.
    pub(super) catalog_version: u64,
    /// The statement runs by it, as [`super::planning::runs_by_plan`] says: looked at in each run, where the statement itself is further away.
    pub(super) is_run: bool,
    /// See [`crate::plan::PointPlan::is_short`]: beside the rest, too.
    pub(super) is_short: bool,
    /// Beside the rest, since it is compared at each run.
    pub(super) search_path: SmallVec<[Oid; 4]>,
    /// Types of all parameters; [`PgType::Unknown`] where only the analytical planner can tell and has not yet.
    pub(super) parameters: Arc<[PgType]>,
    /// The result's columns; `None` while only the analytical planner can tell and has not yet.
    pub(super) fields: Option<Arc<[Field]>>,
    /// The query, for the analytical path.
    pub(super) query: Option<Arc<ast::Query>>,
    /// The role (its oid; `u32::MAX` for the administrator) that was last found to have the privileges the plan needs; 0 for none. Privileges are
    /// part of the catalog, so what was found holds as long as the plan does.
    pub(super) allowed_to: AtomicU32,
    /// A run looked at more rows than was expected when it was made: its tables have grown since, and another one may be better now.
    pub(super) outgrown: AtomicBool,
}

impl Planned {
    pub(super) fn new(
        bound: Arc<BoundPlan>,
        catalog_version: u64,
        search_path: SmallVec<[Oid; 4]>,
        parameters: Arc<[PgType]>,
        fields: Option<Arc<[Field]>>,
        query: Option<Arc<ast::Query>>,
    ) -> Planned {
        let (is_run, allowed_to, outgrown) = Default::default();
        let is_short = bound.point().is_some_and(PointPlan::is_short);
        Planned {
            bound,
            catalog_version,
            is_run,
            is_short,
            search_path,
            parameters,
            fields,
            query,
            allowed_to,
            outgrown,
        }
    }

    /// A run of it ended in its middle, to go on elsewhere. A change goes on by the same plan; and where that is decided when a query is run, its plan may
    /// still be the best there is.
    pub(super) fn note_outgrown(&self) {
        let is_decided = self.bound.point().is_some_and(|plan| plan.cost_of_leading_row.is_some());
        // Relaxed: a hint for the session's next turn.
        self.outgrown.store(self.query.is_some() && !is_decided, Ordering::Relaxed);
    }

    /// Whether to make another one before it is used again.
    pub(super) fn is_outgrown(&self) -> bool {
        self.outgrown.load(Ordering::Relaxed)
    }

    /// # Errors
    /// 42P02 where it has more parameters than the `given` ones.
    pub(super) fn require_parameters(&self, given: usize) -> SqlResult<()> {
        if self.parameters.len() <= given {
            return Ok(());
        }
        let message = format!("there is no parameter ${}", given + 1);
        Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message))
    }

    /// Whether a run that ends well has seen to what is due at its statement's end: a change has, and behind one by a short plan nothing more is due.
    pub(super) fn finishes_itself(&self) -> bool {
        self.is_run && self.is_short && self.bound.command.writes().is_some()
    }

    /// Whether client and planner know all there is to know.
    pub(super) fn is_described(&self) -> bool {
        self.fields.is_some() && !self.parameters.contains(&PgType::Unknown)
    }
}

impl Planned {
    /// Whether both tell the same columns, as far as they are known.
    pub(super) fn has_columns_of(&self, other: &Planned) -> bool {
        self.fields.as_ref().is_none_or(|own| other.has_columns(own))
    }

    /// Whether its columns are these, if they are known.
    pub(super) fn has_columns(&self, told: &[Field]) -> bool {
        let Some(own) = &self.fields else { return true };
        own.len() == told.len()
            && own.iter().zip(told).all(|(a, b)| a.name == b.name && a.ty == b.ty && a.modifier == b.modifier)
    }

    /// Whether the statement answers with rows, be they without columns.
    pub(super) fn yields_rows(&self) -> bool {
        self.bound.command == crate::plan::Command::Select
            || self.fields.as_ref().is_some_and(|fields| !fields.is_empty())
    }
}

/// A Bind's values.
pub(super) type Parameters = SmallVec<[Datum; 4]>;

/// A run of a statement that has begun or is about to.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) sql: Arc<StatementText>,
    pub(super) statement: Option<Arc<ParsedStatement>>,
    pub(super) plan: Option<Arc<Planned>>,
    pub(super) parameters: Parameters,
    pub(super) formats: Formats,
    pub(super) rows: PortalRows,
    /// A cursor made by DECLARE WITH HOLD outlives its transaction.
    pub(super) hold: bool,
    /// Made by DECLARE, so that FETCH may use it.
    pub(super) cursor: bool,
    pub(super) scroll: bool,
    /// Counts the session's portals, so that those made behind a savepoint or within a transaction are known. Given by
    /// [`super::portals::Portals`].
    pub(super) number: u64,
    /// Memory by estimate: of its statement, its parameters and the rows that are kept in memory. Of one without a name, what of it is much.
    pub(super) kept: usize,
}

impl Portal {
    /// The plan whose rows the portal gives.
    pub(super) fn running_plan(&self) -> Option<&Arc<Planned>> {
        self.plan.as_ref().filter(|plan| plan.is_run)
    }

    /// Whether it is of this statement, and of its plan as it is.
    pub(super) fn is_of(&self, prepared: &Prepared) -> bool {
        Arc::ptr_eq(&self.sql, &prepared.sql)
            && is_same(&self.plan, &prepared.plan)
            && is_same(&self.statement, &prepared.statement)
    }

    /// Makes it what a Bind of the same statement makes that keeps nothing of note.
    pub(super) fn bind_again(&mut self, parameters: Parameters, formats: Formats) {
        (self.parameters, self.formats) = (parameters, formats);
        (self.rows, self.kept) = (PortalRows::Fresh, 0);
        (self.hold, self.cursor, self.scroll) = (false, false, false);
    }

    /// Keeps nothing of a long statement that has run and yields no rows: it cannot be run again, whatever it was.
    pub(super) fn shed(&mut self) {
        let is_over = matches!(self.rows, PortalRows::Done) && self.kept > SHED_MIN;
        if is_over && self.running_plan().is_some_and(|plan| !plan.yields_rows()) {
            self.statement = Some(Arc::new(ParsedStatement::Utility(Utility::Unlisten)));
            (self.plan, self.parameters, self.kept) = (None, Parameters::new(), 0);
        }
    }
}

fn is_same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
}

/// What a portal has to give.
#[derive(Debug, Default)]
pub(super) enum PortalRows {
    /// Not run yet.
    #[default]
    Fresh,
    /// All rows, and the position: rows before it were given out.
    Kept(KeptRows),
    /// Run to its end.
    Done,
}

/// 0A000, for a prepared statement whose columns would be others than a client was told.
pub(super) fn changed_result() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
}

/// The fields of a result.
pub(super) fn fields_of(output: &[OutputColumn]) -> Arc<[Field]> {
    output
        .iter()
        .map(|column| Field {
            name: column.name.clone(),
            table_oid: column.table_oid.0,
            attribute: column.attnum,
            ty: column.ty,
            modifier: column.typmod,
        })
        .collect()
}

/// Bytes of parameters, or so many parts of them, between two looks whether the statement is to end.
const PARAMETERS_LOOK: usize = 16 << 10;
/// What a parameter counts for whatever its length.
const PARAMETER_COST: usize = 64;

/// Reads a Bind message's parameters. Asks `is_to_end` where they are long or many.
///
/// # Errors
/// 08P01 for a wrong number of them; what the types' input functions say. A pause if it is to end.
pub(super) fn read_parameters(
    name: &str,
    values: &[Option<&[u8]>],
    codes: &[i16],
    types: &[PgType],
    context: &FormatContext,
    is_to_end: &dyn Fn() -> bool,
) -> Result<Parameters, Pause> {
    if values.len() != types.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                values.len(),
                types.len()
            ),
        )
        .into());
    }
    if codes.len() > 1 && codes.len() != values.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!("bind message has {} parameter formats but {} parameters", codes.len(), values.len()),
        )
        .into());
    }
    let code =
        |index: usize| if codes.len() == 1 { codes[0] } else { codes.get(index).copied().unwrap_or(0) };
    let (mut parameters, mut grown, mut unasked) = (Parameters::with_capacity(values.len()), 0, 0);
    for (index, (value, ty)) in values.iter().zip(types).enumerate() {
        unasked += PARAMETER_COST + value.map_or(0, <[u8]>::len);
        if unasked > PARAMETERS_LOOK {
            unasked = 0;
            if is_to_end() {
                return Err(Pause::Yield);
            }
        }
        // Read where it is to be, not moved there.
        parameters.push(Datum::Null);
        let (Some(bytes), Some(out)) = (value, parameters.last_mut()) else { continue };
        read_parameter(bytes, Format::from_code(code(index))?, *ty, context, out)?;
        grown += out.heap_bytes().saturating_sub(GROWTH_FREE * bytes.len());
        if grown > GROWN_MAX {
            let message = "parameters take too much more memory than they were sent as";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
    }
    Ok(parameters)
}

/// Memory that the parameters of a Bind may take together beyond so many times their bytes: `1e131071` is 54 KB, which take milliseconds to make.
const GROWN_MAX: usize = 16 << 20;
const GROWTH_FREE: usize = 64;

/// Puts a parameter's value in the place of what is in `out`.
fn read_parameter(
    bytes: &[u8],
    format: Format,
    ty: PgType,
    context: &FormatContext,
    out: &mut Datum,
) -> SqlResult<()> {
    if format == Format::Binary {
        return types::parse_binary_into(bytes, ty, context, out);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let bad = bytes[error.valid_up_to()];
        let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{bad:02x}");
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })?;
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    *out = types::parse_text(text, ty, types::TypeMod::NONE, context)?;
    Ok(())
}
