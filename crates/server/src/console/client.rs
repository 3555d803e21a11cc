//! Who a request is from: the other end of its connection or, where that is a proxy that the operator named, the one that it says it speaks for.
//!
//! `X-Forwarded-For` is read from its end, as each proxy writes behind what it was sent: hops that are named proxies are passed over, and the first that
//! is none is the client, whatever stands before it. A client that writes the header itself gains nothing by it. Nobody is believed by default.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;

use crate::admin::Peer;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// Addresses with the same beginning: one, or a network such as `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpNetwork {
    /// No bit behind the prefix is set.
    address: IpAddr,
    prefix: u8,
}

fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (v4.to_bits().into(), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl IpNetwork {
    /// Whether an address is in it; one of IPv4 written as IPv6 counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((network, len), (address, address_len)) = (bits(self.address), bits(address.to_canonical()));
        // Of 32 or 128 bits those of the prefix; a shift by all 128 is none of Rust's.
        let differ = (network ^ address).checked_shr(u32::from(len - self.prefix)).unwrap_or(0);
        len == address_len && differ == 0
    }
}

impl FromStr for IpNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<IpNetwork, String> {
        let wrong = || format!("\"{text}\" is no address and no network; write 127.0.0.1 or 10.0.0.0/8");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (network, len) = bits(address);
        let prefix = prefix.unwrap_or(len);
        if prefix > len {
            return Err(format!("\"{text}\": an address of this kind has {len} bits"));
        }
        let beyond = 1_u128.checked_shl(u32::from(len - prefix)).map_or(u128::MAX, |end| end - 1);
        if network & beyond != 0 {
            return Err(format!("\"{text}\": the address has bits beyond its prefix of {prefix}"));
        }
        Ok(IpNetwork { address, prefix })
    }
}

/// Who a request is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    /// Nothing of the request crossed a network in the clear, as far as is known.
    pub(super) is_encrypted: bool,
}

impl Client {
    /// Of a request with these headers that came from `peer`, where `proxies` are believed.
    pub(super) fn of(peer: &Peer, headers: &HeaderMap, proxies: &[IpNetwork]) -> Client {
        let own = Client { address: peer.address.ip().to_canonical(), is_encrypted: peer.is_encrypted() };
        behind(own, headers, proxies)
    }

    /// Whether it is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.address.is_loopback()
    }
}

/// Whom `peer` speaks for: itself, unless it is one of `proxies` and says for whom.
fn behind(peer: Client, headers: &HeaderMap, proxies: &[IpNetwork]) -> Client {
    let is_proxy = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
    if !is_proxy(peer.address) {
        return peer;
    }
    let mut client = peer;
    for hop in elements(headers, FORWARDED_FOR).into_iter().rev() {
        // What is no address was not written by a proxy that is believed; who wrote it is the last one known.
        let Some(address) = address_of(hop) else { break };
        client.address = address;
        if !is_proxy(address) {
            break;
        }
    }
    // The nearest proxy's own word. Between it and this server, its connection counts, unless it is on this machine.
    if let Some(proto) = elements(headers, FORWARDED_PROTO).last() {
        let is_reached_safely = peer.is_encrypted || peer.is_local();
        client.is_encrypted = is_reached_safely && proto.eq_ignore_ascii_case("https");
    }
    client
}

/// What all headers of a name list, in order.
fn elements<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    // Of a value that is no text nothing is believed, nor of what stands before it.
    let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

/// An address, with a port perhaps.
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The client of a request from `peer` over plain TCP, where a proxy on this machine and those in 10.1.0.0/16 are believed.
    fn client(peer: &str, headers: &[(&'static str, &'static str)]) -> (String, bool) {
        let proxies = ["127.0.0.1", "10.1.0.0/16", "fd00::/8"].map(|network| network.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let found = behind(Client { address: ip(peer), is_encrypted: false }, &map, &proxies);
        (found.address.to_string(), found.is_encrypted)
    }

    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        let has = |network: &str, address: &str| network.parse::<IpNetwork>().unwrap().contains(ip(address));
        assert!(has("127.0.0.1", "127.0.0.1") && !has("127.0.0.1", "127.0.0.2"));
        assert!(has("127.0.0.1", "::ffff:127.0.0.1") && !has("127.0.0.1", "::1"));
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.0"));
        assert!(has("0.0.0.0/0", "255.1.2.3") && !has("0.0.0.0/0", "::"));
        assert!(has("::/0", "ffff::1") && has("fd00::/8", "fdff::2") && !has("fd00::/8", "fc00::"));
        assert!(has("::1/128", "::1") && !has("::1/128", "::2"));
        for wrong in ["", "a", "10.0.0.0/33", "10.0.0.1/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "/8"] {
            assert!(wrong.parse::<IpNetwork>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nobody_but_a_named_proxy_speaks_for_others() {
        let says = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https")];
        assert_eq!(client("198.51.100.1", &says), ("198.51.100.1".to_owned(), false));
        assert_eq!(client("127.0.0.2", &says), ("127.0.0.2".to_owned(), false));
        assert_eq!(client("127.0.0.1", &says), ("192.0.2.1".to_owned(), true));
        assert_eq!(client("127.0.0.1", &[]), ("127.0.0.1".to_owned(), false));
    }

    #[test]
    fn the_last_hop_that_is_no_proxy_is_the_client() {
        let of = |hops: &'static str| client("127.0.0.1", &[("x-forwarded-for", hops)]).0;
        assert_eq!(of("203.0.113.9, 192.0.2.1"), "192.0.2.1", "what the client wrote itself is passed by");
        assert_eq!(of("192.0.2.1, 10.1.2.3,10.1.0.1"), "192.0.2.1");
        assert_eq!(of("10.1.2.3, 10.1.0.1"), "10.1.2.3", "proxies alone");
        assert_eq!(of("192.0.2.1, nonsense, 10.1.0.1"), "10.1.0.1", "nothing before what is no address");
        assert_eq!((of(""), of("unknown")), ("127.0.0.1".to_owned(), "127.0.0.1".to_owned()));
        assert_eq!(of("192.0.2.1:4711, fd00::7"), "192.0.2.1");
        assert_eq!(
            (of("[2001:db8::1]:443"), of("[2001:db8::1]")),
            ("2001:db8::1".into(), "2001:db8::1".into())
        );
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
        let lines = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", "192.0.2.1, 10.1.0.1")];
        assert_eq!(client("127.0.0.1", &lines).0, "192.0.2.1", "several headers are one list");
    }

    #[test]
    fn a_proxys_word_for_https_needs_a_safe_way_to_it() {
        let https = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https")];
        assert!(!client("10.1.0.1", &https).1, "it came in the clear over a network");
        assert!(!client("127.0.0.1", &[("x-forwarded-proto", "http")]).1);
        assert!(!client("127.0.0.1", &[("x-forwarded-proto", "https, http")]).1, "the nearest proxy's word");
        let proxies = ["10.1.0.1".parse().unwrap()];
        let headers = https.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        let peer = Client { address: ip("10.1.0.1"), is_encrypted: true };
        assert!(behind(peer, &headers.clone().into_iter().collect(), &proxies).is_encrypted);
        let plain = [(FORWARDED_PROTO.parse().unwrap(), HeaderValue::from_static("http"))];
        assert!(
            !behind(peer, &plain.into_iter().collect(), &proxies).is_encrypted,
            "the browser did not encrypt"
        );
    }
}
