//! What branches left behind when they took the live pages' place, taken in without a checkpoint.
//!
//! Until then both states are kept, so each page that they share is copied before its next change, and what was replaced stays in
//! memory. A checkpoint takes it in too; where none is near, this is a matter of looking through the maps.

use std::sync::Arc;

use crate::branch::{Behind, Left};
use crate::file_reader::FileReader;
use crate::slots::Slots;
use crate::{DataFile, PageMap};

/// Borrows the file's slots while it runs: no checkpoint begins meanwhile.
pub struct Settling {
    reader: Arc<FileReader>,
    slots: Slots,
    stage: Stage,
}

enum Stage {
    Begun(Box<Behind>),
    /// Dropped half-way it leaves unknown which slots are free: the file takes no more checkpoints.
    Running,
    Done(Left),
}

impl Settling {
    /// Constant time. `None` if no branch took the live pages' place since the last time, or if a checkpoint runs.
    pub fn begin(map: &mut PageMap, file: &mut DataFile) -> Option<Settling> {
        if !map.has_replaced() {
            return None;
        }
        let slots = file.slots.take()?;
        let behind = Box::new(map.take_behind());
        Some(Settling { reader: Arc::clone(&file.reader), slots, stage: Stage::Begun(behind) })
    }

    /// Looks through what differs and lets go of it; reads and writes nothing. Yields now and then.
    pub async fn run(&mut self) {
        let Stage::Begun(behind) = std::mem::replace(&mut self.stage, Stage::Running) else {
            panic!("it runs once");
        };
        self.stage = Stage::Done(behind.take_in(&mut self.slots).await);
    }

    /// Ends it in a turn of the home.
    pub fn finish(mut self, map: &mut PageMap, file: &mut DataFile) {
        assert!(file.slots.is_none() && Arc::ptr_eq(&file.reader, &self.reader), "begun with another file");
        let left = match self.stage {
            Stage::Begun(behind) => behind.take_in_now(&mut self.slots),
            Stage::Running => return,
            Stage::Done(left) => left,
        };
        map.end_settling(left);
        file.slots = Some(self.slots);
    }
}
