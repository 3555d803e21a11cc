//! A tenant with the sample tables of `tests/golden`, and queries over it.

use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteCount, CommitNo, Lsn, Oid, SessionId, SqlError, TenantId};
use env::Env;
use governor::{MemoryPromise, WorkMemory};
use sql::session::{
    AnalyticEvent, AnalyticRequest, Deliver, Field, LedgerRows, PathNames, QueryContext, QueryControl,
    QueryLimits, RandomBits, TempSpace,
};
use tenant::catalog::{
    Catalog, Column, Dependency, IndexColumn, MatchType, OWNER_ROLE, PG_CATALOG, PUBLIC_SCHEMA,
    ReferentialAction, Sequence, ViewColumn, ViewDefinition,
};
use tenant::ddl::{NewForeignKey, NewIndex, NewTable, NewUnique, RowsNow};
use tenant::{Interrupt, Isolation, RedoSink, Tenant};
use types::{Datum, ElementType, FormatContext, PgType, Row, TypeMod};

#[derive(Default)]
struct Log(u64);

impl RedoSink for Log {
    fn append(&mut self, _: TenantId, _: CommitNo, record: &[u8]) -> Lsn {
        self.0 += record.len() as u64;
        Lsn(self.0)
    }
}

pub(crate) struct Sample {
    tenant: Tenant,
    log: Log,
    /// Where queries put rows aside.
    pub(crate) temp: Arc<TempSpace>,
    /// What its operators may hold; `None` for no limit.
    pub(crate) work_memory: Option<ByteCount>,
    pub(crate) ledger: Arc<dyn LedgerRows>,
    /// Of the last query.
    pub(crate) control: QueryControl,
    _directory: tempfile::TempDir,
}

fn step<T>(step: Result<T, Interrupt>) -> T {
    match step {
        Ok(value) => value,
        Err(Interrupt::Error(error)) => panic!("{error}"),
        Err(_) => panic!("nothing to wait for"),
    }
}

fn golden(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::read_to_string(path).expect("a file of tests/golden")
}

fn column(name: &str, ty: PgType, typmod: TypeMod, not_null: bool) -> Column {
    Column { not_null, ..Column::new(name, ty, typmod) }
}

impl Sample {
    pub(crate) fn new() -> Sample {
        let directory = tempfile::tempdir().expect("a directory");
        let env = Env::real();
        let path = directory.path().join("tenant");
        let made = env::block_on(&env, Tenant::create(&env, &path, TenantId(16), "postgres", None));
        let temp = Arc::new(TempSpace::new(env, directory.path().join("temp")));
        let tenant = made.expect("a tenant");
        let log = Log::default();
        let mut sample = Sample {
            tenant,
            log,
            temp,
            work_memory: None,
            ledger: Arc::new(()),
            control: QueryControl::default(),
            _directory: directory,
        };
        sample.define();
        for table in ["parent", "child", "measure"] {
            sample.load(table);
        }
        sample
    }

