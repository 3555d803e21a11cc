//! The simulated network: byte streams in order, each chunk delivered after a random delay and received in pieces of
//! random size. Connections break when told to ([`super::World::disconnect_all`], a power cut); bytes in flight are then
//! lost, and both ends get ConnectionReset. A machine whose power is off sends and receives nothing.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, Weak};

use base::Nanos;
use rand::Rng;

use super::{Machine, lock};
use crate::net::{Listener, ListenerOps, Network, Socket, SocketOps};

/// Bytes a sender may be ahead of its receiver.
const WINDOW: usize = 256 << 10;

#[derive(Default)]
pub(super) struct NetState {
    backlogs: BTreeMap<SocketAddr, VecDeque<(Nanos, SimSocket)>>,
    connections: Vec<Weak<Mutex<Connection>>>,
    next_port: u16,
}

impl NetState {
    pub(super) fn next_delivery(&mut self, now: Nanos) -> Option<Nanos> {
        self.connections.retain(|connection| connection.strong_count() > 0);
        let accepts = self.backlogs.values().flatten().map(|(due, _)| *due).filter(|due| *due > now).min();
        let chunks = self.connections.iter().filter_map(Weak::upgrade).filter_map(|connection| {
            let connection = lock(&connection);
            connection.streams.iter().filter_map(|stream| stream.next_due(now)).min()
        });
        chunks.chain(accepts).min()
    }

    pub(super) fn disconnect_all(&mut self) {
        for connection in self.connections.drain(..).filter_map(|connection| connection.upgrade()) {
            lock(&connection).broken = true;
        }
    }

    pub(super) fn reset(&mut self) {
        self.disconnect_all();
        self.backlogs.clear();
    }
}

const CONNECTING: usize = 0;
const ACCEPTING: usize = 1;

/// Two streams, by the end that sends.
struct Connection {
    streams: [Stream; 2],
    broken: bool,
}

#[derive(Default)]
struct Stream {
    /// Chunks by delivery time, which never falls along the queue.
    chunks: VecDeque<(Nanos, Vec<u8>)>,
    buffered: usize,
    /// When the end of the stream arrives, once it was sent.
    ended: Option<Nanos>,
    reader_gone: bool,
}

impl Stream {
    fn next_due(&self, now: Nanos) -> Option<Nanos> {
        let chunk = self.chunks.iter().map(|(due, _)| *due).find(|due| *due > now);
        chunk.into_iter().chain(self.ended.filter(|due| *due > now)).min()
    }

    fn last_due(&self) -> Nanos {
        self.chunks.back().map_or(Nanos(0), |(due, _)| *due)
    }
}

pub(super) struct SimNetwork(pub(super) Arc<Machine>);

impl Network for SimNetwork {
    fn listen(&self, addr: SocketAddr) -> io::Result<Listener> {
        let mut net = lock(&self.0.net);
        let mut addr = addr;
        while addr.port() == 0 || (net.backlogs.contains_key(&addr) && net.next_port == addr.port()) {
            net.next_port = net.next_port.checked_add(1).unwrap_or(1).max(20_000);
            addr.set_port(net.next_port);
        }
        if net.backlogs.contains_key(&addr) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        net.backlogs.insert(addr, VecDeque::new());
        Ok(Listener::new(Arc::new(SimListener { machine: self.0.clone(), addr })))
    }

    fn listen_local(&self, _: &std::path::Path) -> io::Result<Listener> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Socket> {
        let delay = self.0.delay(lock(&self.0.speeds).network);
        let due = self.0.now() + delay;
        let mut net = lock(&self.0.net);
        if !net.backlogs.contains_key(&addr) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        net.next_port = net.next_port.checked_add(1).unwrap_or(1).max(20_000);
        let near = SocketAddr::new(addr.ip(), net.next_port);
        let connection = Arc::new(Mutex::new(Connection { streams: Default::default(), broken: false }));
        net.connections.push(Arc::downgrade(&connection));
        let end = |side: usize, local: SocketAddr, peer: SocketAddr| SimSocket {
            machine: self.0.clone(),
            connection: connection.clone(),
            side,
            local,
            peer,
        };
        let backlog = net.backlogs.get_mut(&addr).expect("checked above");
        backlog.push_back((due, end(ACCEPTING, addr, near)));
        drop(net);
        Ok(Socket::new(Arc::new(end(CONNECTING, near, addr))))
    }
}

