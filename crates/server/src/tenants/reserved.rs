//! What all tenants have reserved together: sums that follow each change, so that nobody has to look at all tenants.
//!
//! Truth is the tenants' rows; the sums are only a speed-up. A tenant's part is added when it is registered, exchanged with its row and under the row's
//! lock when that changes, and taken away when the tenant goes. After a start they are made anew, by registering everybody.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base::VolumeNo;
use governor::Promise;

/// What one tenant adds to the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Of the server's own tenant.
    pub(super) is_system: bool,
    /// Thousandths of a core.
    pub(super) cpu: u32,
    pub(super) memory: u64,
    pub(super) work_memory: u64,
    pub(super) iops: u64,
    pub(super) bandwidth: u64,
    /// That of its data file, and the logs': a promise of I/O is for both.
    pub(super) volumes: [VolumeNo; 2],
}

impl Part {
    pub(super) fn of(promise: &Promise, is_system: bool, volumes: [VolumeNo; 2]) -> Part {
        assert_ne!(volumes[0], volumes[1], "the logs' volume is apart");
        Part {
            is_system,
            cpu: promise.cpu.reserved.0,
            memory: promise.memory.memory.0,
            work_memory: promise.memory.work_memory.0,
            iops: promise.io.iops,
            bandwidth: promise.io.bandwidth.0,
            volumes,
        }
    }
}

/// A sum of numbers of 64 bits: of as many as there can be it does not overflow, so that what was added can be taken away again.
type Sum = u128;

/// What all tenants have reserved together.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reserved {
    cpu: Sum,
    system_cpu: Sum,
    memory: Sum,
    work_memory: Sum,
    /// Of volumes on which anything is reserved.
    io: BTreeMap<VolumeNo, ReservedIo>,
}

/// On one volume, each second.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct ReservedIo {
    iops: Sum,
    bandwidth: Sum,
}

fn shown(sum: Sum) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

impl Reserved {
    fn add(&mut self, part: &Part) {
        self.cpu += Sum::from(part.cpu);
        if part.is_system {
            self.system_cpu += Sum::from(part.cpu);
        }
        self.memory += Sum::from(part.memory);
        self.work_memory += Sum::from(part.work_memory);
        if part.iops > 0 || part.bandwidth > 0 {
            for volume in part.volumes {
                let io = self.io.entry(volume).or_default();
                io.iops += Sum::from(part.iops);
                io.bandwidth += Sum::from(part.bandwidth);
            }
        }
    }

    /// Takes away what was added.
    fn subtract(&mut self, part: &Part) {
        let less = |sum: &mut Sum, by: u64| {
            *sum = sum.checked_sub(by.into()).expect("only what was added is taken away");
        };
        less(&mut self.cpu, part.cpu.into());
        if part.is_system {
            less(&mut self.system_cpu, part.cpu.into());
        }
        less(&mut self.memory, part.memory);
        less(&mut self.work_memory, part.work_memory);
        if part.iops > 0 || part.bandwidth > 0 {
            for volume in part.volumes {
                let io = self.io.get_mut(&volume).expect("only what was added is taken away");
                less(&mut io.iops, part.iops);
                less(&mut io.bandwidth, part.bandwidth);
                if *io == ReservedIo::default() {
                    self.io.remove(&volume);
                }
            }
        }
    }

    /// In thousandths of a core.
    pub(crate) fn cpu(&self) -> u64 {
        shown(self.cpu)
    }

    /// Of the server's own tenant, in thousandths of a core.
    pub(crate) fn system_cpu(&self) -> u64 {
        shown(self.system_cpu)
    }

    /// Bytes.
    pub(crate) fn memory(&self) -> u64 {
        shown(self.memory)
    }

    /// Bytes.
    pub(crate) fn work_memory(&self) -> u64 {
        shown(self.work_memory)
    }

    /// I/Os a second on a volume.
    pub(crate) fn iops(&self, volume: VolumeNo) -> u64 {
        self.io.get(&volume).map_or(0, |io| shown(io.iops))
    }

    /// Bytes a second on a volume.
    pub(crate) fn bandwidth(&self, volume: VolumeNo) -> u64 {
        self.io.get(&volume).map_or(0, |io| shown(io.bandwidth))
    }
}

/// The sums, changed from any thread. The last of the locks that are held together: nothing is waited for under it.
#[derive(Default)]
pub(super) struct ReservedSums(Mutex<Reserved>);

impl ReservedSums {
    /// Puts a tenant's part in the place of the one it had; `None` where it is not registered.
    pub(super) fn exchange(&self, before: Option<Part>, after: Option<Part>) {
        if before == after {
            return;
        }
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = before {
            sums.subtract(&before);
        }
        if let Some(after) = after {
            sums.add(&after);
        }
    }

    /// As they are at one instant.
    pub(super) fn get(&self) -> Reserved {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const LOG: VolumeNo = VolumeNo(2);

    fn amount() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 1..1_000_u64, Just(u64::MAX)]
    }

    fn part() -> impl Strategy<Value = Part> {
        let amounts = (any::<u32>(), amount(), amount(), amount(), amount());
        (any::<bool>(), 0..2_u32, amounts).prop_map(
            |(is_system, volume, (cpu, memory, work_memory, iops, bandwidth))| {
                let volumes = [VolumeNo(volume), LOG];
                Part { is_system, cpu, memory, work_memory, iops, bandwidth, volumes }
            },
        )
    }

    proptest! {
        /// Tenants come, change and go, and the sums are those of who is there.
        #[test]
        fn sums_are_those_of_the_parts_that_are_there(steps in vec((0..6_usize, proptest::option::of(part())), 1..60)) {
            let sums = ReservedSums::default();
            let mut tenants: [Option<Part>; 6] = [None; 6];
            for (tenant, after) in steps {
                sums.exchange(tenants[tenant], after);
                tenants[tenant] = after;
                let there: Vec<Part> = tenants.iter().flatten().copied().collect();
                let sum = |of: fn(&Part) -> u64| shown(there.iter().map(|part| Sum::from(of(part))).sum());
                let found = sums.get();
                prop_assert_eq!(found.cpu(), sum(|part| part.cpu.into()));
                prop_assert_eq!(found.system_cpu(), sum(|part| if part.is_system { part.cpu.into() } else { 0 }));
                prop_assert_eq!(found.memory(), sum(|part| part.memory));
                prop_assert_eq!(found.work_memory(), sum(|part| part.work_memory));
                prop_assert_eq!(found.iops(LOG), sum(|part| part.iops));
                prop_assert_eq!(found.bandwidth(LOG), sum(|part| part.bandwidth));
                let on_first = |part: &Part| if part.volumes[0] == VolumeNo(0) { part.iops } else { 0 };
                prop_assert_eq!(found.iops(VolumeNo(0)), shown(there.iter().map(|part| Sum::from(on_first(part))).sum()));
            }
            for tenant in tenants {
                sums.exchange(tenant, None);
            }
            prop_assert_eq!(sums.get(), Reserved::default());
        }
    }
}