    fn define(&mut self) {
        let none = TypeMod::NONE;
        let mut txn = self.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, false);
        {
            let mut view = self.tenant.view(&mut txn, &mut self.log);
            let mut ddl = step(view.ddl());
            let labels = ["sad", "ok", "happy"].map(str::to_owned);
            let mood = PgType::Enum(ddl.create_enum(PUBLIC_SCHEMA, "mood", OWNER_ROLE, &labels).unwrap());
            let table = |ddl: &mut tenant::ddl::Ddl<'_>, name: &str, columns: Vec<Column>| -> Oid {
                let new =
                    NewTable { schema: PUBLIC_SCHEMA, name: name.to_owned(), owner: OWNER_ROLE, columns };
                let oid = ddl.create_table(new).unwrap();
                let key = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
                step(ddl.add_primary_key(oid, key));
                oid
            };
            let parent = table(
                &mut ddl,
                "parent",
                vec![
                    column("id", PgType::Int4, none, true),
                    column("name", PgType::Varchar, TypeMod::length(20), true),
                    Column {
                        default: Some("0".into()),
                        ..column("price", PgType::Numeric, TypeMod::numeric(12, 2), false)
                    },
                    column("at", PgType::TimestampTz, none, false),
                ],
            );
            step(ddl.add_check(parent, Some("price_ok".to_owned()), "price >= 0", vec![2], true));
            let child = table(
                &mut ddl,
                "child",
                vec![
                    Column {
                        default: Some("nextval('child_id_seq'::regclass)".into()),
                        ..column("id", PgType::Int8, none, true)
                    },
                    column("parent_id", PgType::Int4, none, true),
                    column("tag", PgType::Text, none, false),
                    column("code", PgType::Bpchar, TypeMod::length(3), false),
                    column("u", PgType::Uuid, none, false),
                    column("j", PgType::Jsonb, none, false),
                    column("m", mood, none, false),
                    column("tags", PgType::Array(ElementType::Text), none, false),
                ],
            );
            let sequence = ddl
                .create_sequence(Sequence {
                    oid: Oid(0),
                    schema: PUBLIC_SCHEMA,
                    name: "child_id_seq".into(),
                    owner: OWNER_ROLE,
                    ty: PgType::Int8,
                    start: 1,
                    increment: 1,
                    min: 1,
                    max: i64::MAX,
                    cache: 1,
                    cycle: false,
                    owned_by: Some((child, 0)),
                    acl: None,
                })
                .unwrap();
            step(ddl.set_column_sequence(child, 0, Some(sequence)));
            step(
                ddl.add_unique(child, NewUnique { name: None, columns: vec![4], nulls_not_distinct: false }),
            );
            step(
                ddl.add_unique(
                    child,
                    NewUnique { name: None, columns: vec![1, 2], nulls_not_distinct: false },
                ),
            );
            let descending = IndexColumn { descending: true, nulls_first: true, ..IndexColumn::ascending(1) };
            let index = NewIndex {
                name: Some("child_tag".to_owned()),
                columns: vec![IndexColumn::ascending(2), descending],
                unique: false,
                nulls_not_distinct: false,
                ..NewIndex::default()
            };
            step(ddl.create_index(child, index));
            let key = NewForeignKey {
                name: None,
                columns: vec![1],
                referenced_table: parent,
                referenced_columns: None,
                on_delete: ReferentialAction::Cascade,
                on_update: ReferentialAction::NoAction,
                match_type: MatchType::Simple,
                deferral: Default::default(),
                rows: RowsNow::Checked,
            };
            step(ddl.add_foreign_key(child, key));
            table(
                &mut ddl,
                "measure",
                vec![
                    column("id", PgType::Int4, none, true),
                    column("i2", PgType::Int2, none, false),
                    column("i8", PgType::Int8, none, false),
                    column("f8", PgType::Float8, none, false),
                    column("f4", PgType::Float4, none, false),
                    column("n", PgType::Numeric, none, false),
                    column("d", PgType::Date, none, false),
                    column("ts", PgType::Timestamp, none, false),
                    column("iv", PgType::Interval, none, false),
                    column("b", PgType::Bool, none, false),
                    column("bt", PgType::Bytea, none, false),
                ],
            );
            let shown = |name: &str, ty, typmod| ViewColumn { name: name.into(), ty, typmod };
            ddl.create_view(ViewDefinition {
                oid: Oid(0),
                schema: PUBLIC_SCHEMA,
                name: "v".into(),
                owner: OWNER_ROLE,
                sql: "SELECT p.id, p.name, count(c.id) AS n FROM parent p LEFT JOIN child c ON c.parent_id = p.id \
                      GROUP BY p.id, p.name"
                    .into(),
                columns: vec![
                    shown("id", PgType::Int4, none),
                    shown("name", PgType::Varchar, TypeMod::length(20)),
                    shown("n", PgType::Int8, none),
                ],
                depends_on: vec![
                    Dependency { object: parent, column: None },
                    Dependency { object: child, column: None },
                ],
                search_path: vec![PUBLIC_SCHEMA],
                acl: None,
            })
            .unwrap();
            ddl.set_comment(parent, None, Some("parents"));
            ddl.set_comment(parent, Some(1), Some("their name"));
        }
        step(self.tenant.view(&mut txn, &mut self.log).finish_statement());
        self.tenant.commit(txn, &mut self.log).expect("commits");
    }

    fn load(&mut self, name: &str) {
        let mut txn = self.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, false);
        {
            let mut view = self.tenant.view(&mut txn, &mut self.log);
            let catalog = Arc::clone(view.catalog());
            let table = catalog.resolve_table(None, name, &[PUBLIC_SCHEMA]).unwrap().clone();
            let mood = catalog.find_enum(None, "mood", &[PUBLIC_SCHEMA]).unwrap().clone();
            let format = FormatContext::default();
            for line in golden(&format!("{name}.tsv")).lines() {
                let row: Row = line
                    .split('\t')
                    .zip(&table.columns)
                    .map(|(text, column)| match (text, column.ty) {
                        ("\\N", _) => Datum::Null,
                        (label, PgType::Enum(oid)) => {
                            Datum::Enum { type_oid: oid.0, order: mood.order_of(label).expect("a label") }
                        }
                        (text, ty) => {
                            let text = text.replace("\\\\", "\\");
                            types::parse_text(&text, ty, column.typmod, &format).expect("a value")
                        }
                    })
                    .collect();
                step(view.insert(&table, &row));
            }
        }
        step(self.tenant.view(&mut txn, &mut self.log).finish_statement());
        self.tenant.commit(txn, &mut self.log).expect("commits");
    }

    /// Gives a table another index, on its column at that position.
    pub(crate) fn add_index(&mut self, table: &str, position: usize) {
        let mut txn = self.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, false);
        {
            let mut view = self.tenant.view(&mut txn, &mut self.log);
            let table = view.catalog().resolve_table(None, table, &[PUBLIC_SCHEMA]).unwrap().oid;
            let columns = vec![IndexColumn::ascending(position)];
            let index = NewIndex {
                name: None,
                columns,
                unique: false,
                nulls_not_distinct: false,
                ..NewIndex::default()
            };
            let mut ddl = step(view.ddl());
            step(ddl.create_index(table, index));
        }
        step(self.tenant.view(&mut txn, &mut self.log).finish_statement());
        self.tenant.commit(txn, &mut self.log).expect("commits");
    }

    fn context(&self) -> QueryContext {
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned(), String::new());
        QueryContext {
            database: "postgres".to_owned(),
            user: "postgres".to_owned(),
            session_user: "postgres".to_owned(),
            pid: 7,
            search_path: vec!["$user".to_owned(), "public".to_owned()],
            transaction_start: 0,
            statement_start: 0,
            server_start: 86_400_000_000,
            format: Sample::format(self.tenant.catalog()),
            settings: vec![
                setting("server_version", "15.0"),
                setting("jit", "off"),
                setting("default_tablespace", ""),
                setting("default_table_access_method", "heap"),
                setting("lock_timeout", "90s"),
                setting("my.own", "1"),
                setting("work_mem", "4MB"),
            ],
            backends: Vec::new(),
            role: Some(tenant::catalog::OWNER_ROLE),
            signals: std::sync::Arc::new(()),
            ledger: Arc::clone(&self.ledger),
            locks: Vec::new(),
            databases: vec!["postgres".to_owned()],
            prepared: Vec::new(),
            sequences: Vec::new(),
            random: Arc::new(RandomBits::new([7; 32])),
        }
    }

    /// The events of a query.
    pub(crate) fn request(
        &mut self,
        sql: &str,
        parameters: Vec<(Datum, PgType)>,
        deliver: Deliver,
    ) -> Result<Vec<AnalyticEvent>, SqlError> {
        let query = sql::parse::parse_query(sql)?;
        let mut txn = self.tenant.begin(SessionId(1), Isolation::ReadCommitted, true, true);
        let view = self.tenant.snapshot_view(&mut txn)?;
        let (parameters, parameter_types) = parameters.into_iter().unzip();
        let work_memory = self.work_memory.map(|max| {
            let promise = MemoryPromise { work_memory_max: Some(max), ..MemoryPromise::default() };
            WorkMemory::new(None).tenant(TenantId(16), &promise)
        });
        let request = AnalyticRequest {
            query: Arc::new(query),
            parameter_types,
            parameters,
            view,
            context: Arc::new(self.context()),
            deliver,
            reason: "a test".to_owned(),
            reads_system_only: false,
            limits: QueryLimits { temp: Some(Arc::clone(&self.temp)), work_memory, work_meter: None },
        };
        let mut events = Vec::new();
        self.control = QueryControl::default();
        analytic::run_controlled(request, &self.control, &mut |event| {
            events.push(event);
            true
        });
        step(self.tenant.view(&mut txn, &mut self.log).finish_statement());
        self.tenant.commit(txn, &mut self.log)?;
        match events.pop() {
            Some(AnalyticEvent::Done(Ok(()))) => Ok(events),
            Some(AnalyticEvent::Done(Err(error))) => Err(error),
            other => panic!("a query ends with Done, not {other:?}"),
        }
    }

    /// Columns and rows of a query.
    pub(crate) fn query(&mut self, sql: &str) -> Result<(Vec<Field>, Vec<Row>), SqlError> {
        let mut columns = Vec::new();
        let mut all = Vec::new();
        for event in self.request(sql, Vec::new(), Deliver::Session)? {
            match event {
                AnalyticEvent::Columns { fields, .. } => columns = fields.to_vec(),
                AnalyticEvent::Stored(rows) => all = rows.into_rows_blocking()?,
                other => panic!("unexpected {other:?}"),
            }
        }
        Ok((columns, all))
    }

    /// The rows as `psql -At` prints them.
    pub(crate) fn text(&mut self, sql: &str) -> Result<String, SqlError> {
        let (fields, rows) = self.query(sql)?;
        let format = Sample::format(self.tenant.catalog());
        let mut out = String::new();
        for row in rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&fields)
                .map(|(value, field)| {
                    if value.is_null() { "∅".to_owned() } else { types::to_text(value, field.ty, &format) }
                })
                .collect();
            out += &cells.join("|");
            out.push('\n');
        }
        Ok(out)
    }

    /// The forms of values, with the names of the catalog.
    fn format(catalog: &Arc<Catalog>) -> Arc<FormatContext> {
        let names = PathNames::new(Arc::clone(catalog), vec![PG_CATALOG, PUBLIC_SCHEMA]);
        Arc::new(FormatContext { names: Some(Arc::new(names)), ..FormatContext::default() })
    }
}
