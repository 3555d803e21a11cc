//! `rowhouse verify`: the offline check of a data directory.
//!
//! Reads every log segment, then of each tenant every slot of the data file in use, every tree, and every index against
//! its table: as the file's root has them, and as they are with the redo log replayed, beside the file. Writes nothing but the
//! lock file and a temporary one. `rowhouse verify-backup` checks one backup in the same way, which need not be writable.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use base::{ByteCount, TenantId};
use env::Env;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use server::KnownTenant;
use storage::MemoryBudget;
use storage::redo::{RedoIndex, recover};
use tenant::{OpenError, Tenant};

use crate::offline::{Place, PlaceError};
use crate::scratch;

/// Pages that a replay keeps in memory.
const REPLAY_MEMORY: ByteCount = ByteCount::from_mib(1024);

/// Options of `rowhouse verify`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit code is 0 if nothing is wrong, else 1. The server must not be running.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `rowhouse verify-backup`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit code is 0 if nothing is wrong, else 1. No server is needed.")]
pub(crate) struct BackupArgs {
    /// The backup
    file: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Why the check ended without a clean report.
#[derive(Debug)]
pub(crate) enum VerifyError {
    /// There is nothing to check, or it is in use.
    Place(PlaceError),
    Listing(PathBuf, std::io::Error),
    /// No defect was found, and so many tenants were not checked with their redo.
    Unchecked(usize),
    /// Checked, and not clean: this many defects.
    Damaged(usize),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::Place(error) => error.fmt(f),
            VerifyError::Listing(dir, error) => write!(f, "cannot list {}: {error}", dir.display()),
            VerifyError::Unchecked(tenants) => {
                write!(
                    f,
                    "{tenants} tenant(s) not checked with their redo: see to TMPDIR, for temporary files"
                )
            }
            VerifyError::Damaged(1) => f.write_str("1 defect"),
            VerifyError::Damaged(defects) => write!(f, "{defects} defects"),
        }
    }
}

/// Something that is not as it must be. Damaged indexes go with `rowhouse repair`; for the rest, restore the file.
#[derive(Serialize, Debug)]
struct Defect {
    file: PathBuf,
    /// Bytes from the start of the file, where the damage has a place.
    offset: Option<u64>,
    what: String,
}

#[derive(Serialize, Debug, Default)]
struct TenantOutcome {
    tenant: u64,
    /// Its name, where the catalogue of tenants can be read.
    name: Option<String>,
    file: PathBuf,
    /// The last commit in the data file, and the last in the redo log.
    commit: u64,
    last_commit: u64,
    pages: u64,
    slots: u64,
    slots_used: u64,
    tables: u64,
    rows: u64,
    index_entries: u64,
    /// Power went off while a root was written, or it rotted; opening the file writes it anew.
    spare_superblock_damaged: bool,
}

#[derive(Serialize, Debug, Default)]
struct Report {
    clean: bool,
    /// Of a backup the name of the tenant it was made of; it has no directory and no log.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_of: Option<String>,
    directory: PathBuf,
    log_dir: PathBuf,
    /// Tenants with commits in the redo logs.
    log_tenants: usize,
    tenants: Vec<TenantOutcome>,
    /// Files of tenants whose making was cut short; the next start removes them.
    unmade: Vec<PathBuf>,
    /// Tenants that were not checked as the next start would find them, for want of a temporary file or of room in it.
    unchecked: Vec<Defect>,
    defects: Vec<Defect>,
}

/// Checks the directory and prints the report.
///
/// # Errors
/// The directory cannot be checked, or is damaged.
pub(crate) fn run(args: &Args) -> Result<(), VerifyError> {
    tell(&check(&Env::real(), args)?, args.json)
}

/// Checks a backup and prints the report.
///
/// # Errors
/// It is damaged.
pub(crate) fn run_backup(args: &BackupArgs) -> Result<(), VerifyError> {
    tell(&check_backup(&Env::real(), &args.file, args.json), args.json)
}

