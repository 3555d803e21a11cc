//! Stream sockets. A receive belongs to its socket, not to the future that waits for it: dropping the future neither
//! cancels the receive nor loses a byte, the next receive takes over where it stands.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::reactor::op::{OpHandle, Request};

/// The address of either end of a local socket, which has none.
pub const LOCAL_PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Listening and connecting.
pub trait Network: Send + Sync {
    /// Listens on a TCP address; port 0 takes a free one. `AddrInUse` and the like as the system says.
    fn listen(&self, addr: SocketAddr) -> io::Result<Listener>;
    /// Listens on a local (Unix-domain) socket at `path`; its file is removed with the listener, and one left of a killed
    /// process is replaced. `AddrInUse` if somebody listens there or the file is no socket, `Unsupported` in a simulated
    /// world.
    fn listen_local(&self, path: &Path) -> io::Result<Listener>;
    /// Connects; blocks on the real machine, so not for workers.
    fn connect(&self, addr: SocketAddr) -> io::Result<Socket>;
}

/// What a platform does for a listener; see [`Listener`].
pub trait ListenerOps: Send + Sync {
    fn raw_fd(&self) -> Option<RawFd>;
    /// The next connection, or `WouldBlock`.
    fn try_accept(&self) -> io::Result<(Arc<dyn SocketOps>, SocketAddr)>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    /// Makes a waiting accept fail.
    fn close(&self);
}

/// What a platform does for a socket; see [`Socket`]. No call blocks.
pub trait SocketOps: Send + Sync {
    fn raw_fd(&self) -> Option<RawFd>;
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn try_send(&self, buf: &[u8]) -> io::Result<usize>;
    fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()>;
    fn set_nodelay(&self, on: bool) -> io::Result<()>;
    /// Has the system find out by itself that the peer is gone, where that is not known anyway.
    fn set_keepalive(&self, _: KeepAlive) -> io::Result<()> {
        Ok(())
    }
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// How a connection that is silent is tried, so that one whose peer went away without a word does not last for ever.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// Silence before the first probe, in seconds.
    pub idle_s: u16,
    /// Between two probes, in seconds.
    pub interval_s: u16,
    /// Probes without an answer that break the connection.
    pub probes: u16,
}

/// Of accepted connections: one whose peer is gone breaks after 195 s.
pub(crate) const ACCEPTED_KEEP_ALIVE: KeepAlive = KeepAlive { idle_s: 120, interval_s: 15, probes: 5 };

/// Accepts connections. Dropping it closes the port.
pub struct Listener {
    ops: Arc<dyn ListenerOps>,
    accept: OpHandle,
}

impl Listener {
    /// Wraps a platform's listener.
    pub fn new(ops: Arc<dyn ListenerOps>) -> Listener {
        Listener { ops, accept: OpHandle::idle() }
    }

    /// The next connection and its peer, with Nagle's delay off and probes while it is silent. An error concerns one connection or a lack of
    /// descriptors: log it, wait a little, go on.
    pub fn accept(&self) -> impl Future<Output = io::Result<(Socket, SocketAddr)>> + Send + '_ {
        std::future::poll_fn(move |cx| {
            self.accept
                .start_if_idle(cx.waker(), || Request::Accept { listener: self.ops.clone(), accepted: None });
            let Some((result, request)) = self.accept.poll(cx.waker()) else { return Poll::Pending };
            Poll::Ready(result.and_then(|_| match request {
                Request::Accept { accepted: Some((socket, peer)), .. } => {
                    let socket = Socket::new(socket);
                    // A connection that died already fails here; its first receive will say so.
                    let _ = socket.set_nodelay(true);
                    let _ = socket.ops.set_keepalive(ACCEPTED_KEEP_ALIVE);
                    Ok((socket, peer))
                }
                _ => Err(io::Error::other("an accept completed without a connection")),
            }))
        })
    }

    /// The address in use, with the port that was taken.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.ops.local_addr()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ops.close();
    }
}

/// A connected stream socket. It belongs to no thread: each operation runs on the reactor of the thread that first
/// polls it, so a socket is handed to another worker by moving it, after [`Socket::quiesce`]. At most one receive and
/// one send may be waited for at a time. Dropping it closes the connection.
pub struct Socket {
    pub(crate) ops: Arc<dyn SocketOps>,
    recv: OpHandle,
    send: OpHandle,
}

impl Socket {
    /// Wraps a platform's socket.
    pub fn new(ops: Arc<dyn SocketOps>) -> Socket {
        Socket { ops, recv: OpHandle::idle(), send: OpHandle::idle() }
    }

