//! A session's settings: their definitions, values, and what a transaction's end does to them.

mod definitions;
mod facts;
mod quantity;

use std::collections::BTreeMap;

use base::{Nanos, Oid, SqlError, SqlResult, SqlState};
use rustc_hash::FxHashSet;
use types::{ByteaOutput, FormatContext, IntervalStyle};

use super::prepared::ROOM_MIN;
use super::role::ChosenRole;
use super::{Reach, Timeouts, date_style, time_zone};
use crate::parse::IsolationLevel;

pub(super) use definitions::Id;
pub use definitions::SERVER_VERSION;
use definitions::{DEFINITIONS, FIXED, TAKEN};
pub use facts::{SettingFacts, setting_facts};
use quantity::{
    PAGE_KB, QUANTITY_MAX, parse_duration_ms, parse_memory_kb, parse_pages, show_duration, show_memory,
    show_real,
};

/// What values a setting takes.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    /// Whole number in a range.
    Integer(i64, i64),
    /// Number in a range.
    Real(f64, f64),
    /// Milliseconds unless a unit is given; 0 switches off.
    Duration,
    /// Kilobytes unless a unit is given, and how many they are at least.
    Memory(u64),
    /// Pages unless a unit is given, and how many they are at least and at most.
    Pages(u64, u64),
    OneOf(&'static [&'static str]),
    /// Checked by name in [`check`].
    TimeZone,
    DateStyle,
    /// Bounded by [`super::search_path`].
    SearchPath,
    Encoding,
    /// In whose changes foreign keys are watched, which is everybody's.
    ReplicationRole,
    /// A role, looked up and allowed by [`super::role`]: who the session is.
    Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Session,
    /// Chosen by BEGIN and SET TRANSACTION, for one transaction.
    Transaction,
    /// Shown, never set.
    ReadOnly,
}

struct Definition {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    access: Access,
    /// The client is told when it changes.
    reported: bool,
    description: &'static str,
}

const fn def(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Definition {
    Definition { name, default, kind, access: Access::Session, reported: false, description }
}
const fn reported(mut definition: Definition) -> Definition {
    definition.reported = true;
    definition
}
const fn of_transaction(mut definition: Definition) -> Definition {
    definition.access = Access::Transaction;
    definition
}
const fn read_only(mut definition: Definition) -> Definition {
    definition.access = Access::ReadOnly;
    definition
}

impl Id {
    pub(super) fn name(self) -> &'static str {
        DEFINITIONS[self as usize].name
    }

    /// A value for it in its canonical form.
    ///
    /// # Errors
    /// 22023.
    pub(super) fn checked(self, value: &str) -> SqlResult<String> {
        check(&DEFINITIONS[self as usize], value)
    }
}

/// Where a value comes from, which decides how long it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lasting {
    Session,
    /// Until the transaction ends (SET LOCAL).
    Transaction,
}

/// What a setting is set to.
#[derive(Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Role(Box<ChosenRole>),
}

impl Value {
    fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            Value::Role(role) => &role.name,
        }
    }
}

/// What a session's settings, and the values that a rollback brings back, take at most.
const KEPT_SIZE_MAX: usize = 4 << 20;

/// One changed setting within the open transaction.
struct Change {
    key: Key,
    before: Option<Value>,
    lasting: Lasting,
}

impl Change {
    fn size(&self) -> usize {
        let texts =
            self.key.custom().map_or(0, str::len) + self.before.as_ref().map_or(0, |v| v.text().len());
        size_of::<Change>() + texts
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Known(usize),
    /// A custom `prefix.name`, in lower case, or one of [`TAKEN`].
    Custom(String),
}

impl Key {
    fn of(id: Id) -> Key {
        Key::Known(id as usize)
    }

    fn custom(&self) -> Option<&str> {
        match self {
            Key::Known(_) => None,
            Key::Custom(name) => Some(name),
        }
    }

