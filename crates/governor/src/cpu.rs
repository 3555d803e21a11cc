//! Which tenant's task a worker polls next.
//!
//! Weighted fair sharing: every tenant has a virtual time that advances by `used / weight`, and the runnable tenant
//! with the smallest is picked. While a tenant waits its virtual time stands still, so a heap is exact. A tenant that
//! wakes is re-based to the virtual time of the moment: it neither catches up on time it was idle nor waits behind what
//! others took meanwhile. Example: weights 100 and 300, both always runnable, 1 ms polls: of every 4 ms the first gets
//! 1 ms, the second 3 ms.
//!
//! One scheduler a worker, used by its thread only. Blocked tenants are not looked at: a pick costs O(log runnable).

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

use crate::promise::CpuPromise;

/// Virtual time: nanoseconds a unit of weight, times 2^16.
type Virtual = u128;
const VIRTUAL_SHIFT: u32 = 16;

/// Position in the heap of a tenant that is not in it.
const BLOCKED: u32 = u32::MAX;

struct Account {
    tenant: TenantId,
    weight: u32,
    virtual_time: Virtual,
    /// When it became runnable or was last served, counted in events: equal virtual times go first come, first served.
    turn: u64,
    heap_position: u32,
    used: Nanos,
}

/// Picks the next tenant of one worker. See the module's description for the rule.
#[derive(Default)]
pub struct CpuScheduler {
    accounts: Vec<Account>,
    free: Vec<u32>,
    by_tenant: FxHashMap<TenantId, u32>,
    /// Runnable accounts, a binary heap by (virtual time, turn). Capacity for all accounts is reserved when they are
    /// made, so the run path never allocates.
    heap: Vec<u32>,
    /// Largest virtual time at which a tenant was picked; never falls.
    floor: Virtual,
    turns: u64,
}

impl CpuScheduler {
    /// A scheduler that knows no tenant.
    pub fn new() -> CpuScheduler {
        CpuScheduler::default()
    }

    /// Makes a tenant known or changes its promise, effective from the next charge. The only call that allocates.
    pub fn set_promise(&mut self, tenant: TenantId, promise: &CpuPromise) {
        let account = self.account(tenant);
        self.accounts[account as usize].weight = promise.weight.get();
    }

    /// The tenant has a task to run. Re-bases it if it was blocked; else does nothing. A tenant never seen is made
    /// known with the default promise.
    pub fn runnable(&mut self, tenant: TenantId, _now: Nanos) {
        let account = self.account(tenant);
        self.turns += 1;
        let state = &mut self.accounts[account as usize];
        if state.heap_position == BLOCKED {
            state.virtual_time = state.virtual_time.max(self.floor);
            state.turn = self.turns;
            let position = self.heap.len();
            self.heap.push(account);
            self.accounts[account as usize].heap_position = position as u32;
            self.sift_up(position);
        }
    }

    /// The tenant has no task left to run. Does nothing if it had none.
    pub fn blocked(&mut self, tenant: TenantId, _now: Nanos) {
        if let Some(&account) = self.by_tenant.get(&tenant) {
            self.leave_heap(account);
        }
    }

    /// The tenant whose task is to be polled next; it stays runnable until [`CpuScheduler::blocked`]. `None` only if no
    /// tenant is runnable: the worker is never idle otherwise.
    pub fn pick(&mut self, _now: Nanos) -> Option<TenantId> {
        let account = &self.accounts[*self.heap.first()? as usize];
        self.floor = self.floor.max(account.virtual_time);
        Some(account.tenant)
    }

    /// The tenant used processor time, in a poll or on its behalf; it may be blocked by now.
    pub fn charge(&mut self, tenant: TenantId, used: Nanos, _now: Nanos) {
        let account = self.account(tenant);
        self.turns += 1;
        let state = &mut self.accounts[account as usize];
        state.used += used;
        state.virtual_time += virtual_of(used, state.weight);
        state.turn = self.turns;
        if state.heap_position != BLOCKED {
            let position = state.heap_position as usize;
            self.sift_down(position);
        }
    }

    /// Takes back time that was charged and not used (the thread was preempted during the poll).
    pub fn refund(&mut self, tenant: TenantId, unused: Nanos, _now: Nanos) {
        let Some(&account) = self.by_tenant.get(&tenant) else { return };
        let state = &mut self.accounts[account as usize];
        let unused = unused.min(state.used);
        state.used = state.used - unused;
        state.virtual_time = state.virtual_time.saturating_sub(virtual_of(unused, state.weight));
        if state.heap_position != BLOCKED {
            let position = state.heap_position as usize;
            self.sift_up(position);
        }
    }

    /// Forgets a tenant and what it used.
    pub fn remove(&mut self, tenant: TenantId) {
        if let Some(account) = self.by_tenant.remove(&tenant) {
            self.leave_heap(account);
            self.free.push(account);
        }
    }

    /// Processor time charged to a tenant so far.
    pub fn used(&self, tenant: TenantId) -> Nanos {
        self.by_tenant.get(&tenant).map_or(Nanos(0), |account| self.accounts[*account as usize].used)
    }

    /// Tenants that are runnable.
    pub fn runnable_count(&self) -> usize {
        self.heap.len()
    }

    fn account(&mut self, tenant: TenantId) -> u32 {
        if let Some(&account) = self.by_tenant.get(&tenant) {
            return account;
        }
        let fresh = Account {
            tenant,
            weight: CpuPromise::default().weight.get(),
            virtual_time: self.floor,
            turn: 0,
            heap_position: BLOCKED,
            used: Nanos(0),
        };
        let account = match self.free.pop() {
            Some(account) => {
                self.accounts[account as usize] = fresh;
                account
            }
            None => {
                self.accounts.push(fresh);
                let count = self.accounts.len();
                self.heap.reserve(count - self.heap.len());
                u32::try_from(count - 1).expect("fewer than 2^32 tenants on a worker")
            }
        };
        self.by_tenant.insert(tenant, account);
        account
    }

    fn leave_heap(&mut self, account: u32) {
        let position = self.accounts[account as usize].heap_position;
        if position == BLOCKED {
            return;
        }
        let position = position as usize;
        self.heap.swap_remove(position);
        self.accounts[account as usize].heap_position = BLOCKED;
        if let Some(&moved) = self.heap.get(position) {
            self.accounts[moved as usize].heap_position = position as u32;
            self.sift_down(position);
            self.sift_up(position);
        }
    }

    fn goes_before(&self, left: usize, right: usize) -> bool {
        let key = |position: usize| {
            let account = &self.accounts[self.heap[position] as usize];
            (account.virtual_time, account.turn)
        };
        key(left) < key(right)
    }

    fn swap(&mut self, left: usize, right: usize) {
        self.heap.swap(left, right);
        self.accounts[self.heap[left] as usize].heap_position = left as u32;
        self.accounts[self.heap[right] as usize].heap_position = right as u32;
    }

    fn sift_up(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.goes_before(position, parent) {
                return;
            }
            self.swap(position, parent);
            position = parent;
        }
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.goes_before(right, left) { right } else { left };
            if !self.goes_before(child, position) {
                return;
            }
            self.swap(position, child);
            position = child;
        }
    }
}

fn virtual_of(used: Nanos, weight: u32) -> Virtual {
    (Virtual::from(used.0) << VIRTUAL_SHIFT) / Virtual::from(weight)
}

#[cfg(test)]
mod tests;
