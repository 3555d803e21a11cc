//! What runs beside the sessions: group commit, checkpoints, the log's upkeep. Each a task that ends with the power.

use std::rc::Rc;

use base::{Lsn, Nanos};
use governor::{EvictionTime, VictimChoice};
use storage::Checkpoint;
use storage::redo::LogFlusher;
use tenant::Interrupt;

use crate::{Dice, Home, Server, Stop, require};

/// How often one who waits for a checkpoint looks whether it ended.
const ENDED_LOOK: Nanos = Nanos::from_micros(20);

/// Makes a worker's log durable, a group at a time.
pub(crate) async fn flush(server: &Server, mut flusher: LogFlusher) -> Result<(), Stop> {
    let dice = Dice::of(&server.world);
    loop {
        flusher.gathered().await;
        dice.pause(300).await;
        let Err(error) = flusher.flush_once().await else { continue };
        require!(!error.is_full_disk(), "a full disk closed the log: {error}");
        return goes_on(Err(Stop::failed(&server.world, "flushing the log", error)));
    }
}

/// Whether the server works on, if only to read, after a step of a chore.
pub(crate) fn goes_on(step: Result<(), Stop>) -> Result<(), Stop> {
    match step {
        Err(Stop::Fault(_)) => Ok(()),
        step => step,
    }
}

/// Checkpoints a tenant again and again, and releases what dropped tables leave.
pub(crate) async fn checkpoint(home: Rc<Home>) -> Result<(), Stop> {
    let dice = Dice::of(home.world());
    // Some tenants come to a checkpoint in each life, some rarely.
    let interval = [500, 5_000, 50_000][dice.below(3) as usize];
    loop {
        dice.pause(interval).await;
        if dice.percent(50) {
            settle(&home).await;
        }
        let done = match checkpoint_or_wait(&home).await {
            Ok(()) => reclaim(&home).await,
            failed => failed,
        };
        // A full disk may have room the next time; a file that is closed is so until the next start.
        goes_on(done)?;
    }
}

/// Checkpoints a tenant; if that is under way, waits for its end instead.
pub(crate) async fn checkpoint_or_wait(home: &Home) -> Result<(), Stop> {
    if !home.checkpointing.replace(true) {
        let done = checkpoint_once(home).await;
        home.checkpointing.set(false);
        return done;
    }
    while home.checkpointing.get() {
        env::sleep(ENDED_LOOK).await;
    }
    Ok(())
}

/// Lets go of what branches replaced, unless a checkpoint is under way.
async fn settle(home: &Home) {
    if home.checkpointing.replace(true) {
        return;
    }
    let begun = home.turn(|home| home.tenant.begin_settling());
    if let Some(mut settling) = begun {
        settling.run().await;
        home.turn(|home| home.tenant.finish_settling(settling));
    }
    home.checkpointing.set(false);
}

async fn checkpoint_once(home: &Home) -> Result<(), Stop> {
    let failed = |error: &dyn std::fmt::Display| Stop::failed(home.world(), "a checkpoint", error);
    let before = home.resident();
    let (commit, wait_for, begun) = home
        .turn(|home| (home.tenant.committed(), home.tenant.newest_pending(), home.tenant.begin_checkpoint()));
    home.begun_max.set(home.begun_max.get().max(home.resident().saturating_sub(before)));
    let mut checkpoint = begun.map_err(|error| failed(&error))?;
    let outcome = write_checkpoint(home, &mut checkpoint, wait_for).await;
    if home.turn(|home| home.tenant.finish_checkpoint(checkpoint)) {
        home.log_dir.release_through(home.id, commit);
        home.checkpoints.update(|count| count + 1);
    }
    outcome
}

async fn write_checkpoint(home: &Home, checkpoint: &mut Checkpoint, wait_for: Lsn) -> Result<(), Stop> {
    let failed = |error: storage::FileError| Stop::failed(home.world(), "a checkpoint", error);
    checkpoint.write().await.map_err(failed)?;
    home.durable(wait_for).await?;
    checkpoint.publish().await.map(drop).map_err(failed)
}

/// Makes a tenant cold now and then: all that may leaves memory, or a sweep takes what it would.
pub(crate) async fn chill(home: Rc<Home>) -> Result<(), Stop> {
    let dice = Dice::of(home.world());
    let interval = [300, 3_000, 30_000][dice.below(3) as usize];
    let mut choice = VictimChoice::default();
    loop {
        dice.pause(interval).await;
        let now = EvictionTime(dice.below(100) as u32);
        match dice.percent(50) {
            true => drop(home.turn(|home| home.tenant.evict_all())),
            false => drop(home.turn(|home| home.tenant.sweep(&mut choice, now))),
        }
    }
}

async fn reclaim(home: &Home) -> Result<(), Stop> {
    loop {
        let step = home.turn(|home| match home.tenant.reclaim(16) {
            Ok(more) => Ok((more, None)),
            Err(Interrupt::Miss(page)) => {
                let request = home.tenant.page_to_reclaim(page);
                request.map(|request| (true, request)).map_err(|error| error.to_string())
            }
            Err(other) => Err(format!("{other:?}")),
        });
        match step.map_err(|what| Stop::failed(home.world(), "releasing a dropped tree", what))? {
            (_, Some(request)) => {
                let loaded = home.load_page(request).await?;
                loaded.map_err(|error| Stop::failed(home.world(), "releasing a dropped tree", error))?;
            }
            (true, None) => env::sleep(Nanos::from_micros(10)).await,
            (false, None) => return Ok(()),
        }
    }
}

/// Frees log segments and makes the next ones ready.
pub(crate) async fn upkeep(server: &Server) -> Result<(), Stop> {
    let dice = Dice::of(&server.world);
    loop {
        dice.pause(60_000).await;
        let prepared = server.log_dir.prepare_ahead().await;
        goes_on(prepared.map_err(|error| Stop::failed(&server.world, "preparing log segments", error)))?;
    }
}