    /// The setting of that name, which a session is about to change.
    ///
    /// # Errors
    /// 42704 unknown name, 42602 no name for a custom setting, 55P02 not changeable, 0A000 changed by SET TRANSACTION only.
    fn to_change(name: &str) -> SqlResult<Key> {
        let Some(at) = find(name) else {
            if let Some(fixed) = find_fixed(name) {
                return Err(unchangeable(fixed.name));
            }
            if is_custom_name(name) {
                return Ok(Key::Custom(name.to_lowercase()));
            }
            if let Some(taken) = find_taken(name) {
                return Ok(Key::Custom(taken.name.to_owned()));
            }
            if name.contains('.') {
                let message = format!("invalid configuration parameter name \"{name}\"");
                return Err(SqlError::new(SqlState::INVALID_NAME, message).with_detail(
                    "Custom parameter names must be two or more simple identifiers separated by dots.",
                ));
            }
            return Err(unknown(name));
        };
        let name = DEFINITIONS[at].name;
        match DEFINITIONS[at].access {
            Access::Session => Ok(Key::Known(at)),
            Access::Transaction => {
                let message = format!("use SET TRANSACTION to change \"{name}\"");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            Access::ReadOnly => Err(unchangeable(name)),
        }
    }

    /// A value for it, in its canonical form.
    ///
    /// # Errors
    /// 22023 bad value; 0A000 for a role's name.
    fn value(&self, text: &str) -> SqlResult<Value> {
        Ok(Value::Text(match self {
            Key::Known(at) => check(&DEFINITIONS[*at], text)?,
            Key::Custom(name) => match find_taken(name) {
                Some(taken) => check(taken, text)?,
                None => text.to_owned(),
            },
        }))
    }
}

/// A `prefix.name` that the server does not know, or what it takes without effect.
#[derive(Default)]
struct Custom {
    value: Option<Value>,
    initial: Option<Value>,
}

/// All settings of a session.
pub(super) struct Settings {
    values: Vec<Option<Value>>,
    /// Those that are set, or were when the session began.
    custom: BTreeMap<String, Custom>,
    /// What a RESET goes back to where the client or its role chose otherwise than the default.
    initial: Vec<Option<Value>>,
    changes: Vec<Change>,
    /// What `changes` takes, and the values that are set.
    kept_size: usize,
    to_report: Vec<usize>,
    epoch: u64,
    digest: Digest,
    /// How many sessions like this one there may be, as it was when it began.
    pub(super) connections_max: u32,
}

/// What every statement asks of the settings, read from their texts once for each change.
#[derive(Clone, Copy)]
pub(super) struct Digest {
    pub(super) timeouts: Timeouts,
    pub(super) isolation: IsolationLevel,
    pub(super) read_only: bool,
    pub(super) deferrable: bool,
    pub(super) synchronous_commit: bool,
}

impl Digest {
    fn of(settings: &Settings) -> Digest {
        Digest {
            timeouts: Timeouts {
                statement: settings.duration(Id::statement_timeout),
                lock: settings.duration(Id::lock_timeout),
                idle_in_transaction: settings.duration(Id::idle_in_transaction_session_timeout),
                idle: settings.duration(Id::idle_session_timeout),
            },
            isolation: settings.isolation(Id::default_transaction_isolation),
            read_only: settings.flag(Id::default_transaction_read_only),
            deferrable: settings.flag(Id::default_transaction_deferrable),
            synchronous_commit: settings.get(Id::synchronous_commit) != "off",
        }
    }
}

impl Default for Digest {
    fn default() -> Digest {
        Digest {
            timeouts: Timeouts::default(),
            isolation: IsolationLevel::ReadCommitted,
            read_only: false,
            deferrable: false,
            synchronous_commit: true,
        }
    }
}

impl Settings {
    /// Those of a session of that role.
    pub(super) fn new(role: ChosenRole) -> Settings {
        let mut settings = Settings {
            values: vec![None; DEFINITIONS.len()],
            custom: BTreeMap::new(),
            initial: vec![None; DEFINITIONS.len()],
            changes: Vec::new(),
            kept_size: 0,
            to_report: Vec::new(),
            epoch: 0,
            digest: Digest::default(),
            connections_max: 0,
        };
        settings.begin_with(&Key::of(Id::session_authorization), Value::Role(Box::new(role)));
        settings
    }

