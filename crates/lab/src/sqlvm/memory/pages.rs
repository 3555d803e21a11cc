//! A server with a tenant at random look-ups, to whom half of the memory for pages is promised, and one that scans a table of four
//! times that memory.

use workloads::cpuio::Cpuio;
use workloads::load::Pace;

use crate::Result;
use crate::sqlvm::actors::{Acting, Actor, Part};
use crate::sqlvm::host::{Host, Promise};
use crate::sqlvm::stage::Stage;
use crate::world::sampler::Sampler;

pub(super) const READER: &str = "t1";
pub(super) const SCANNER: &str = "scanner";
/// Memory for pages that is promised to the reader.
const PROMISED_MIB: u64 = 64;
const PROMISED_MIB_MIN: u64 = 8;
/// The server's, of what is promised.
const SERVER: u64 = 2;
/// The scanner's table, of the server's memory.
const SCANNED: u64 = 4;
/// What a row of 400 bytes takes of a page.
pub(super) const STORED_ROW_BYTES: u64 = 430;
const READERS: usize = 4;
const SCANNERS: usize = 4;
/// Rows of a look-up, each on a page of its own.
pub(super) const LOOK_UP_ROWS: u64 = 10;

pub(super) struct Pages {
    pub(super) host: Host,
    pub(super) promised_mib: u64,
    pub(super) server_mib: u64,
    pub(super) reader: Cpuio,
    pub(super) scanner: Cpuio,
}

impl Pages {
    /// Starts a server and loads both tables, the reader's of `part` of its promised memory.
    pub(super) async fn ready(stage: &mut Stage, part: f64) -> Result<Pages> {
        let promised_mib = stage.options.amount(PROMISED_MIB, PROMISED_MIB_MIN);
        let server_mib = promised_mib * SERVER;
        let rows = |mib: f64| (mib * 1_048_576.0 / STORED_ROW_BYTES as f64) as u64;
        let reader = Cpuio {
            rows: rows(promised_mib as f64 * part),
            lookup_rows: LOOK_UP_ROWS,
            ..Actor::cpuio("lookup=1")?
        };
        let scanner = Cpuio { rows: rows((server_mib * SCANNED) as f64), ..Actor::cpuio("scan=1")? };
        let host = Host::rowhouse(stage, &["--memory", &format!("{server_mib}MiB")]).await?;
        host.need_ledger("memory")?;
        stage.note_setting("Versions", host.label().await?);
        for (name, table) in [(READER, reader), (SCANNER, scanner)] {
            host.create(name).await?;
            Actor::Cpuio(table).load(stage, &host.url(name)).await?;
        }
        Ok(Pages { host, promised_mib, server_mib, reader, scanner })
    }

    /// The reader's promise.
    pub(super) fn promise(&self) -> Promise {
        Promise { memory_mib: Some(self.promised_mib), ..Promise::default() }
    }

    /// Puts the reader's clients to work, watched by the sampler.
    pub(super) async fn read(&self, stage: &Stage, sampler: &Sampler) -> Result<Acting> {
        self.begin(stage, sampler, READER, self.reader, READERS).await
    }

    /// Puts the scanner's clients to work, watched by the sampler.
    pub(super) async fn scan(&self, stage: &Stage, sampler: &Sampler) -> Result<Acting> {
        self.begin(stage, sampler, SCANNER, self.scanner, SCANNERS).await
    }

    async fn begin(
        &self,
        stage: &Stage,
        sampler: &Sampler,
        name: &str,
        table: Cpuio,
        clients: usize,
    ) -> Result<Acting> {
        let part = Part::endless(clients, Pace::Closed, stage.options.seed);
        let mut acting = Actor::Cpuio(table).act(&self.host.url(name), part)?;
        sampler.watch(name, &acting.live);
        acting.at_work().await?;
        Ok(acting)
    }

    /// Why a tenant's clients ended before they were told to, if they did; they end now. Of one that was not there: nothing.
    pub(super) async fn ended(name: &str, acting: Option<Acting>) -> Option<String> {
        let why = acting?.failure().await?;
        Some(format!("the clients of \"{name}\" ended early: {why}"))
    }

    /// Begins to count both tenants.
    pub(super) async fn sampler(&self) -> Result<Sampler> {
        self.host.sampler(&[READER.to_owned(), SCANNER.to_owned()]).await
    }
}
