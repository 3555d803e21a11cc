//! What the disk is like during a life: mostly sound; else it meets faults, has no room for a while, or is slow.

use base::{ByteCount, Nanos};
use env::sim::{DiskFault, DiskOp, Latency, PowerCut, Speeds, World};

use crate::{Dice, Stop};

const EIO: i32 = 5;

/// A life's troubles besides its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    Fair,
    /// These strike as the life comes to them.
    Faults(Vec<DiskFault>),
    /// There is so much room beyond what files take, until this time has passed.
    NoRoom(ByteCount, Nanos),
    /// Every operation takes this long.
    Slow(Speeds),
}

impl Weather {
    pub(crate) fn draw(dice: &Dice) -> Weather {
        match dice.below(100) {
            0..60 => Weather::Fair,
            60..80 => Weather::Faults((0..1 + dice.below(3)).map(|_| fault(dice)).collect()),
            80..90 => {
                let room = [0, 200_000, 2_000_000][dice.below(3) as usize];
                Weather::NoRoom(ByteCount(dice.below(room + 1)), Nanos::from_millis(dice.below(2_000)))
            }
            _ => Weather::Slow(slow(dice)),
        }
    }

    /// Sets in.
    pub(crate) fn begin(&self, world: &World) {
        match self {
            Weather::Fair => {}
            Weather::Faults(faults) => faults.iter().for_each(|fault| world.inject(fault.clone())),
            Weather::NoRoom(room, _) => world.set_disk_capacity(world.disk_used() + *room),
            Weather::Slow(speeds) => world.set_speeds(*speeds),
        }
    }

    /// Goes on beside the sessions: room comes back; a server that met a fault is killed some time later.
    pub(crate) async fn pass(self, world: World) -> Result<(), Stop> {
        let dice = Dice::of(&world);
        match self {
            Weather::Fair | Weather::Slow(_) => Ok(()),
            Weather::NoRoom(_, time) => {
                env::sleep(time).await;
                world.lift_capacity();
                Ok(())
            }
            Weather::Faults(_) => {
                while world.faults_struck() == 0 {
                    dice.pause(2_000).await;
                }
                // Long enough, every other time, for the server to work with what the fault left it.
                dice.pause(if dice.percent(50) { 50_000 } else { 10_000_000 }).await;
                Err(Stop::Fault("the operator ends the server".to_owned()))
            }
        }
    }

    /// All is well again.
    pub(crate) fn end(world: &World) {
        world.mend_disk();
        world.set_speeds(Speeds::default());
    }
}

fn fault(dice: &Dice) -> DiskFault {
    let ops = [DiskOp::Read, DiskOp::Write, DiskOp::Write, DiskOp::Sync, DiskOp::Resize, DiskOp::Name];
    let op = ops[dice.below(ops.len() as u64) as usize];
    let path_contains = [".redo", ".rowhouse", ""][dice.below(3) as usize].to_owned();
    let after = dice.below([4, 30, 200][dice.below(3) as usize]);
    let is_transfer = matches!(op, DiskOp::Read | DiskOp::Write);
    let errno = (!is_transfer || dice.percent(70)).then_some(EIO);
    DiskFault { op, path_contains, after, errno }
}

fn slow(dice: &Dice) -> Speeds {
    let up_to = |millis: u64| Latency {
        min: Nanos::from_micros(50),
        max: Nanos::from_millis(1 + dice.below(millis)),
    };
    Speeds { read: up_to(20), write: up_to(20), sync: up_to(200), ..Speeds::default() }
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The process is killed; what it wrote stays.
    Kill,
    PowerCut(PowerCut),
}

impl Ending {
    pub(crate) fn draw(dice: &Dice) -> Ending {
        match dice.below(100) {
            0..20 => Ending::Kill,
            20..65 => Ending::PowerCut(PowerCut::DropUnsynced),
            65..82 => Ending::PowerCut(PowerCut::Random),
            _ => Ending::PowerCut(PowerCut::Writes),
        }
    }

    pub(crate) fn strike(self, world: &World) {
        match self {
            Ending::Kill => world.kill(),
            Ending::PowerCut(policy) => world.power_cut(policy),
        }
    }
}
