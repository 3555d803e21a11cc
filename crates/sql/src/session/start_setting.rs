//! Settings that sessions start with: of a role, of all roles, of the database, of a role in it.

use base::{ByteCount, Oid, SqlError, SqlResult, SqlState};
use compact_str::CompactString;
use tenant::catalog::{Catalog, Database, OWNER_ROLE, PUBLIC, Role, StartSettings};

use super::setting::Settings;
use super::setting_statement::text_of;
use super::{Home, Pause, Session};
use crate::parse::{SessionsOf, SettingChange, StartSetting};

/// What is done to one list of settings.
enum Change {
    Set(String, String),
    Reset(String),
    ResetAll,
}

/// The settings that one list has at most.
const SETTINGS_MAX: usize = 256;
/// What their names and values take at most.
const SETTINGS_SIZE_MAX: ByteCount = ByteCount::from_kib(16);

/// How many settings there are, and what their names and values take.
fn extent(settings: &[(CompactString, Box<str>)]) -> (usize, ByteCount) {
    let bytes: usize = settings.iter().map(|(name, value)| name.len() + value.len()).sum();
    (settings.len(), ByteCount(bytes as u64))
}

impl Change {
    /// Errors: 54000 for a list that grows beyond what one may be.
    fn apply(self, settings: &mut Vec<(CompactString, Box<str>)>) -> SqlResult<()> {
        let (count_before, size_before) = extent(settings);
        match self {
            Change::Set(name, value) => match settings.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value.into(),
                None => settings.push((name.into(), value.into())),
            },
            Change::Reset(name) => settings.retain(|(known, _)| *known != name),
            Change::ResetAll => settings.clear(),
        }
        let (count, size) = extent(settings);
        if count > count_before.max(SETTINGS_MAX) || size > size_before.max(SETTINGS_SIZE_MAX) {
            let message = "too many settings for sessions to start with";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_detail(format!(
                "One list has at most {SETTINGS_MAX} of them, whose names and values take at most {} bytes.",
                SETTINGS_SIZE_MAX.0
            )));
        }
        Ok(())
    }
}

impl Session {
    /// # Errors
    /// 42501; 42704 for a role or a setting that is not there; 3D000 for another database; 22023 for what no session could start with;
    /// 54000 for more than sessions start with.
    pub(super) fn start_setting(
        &mut self,
        home: &mut Home<'_>,
        statement: &StartSetting,
    ) -> Result<String, Pause> {
        let tag = match statement.of {
            SessionsOf::Database(_) => "ALTER DATABASE",
            _ => "ALTER ROLE",
        };
        self.require_writable(home, tag)?;
        let catalog = self.catalog(home);
        match &statement.of {
            SessionsOf::Role(name) => {
                let mut role = self.settable_role(&catalog, name)?;
                self.change_of(&statement.change)?.apply(&mut role.settings)?;
                self.ddl(home, |ddl| ddl.alter_role(role).map_err(Into::into))?;
            }
            SessionsOf::EveryRole => {
                if !self.is_superuser(&catalog) {
                    let message = "must be superuser to alter settings globally";
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
                }
                let change = self.change_of(&statement.change)?;
                self.change_database_settings(home, PUBLIC, false, change)?;
            }
            SessionsOf::Database(database) => {
                self.require_own_database(database)?;
                self.check_owner(&catalog, OWNER_ROLE, "database", database)?;
                let change = self.change_of(&statement.change)?;
                self.change_database_settings(home, PUBLIC, true, change)?;
            }
            SessionsOf::RoleInDatabase { role, database } => {
                let role = self.settable_role(&catalog, role)?.oid;
                self.require_own_database(database)?;
                let change = self.change_of(&statement.change)?;
                self.change_database_settings(home, role, true, change)?;
            }
        }
        Ok(tag.into())
    }

    fn settable_role(&self, catalog: &Catalog, name: &str) -> SqlResult<Role> {
        let role = self.named(catalog, name)?;
        self.check_set(catalog, role)?;
        Ok((**role).clone())
    }

