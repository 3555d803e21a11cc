//! Once every tenant has been seen, I/O is scheduled and metered without allocating.

mod counting;

use std::num::NonZeroU32;

use base::{ByteCount, IoClass, Nanos, TenantId};
use governor::{
    IoCost, IoInterval, IoMeter, IoMeterVolume, IoPromise, IoQueue, IoVolume, Next, Overbooking, Policy,
    Submitted,
};

use counting::allocations;

const TENANTS: u64 = 50;

struct World {
    queue: IoQueue<(TenantId, IoCost)>,
    meter: IoMeter,
    now: Nanos,
}

impl World {
    /// So many rounds, in each of which every tenant asks for one to four I/Os and all that may be is issued.
    fn rounds(&mut self, rounds: u64) {
        for round in 0..rounds {
            self.now += Nanos::from_millis(20);
            for n in 0..TENANTS {
                let tenant = TenantId(TenantId::FIRST_USER.0 + n);
                let cost = IoCost::of(ByteCount::from_kib(64 * (1 + (n + round) % 4)));
                self.meter.arrived(tenant, cost, self.now);
                let class = if n % 3 == 0 { IoClass::Bulk } else { IoClass::Short };
                match self.queue.submit(tenant, class, cost, (tenant, cost), self.now) {
                    Submitted::Queued(_) => {}
                    Submitted::Issue(..) => panic!("promises are in force"),
                }
            }
            while let Next::Issue((tenant, cost), place) = self.queue.next(self.now) {
                self.meter.issued(tenant, cost, self.now);
                self.meter.started(self.now);
                self.meter.completed(cost, self.now);
                self.queue.completed(place);
            }
            let group = IoCost::of(ByteCount(4096));
            let member = TenantId(TenantId::FIRST_USER.0 + round % TENANTS);
            assert!(self.queue.submit_group([(member, group)], (member, group), self.now).is_none());
            let Next::Issue(_, place) = self.queue.next(self.now) else { panic!("no limit holds a group") };
            self.queue.completed(place);
        }
    }
}

#[test]
fn scheduling_and_metering_allocate_nothing() {
    let (volume, meter) = (IoVolume::new(1), IoMeterVolume::new(0, Nanos::from_micros(250)));
    volume.set_depth(NonZeroU32::new(8));
    for n in 0..TENANTS {
        let promise = IoPromise { iops: 10 * n, iops_max: Some(1000 * (n + 1)), ..IoPromise::default() };
        let tenant = TenantId(TenantId::FIRST_USER.0 + n);
        volume.set_promise(tenant, &promise, 0, Nanos(0));
        meter.set_promise(tenant, &promise, 0, Nanos(0));
    }
    let mut world = World { queue: IoQueue::new(&volume, 0), meter: IoMeter::new(&meter), now: Nanos(0) };
    world.rounds(100);
    world.meter.close(world.now, &mut IoInterval::default());
    let before = allocations();
    world.rounds(1000);
    let half_way = Overbooking::from_permille(500).expect("at most 1000");
    volume.set_policy(Policy::Reservations(half_way), world.now);
    world.rounds(1000);
    assert_eq!(allocations() - before, 0);
    drop(std::hint::black_box(Box::new(1)));
    assert!(allocations() > before, "allocations are counted");
}
