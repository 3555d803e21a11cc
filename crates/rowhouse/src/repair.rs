//! `rowhouse repair`: gets a tenant with damaged indexes back, offline. The work is `tenant::repair`'s.

use std::fmt;
use std::path::PathBuf;

use base::{SqlError, TenantId};
use env::Env;
use server::KnownTenant;
use storage::redo::{RedoError, recover};
use tenant::ddl::Behavior;
use tenant::repair::{RepairError, Repaired};

use crate::offline::{Place, PlaceError};

/// Options of `rowhouse repair`.
#[derive(clap::Args)]
#[command(after_help = "\
`rowhouse verify` names what is damaged. Dropping an index loses no row; make it again with CREATE INDEX when the server
runs. A primary key cannot be dropped, since the rows are in it: restore the tenant from a backup.

The exit code is 0 if the tenant has no further damage, else 1. The server must not be running.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// The tenant's name, or its id
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// An index to drop, spelled as `verify` does, also where it was renamed or dropped since the file was last written;
    /// repeatable. Of a unique constraint, the constraint goes with it.
    /// Without one, only pages that nothing refers to are given back.
    #[arg(long, value_name = "SCHEMA.INDEX")]
    drop_index: Vec<String>,
    /// Drop foreign keys that need a dropped index too, instead of refusing
    #[arg(long)]
    cascade: bool,
}

/// Why the tenant is not whole.
#[derive(Debug)]
pub(crate) enum Failure {
    Place(PlaceError),
    /// The redo logs cannot be read, so the tenant's newest state is not known.
    Log(RedoError),
    Catalogue(SqlError),
    NoSuchTenant(String),
    NoSuchVolume(String),
    Repair(RepairError),
    /// Repaired, and this much damage is left.
    Damaged(usize),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Place(error) => error.fmt(f),
            Failure::Log(error) => write!(f, "nothing was changed: {error}"),
            Failure::Catalogue(error) => write!(f, "nothing was changed: {}", error.message()),
            Failure::NoSuchTenant(name) => write!(f, "there is no tenant \"{name}\""),
            Failure::NoSuchVolume(name) => {
                write!(f, "the tenant is on volume \"{name}\": give --volume {name}=DIR")
            }
            Failure::Repair(error @ RepairError::InDoubt(_)) => error.fmt(f),
            Failure::Repair(error) => write!(f, "nothing was changed: {error}"),
            Failure::Damaged(defects) => write!(f, "{defects} more object(s) of the tenant are damaged"),
        }
    }
}

/// Repairs the tenant and prints what was done.
///
/// # Errors
/// It cannot be repaired, or is not whole afterwards.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let env = Env::real();
    let _lock = args.place.lock(&env).map_err(Failure::Place)?;
    let (data, logs) = (args.place.data(), args.place.log_dir());
    server::check_logs(&env, data, &logs).map_err(|error| Failure::Place(PlaceError::Directory(error)))?;
    let redo = recover(&env, &[logs]).map_err(Failure::Log)?;
    let known = server::known_tenants(&env, data, &redo).map_err(Failure::Catalogue)?;
    let (id, path) = find(args, known)?;
    let behavior = if args.cascade { Behavior::Cascade } else { Behavior::Restrict };
    let repaired = tenant::repair::repair(&env, &path, id, &redo, &args.drop_index, behavior);
    let repaired = repaired.map_err(Failure::Repair)?;
    print(&repaired);
    match repaired.defects.len() {
        0 => Ok(()),
        defects => Err(Failure::Damaged(defects)),
    }
}

fn find(args: &Args, known: Vec<KnownTenant>) -> Result<(TenantId, PathBuf), Failure> {
    let by_id = args.tenant.parse().ok().map(TenantId);
    let found = known.iter().find(|tenant| tenant.name == args.tenant);
    let found = found.or_else(|| known.iter().find(|tenant| Some(tenant.id) == by_id));
    let Some(tenant) = found else { return Err(Failure::NoSuchTenant(args.tenant.clone())) };
    let volume = args.place.volume(&tenant.volume);
    let volume = volume.ok_or_else(|| Failure::NoSuchVolume(tenant.volume.clone()))?;
    Ok((tenant.id, server::tenant_file(volume, tenant.id)))
}

fn print(repaired: &Repaired) {
    for index in &repaired.dropped {
        let constraint = if index.constraint { " with its unique constraint" } else { "" };
        println!("dropped index {} of table {}{constraint}", index.name, index.table);
        for also in &index.also_dropped {
            println!("  and with it {also}");
        }
    }
    for index in &repaired.gone_since {
        println!("index {index} was dropped already, by what the redo log has");
    }
    println!("{} page(s) given back, commit {}", repaired.pages_released, repaired.commit);
    for defect in &repaired.defects {
        println!("STILL DAMAGED {defect}");
    }
}
