//! Named sizes: options that tenants have in common.
//!
//! Truth is the table `rowhouse.sizes`; this is its image in memory. A size that is altered is altered for all its tenants.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use governor::PromiseOptions;

/// What every data directory begins with. Each reserves four times what the one before does; `large` is what a worker has
/// beside the server's own fifth of it, and a quarter of the memory a server has by default. None of them limits.
pub(super) const SHIPPED: [(&str, &str); 3] = [
    ("small", "cpu = 0.05, iops = 50, memory = 64MiB, work_memory = 16MiB"),
    ("medium", "cpu = 0.2, iops = 200, memory = 256MiB, work_memory = 64MiB"),
    ("large", "cpu = 0.8, iops = 800, memory = 1GiB, work_memory = 256MiB"),
];

/// All sizes by name. Readable from any thread.
#[derive(Default)]
pub(crate) struct Sizes(Mutex<BTreeMap<String, PromiseOptions>>);

impl Sizes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PromiseOptions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: &str) -> Option<PromiseOptions> {
        self.lock().get(name).cloned()
    }

    pub(crate) fn list(&self) -> Vec<(String, PromiseOptions)> {
        self.lock().iter().map(|(name, options)| (name.clone(), options.clone())).collect()
    }

    pub(super) fn set(&self, name: String, options: PromiseOptions) {
        self.lock().insert(name, options);
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use governor::Promise;

    use super::*;

    #[test]
    fn sizes_that_ship_are_four_times_one_another_and_consistent() {
        let promises: Vec<Promise> = SHIPPED
            .iter()
            .map(|(name, options)| {
                let options: PromiseOptions = options.parse().expect(name);
                options.over(&Promise::default())
            })
            .collect();
        for pair in promises.windows(2) {
            assert_eq!(pair[1].cpu.reserved.0, 4 * pair[0].cpu.reserved.0);
            assert_eq!(pair[1].io.iops, 4 * pair[0].io.iops);
            assert_eq!(pair[1].memory.memory.0, 4 * pair[0].memory.memory.0);
            assert_eq!(pair[1].memory.work_memory.0, 4 * pair[0].memory.work_memory.0);
        }
        promises.iter().for_each(|promise| promise.validate().expect("consistent"));
    }
}