struct SimListener {
    machine: Arc<Machine>,
    addr: SocketAddr,
}

impl ListenerOps for SimListener {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
    fn try_accept(&self) -> io::Result<(Arc<dyn SocketOps>, SocketAddr)> {
        let now = self.machine.now();
        let mut net = lock(&self.machine.net);
        let backlog = net.backlogs.get_mut(&self.addr).ok_or(io::ErrorKind::ConnectionAborted)?;
        match backlog.front() {
            Some((due, _)) if *due <= now => {
                let (_, socket) = backlog.pop_front().expect("just seen");
                let peer = socket.peer;
                Ok((Arc::new(socket), peer))
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addr)
    }
    fn close(&self) {
        let backlog = lock(&self.machine.net).backlogs.remove(&self.addr);
        drop(backlog);
    }
}

struct SimSocket {
    machine: Arc<Machine>,
    connection: Arc<Mutex<Connection>>,
    side: usize,
    local: SocketAddr,
    peer: SocketAddr,
}

impl SimSocket {
    /// The accepting end is the machine's, the other one's power stays on.
    fn check_power(&self) -> io::Result<()> {
        let is_off = self.side == ACCEPTING && lock(&self.machine.disk).powered_off;
        if is_off { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl SocketOps for SimSocket {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        let now = self.machine.now();
        // One receive in eight takes a random part of what is there.
        let part = self.machine.draw(|random| random.random_ratio(1, 8).then(|| random.random_range(1..=64)));
        let wanted = part.map_or(buf.len(), |part: usize| part.min(buf.len()));
        self.check_power()?;
        let mut connection = lock(&self.connection);
        if connection.broken {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let stream = &mut connection.streams[1 - self.side];
        let mut received = 0;
        while received < wanted {
            let Some((due, chunk)) = stream.chunks.front_mut() else { break };
            if *due > now {
                break;
            }
            let n = chunk.len().min(wanted - received);
            buf[received..received + n].copy_from_slice(&chunk[..n]);
            chunk.drain(..n);
            received += n;
            stream.buffered -= n;
            if chunk.is_empty() {
                stream.chunks.pop_front();
            }
        }
        if received > 0 {
            self.machine.baton.stir();
            return Ok(received);
        }
        let ended =
            stream.reader_gone || (stream.chunks.is_empty() && stream.ended.is_some_and(|due| due <= now));
        if ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        let delay = self.machine.delay(lock(&self.machine.speeds).network);
        let now = self.machine.now();
        self.check_power()?;
        let mut connection = lock(&self.connection);
        if connection.broken {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let stream = &mut connection.streams[self.side];
        if stream.ended.is_some() || stream.reader_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = buf.len().min(WINDOW - stream.buffered);
        if n == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let due = (now + delay).max(stream.last_due());
        stream.chunks.push_back((due, buf[..n].to_vec()));
        stream.buffered += n;
        self.machine.note_sent(&buf[..n]);
        Ok(n)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let delay = self.machine.delay(lock(&self.machine.speeds).network);
        let now = self.machine.now();
        let mut connection = lock(&self.connection);
        if how != Shutdown::Read {
            let stream = &mut connection.streams[self.side];
            let due = (now + delay).max(stream.last_due());
            stream.ended.get_or_insert(due);
        }
        if how != Shutdown::Write {
            connection.streams[1 - self.side].reader_gone = true;
        }
        Ok(())
    }

    fn set_nodelay(&self, _on: bool) -> io::Result<()> {
        Ok(())
    }
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}