    /// Grows whenever a session's setting may have changed; what was made from settings of the same epoch still holds.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    #[inline]
    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    fn changed(&mut self) {
        self.epoch += 1;
        self.digest = Digest::of(self);
        let superuser = self.role().superuser;
        self.set_by_server(Id::is_superuser, on_or_off(superuser));
    }

    /// A value the session starts with, from its start-up packet or its role.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(super) fn set_initial(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let key = Key::to_change(name)?;
        let value = self.value_for(&key, value)?;
        self.begin_with(&key, value);
        Ok(())
    }

    /// Whether a session could start with such a value.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(super) fn check_initial(name: &str, value: &str) -> SqlResult<()> {
        Key::to_change(name)?.value(value).map(drop)
    }

    /// As [`Key::value`], where it may depend on what is in force.
    fn value_for(&self, key: &Key, text: &str) -> SqlResult<Value> {
        if *key != Key::of(Id::date_style) {
            return key.value(text);
        }
        let initial = self.initial(key);
        let initial = initial.as_ref().map_or(DEFINITIONS[Id::date_style as usize].default, Value::text);
        let [now, initial] = [self.get(Id::date_style), initial].map(date_style::kept);
        date_style::parse(text, now, initial)
            .map(|style| Value::Text(date_style::text_of(style)))
            .ok_or_else(|| invalid(&DEFINITIONS[Id::date_style as usize], text))
    }

    fn begin_with(&mut self, key: &Key, value: Value) {
        self.replace(key, Some(value.clone()));
        // A session that begins is told all of them.
        self.to_report.clear();
        match key {
            Key::Known(at) => self.initial[*at] = Some(value),
            Key::Custom(name) => self.custom.entry(name.clone()).or_default().initial = Some(value),
        }
    }

    fn initial(&self, key: &Key) -> Option<Value> {
        match key {
            Key::Known(at) => self.initial[*at].clone(),
            Key::Custom(name) => self.custom.get(name)?.initial.clone(),
        }
    }

    /// The role that the session acts as: the one it chose, else its own.
    pub(super) fn role(&self) -> &ChosenRole {
        match &self.values[Id::role as usize] {
            Some(Value::Role(role)) => role,
            _ => self.session_role(),
        }
    }

    /// The role whose privileges count; `None` for the administrator, who has all.
    pub(super) fn privileged_role(&self) -> Option<Oid> {
        let role = self.role();
        (!role.administrator).then_some(role.oid)
    }

    pub(super) fn reach(&self) -> Reach {
        if self.role().administrator { Reach::Server } else { Reach::Tenant }
    }

    /// The session's own role.
    pub(super) fn session_role(&self) -> &ChosenRole {
        match &self.values[Id::session_authorization as usize] {
            Some(Value::Role(role)) => role,
            _ => unreachable!("a session begins with a role, and goes back to that one"),
        }
    }

    /// The role that the session logged in as.
    pub(super) fn login_role(&self) -> &ChosenRole {
        match &self.initial[Id::session_authorization as usize] {
            Some(Value::Role(role)) => role,
            _ => unreachable!("a session begins with a role"),
        }
    }

    /// Makes the session be `role`, or act as it; which of the two, `id` says. The caller has seen that it may.
    pub(super) fn choose(&mut self, id: Id, role: Option<ChosenRole>, lasting: Lasting) {
        self.put(Key::of(id), role.map(|role| Value::Role(Box::new(role))), lasting);
    }

    /// Sets what only the server may: what the transaction is, whether the role is a superuser.
    pub(super) fn set_by_server(&mut self, id: Id, value: &str) {
        let at = id as usize;
        if self.get(id) != value {
            self.values[at] = Some(Value::Text(value.to_owned()));
            self.report(at);
        }
    }

    pub(super) fn get(&self, id: Id) -> &str {
        self.value(id as usize)
    }

