//! Random failures of the disk, one upon the other, under logs that are sealed and go on: nothing that was told durable is lost, nothing that was told lost
//! comes back, and at the end nothing is kept.

use super::*;

struct Life {
    world: World,
    env: Env,
    seed: u64,
    tenants: BTreeMap<TenantId, Tenant>,
}

fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

impl Life {
    fn inject(&mut self, ops: &[DiskOp]) {
        for _ in 0..1 + draw(&mut self.seed, 3) {
            let op = ops[draw(&mut self.seed, ops.len() as u64) as usize];
            let errno = if draw(&mut self.seed, 3) == 0 { 28 } else { 5 };
            let after = draw(&mut self.seed, 6);
            self.world.inject(DiskFault { op, path_contains: "log".into(), after, errno: Some(errno) });
        }
    }

    fn forget(&mut self, home: Option<usize>) {
        let index = recover(&self.env, &[dir()]).expect("sound logs");
        for (id, tenant) in self.tenants.iter_mut().filter(|(_, t)| home.is_none_or(|home| t.home == home)) {
            let last = index.last_commit(*id).unwrap_or_default().max(tenant.root);
            assert!(last >= tenant.durable, "tenant {id}: durable commit {} is lost", tenant.durable);
            assert!(last <= tenant.appended, "tenant {id}: commit {last} was never appended");
            assert_holds(&index, *id, tenant.root, last);
            (tenant.durable, tenant.appended) = (last, last);
            tenant.pending.clear();
        }
    }

