//! The server under test: how to reach it, which databases stand for its tenants.

use std::error::Error as _;
use std::sync::Arc;

use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config};

use crate::Result;
use crate::connection::Connection;
use crate::tls::Tls;

/// A server and the databases a run uses there.
#[derive(Clone, Debug)]
pub struct Target {
    config: Config,
    tls: Tls,
    /// One database for each tenant.
    pub databases: Arc<[String]>,
}

/// Which product answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Product {
    Rowhouse(String),
    PostgreSql(String),
}

impl Product {
    /// Name and version, for reports.
    pub fn label(&self) -> String {
        match self {
            Product::Rowhouse(version) => format!("Rowhouse ({version})"),
            Product::PostgreSql(version) => format!("PostgreSQL {version}"),
        }
    }
}

/// The database that a URL names: as for psql, without a name the one called as the user.
fn database_of(config: &Config) -> &str {
    config.get_dbname().or(config.get_user()).unwrap_or("postgres")
}

/// `name` as a quoted SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Target {
    /// The server at `url`, with `tenants` databases called `prefix1`, `prefix2`, …; with `None` the URL's own database is
    /// the only tenant. Connections are encrypted as its `sslmode` and `sslrootcert` say (libpq's words; without them not within the machine, and
    /// to another one if the server can).
    ///
    /// # Errors
    /// When the URL is not one, or the certificates that it names cannot be read.
    pub fn new(url: &str, tenants: Option<(&str, usize)>) -> Result<Target> {
        let (config, tls) = Tls::of_url(url)?;
        let databases = match tenants {
            Some((prefix, count)) => (1..=count).map(|n| format!("{prefix}{n}")).collect(),
            None => vec![database_of(&config).to_owned()],
        };
        Ok(Target { config, tls, databases: databases.into() })
    }

    /// Connects to the tenant's database.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub async fn connect(&self, tenant: usize) -> Result<Client> {
        self.connect_to(&self.databases[tenant]).await
    }

    /// Opens a connection to the tenant's database for a client that is measured.
    ///
    /// # Errors
    /// As [`Target::connect`].
    pub async fn open(&self, tenant: usize) -> Result<Connection> {
        let database = &self.databases[tenant];
        Connection::open(&self.config, &self.tls, database)
            .await
            .map_err(|error| format!("cannot connect to the database \"{database}\": {error}").into())
    }

    async fn connect_to(&self, database: &str) -> Result<Client> {
        let mut config = self.config.clone();
        config.dbname(database);
        let (client, connection) = config.connect(self.tls.maker()).await.map_err(|error| {
            let why = match (error.as_db_error(), error.source()) {
                (Some(refusal), _) => refusal.message().to_owned(),
                (None, Some(cause)) => format!("{error}: {cause}"),
                (None, None) => error.to_string(),
            };
            format!("cannot connect to the database \"{database}\": {why}")
        })?;
        tokio::spawn(async move {
            // An error here reaches whoever uses the client next.
            let _ = connection.await;
        });
        Ok(client)
    }

    /// A connection to the database the URL names, for administration.
    ///
    /// # Errors
    /// As [`Target::connect`].
    pub async fn connect_admin(&self) -> Result<Client> {
        self.connect_to(database_of(&self.config)).await
    }

    /// The environment in which a program of PostgreSQL's connects to the database the URL names, so that no password stands in the list of
    /// processes.
    pub fn libpq_variables(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        let host = config.get_hosts().first().map(|host| match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        });
        let password = config.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
        let user = config.get_user().map(str::to_owned);
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let always = [("PGPORT", port.to_string()), ("PGDATABASE", database_of(config).to_owned())];
        let if_said = [("PGHOST", host), ("PGUSER", user), ("PGPASSWORD", password)];
        let if_said = if_said.into_iter().filter_map(|(name, value)| Some((name, value?)));
        always.into_iter().chain(if_said).chain(self.tls.libpq_variables()).collect()
    }

    /// Asks the server who it is.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn product(&self) -> Result<Product> {
        let admin = self.connect_admin().await?;
        let version: String = admin.query_one("show server_version", &[]).await?.get(0);
        Ok(if version.contains("Rowhouse") {
            Product::Rowhouse(version)
        } else {
            Product::PostgreSql(version)
        })
    }

    /// Makes the databases anew: those of the same names are dropped first.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn create_databases(&self, product: &Product) -> Result<()> {
        let admin = self.connect_admin().await?;
        let kind = if matches!(product, Product::Rowhouse(_)) { "tenant" } else { "database" };
        for name in self.databases.iter().map(|name| quoted(name)) {
            admin.batch_execute(&format!("drop {kind} if exists {name}")).await?;
            admin.batch_execute(&format!("create {kind} {name}")).await?;
        }
        Ok(())
    }

    /// Drops the databases of the run.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn drop_databases(&self, product: &Product) -> Result<()> {
        let admin = self.connect_admin().await?;
        let kind = if matches!(product, Product::Rowhouse(_)) { "tenant" } else { "database" };
        for name in self.databases.iter().map(|name| quoted(name)) {
            admin.batch_execute(&format!("drop {kind} if exists {name}")).await?;
        }
        Ok(())
    }
}