    /// The value in force and its canonical name; `time_max` is [`super::SessionHost::statement_time_max`].
    ///
    /// # Errors
    /// 42704 for an unknown name.
    pub(super) fn show(&self, name: &str, time_max: Option<Nanos>) -> SqlResult<(String, String)> {
        if let Some(at) = find(name) {
            return Ok((DEFINITIONS[at].name.to_owned(), self.in_force(at, time_max)));
        }
        if let Some(fixed) = find_fixed(name) {
            return Ok((fixed.name.to_owned(), self.fixed_value(fixed)));
        }
        let custom = name.to_lowercase();
        let value = self.custom_value(&custom).or_else(|| Some(find_taken(&custom)?.default));
        value.map(|value| (custom, value.to_owned())).ok_or_else(|| unknown(name))
    }

    fn fixed_value(&self, fixed: &Definition) -> String {
        match fixed.name {
            "max_connections" => self.connections_max.to_string(),
            _ => fixed.default.to_owned(),
        }
    }

    fn custom_value(&self, name: &str) -> Option<&str> {
        self.custom.get(name).and_then(|custom| Some(custom.value.as_ref()?.text()))
    }

    fn custom_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.custom.iter().filter_map(|(name, custom)| Some((&**name, custom.value.as_ref()?.text())))
    }

    /// Sets or, with `None`, resets a setting. Who the session is, [`super::role::set`] sets.
    ///
    /// # Errors
    /// 42704 unknown name, 42602 no name for a custom one, 22023 bad value, 55P02 not changeable, 0A000 not changeable here;
    /// 54000 where too much is kept already.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, lasting: Lasting) -> SqlResult<()> {
        let key = Key::to_change(name)?;
        self.require_room(name, value)?;
        let value = match value {
            Some(value) => Some(self.value_for(&key, value)?),
            None => self.initial(&key),
        };
        self.put(key, value, lasting);
        Ok(())
    }

    /// Errors: 54000 where no more can be kept than there is. What goes back to its initial value may take as much again, to make room.
    pub(super) fn require_room(&self, name: &str, value: Option<&str>) -> SqlResult<()> {
        let (more, max) = match value {
            Some(value) => (name.len() + value.len(), KEPT_SIZE_MAX),
            None => (name.len(), 2 * KEPT_SIZE_MAX),
        };
        if self.kept_size + more <= max {
            return Ok(());
        }
        let message = "the session's settings take too much memory";
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_detail("A transaction keeps the values before all of its changes until it ends."))
    }

    /// What the settings take that the client has chosen, and what a rollback brings back.
    pub(super) fn kept(&self) -> usize {
        self.kept_size
    }

    /// Gives back the room of many changes that are gone.
    pub(super) fn trim(&mut self) {
        if self.changes.capacity() > ROOM_MIN.max(4 * self.changes.len()) {
            self.changes.shrink_to_fit();
        }
    }

    fn put(&mut self, key: Key, value: Option<Value>, lasting: Lasting) {
        if key == Key::of(Id::session_authorization) {
            // The role chosen before was open to whom the session was.
            self.put(Key::of(Id::role), None, lasting);
        }
        let before = self.replace(&key, value);
        let change = Change { key, before, lasting };
        self.kept_size += change.size();
        self.changes.push(change);
    }

    fn replace(&mut self, key: &Key, value: Option<Value>) -> Option<Value> {
        match key {
            Key::Known(at) => {
                if self.values[*at] == value {
                    return value;
                }
                self.report(*at);
                let size = |value: &Option<Value>| match value {
                    Some(Value::Text(text)) => text.len(),
                    _ => 0,
                };
                self.kept_size = self.kept_size + size(&value) - size(&self.values[*at]);
                let before = std::mem::replace(&mut self.values[*at], value);
                self.changed();
                before
            }
            Key::Custom(name) => {
                let size = |value: &Option<Value>| {
                    value.as_ref().map_or(0, |v| size_of::<Custom>() + name.len() + v.text().len())
                };
                let custom = self.custom.entry(name.clone()).or_default();
                let before = std::mem::replace(&mut custom.value, value);
                self.kept_size = self.kept_size + size(&custom.value) - size(&before);
                if custom.value.is_none() && custom.initial.is_none() {
                    self.custom.remove(name);
                }
                before
            }
        }
    }

    fn report(&mut self, at: usize) {
        if DEFINITIONS[at].reported && !self.to_report.contains(&at) {
            self.to_report.push(at);
        }
    }

    /// Resets every setting a session may change, but for who it is.
    ///
    /// # Errors
    /// 54000.
    pub(super) fn reset_all(&mut self) -> SqlResult<()> {
        self.require_room("", None)?;
        let is_reset = |d: &Definition| d.access == Access::Session && !matches!(d.kind, Kind::Role);
        let known = (0..DEFINITIONS.len()).filter(|at| is_reset(&DEFINITIONS[*at])).map(Key::Known);
        let custom = self.custom.keys().cloned().map(Key::Custom);
        for key in known.chain(custom).collect::<Vec<_>>() {
            let initial = self.initial(&key);
            self.put(key, initial, Lasting::Session);
        }
        Ok(())
    }

    /// A point within the transaction to roll back to.
    pub(super) fn mark(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn roll_back_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let change = self.changes.pop().expect("just counted");
            self.kept_size -= change.size();
            self.replace(&change.key, change.before);
        }
    }

    /// The transaction committed: what was SET LOCAL ends.
    pub(super) fn commit(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let mut kept = FxHashSet::default();
        for change in std::mem::take(&mut self.changes).into_iter().rev() {
            self.kept_size -= change.size();
            // A local value gives way to what it covered, unless a session-wide SET came after it.
            match change.lasting {
                Lasting::Session => {
                    kept.insert(change.key);
                }
                Lasting::Transaction if kept.contains(&change.key) => {}
                Lasting::Transaction => {
                    self.replace(&change.key, change.before);
                }
            }
        }
    }

    /// Whether a reported setting changed since [`Settings::take_reports`].
    #[inline]
    pub(super) fn has_reports(&self) -> bool {
        !self.to_report.is_empty()
    }

    /// Name and value of the reported settings changed since the last call.
    pub(super) fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        let changed = std::mem::take(&mut self.to_report);
        changed.into_iter().map(|at| (DEFINITIONS[at].name, self.value(at).to_owned())).collect()
    }

    /// Every reported setting, for the start of a session.
    pub(super) fn reported(&self) -> Vec<(&'static str, String)> {
        let all = DEFINITIONS.iter().enumerate().filter(|(_, d)| d.reported);
        all.map(|(at, d)| (d.name, self.value(at).to_owned())).collect()
    }

    fn value(&self, at: usize) -> &str {
        self.values[at].as_ref().map_or(DEFINITIONS[at].default, Value::text)
    }

    /// As it is shown: a session may have set its `statement_timeout` beyond what it is allowed.
    fn in_force(&self, at: usize, time_max: Option<Nanos>) -> String {
        let own = self.duration(Id::statement_timeout);
        match time_max {
            Some(max) if at == Id::statement_timeout as usize && own.is_none_or(|own| own > max) => {
                show_duration(max.0.div_ceil(1_000_000))
            }
            _ => self.value(at).to_owned(),
        }
    }

    /// Name, value in force and description of all, for SHOW ALL and `pg_settings`.
    pub(super) fn all(&self, time_max: Option<Nanos>) -> Vec<(String, String, String)> {
        let known = DEFINITIONS.iter().enumerate();
        let mut all: Vec<_> = known
            .map(|(at, d)| (d.name.to_owned(), self.in_force(at, time_max), d.description.to_owned()))
            .collect();
        let fixed = FIXED.iter();
        all.extend(fixed.map(|d| (d.name.to_owned(), self.fixed_value(d), d.description.to_owned())));
        let value = |d: &Definition| self.custom_value(d.name).unwrap_or(d.default).to_owned();
        all.extend(TAKEN.iter().map(|d| (d.name.to_owned(), value(d), d.description.to_owned())));
        let custom = self.custom_values().filter(|(name, _)| find_taken(name).is_none());
        all.extend(custom.map(|(n, v)| (n.to_owned(), v.to_owned(), String::new())));
        all.sort();
        all
    }

    fn duration(&self, id: Id) -> Option<Nanos> {
        let ms = parse_duration_ms(self.get(id)).expect("checked when set");
        (ms > 0).then(|| Nanos::from_millis(ms))
    }

    pub(super) fn flag(&self, id: Id) -> bool {
        self.get(id) == "on"
    }

    fn isolation(&self, id: Id) -> IsolationLevel {
        IsolationLevel::from_name(self.get(id)).expect("checked when set")
    }

    /// The schemas of the search path, `"$user"` replaced; not checked for existence.
    pub(super) fn search_path(&self) -> Vec<String> {
        let user = &self.role().name;
        let parts = split_identifiers(self.get(Id::search_path));
        parts.into_iter().map(|name| if name == "$user" { user.clone() } else { name }).collect()
    }

    /// How values are read and written now.
    pub(super) fn format_context(&self, now: i64) -> FormatContext {
        let (date_format, date_order) = date_style::kept(self.get(Id::date_style));
        FormatContext {
            date_format,
            date_order,
            interval_style: match self.get(Id::interval_style) {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            time_zone: time_zone::parse(self.get(Id::time_zone)).expect("checked when set"),
            bytea_output: if self.get(Id::bytea_output) == "escape" {
                ByteaOutput::Escape
            } else {
                ByteaOutput::Hex
            },
            extra_float_digits: self.get(Id::extra_float_digits).parse().expect("checked when set"),
            now,
            names: None,
        }
    }
}