fn tell(report: &Report, json: bool) -> Result<(), VerifyError> {
    if json {
        println!("{}", serde_json::to_string_pretty(report).expect("plain data"));
    } else {
        print(report);
    }
    match (report.defects.len(), report.unchecked.len()) {
        (0, 0) => Ok(()),
        (0, unchecked) => Err(VerifyError::Unchecked(unchecked)),
        (defects, _) => Err(VerifyError::Damaged(defects)),
    }
}

/// Checks a backup: that it is a whole one, then what any data file is checked for.
fn check_backup(env: &Env, file: &Path, json: bool) -> Report {
    let mut report = Report::default();
    let bar = progress_bar(1, json);
    match crate::backup::check_file(file, |_, _| {}) {
        Ok((image, description)) => {
            let mut check = Check { env, redo: None, bar: &bar, report: &mut report };
            let outcome = check.tenant(image.tenant(), file.to_owned());
            report.backup_of = Some(description.name);
            report.tenants.push(outcome);
        }
        Err(error) => {
            let offset = match error.downcast_ref::<storage::FileError>() {
                Some(storage::FileError::Corrupt(corrupt)) => corrupt.offset,
                _ => None,
            };
            report.defects.push(Defect { file: file.to_owned(), offset, what: error.to_string() });
        }
    }
    bar.finish_and_clear();
    report.clean = report.defects.is_empty();
    report
}

fn check(env: &Env, args: &Args) -> Result<Report, VerifyError> {
    let place = &args.place;
    let _lock = place.lock(env).map_err(VerifyError::Place)?;
    let (directory, log_dir) = (place.data().to_owned(), place.log_dir());
    let mut report = Report { directory, log_dir, ..Report::default() };
    let mut files = Vec::new();
    for volume in place.volumes() {
        files.extend(data_files(env, &volume.join("tenants"))?);
    }
    let bar = progress_bar(files.len(), args.json);
    bar.set_message("redo logs");
    let redo = check_logs(env, &mut report);
    let known = known_tenants(env, place, redo.as_ref(), &mut report);
    let there: BTreeSet<&Path> = files.iter().map(|(_, file)| file.as_path()).collect();
    for tenant in known.iter().filter(|tenant| !tenant.unmade) {
        report.defects.extend(missing_file(place, tenant, &there));
    }
    for (id, file) in files {
        let tenant = known.binary_search_by_key(&id, |tenant| tenant.id).ok().map(|at| &known[at]);
        if tenant.is_some_and(|tenant| tenant.unmade) {
            report.unmade.push(file);
            continue;
        }
        bar.set_message(format!("tenant {id}"));
        let mut outcome = Check { env, redo: redo.as_ref(), bar: &bar, report: &mut report }.tenant(id, file);
        outcome.name = tenant.map(|tenant| tenant.name.clone());
        report.tenants.push(outcome);
    }
    bar.finish_and_clear();
    report.clean = report.defects.is_empty() && report.unchecked.is_empty();
    Ok(report)
}

