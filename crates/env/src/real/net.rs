//! The operating system's TCP sockets. Descriptors stay in blocking mode, since a ring answers EAGAIN instead of
//! waiting on a non-blocking one; calls made here say MSG_DONTWAIT instead.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use crate::net::{Listener, ListenerOps, Network, Socket, SocketOps};

pub(super) struct SystemNetwork;

impl Network for SystemNetwork {
    fn listen(&self, addr: SocketAddr) -> io::Result<Listener> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::new(Arc::new(SystemListener(listener))))
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        Ok(Socket::new(Arc::new(SystemSocket(stream))))
    }
}

struct SystemListener(TcpListener);

impl ListenerOps for SystemListener {
    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
    fn try_accept(&self) -> io::Result<(Arc<dyn SocketOps>, SocketAddr)> {
        let (stream, peer) = self.0.accept()?;
        stream.set_nonblocking(false)?;
        Ok((Arc::new(SystemSocket(stream)), peer))
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
    fn close(&self) {
        // SAFETY: shutting down an open descriptor; on a listener it makes a waiting poll report.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

struct SystemSocket(TcpStream);

fn transferred(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl SocketOps for SystemSocket {
    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: pointer and length of a live, writable slice.
        transferred(unsafe {
            libc::recv(self.0.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT)
        })
    }
    fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: pointer and length of a live, readable slice.
        transferred(unsafe { libc::send(self.0.as_raw_fd(), buf.as_ptr().cast(), buf.len(), flags) })
    }
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }
    fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_nodelay(on)
    }
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