/// All settings but custom ones, each with what is said of it.
pub(crate) fn described_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    DEFINITIONS.iter().chain(FIXED).chain(TAKEN).map(|definition| (definition.name, definition.description))
}

/// A Boolean setting's value.
pub(super) fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn find(name: &str) -> Option<usize> {
    DEFINITIONS.iter().position(|d| d.name.eq_ignore_ascii_case(name))
}

fn find_fixed(name: &str) -> Option<&'static Definition> {
    FIXED.iter().find(|d| d.name.eq_ignore_ascii_case(name))
}

/// One that is taken without effect; in a custom one's name there is a point.
fn find_taken(name: &str) -> Option<&'static Definition> {
    if name.contains('.') {
        return None;
    }
    TAKEN.iter().find(|d| d.name.eq_ignore_ascii_case(name))
}

/// 55P02.
fn unchangeable(name: &str) -> SqlError {
    SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{name}\" cannot be changed"))
}

/// The setting of that name, if it says who the session is.
pub(super) fn setting_of_role(name: &str) -> Option<Id> {
    let is_named = |id: &Id| id.name().eq_ignore_ascii_case(name);
    [Id::role, Id::session_authorization].into_iter().find(is_named)
}

/// Whether a custom setting may have that name, by PostgreSQL's rule.
fn is_custom_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_simple = |part: &str| {
        part.starts_with(is_first) && part.chars().all(|c| is_first(c) || c.is_ascii_digit() || c == '$')
    };
    name.contains('.') && name.split('.').all(is_simple)
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// 22023.
fn invalid(definition: &Definition, value: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{}\": \"{value}\"", definition.name);
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// 22023 for a number, with its unit, that is not from `least` to `most`.
fn outside(definition: &Definition, number: &str, least: &str, most: &str) -> SqlError {
    let name = definition.name;
    let message = format!("{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The canonical form of a value.
fn check(definition: &Definition, value: &str) -> SqlResult<String> {
    let bad = || invalid(definition, value);
    match definition.kind {
        Kind::Text if definition.name == "default_tablespace" && !value.is_empty() => Err(bad()),
        Kind::Text => Ok(value.to_owned()),
        Kind::Bool => match value.to_lowercase().as_str() {
            "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on".into()),
            "off" | "false" | "no" | "0" | "f" | "n" => Ok("off".into()),
            _ => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{}\" requires a Boolean value", definition.name),
            )),
        },
        Kind::Integer(least, most) => match value.parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            Ok(number) => {
                Err(outside(definition, &number.to_string(), &least.to_string(), &most.to_string()))
            }
            Err(_) => Err(bad()),
        },
        Kind::Real(least, most) => match value.trim().parse::<f64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(show_real(number)),
            Ok(number) if number.is_finite() => {
                Err(outside(definition, &show_real(number), &show_real(least), &show_real(most)))
            }
            _ => Err(bad()),
        },
        Kind::Duration => match parse_duration_ms(value) {
            Some(ms) => Ok(show_duration(ms)),
            None => Err(bad()),
        },
        Kind::Memory(least) => match parse_memory_kb(value) {
            Some(kb) if kb >= least => Ok(show_memory(kb)),
            Some(kb) => {
                let most = QUANTITY_MAX.to_string();
                Err(outside(definition, &format!("{kb} kB"), &least.to_string(), &most))
            }
            None => Err(bad()),
        },
        Kind::Pages(least, most) => match parse_pages(value) {
            Some(pages) if (least..=most).contains(&pages) => Ok(show_memory(pages * PAGE_KB)),
            Some(pages) => {
                let number = format!("{pages} {PAGE_KB}kB");
                Err(outside(definition, &number, &least.to_string(), &most.to_string()))
            }
            None => Err(bad()),
        },
        Kind::OneOf(allowed) => {
            let lower = value.to_lowercase();
            let lower = match lower.as_str() {
                "true" | "yes" | "1" => "on",
                "false" | "no" | "0" => "off",
                other => other,
            };
            if allowed.contains(&lower) { Ok(lower.to_owned()) } else { Err(bad()) }
        }
        Kind::SearchPath => super::search_path::check(value).map(|()| value.to_owned()),
        Kind::TimeZone => time_zone::canonical(value).ok_or_else(bad),
        Kind::DateStyle => {
            let initial = date_style::kept(definition.default);
            date_style::parse(value, initial, initial).map(date_style::text_of).ok_or_else(bad)
        }
        // As in PostgreSQL, only letters and digits of an encoding's name count: asyncpg sends `'utf-8'` with its quotes.
        Kind::Encoding => match plain_name(value).as_str() {
            "utf8" | "unicode" => Ok("UTF8".into()),
            // ASCII is UTF-8 already; clients that ask for it lose nothing.
            "sqlascii" => Ok("SQL_ASCII".into()),
            _ => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("conversion between {value} and UTF8 is not supported"),
            )),
        },
        Kind::ReplicationRole => match value.to_lowercase().as_str() {
            known @ ("origin" | "local") => Ok(known.to_owned()),
            "replica" => Err(SqlError::unsupported("session_replication_role = replica").with_hint(
                "ALTER TABLE … DISABLE TRIGGER ALL has the foreign keys of a table not watched until ENABLE TRIGGER ALL.",
            )),
            _ => Err(bad()),
        },
        Kind::Role => {
            Err(SqlError::unsupported(format!("a session that starts with its own \"{}\"", definition.name)))
        }
    }
}

/// The letters and digits of a name, in lower case.
fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Splits a list of identifiers, folding what is not quoted.
pub(super) fn split_identifiers(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = list.trim_start();
    while !rest.is_empty() {
        let mut name = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            // A quote within is doubled.
            loop {
                let (part, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
                name.push_str(part);
                rest = behind;
                match behind.strip_prefix('"') {
                    Some(more) => quoted = more,
                    None => break,
                }
                name.push('"');
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            name.push_str(&rest[..end].trim().to_ascii_lowercase());
            rest = &rest[end..];
        }
        if !name.is_empty() {
            names.push(name);
        }
        rest = rest.trim_start().trim_start_matches(',').trim_start();
    }
    names
}

/// Splits `schema.name`, folding what is not quoted.
pub(super) fn split_name(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            // What has more parts than any name is refused for those.
            '.' if !quoted && parts.len() < 5 => parts.push(String::new()),
            c => {
                let last = parts.last_mut().expect("there is always a part");
                if quoted { last.push(c) } else { last.extend(c.to_lowercase()) }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests;