/// The tenants of the catalogue, in order of their ids. Where it cannot be read that is a defect, and tenants are known by their ids alone.
fn known_tenants(
    env: &Env,
    place: &Place,
    redo: Option<&RedoIndex>,
    report: &mut Report,
) -> Vec<KnownTenant> {
    match redo.map(|redo| server::known_tenants(env, place.data(), redo)) {
        Some(Ok(known)) => known,
        Some(Err(error)) => {
            let file = server::tenant_file(place.data(), TenantId::SYSTEM);
            report.defects.push(Defect { file, offset: None, what: error.to_string() });
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// What is wrong if the data file of a tenant of the catalogue is not among those found.
fn missing_file(place: &Place, tenant: &KnownTenant, there: &BTreeSet<&Path>) -> Option<Defect> {
    let KnownTenant { id, name, volume, .. } = tenant;
    let Some(dir) = place.volume(volume) else {
        let what = format!(
            "tenant \"{name}\" is on volume \"{volume}\", which was not given: --volume {volume}=DIR"
        );
        return Some(Defect { file: place.data().to_owned(), offset: None, what });
    };
    let file = server::tenant_file(dir, *id);
    let is_there = there.contains(file.as_path());
    (!is_there).then(|| Defect {
        file,
        offset: None,
        what: format!("the data file of tenant \"{name}\" is not there"),
    })
}

/// Slots looked at, of the tenants seen so far. Hidden where standard error is no terminal.
fn progress_bar(tenants: usize, json: bool) -> ProgressBar {
    if json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} pages, {msg}, {elapsed}");
    let bar = ProgressBar::new(0).with_style(style.expect("a valid template"));
    bar.set_prefix(format!("{tenants} tenant(s)"));
    bar
}

/// The data files of a volume by tenant.
fn data_files(env: &Env, dir: &Path) -> Result<Vec<(TenantId, PathBuf)>, VerifyError> {
    let entries = env.disk.list(dir).map_err(|error| VerifyError::Listing(dir.to_owned(), error))?;
    let id_of = |name: &str| name.strip_suffix(".rowhouse")?.parse().ok().map(TenantId);
    let mut files: Vec<_> =
        entries.iter().filter_map(|entry| Some((id_of(&entry.name)?, dir.join(&entry.name)))).collect();
    files.sort();
    Ok(files)
}

fn check_logs(env: &Env, report: &mut Report) -> Option<RedoIndex> {
    if !env.disk.exists(&report.log_dir) {
        report.defects.push(Defect {
            file: report.log_dir.clone(),
            offset: None,
            what: "the directory of the redo logs is not there; give it with --log-dir".into(),
        });
        return None;
    }
    if let Err(error) = server::check_logs(env, &report.directory, &report.log_dir) {
        report.defects.push(Defect { file: report.log_dir.clone(), offset: None, what: error.to_string() });
        return None;
    }
    match recover(env, std::slice::from_ref(&report.log_dir)) {
        Ok(redo) => {
            report.log_tenants = redo.tenants().len();
            Some(redo)
        }
        Err(error) => {
            let (file, offset) = match &error {
                storage::redo::RedoError::Corrupt(corrupt) => (corrupt.file.clone(), corrupt.offset),
                storage::redo::RedoError::Gap { file, offset, .. } => (Some(file.clone()), Some(*offset)),
                _ => (None, None),
            };
            let file = file.unwrap_or_else(|| report.log_dir.clone());
            report.defects.push(Defect { file, offset, what: error.to_string() });
            None
        }
    }
}

struct Check<'a> {
    env: &'a Env,
    redo: Option<&'a RedoIndex>,
    bar: &'a ProgressBar,
    report: &'a mut Report,
}

impl Check<'_> {
    fn defect(&mut self, file: &Path, offset: Option<u64>, what: String) {
        self.report.defects.push(Defect { file: file.to_owned(), offset, what });
    }

    fn tenant(&mut self, id: TenantId, path: PathBuf) -> TenantOutcome {
        let mut outcome = TenantOutcome { tenant: id.0, file: path.clone(), ..TenantOutcome::default() };
        let before = self.bar.position();
        let mut total = None;
        let verified = tenant::verify::verify(self.env, &path, id, &mut |done, of| {
            if total.replace(of) != Some(of) {
                self.bar.set_length(before + of);
            }
            self.bar.set_position(before + done);
        });
        let (file, trees) = match verified {
            Ok(reports) => reports,
            Err(error) => {
                self.unreadable(&path, &error);
                return outcome;
            }
        };
        outcome.commit = file.root.commit.0;
        outcome.last_commit = outcome.commit;
        outcome.pages = file.pages;
        outcome.slots = file.slots;
        outcome.slots_used = file.slots_used;
        outcome.spare_superblock_damaged = file.spare_superblock.is_some();
        (outcome.tables, outcome.rows, outcome.index_entries) =
            (trees.tables, trees.rows, trees.index_entries);
        for defect in &file.defects {
            self.defect(&path, defect.offset, defect.to_string());
        }
        let unlisted = file.defect_count - file.defects.len() as u64;
        if unlisted > 0 {
            self.defect(&path, None, format!("{unlisted} more defects"));
        }
        let sound = file.is_clean() && trees.defects.is_empty();
        for what in trees.defects {
            self.defect(&path, None, what);
        }
        if sound {
            self.with_redo(id, &path, &mut outcome);
        }
        outcome
    }

    /// Checks the tenant as the next start would find it, if the log has more than the file.
    fn with_redo(&mut self, id: TenantId, path: &Path, outcome: &mut TenantOutcome) {
        let Some(redo) = self.redo else { return };
        let newer = redo.last_commit(id).filter(|last| last.0 > outcome.commit);
        let Some(last) = newer else { return };
        match replayed(self.env, redo, id, path) {
            Ok(mut tenant) => {
                outcome.last_commit = last.0;
                let trees = tenant.check();
                (outcome.tables, outcome.rows, outcome.index_entries) =
                    (trees.tables, trees.rows, trees.index_entries);
                for what in trees.defects {
                    self.defect(path, None, format!("with the redo log replayed: {what}"));
                }
            }
            Err(Unreplayed::Damaged(what)) => self.defect(path, None, what),
            Err(Unreplayed::NoScratch(what)) => {
                self.report.unchecked.push(Defect { file: path.to_owned(), offset: None, what });
            }
        }
    }

    fn unreadable(&mut self, path: &Path, error: &OpenError) {
        let offset = match error {
            OpenError::File(storage::FileError::Corrupt(corrupt)) => corrupt.offset,
            _ => None,
        };
        self.defect(path, offset, error.to_string());
    }
}