    /// Appends what arrives next to `buf` and gives it back with the number of bytes, 0 at the end of the stream. Where `buf`
    /// has less spare capacity than [`RECV_SPARE_MIN`] a ring receives up to so many bytes all the same, and makes room for
    /// those that have come, none while waiting: pass an empty `Vec` for an idle connection.
    pub fn recv(&self, buf: Vec<u8>) -> RecvFuture<'_> {
        RecvFuture { socket: self, buf: Some(buf), submitted: false }
    }

    /// Sends all of `buf` and gives it back emptied on success, so that it can be filled again.
    pub fn send(&self, buf: Vec<u8>) -> SendFuture<'_> {
        SendFuture { socket: self, buf: Some(buf), submitted: false }
    }

    /// Has all of `buf` sent without anybody waiting for it, and replaces it by an empty buffer. Starts nothing and tells
    /// `false` while an earlier send is in flight: then [`Socket::send`] is the way. The two together keep the order.
    ///
    /// Errors: of the send before this one, after which the stream is broken.
    pub fn send_soon(&self, buf: &mut Vec<u8>) -> io::Result<bool> {
        let started = self.send.start_unwatched(|before| {
            let (socket, mut empty) = match before {
                Request::Send { socket, buf, .. } => (socket, buf),
                _ => (self.ops.clone(), Vec::new()),
            };
            empty.clear();
            Request::Send { socket, buf: std::mem::replace(buf, empty), sent: 0 }
        });
        started.transpose().map(|started| started.is_some())
    }

    /// Waits until nothing is being sent; for the end of a stream whose last words went out by [`Socket::send_soon`].
    pub fn sent(&self) -> impl Future<Output = ()> + Send + '_ {
        std::future::poll_fn(
            |cx| {
                if self.send.is_in_flight(cx.waker()) { Poll::Pending } else { Poll::Ready(()) }
            },
        )
    }

    /// Cancels a receive left in flight and waits until no operation is: then the socket may move to another thread.
    /// Received bytes are kept for the next [`Socket::recv`].
    pub fn quiesce(&self) -> impl Future<Output = ()> + Send + '_ {
        std::future::poll_fn(move |cx| {
            self.recv.cancel();
            let recv_pending = self.recv.is_in_flight(cx.waker());
            let send_pending = self.send.is_in_flight(cx.waker());
            if recv_pending || send_pending { Poll::Pending } else { Poll::Ready(()) }
        })
    }

    /// Ends one or both directions; a receive that waits then returns 0.
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        self.ops.shutdown(how)
    }

    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.ops.set_nodelay(on)
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.ops.peer_addr()
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.ops.local_addr()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // An operation in flight holds the descriptor; without the shutdown it could do so for ever.
        if self.recv.is_submitted() || self.send.is_submitted() {
            let _ = self.ops.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Spare capacity a receive makes when bytes arrive and the buffer has none.
pub const RECV_SPARE_MIN: usize = 8192;

/// See [`Socket::recv`].
#[must_use = "an operation starts when it is awaited"]
pub struct RecvFuture<'a> {
    socket: &'a Socket,
    buf: Option<Vec<u8>>,
    submitted: bool,
}

impl Future for RecvFuture<'_> {
    type Output = (io::Result<usize>, Vec<u8>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let op = &this.socket.recv;
        if !this.submitted {
            let buf = &mut this.buf;
            this.submitted = op.start_if_idle(cx.waker(), || {
                let buf = buf.take().expect("a finished receive is not polled again");
                Request::Recv { socket: this.socket.ops.clone(), base: buf.len(), buf }
            });
        }
        let Some((result, request)) = op.poll(cx.waker()) else { return Poll::Pending };
        let Request::Recv { buf: received, base, .. } = request else {
            unreachable!("a socket's receive slot holds receives only")
        };
        if this.submitted {
            return Poll::Ready((result, received));
        }
        // An earlier future of this socket started the receive and was dropped: take its bytes over.
        if matches!(&result, Err(error) if error.raw_os_error() == Some(libc::ECANCELED)) {
            return self.poll(cx);
        }
        let mut buf = this.buf.take().expect("a finished receive is not polled again");
        buf.extend_from_slice(&received[base..]);
        Poll::Ready((result, buf))
    }
}

/// See [`Socket::send`].
#[must_use = "an operation starts when it is awaited"]
pub struct SendFuture<'a> {
    socket: &'a Socket,
    buf: Option<Vec<u8>>,
    submitted: bool,
}

impl Future for SendFuture<'_> {
    type Output = (io::Result<()>, Vec<u8>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let op = &this.socket.send;
        loop {
            if !this.submitted {
                let buf = &mut this.buf;
                this.submitted = op.start_if_idle(cx.waker(), || {
                    let buf = buf.take().expect("a finished send is not polled again");
                    Request::Send { socket: this.socket.ops.clone(), buf, sent: 0 }
                });
            }
            let Some((result, request)) = op.poll(cx.waker()) else { return Poll::Pending };
            let Request::Send { buf: mut sent_buf, .. } = request else {
                unreachable!("a socket's send slot holds sends only")
            };
            if this.submitted {
                if result.is_ok() {
                    sent_buf.clear();
                }
                return Poll::Ready((result.map(drop), sent_buf));
            }
            // A send whose future was dropped has finished; a failure of its is a failure of the stream.
            if let Err(error) = result {
                return Poll::Ready((Err(error), this.buf.take().unwrap_or_default()));
            }
        }
    }
}

/// Receives what is there into the spare capacity of `buf`, making `spare_min` if it has none.
pub(crate) fn recv_into(socket: &dyn SocketOps, buf: &mut Vec<u8>, spare_min: usize) -> io::Result<usize> {
    let len = buf.len();
    if buf.capacity() == len {
        buf.reserve(spare_min);
    }
    buf.resize(buf.capacity(), 0);
    let result = socket.try_recv(&mut buf[len..]);
    buf.truncate(len + result.as_ref().copied().unwrap_or(0));
    result
}

/// Sends what is left of `buf` as far as the socket takes it; `Ok` once all is sent.
pub(crate) fn send_rest(socket: &dyn SocketOps, buf: &[u8], sent: &mut usize) -> io::Result<usize> {
    while *sent < buf.len() {
        match socket.try_send(&buf[*sent..])? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => *sent += n,
        }
    }
    Ok(*sent)
}