    fn start(&mut self) -> (LogDir, Vec<(LogWriter, LogFlusher)>) {
        loop {
            if draw(&mut self.seed, 2) == 0 {
                self.inject(&[DiskOp::Write, DiskOp::Sync, DiskOp::Name]);
            }
            let opened = open(&self.env);
            self.world.mend_disk();
            match opened {
                Ok((logs, _)) => {
                    let workers = 1 + draw(&mut self.seed, 3) as usize;
                    for (id, tenant) in &mut self.tenants {
                        tenant.home = id.0 as usize % workers;
                    }
                    self.forget(None);
                    return (logs.clone(), (0..workers).map(|_| logs.writer()).collect());
                }
                Err(RedoError::Io { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn note_durable(&mut self, home: usize, durable: Lsn) {
        for tenant in self.tenants.values_mut().filter(|tenant| tenant.home == home) {
            while let Some((commit, _)) = tenant.pending.pop_front_if(|(_, end)| *end <= durable) {
                tenant.durable = commit;
            }
        }
    }

    fn run(&mut self, steps: usize) {
        let (logs, mut workers) = self.start();
        for _ in 0..steps {
            let id = TenantId(1 + draw(&mut self.seed, 6));
            let home = self.tenants[&id].home;
            match draw(&mut self.seed, 100) {
                0..55 if workers[home].0.admit(1000).is_ok() => {
                    let in_parts = draw(&mut self.seed, 12) == 0;
                    let tenant = self.tenants.get_mut(&id).expect("there");
                    tenant.appended = tenant.appended.next();
                    let (log, bytes) = (&workers[home].0, record(id, tenant.appended));
                    let end = if in_parts {
                        let mut parts = log.begin_parts(id);
                        bytes.chunks(70_000).for_each(|part| _ = parts.push(part));
                        log.append_parts(parts, tenant.appended)
                    } else {
                        log.append(id, tenant.appended, &bytes)
                    };
                    tenant.pending.push_back((tenant.appended, end));
                }
                55..57 => {
                    // One that comes to nothing.
                    let mut parts = workers[home].0.begin_parts(id);
                    parts.push(&[7; 200_000]);
                    let _ = block_on(&self.env, workers[home].1.flush_once());
                }
                57..80 => {
                    let _ = block_on(&self.env, workers[home].1.flush_once());
                }
                80..88 => {
                    let tenant = self.tenants.get_mut(&id).expect("there");
                    tenant.root = tenant.durable;
                    logs.release_through(id, tenant.root);
                }
                88..94 => {
                    if draw(&mut self.seed, 4) == 0 {
                        self.inject(&[DiskOp::Write, DiskOp::Sync, DiskOp::Name, DiskOp::Resize]);
                    }
                    let _ = block_on(&self.env, logs.prepare_ahead());
                }
                94..97 => {
                    self.inject(&[DiskOp::Write, DiskOp::Write, DiskOp::Sync, DiskOp::Name, DiskOp::Resize])
                }
                _ => {
                    let tenant = self.tenants.get_mut(&id).expect("there");
                    if tenant.pending.is_empty() && workers[home].0.failure().is_none() {
                        tenant.home = (tenant.home + 1) % workers.len();
                        if workers[tenant.home].0.failure().is_some() {
                            tenant.home = home;
                        }
                    }
                }
            }
            for (home, (log, flusher)) in workers.iter_mut().enumerate() {
                // After a failure what was durable before it.
                self.note_durable(home, log.durable());
                if log.failure().is_none() {
                    continue;
                }
                if draw(&mut self.seed, 2) == 0 {
                    self.world.mend_disk();
                }
                if block_on(&self.env, flusher.seal()).is_ok() {
                    self.world.mend_disk();
                    self.forget(Some(home));
                    flusher.resume();
                }
            }
        }
        self.world.mend_disk();
        // In order, or as it comes.
        if draw(&mut self.seed, 2) == 0 {
            for (home, (log, flusher)) in workers.iter_mut().enumerate() {
                if log.failure().is_some() {
                    block_on(&self.env, flusher.seal()).expect("the disk works");
                    self.forget(Some(home));
                    flusher.resume();
                }
                flush_all(&self.env, flusher);
            }
            for (id, tenant) in &mut self.tenants {
                if let Some((commit, _)) = tenant.pending.pop_back() {
                    tenant.durable = commit;
                }
                tenant.pending.clear();
                tenant.root = tenant.durable;
                logs.release_through(*id, tenant.root);
            }
            block_on(&self.env, logs.prepare_ahead()).expect("the disk works");
            let open = workers.len();
            let live = logs.usage().live_segments;
            assert!(live <= open, "{live} segments are live, {open} are written to");
        }
    }
}

#[test]
fn logs_survive_failures_upon_failures() {
    for seed in 0..6 {
        let world = World::new(seed);
        let tenants = (1..=6).map(|id| (TenantId(id), Tenant::default())).collect();
        let mut life = Life { env: world.env(), world, seed, tenants };
        for _ in 0..6 {
            life.run(150);
            match draw(&mut life.seed, 3) {
                0 => life.world.kill(),
                1 => life.world.power_cut(PowerCut::DropUnsynced),
                _ => life.world.power_cut(PowerCut::Random),
            }
        }
    }
}

#[test]
fn what_is_read_again_is_forgotten_as_roots_cover_it_and_keeps_no_space() {
    let world = World::new(39);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 3, 1, 120);
    logs.release_through(TenantId(3), CommitNo(120));
    let index = logs.read_again().expect("sound logs");
    assert_eq!(index.tenants().len(), 2, "what roots covered before is not in it");
    logs.release_through(TenantId(1), CommitNo(120));
    assert_holds(&index, TenantId(2), CommitNo(0), CommitNo(120));
    logs.release_through(TenantId(2), CommitNo(120));
    assert_eq!(index.tenants(), []);
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    let usage = logs.usage();
    assert_eq!(usage.live_segments, 1, "the one that is written to");
    assert_eq!(world.disk_used(), usage.live + usage.free, "no file that is gone is open");
}

#[test]
fn what_was_read_for_one_tenant_serves_others_that_have_no_more() {
    let world = World::new(41);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 3, 1, 20);
    logs.release_through(TenantId(1), CommitNo(20));
    // Both copies of a header, together and one after the other.
    let unreadable = || (0..3).for_each(|_| world.inject(DiskFault::eio(DiskOp::Read, ".redo")));
    unreadable();
    assert_eq!(logs.read_again_for(TenantId(1)).expect("its root has all").tenants(), []);
    logs.read_again_for(TenantId(2)).err().expect("it is read");
    assert_holds(&logs.read_again_for(TenantId(2)).expect("sound"), TenantId(2), CommitNo(0), CommitNo(20));
    unreadable();
    let index = logs.read_again_for(TenantId(3)).expect("read before");
    world.mend_disk();
    assert_holds(&index, TenantId(3), CommitNo(19), CommitNo(20));
    log.append(TenantId(3), CommitNo(21), &record(TenantId(3), CommitNo(21)));
    flush_all(&env, &mut flusher);
    assert_holds(&logs.read_again_for(TenantId(3)).expect("sound"), TenantId(3), CommitNo(19), CommitNo(21));
    for _ in 0..4 {
        block_on(&env, logs.prepare_ahead()).expect("the disk works");
    }
    unreadable();
    logs.read_again_for(TenantId(3)).err().expect("it is not kept for long");
}

#[test]
fn what_was_being_read_while_a_log_was_sealed_serves_nobody_else() {
    let world = World::new(42);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 2, 1, 20);
    let sealed = logs.sealed();
    let index = logs.read_again().expect("sound logs");
    log.append(TenantId(2), CommitNo(21), &record(TenantId(2), CommitNo(21)));
    world.inject(DiskFault::eio(DiskOp::Write, "log"));
    block_on(&env, flusher.flush_once()).expect_err("the disk fails");
    block_on(&env, flusher.seal()).expect("the disk works again");
    flusher.resume();
    logs.keep_lately(&index, sealed);
    assert!(logs.known_of(TenantId(2)).is_none());
    logs.keep_lately(&index, logs.sealed());
    assert!(logs.known_of(TenantId(2)).is_some());
}
