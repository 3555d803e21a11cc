//! How often a login may be tried: a bucket for each address, and one for all addresses that never succeeded.
//!
//! A check of a password costs some milliseconds on purpose, on the one thread that serves HTTP; what is refused here costs nothing. An
//! address from which somebody logged in keeps a way of its own, so that strangers cannot shut the administrator out.

use std::net::{IpAddr, Ipv6Addr};

use base::Nanos;
use rustc_hash::FxHashMap;

/// Tries of one address: so many at once, and one more after each pause.
const ADDRESS_TRIES: u32 = 5;
const ADDRESS_PAUSE: Nanos = Nanos::from_secs(10);
/// Tries of all addresses together that never succeeded.
const TRIES: u32 = 30;
const PAUSE: Nanos = Nanos::from_secs(1);
/// Addresses that are remembered. Past it those go first whose bucket has been full again for the longest.
const ADDRESSES_MAX: usize = 4096;

/// So many at once, and one more after each pause.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When it is full again.
    full_at: Nanos,
}

impl Bucket {
    fn new() -> Bucket {
        Bucket { full_at: Nanos(0) }
    }

    /// How long until something can be taken; zero for now.
    fn wait(self, size: u32, pause: Nanos, now: Nanos) -> Nanos {
        let ready_at = self.full_at.0.saturating_sub(u64::from(size - 1) * pause.0);
        Nanos(ready_at.saturating_sub(now.0))
    }

    fn take(&mut self, pause: Nanos, now: Nanos) {
        self.full_at = self.full_at.max(now) + pause;
    }

    /// Puts back what was taken.
    fn give_back(&mut self, pause: Nanos) {
        self.full_at = Nanos(self.full_at.0.saturating_sub(pause.0));
    }
}

#[derive(Debug)]
struct Address {
    bucket: Bucket,
    /// Somebody logged in from there.
    is_known: bool,
}

/// One for each server. Knows no clock: the present is an argument.
pub(super) struct Throttle {
    addresses: FxHashMap<IpAddr, Address>,
    strangers: Bucket,
}

/// Who is counted together: of IPv6 a network of 64 bits, which one client may have to itself.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

impl Throttle {
    pub(super) fn new() -> Throttle {
        Throttle { addresses: FxHashMap::default(), strangers: Bucket::new() }
    }

    /// Counts a try from `address`.
    ///
    /// # Errors
    /// It is one too many; how long until the next may be made. Nothing is counted then.
    pub(super) fn begin(&mut self, address: IpAddr, now: Nanos) -> Result<(), Nanos> {
        let key = counted_as(address);
        if !self.addresses.contains_key(&key) {
            self.make_room(now);
        }
        let of = self.addresses.entry(key).or_insert(Address { bucket: Bucket::new(), is_known: false });
        let mut wait = of.bucket.wait(ADDRESS_TRIES, ADDRESS_PAUSE, now);
        if !of.is_known {
            wait = wait.max(self.strangers.wait(TRIES, PAUSE, now));
        }
        if wait > Nanos(0) {
            return Err(wait);
        }
        of.bucket.take(ADDRESS_PAUSE, now);
        if !of.is_known {
            self.strangers.take(PAUSE, now);
        }
        Ok(())
    }

    /// The try was the right password: it does not count. Those before it do, or one's own account would pay for guesses at another's.
    pub(super) fn succeeded(&mut self, address: IpAddr) {
        let unknown = Address { bucket: Bucket::new(), is_known: false };
        let of = self.addresses.entry(counted_as(address)).or_insert(unknown);
        of.bucket.give_back(ADDRESS_PAUSE);
        of.is_known = true;
    }

    /// Has room for one more address. Known ones stay for as long as there are others.
    fn make_room(&mut self, now: Nanos) {
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        // One whose bucket is full is as good as one that was never seen.
        self.addresses.retain(|_, address| address.is_known || address.bucket.full_at > now);
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        let first =
            self.addresses.iter().min_by_key(|(_, address)| (address.is_known, address.bucket.full_at));
        if let Some((first, _)) = first.map(|(key, address)| (*key, address.is_known)) {
            self.addresses.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn other(n: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n))
    }

    #[test]
    fn an_address_has_so_many_tries_and_then_one_after_each_pause() {
        let mut throttle = Throttle::new();
        let mut now = Nanos::from_secs(1000);
        for _ in 0..ADDRESS_TRIES {
            assert_eq!(throttle.begin(MINE, now), Ok(()));
        }
        assert_eq!(throttle.begin(MINE, now), Err(ADDRESS_PAUSE));
        assert_eq!(throttle.begin(MINE, now), Err(ADDRESS_PAUSE), "asking again costs nothing");
        assert_eq!(throttle.begin(other(1), now), Ok(()), "another one is not held to it");
        now = now + ADDRESS_PAUSE;
        assert_eq!(throttle.begin(MINE, now), Ok(()));
        assert!(throttle.begin(MINE, now).is_err());
        now = now + Nanos::from_secs(3600);
        let tries = (0..100).filter(|_| throttle.begin(MINE, now).is_ok()).count();
        assert_eq!(tries as u32, ADDRESS_TRIES, "no more than the bucket holds");
    }

    #[test]
    fn a_success_does_not_count_and_forgives_nothing() {
        let mut throttle = Throttle::new();
        let now = Nanos::from_secs(5);
        for _ in 0..10 * ADDRESS_TRIES {
            assert_eq!(throttle.begin(MINE, now), Ok(()));
            throttle.succeeded(MINE);
        }
        // Guesses at another's password, each followed by one's own.
        let mut guesses = 0;
        while throttle.begin(MINE, now).is_ok() {
            guesses += 1;
            assert!(guesses <= ADDRESS_TRIES);
            if throttle.begin(MINE, now).is_ok() {
                throttle.succeeded(MINE);
            }
        }
        assert_eq!(guesses, ADDRESS_TRIES);
        assert_eq!(throttle.begin(MINE, now + ADDRESS_PAUSE), Ok(()));
    }

    #[test]
    fn strangers_are_bounded_together_and_do_not_shut_out_who_was_here() {
        let mut throttle = Throttle::new();
        let now = Nanos::from_secs(5);
        throttle.begin(MINE, now).unwrap();
        throttle.succeeded(MINE);
        let tries = (0..10_000).filter(|n| throttle.begin(other(*n), now).is_ok()).count();
        assert_eq!(tries as u32, TRIES - 1);
        assert_eq!(throttle.begin(MINE, now), Ok(()));
        assert!(throttle.addresses.len() <= ADDRESSES_MAX);
        assert!(throttle.begin(other(20_000), now + PAUSE).is_ok());
    }

    #[test]
    fn addresses_are_forgotten_by_their_bound_and_those_that_succeeded_last() {
        let mut throttle = Throttle::new();
        throttle.begin(MINE, Nanos::from_secs(5)).unwrap();
        throttle.succeeded(MINE);
        for n in 0..2 * ADDRESSES_MAX as u32 {
            let _ = throttle.begin(other(n), Nanos::from_secs(6 + u64::from(n)));
            assert!(throttle.addresses.len() <= ADDRESSES_MAX);
        }
        assert!(throttle.addresses[&MINE].is_known);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        let at = |low: u128| IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | low));
        assert_eq!(counted_as(at(1)), counted_as(at(u128::from(u64::MAX))));
        assert_ne!(counted_as(at(1)), counted_as(at(1 << 64)));
        assert_eq!(counted_as(IpAddr::V6(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped())), MINE);
    }
}