    /// Errors: 3D000 for a database that is not the session's, which no statement reaches.
    pub(crate) fn require_own_database(&self, name: &str) -> SqlResult<()> {
        if name == self.start.database {
            return Ok(());
        }
        let message = format!("database \"{name}\" does not exist");
        Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message)
            .with_hint("A statement can only name the database that its session is in."))
    }

    fn change_of(&self, change: &SettingChange) -> SqlResult<Change> {
        Ok(match change {
            SettingChange::Set(name, value) => match text_of(name, value) {
                Some(text) => set(name, text)?,
                None => Change::Reset(name.clone()),
            },
            SettingChange::FromCurrent(name) => {
                let (_, value) = self.settings.borrow().show(name, self.start.host.statement_time_max())?;
                set(name, value)?
            }
            SettingChange::Reset(name) => Change::Reset(name.clone()),
            SettingChange::ResetAll => Change::ResetAll,
        })
    }

    fn change_database_settings(
        &mut self,
        home: &mut Home<'_>,
        role: Oid,
        in_database: bool,
        change: Change,
    ) -> Result<(), Pause> {
        self.ddl(
            home,
            |ddl| Ok(ddl.change_database(|database| change.apply_in(database, role, in_database))?),
        )
    }
}

impl Change {
    fn apply_in(self, database: &mut Database, role: Oid, in_database: bool) -> SqlResult<()> {
        let is_it = |known: &StartSettings| known.role == role && known.in_database == in_database;
        let at = database.start_settings.iter().position(is_it).unwrap_or_else(|| {
            database.start_settings.push(StartSettings { role, in_database, values: Vec::new() });
            database.start_settings.len() - 1
        });
        self.apply(&mut database.start_settings[at].values)?;
        if database.start_settings[at].values.is_empty() {
            database.start_settings.remove(at);
        }
        Ok(())
    }
}