/// Why a tenant was not looked at as the next start would find it.
enum Unreplayed {
    /// There is no temporary file, or no room in it: that says nothing of the tenant.
    NoScratch(String),
    Damaged(String),
}

/// The tenant as the next start would find it, in a root beside the file's.
fn replayed(env: &Env, redo: &RedoIndex, id: TenantId, path: &Path) -> Result<Tenant, Unreplayed> {
    let failed =
        |error: &dyn fmt::Display| format!("the redo log cannot be replayed beside the file: {error}");
    let over = scratch::over(env, path).map_err(|error| Unreplayed::NoScratch(failed(&error)))?;
    let replay = async {
        let mut tenant = Tenant::open(&over, path, id).await?;
        tenant.charge_to(&MemoryBudget::new(REPLAY_MEMORY, 0, 1));
        tenant.replay(redo).await?;
        let mut checkpoint = tenant.begin_checkpoint()?;
        let written = checkpoint.run().await;
        tenant.finish_checkpoint(checkpoint);
        written?;
        // A check lets go of pages by itself.
        drop(tenant);
        Tenant::open_to_read(&over, path, id).await
    };
    env::block_on(&over, Box::pin(replay)).map_err(|error: OpenError| match error.is_full_disk() {
        true => Unreplayed::NoScratch(failed(&error)),
        false => Unreplayed::Damaged(failed(&error)),
    })
}

fn print(report: &Report) {
    if let Some(name) = &report.backup_of {
        println!("backup of {name}");
    } else if !report.directory.as_os_str().is_empty() {
        println!("{}", report.directory.display());
        println!("  redo logs in {}: commits of {} tenant(s)", report.log_dir.display(), report.log_tenants);
    }
    for t in &report.tenants {
        println!(
            "  tenant {}{}: {} pages, {} of {} slots used, {} table(s), {} row(s), {} index entries, commit {}",
            t.tenant,
            t.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default(),
            t.pages,
            t.slots_used,
            t.slots,
            t.tables,
            t.rows,
            t.index_entries,
            t.last_commit
        );
        if t.spare_superblock_damaged {
            println!(
                "    one of its superblocks is not whole: normal after a power cut; the other serves, and opening the tenant writes it anew"
            );
        }
    }
    for file in &report.unmade {
        println!("  {}: of a tenant whose making was cut short; the next start removes it", file.display());
    }
    for defect in &report.defects {
        match defect.offset {
            Some(offset) => println!("  DEFECT {} at byte {offset}: {}", defect.file.display(), defect.what),
            None => println!("  DEFECT {}: {}", defect.file.display(), defect.what),
        }
    }
    for unchecked in &report.unchecked {
        println!("  NOT CHECKED {}: {}", unchecked.file.display(), unchecked.what);
    }
    println!(
        "{}",
        match (report.clean, report.defects.is_empty()) {
            (true, _) => "clean",
            (false, true) => "not all was checked",
            (false, false) => "damaged",
        }
    );
}

#[cfg(test)]
mod tests {
    use std::fs;

    use server::{DataDir, StartError};

    use super::*;

    fn directory(env: &Env) -> (tempfile::TempDir, Args) {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(env, dir.path()).unwrap();
        data.complete_first_start().unwrap();
        fs::create_dir(dir.path().join("log")).unwrap();
        for id in [1, 2].map(TenantId) {
            let path = server::tenant_file(dir.path(), id);
            env::block_on(env, Tenant::create(env, &path, id, "owner", None)).unwrap();
        }
        let args = Args { place: Place::of(dir.path()), json: false };
        (dir, args)
    }

    #[test]
    fn a_flipped_bit_is_found_with_file_and_place() {
        let env = Env::real();
        let (dir, args) = directory(&env);
        let clean = check(&env, &args).unwrap();
        assert!(clean.clean && clean.tenants.len() == 2, "{clean:?}");
        let path = server::tenant_file(dir.path(), TenantId(2));
        let whole = fs::read(&path).unwrap();
        let (mut found, mut free) = (0, 0);
        // Past the superblocks: of these a damaged one gives way to the other.
        for (slot, _) in whole.chunks(base::limits::PAGE_SIZE).enumerate().skip(2) {
            let mut bytes = whole.clone();
            bytes[slot * base::limits::PAGE_SIZE + 100] ^= 4;
            fs::write(&path, bytes).unwrap();
            let report = check(&env, &args).unwrap();
            if let [defect, ..] = &report.defects[..] {
                assert!(!report.clean && defect.file == path, "{defect:?}");
                let offset = usize::try_from(defect.offset.expect("a place")).unwrap();
                assert_eq!(offset / base::limits::PAGE_SIZE, slot, "{defect:?}");
                assert!(matches!(run(&args), Err(VerifyError::Damaged(_))));
                found += 1;
            } else {
                assert!(report.clean);
                free += 1;
            }
        }
        assert_eq!(found + 2, clean.tenants[1].slots_used, "{free} slots are free");
        fs::write(&path, whole).unwrap();
        run(&args).unwrap();
    }

    #[test]
    fn a_check_changes_no_byte() {
        let env = Env::real();
        let (dir, args) = directory(&env);
        let path = server::tenant_file(dir.path(), TenantId(2));
        let mut bytes = fs::read(&path).unwrap();
        // Opened to be written, it would be whole again.
        bytes[100] ^= 4;
        fs::write(&path, &bytes).unwrap();
        let report = check(&env, &args).unwrap();
        assert!(report.clean && report.tenants[1].spare_superblock_damaged, "{report:?}");
        assert!(fs::read(&path).unwrap() == bytes);
    }

    #[test]
    fn a_directory_in_use_or_of_another_kind_is_refused() {
        let env = Env::real();
        let (dir, args) = directory(&env);
        let open = DataDir::open(&env, dir.path()).unwrap();
        assert!(matches!(run(&args), Err(VerifyError::Place(PlaceError::Directory(StartError::InUse(_))))));
        drop(open);
        let strange = tempfile::tempdir().unwrap();
        let args = Args { place: Place::of(strange.path()), ..args };
        assert!(matches!(run(&args), Err(VerifyError::Place(PlaceError::NotADataDirectory(_)))));
        assert!(!strange.path().join("lock").exists(), "nothing is made there");
    }
}