/// Errors: those of a session that would start with it.
fn set(name: &str, value: String) -> SqlResult<Change> {
    Settings::check_initial(name, &value)?;
    Ok(Change::Set(name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use base::{Severity, SqlState};
    use tenant::catalog::{OWNER_ROLE, PUBLIC};

    use super::super::stand_in::Answer;
    use super::super::testing::Bench;

    #[test]
    fn sessions_start_with_the_settings_of_all_of_the_database_and_of_their_role_the_last_of_them_first() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(&mut owner, "create role guest login");
        let shown = |bench: &mut Bench, user: &str| {
            let mut session = bench.session_of(user);
            bench.run(&mut session, "show work_mem").rows[0][0].clone().expect("a setting has a value")
        };
        let initial = shown(&mut bench, "guest");
        for (sql, guest, other) in [
            ("alter role all set work_mem = '1MB'", "1MB", "1MB"),
            ("alter database app set work_mem to '2MB'", "2MB", "2MB"),
            ("alter role guest set work_mem = '3MB'", "3MB", "2MB"),
            ("alter user guest in database app set work_mem = '4MB'", "4MB", "2MB"),
            ("alter role guest in database app reset work_mem", "3MB", "2MB"),
            ("alter role guest reset all", "2MB", "2MB"),
            ("alter role all in database app reset all", "1MB", "1MB"),
        ] {
            bench.run(&mut owner, sql);
            assert_eq!(
                (shown(&mut bench, "guest"), shown(&mut bench, "owner")),
                (guest.into(), other.into()),
                "{sql}"
            );
        }
        bench.run(&mut owner, "alter role all reset work_mem");
        assert_eq!(shown(&mut bench, "guest"), initial);
        assert!(bench.catalog().database().start_settings.is_empty());
    }

    #[test]
    fn a_setting_is_kept_as_it_is_read_and_refused_where_no_session_could_start_with_it() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(&mut owner, "set timezone = 'Europe/Vienna'; create role guest login");
        bench.run(&mut owner, "alter database app set search_path = \"$user\", public");
        bench.run(&mut owner, "alter database app set timezone from current");
        let kept = bench.catalog().database().settings_of(PUBLIC, true).to_vec();
        let kept: Vec<_> = kept.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(kept, ["search_path=\"$user\", public", "timezone=Europe/Vienna"]);
        bench.run(&mut owner, "alter database app set search_path to default");
        assert_eq!(bench.catalog().database().settings_of(PUBLIC, true).len(), 1);

        for (sql, state) in [
            ("alter database app set nonsense = 1", SqlState::UNDEFINED_OBJECT),
            ("alter database app set lock_timeout = 'long'", SqlState::INVALID_PARAMETER_VALUE),
            ("alter database other set work_mem = '1MB'", SqlState::INVALID_CATALOG_NAME),
            ("alter role nobody in database app set work_mem = '1MB'", SqlState::UNDEFINED_OBJECT),
            ("alter database app set tablespace there", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            assert_eq!(bench.fail(&mut owner, sql).state(), state, "{sql}");
        }
        let mut guest = bench.session_of("guest");
        for sql in ["alter database app set work_mem = '1MB'", "alter role all set work_mem = '1MB'"] {
            assert_eq!(bench.fail(&mut guest, sql).state(), SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
        }
        bench.run(&mut guest, "alter role guest in database app set work_mem = '1MB'");
        bench.run(&mut owner, "drop role guest");
        assert_eq!(bench.catalog().database().start_settings.len(), 1, "the role's went with it");
    }

    #[test]
    fn what_a_tenant_sets_for_its_sessions_is_not_the_administrators() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(&mut owner, "alter database app set default_transaction_read_only = on");
        let mut administrator = bench.administrator();
        bench.run(&mut administrator, "create table t (a int)");
        let mut guest = bench.session();
        assert_eq!(bench.fail(&mut guest, "drop table t").state(), SqlState::READ_ONLY_SQL_TRANSACTION);
    }

    #[test]
    fn what_a_tenant_says_of_a_role_named_as_the_administrator_is_not_the_administrators() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(&mut owner, "create role admin login; create schema reports authorization admin");
        bench.run(&mut owner, "alter role admin set default_transaction_read_only = on");
        bench.run(&mut owner, "alter role admin in database app set work_mem = '1MB'");
        let mut administrator = bench.administrator();
        assert_ne!(bench.run(&mut administrator, "show work_mem").lines(), ["1MB"]);
        bench.run(&mut administrator, "create table t (a int)");
        let relation = bench.catalog().relations().find(|relation| relation.name() == "t").cloned();
        assert_eq!(relation.expect("it was made").owner(), OWNER_ROLE);
        let mut admin = bench.session_of("admin");
        let refused = bench.fail(&mut admin, "create table reports.t (a int)");
        assert_eq!(refused.state(), SqlState::READ_ONLY_SQL_TRANSACTION);
    }

    #[test]
    fn a_setting_is_the_same_in_any_case_and_in_quotes() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(
            &mut owner,
            "alter role owner set \"WORK_MEM\" = '1MB'; alter role owner set Work_Mem = '2MB'; alter role owner set \"App\".\"Id\" to 1; \
             alter role owner set app.id to 2; alter role owner set \"TimeZone\" from current; alter role owner set time zone 'UTC'",
        );
        let catalog = bench.catalog();
        let kept = &catalog.role_named("owner").expect("it is there").settings;
        let kept: Vec<_> = kept.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(kept, ["work_mem=2MB", "app.id=2", "timezone=UTC"]);
        bench.run(&mut owner, "alter role owner reset \"WORK_MEM\"; alter role owner reset \"APP\".id");
        let catalog = bench.catalog();
        assert_eq!(catalog.role_named("owner").expect("it is there").settings.len(), 1);
    }

    #[test]
    fn the_settings_that_sessions_start_with_are_bounded() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(&mut owner, "create role guest login");
        for list in ["role guest", "role guest in database app", "role all", "database app"] {
            for number in 0..256 {
                bench.run(&mut owner, &format!("alter {list} set a.s{number} = '1'"));
            }
            let refused = |bench: &mut Bench, owner: &mut _, sql: &str| {
                let error = bench.fail(owner, &format!("alter {list} {sql}"));
                assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED, "alter {list} {sql}");
                assert_eq!(error.message(), "too many settings for sessions to start with");
            };
            refused(&mut bench, &mut owner, "set a.more = '1'");
            bench.run(&mut owner, &format!("alter {list} set a.s7 = '2'"));
            bench.run(&mut owner, &format!("alter {list} reset a.s8; alter {list} set a.more = '1'"));
            let long = "x".repeat(16 * 1024);
            refused(&mut bench, &mut owner, &format!("set a.s7 = '{long}'"));
            bench.run(&mut owner, &format!("alter {list} reset all"));
            refused(&mut bench, &mut owner, &format!("set a.s7 = '{long}'"));
            bench.run(&mut owner, &format!("alter {list} set a.s7 = '{}'", &long[4..]));
            refused(&mut bench, &mut owner, "set a.b = ''");
            bench.run(&mut owner, &format!("alter {list} set a.s7 = 'x'; alter {list} reset a.s7"));
        }
        assert!(bench.catalog().database().start_settings.is_empty());
    }

    #[test]
    fn what_is_said_of_a_database_by_many_lists_is_bounded_too() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        let long = "x".repeat(16_000);
        let set = |n: usize| format!("alter role r{n} in database app set a.s = '{long}'");
        for n in 0..=16 {
            bench.run(&mut owner, &format!("create role r{n}"));
        }
        for n in 0..16 {
            bench.run(&mut owner, &set(n));
        }
        for sql in [&*set(16), &*format!("alter database app set a.s = '{long}'")] {
            let refused = bench.fail(&mut owner, sql);
            assert_eq!(
                (refused.state(), refused.message()),
                (SqlState::PROGRAM_LIMIT_EXCEEDED, "too much is said of the database as a whole")
            );
        }
        // Other things of the same record have what is left of it.
        let guests: Vec<String> = (0..600).map(|n| format!("g{n}")).collect();
        guests.iter().for_each(|guest| drop(bench.run(&mut owner, &format!("create role {guest}"))));
        bench.run(&mut owner, &format!("grant create on database app to {}", guests[..100].join(", ")));
        let all = format!("grant create on database app to {}", guests.join(", "));
        assert_eq!(bench.fail(&mut owner, &all).state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        bench.run(&mut owner, "alter role r0 in database app reset all");
        bench.run(&mut owner, &all);
    }

    #[test]
    fn a_list_that_was_longer_may_shrink_and_not_grow() {
        let mut list: Vec<_> = (0..300).map(|n| (format!("a.s{n}").into(), "1".into())).collect();
        let set = |name: &str| super::Change::Set(name.into(), "2".into());
        assert!(set("a.s1").apply(&mut list).is_ok());
        assert!(super::Change::Reset("a.s2".into()).apply(&mut list).is_ok());
        assert!(set("a.more").apply(&mut list).is_err());
    }

    #[test]
    fn a_kept_setting_that_is_not_taken_is_skipped_and_one_of_the_client_ends_the_session() {
        let mut bench = Bench::new();
        let mut owner = bench.session();
        bench.run(&mut owner, "alter database app set work_mem = '1MB'; create role guest login; begin");
        let kept = bench.turn(|home| {
            owner.ddl(home, |ddl| {
                let mut guest = (**ddl.catalog().resolve_role("guest")?).clone();
                guest.settings.push(("lock_timeout".into(), "long".into()));
                guest.settings.push(("datestyle".into(), "German".into()));
                ddl.alter_role(guest)?;
                Ok(ddl.change_database(|database| {
                    database.start_settings[0].values.insert(0, ("of_another_server".into(), "1".into()));
                    Ok(())
                })?)
            })
        });
        kept.expect("nothing is in the way");
        bench.run(&mut owner, "commit");

        let mut guest = bench.session_of("guest");
        let mut told = Answer::default();
        guest.send_start_warnings(&mut told);
        let warnings: Vec<_> = told.notices.iter().map(|w| (w.severity(), w.state())).collect();
        assert_eq!(
            warnings,
            [
                (Severity::Warning, SqlState::UNDEFINED_OBJECT),
                (Severity::Warning, SqlState::INVALID_PARAMETER_VALUE)
            ]
        );
        guest.send_start_warnings(&mut told);
        assert_eq!(told.notices.len(), 2, "once");
        assert_eq!(bench.run(&mut guest, "show work_mem").lines(), ["1MB"]);
        assert_eq!(bench.run(&mut guest, "show datestyle").lines(), ["German, DMY"]);
        let refused = bench.try_session_with("guest", &[("lock_timeout", "long")]).err();
        assert_eq!(refused.expect("it is the client's").state(), SqlState::INVALID_PARAMETER_VALUE);
    }
}
